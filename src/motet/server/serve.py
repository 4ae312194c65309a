"""``motet serve``: one study, its store, its publisher and its server, from start to end."""

from __future__ import annotations

import gc
import logging
import os
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from motet.errors import InvalidStudy
from motet.server.app import create_app
from motet.server.logs import log_to_stderr
from motet.server.service import Service
from motet.store.clients import hash_token, operator_hash, set_operator_hash
from motet.store.releases import pin
from motet.store.store import Store
from motet.study.study import Study

LOG = logging.getLogger("motet")
MAX_HEAD_BYTES = 65_536  # of a request without its body


def serve(
    path: Path, show: Callable[[str], None], *, certfile: Path | None = None, keyfile: Path | None = None
) -> None:
    """Until a signal ends it; ``show`` tells the operator's token once, when it is made."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that the publisher is ended too
    study = Study.load(path)
    _check_tls(certfile, keyfile)
    listening = _listen(study)
    log_to_stderr()
    store = Store(study.store_url)
    pin(store, study, now=time.time())
    operator = operator_token(store, show)
    if not study.private:
        LOG.warning("releases of this study are exact: whoever holds two of them can rebuild what a client sent")
    app = create_app(study, lambda: Service(study, store, operator))
    with publishing(path):
        settings = uvicorn.Config(
            app,
            http=BoundedHead,
            ssl_certfile=certfile,
            ssl_keyfile=keyfile,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=5,
        )
        gc.collect()
        gc.freeze()  # what was imported stays: collections need not walk through it,
        gc.set_threshold(20_000)  # nor come with every request
        LOG.info("serving %s on %s:%d", study.name, *listening.getsockname()[:2])
        uvicorn.Server(settings).run(sockets=[listening])


def _check_tls(certfile: Path | None, keyfile: Path | None) -> None:
    if (certfile is None) != (keyfile is None):
        missing = "--keyfile" if keyfile is None else "--certfile"
        raise InvalidStudy(f"TLS needs a certificate and its key: give {missing} too")
    if certfile is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certfile, keyfile)
        except (OSError, ssl.SSLError) as error:
            raise InvalidStudy(f"cannot use {certfile} with the key {keyfile}: {error}; expected PEM files") from None


def _listen(study: Study) -> socket.socket:
    """Before anything is made: an address that is taken must not show a token first."""
    host, port = study.server.host, study.server.port
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.create_server(address[:2], family=family, backlog=2048)
        # asyncio leaves this out of sockets that it did not make; without it an answer waits for a delayed ACK
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as error:
        raise InvalidStudy(
            f"{study.path.name}, server.port: cannot listen on {host}:{port}: {error.strerror}; end what does, "
            "or choose another port"
        ) from None


def operator_token(store: Store, show: Callable[[str], None]) -> str:
    """The hash of the operator's token: of MOTET_OPERATOR_TOKEN, or of one made on the first start."""
    given = os.environ.get("MOTET_OPERATOR_TOKEN")
    with store.transaction() as connection:
        stored = operator_hash(connection)
        if given is None and stored is not None:
            return stored
        if given is None:
            given = secrets.token_urlsafe(32)
            show(given)
        set_operator_hash(connection, hash_token(given))
    return hash_token(given)


@contextmanager
def publishing(path: Path) -> Iterator[None]:
    """A publisher in a process of its own, begun again when it fails, ended with the server."""
    ending = threading.Event()
    running: list[subprocess.Popen[bytes]] = []

    def keep() -> None:
        while not ending.is_set():
            process = subprocess.Popen(
                [sys.executable, "-m", "motet.server.publisher", str(path)], stdin=subprocess.PIPE
            )
            running[:] = [process]
            if ending.is_set() and process.stdin is not None:  # told to end while it began
                process.stdin.close()
            code = process.wait()
            if not ending.is_set():
                LOG.error("the publisher ended with code %d and is begun again", code)
                ending.wait(1.0)

    keeper = threading.Thread(target=keep, name="publisher", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        ending.set()
        for process in running:
            if process.stdin is not None:
                process.stdin.close()
        keeper.join(30)


class BoundedHead(HttpToolsProtocol):
    """Refuses a request whose head does not end: httptools would keep all of it. Bodies are limited by their length."""

    _head_bytes = 0  # of this request so far

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of this request is too long.")

    def on_body(self, body: bytes) -> None:
        self._head_bytes -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._head_bytes = 0
        super().on_message_complete()
