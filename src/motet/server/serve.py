"""``motet serve``: one study, its store, its publisher and its server, from start to end.

Whatever keeps it from starting is raised as a ``MotetError``, before a token is shown.
"""

from __future__ import annotations

import errno
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
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from motet.errors import InvalidStore, InvalidStudy, MotetError
from motet.release.disclosed import Disclosed
from motet.server.app import create_app
from motet.server.connections import Listener, Server, bounded_config, max_connections
from motet.server.loading import Loaded, load_table
from motet.server.logs import LogFormat, LogLevel, log_to_stderr
from motet.server.service import Service
from motet.store import pins, releases
from motet.store.clients import hash_token, operator_hash, set_operator_hash
from motet.store.store import Store
from motet.study.study import Study

LOG = logging.getLogger("motet")
MIN_TOKEN_LETTERS = 16  # of an operator's token that was not made here
GRACE_SECONDS = 5  # for requests that are under way when the server stops
PUBLISHER_STOP_SECONDS = 5.0


@dataclass(frozen=True)
class OperatorToken:
    hash: str
    new: str | None = None  # the token itself, if this start made it


@dataclass(frozen=True)
class Ready:
    """A study that is served: its name, its address, what is not fixed yet, the operator's token if it is new, and what
    a table added."""

    name: str
    address: str
    not_fixed: str
    new_token: str | None
    loaded: Loaded | None


def serve(
    path: Path,
    *,
    host: str | None = None,
    port: int | None = None,
    certfile: Path | None = None,
    keyfile: Path | None = None,
    log_format: LogFormat = "json",
    log_level: LogLevel = "info",
    data: Path | None = None,
    tokens: Path | None = None,
    show_token: Callable[[str], None],
    show_ready: Callable[[Ready], None],
) -> None:
    """Serve until a signal ends the process.

    ``host`` and ``port`` replace those of the study file. ``data`` is a table of the operator's, whose clients are
    enrolled with ``tokens`` in a new file, and whose rows are stored, before the study is served. ``show_token`` gets
    the operator's token if this start makes one; in the plain log ``show_ready`` is called when the server
    answers.
    """
    study = Study.load(path)
    _check_tls(certfile, keyfile)
    chosen = chosen_token()
    limits = study.server
    listener = Listener(
        _listen(path, host or limits.host, limits.port if port is None else port),
        limit=max_connections(limits.max_connections),
        limit_per_address=limits.max_connections_per_address,
        proxies=limits.proxies,
        tls=certfile is not None,
    )
    log_to_stderr(log_format, log_level)
    store, not_fixed = _open(study)
    with store.refusing():
        token = operator_token(store, chosen, show_token)
        loaded = None
        if data is not None:
            loaded = load_table(store, study, data, tokens or tokens_beside(path), now=time.time())
            LOG.info(loaded.text)
            not_fixed = study.not_fixed(loaded.fixed)
    address = _address(listener, "http" if certfile is None else "https")

    def announce() -> None:
        if log_format == "plain":
            show_ready(Ready(study.name, address, not_fixed, token.new, loaded))
        else:
            LOG.info("serving %s at %s", study.name, address)
            if not_fixed:
                LOG.info(not_fixed)
        if certfile is None and not ip_address(listener.getsockname()[0]).is_loopback:
            LOG.warning("without TLS, tokens and examples cross the network unencrypted: use --certfile, or a proxy")
        if not study.private:
            LOG.warning("releases of this study are without noise: two of them show what a client sent in between")

    config = bounded_config(
        create_app(study, lambda: Service(study, store, token.hash)),
        proxies=limits.proxies,
        ssl_certfile=certfile,
        ssl_keyfile=keyfile,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    gc.collect()
    gc.freeze()  # modules stay: collections need not walk through them,
    gc.set_threshold(20_000)  # nor come with every request
    with publisher_process(path, log_format, log_level):
        server = Server(config, listener, announce)
        server.run()
    if not server.started:
        raise MotetError("the server did not start: its log has the reason")


def tokens_beside(path: Path) -> Path:
    """Where the tokens of a table's clients are written, unless another place is chosen."""
    return path.with_name(f"{path.stem}-tokens.csv")


def _check_tls(certfile: Path | None, keyfile: Path | None) -> None:
    if (certfile is None) != (keyfile is None):
        missing = "--keyfile" if keyfile is None else "--certfile"
        raise InvalidStudy(f"TLS needs a certificate and its key: give {missing} too")
    if certfile is not None:
        try:  # without the password, OpenSSL would ask for one at the terminal
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certfile, keyfile, password="")
        except (OSError, ssl.SSLError) as error:
            raise InvalidStudy(
                f"cannot use {certfile} with the key {keyfile}: {error}; expected PEM files, the key without a password"
            ) from None


def _listen(path: Path, host: str, port: int) -> socket.socket:
    """Before anything is written: a start that fails here must not show a token first."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address[:2], family=family, backlog=2048)
    except OSError as error:
        key = "host" if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL else "port"
        end = "stop the program that uses it, or " if error.errno == errno.EADDRINUSE else ""
        raise InvalidStudy(
            f"{path.name}, server.{key}: cannot listen on {host}:{port}: {error.strerror}; {end}choose another {key} "
            f"(--{key})"
        ) from None


def _address(listener: socket.socket, scheme: str) -> str:
    """The address to open on this machine."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _open(study: Study) -> tuple[Store, str]:
    """The study's database, made if there is none, and what is not fixed yet; its current release must be readable."""
    with ExitStack() as opened:
        store = Store(study.store_url, serving=True)
        opened.callback(store.close)
        with store.refusing():
            fixed = pins.pin(store, study, now=time.time())
        _check_current(study, store)
        opened.pop_all()
    return store, study.not_fixed(fixed)


def _check_current(study: Study, store: Store) -> None:
    """Refuse a database whose current release cannot be read."""
    try:
        with store.snapshot() as connection:
            current = releases.current(connection)
        if current is not None:
            Disclosed.from_bytes(current.data)
    except (MotetError, ValueError, TypeError) as error:
        cause = getattr(error.__cause__, "orig", None) or error
        raise InvalidStore(
            f"expected a database with a current release that can be read, got {cause}; check it: "
            f"motet verify {study.path}"
        ) from None


def chosen_token() -> str | None:
    """The operator's token in MOTET_OPERATOR_TOKEN, None if it is empty; one that could be guessed is refused."""
    token = os.environ.get("MOTET_OPERATOR_TOKEN", "").strip()
    letters = token.isascii() and token.isprintable() and " " not in token  # else no client could send it
    if token and (len(token) < MIN_TOKEN_LETTERS or not letters):
        raise InvalidStudy(
            f"MOTET_OPERATOR_TOKEN: expected at least {MIN_TOKEN_LETTERS} ASCII letters without spaces, got "
            f"{len(token)}{'' if letters else ' with others'}; make one with: openssl rand -hex 32"
        )
    return token or None


def operator_token(store: Store, token: str | None, show: Callable[[str], None]) -> OperatorToken:
    """The one that was chosen, or else of an earlier start, or made now and shown."""
    new = None
    with store.transaction() as connection:
        stored = operator_hash(connection)
        if token is None and stored is not None:
            return OperatorToken(stored)
        if token is None:
            token = new = secrets.token_urlsafe(32)
            show(new)
        set_operator_hash(connection, hash_token(token))
    return OperatorToken(hash_token(token), new)


@contextmanager
def publisher_process(path: Path, log_format: LogFormat, log_level: LogLevel) -> Iterator[None]:
    """A publisher in a process of its own, started again when it fails, stopped with the server."""
    stop = threading.Event()
    running: list[subprocess.Popen[bytes]] = []
    command = [sys.executable, "-m", "motet.server.child", str(path), log_format, log_level]

    def supervise() -> None:
        if hasattr(signal, "pthread_sigmask"):  # Ctrl-C is for the server; its children inherit this
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        while not stop.is_set():
            process = subprocess.Popen(command, stdin=subprocess.PIPE)
            running[:] = [process]
            if stop.is_set() and process.stdin is not None:  # set while the process started
                process.stdin.close()
            code = process.wait()
            if not stop.is_set():
                LOG.error("the publisher stopped with code %d: starting another", code)
                stop.wait(1.0)

    supervisor = threading.Thread(target=supervise, name="publisher", daemon=True)
    supervisor.start()
    try:
        yield
    finally:
        stop.set()
        for process in running:
            if process.stdin is not None:
                process.stdin.close()
        supervisor.join(PUBLISHER_STOP_SECONDS)
        for process in running:
            process.kill()  # a stopped process does not notice anything
        supervisor.join(PUBLISHER_STOP_SECONDS)
