"""``motet serve``: one study, its store, its publisher and its server, from start to end.

Whatever keeps it from starting is raised as a ``MotetError``, before a token is shown.
"""

from __future__ import annotations

import errno
import logging
import os
import secrets
import signal
import socket
import ssl
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from prometheus_client.multiprocess import mark_process_dead

from motet.errors import InvalidStore, InvalidStudy, MotetError
from motet.release.disclosed import Disclosed
from motet.server.app import http_server
from motet.server.logs import LogFormat, LogLevel, log_to_stderr
from motet.server.metrics import METRICS_FOLDER
from motet.server.processes.children import Child, running
from motet.server.timing import check_lead
from motet.store import pins, releases
from motet.store.clients import hash_token, operator_hash, set_operator_hash
from motet.store.store import Store, parse
from motet.study.study import Study

if TYPE_CHECKING:
    from motet.server.loading import Loaded

LOG = logging.getLogger("motet")
MIN_TOKEN_LETTERS = 16  # of an operator's token that was not made here


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
    workers: int = 1,
    certfile: Path | None = None,
    keyfile: Path | None = None,
    log_format: LogFormat = "json",
    log_level: LogLevel = "info",
    data: Path | None = None,
    encoding: str | None = None,
    tokens: Path | None = None,
    show_token: Callable[[str], None],
    show_ready: Callable[[Ready], None],
) -> None:
    """Serve until a signal ends the process, in this one or in so many ``workers`` beside it.

    ``host`` and ``port`` replace those of the study file. ``data`` is a table of the operator's, whose clients are
    enrolled with ``tokens`` in a new file, and whose rows are stored, before the study is served. ``show_token`` gets
    the operator's token if this start makes one; in the plain log ``show_ready`` is called when the server
    answers.
    """
    study = Study.load(path)
    check_lead(study)
    _check_tls(certfile, keyfile)
    _check_workers(study, workers)
    chosen = chosen_token()
    listening = _listen(path, host or study.server.host, study.server.port if port is None else port)
    log_to_stderr(log_format, log_level)
    store, not_fixed = _open(study)
    with store.refusing():
        operator, new_token = operator_token(store, chosen, show_token)
        loaded = None
        if data is not None:
            from motet.server.loading import load_table  # brings packages of clients

            tokens = tokens or path.with_name(f"{path.stem}-tokens.csv")
            loaded = load_table(store, study, data, tokens, encoding=encoding, now=time.time())
            LOG.info(loaded.text)
            not_fixed = study.not_fixed(loaded.fixed)
    address = _address(listening, "http" if certfile is None else "https")
    is_local = ip_address(listening.getsockname()[0]).is_loopback

    def announce() -> None:
        if log_format == "plain":
            show_ready(Ready(study.name, address, not_fixed, new_token, loaded))
        else:
            LOG.info("serving %s at %s", study.name, address)
            if not_fixed:
                LOG.info(not_fixed)
        if certfile is None and not is_local:
            LOG.warning("without TLS, tokens and examples cross the network unencrypted: use a certificate, or a proxy")
        if not study.private:
            LOG.warning("releases of this study are without noise: two of them show what a client sent in between")

    arguments = (str(path), log_format, log_level)
    certificate = () if certfile is None else (str(certfile), str(keyfile))
    if workers > 1:
        store.close()
        run_workers(workers, *arguments, *certificate, listening=listening, ready=announce)
        return
    server = http_server(study, store, operator, listening, certificate=certificate, ready=announce)
    with running(Child("publisher", *arguments)):
        server.run()
    if not server.started:
        raise MotetError("the server did not start; see its log")


def run_workers(count: int, *arguments: str, listening: socket.socket, ready: Callable[[], None]) -> None:
    """So many workers on one socket, and a publisher, until a signal comes. Workers count into files that they share,
    so that each can show the metrics of all."""
    with TemporaryDirectory(prefix="motet-metrics-") as folder:
        workers = [
            Child(
                "worker",
                *(str(listening.fileno()), *arguments),
                descriptors=[listening.fileno()],
                environment={METRICS_FOLDER: folder},
                ended=partial(mark_process_dead, path=folder),
            )
            for _ in range(count)
        ]
        with running(Child("publisher", *arguments[:3]), *workers):
            for worker in workers:
                worker.ready.wait()
            ready()
            signal.pause()


def _check_tls(certfile: Path | None, keyfile: Path | None) -> None:
    if (certfile is None) != (keyfile is None):
        missing = "keyfile" if keyfile is None else "certfile"
        raise InvalidStudy(f"TLS needs a certificate and its key: give {missing}= too", where=missing)
    if certfile is not None:
        try:  # without the password, OpenSSL would ask for one at the terminal
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certfile, keyfile, password="")  # nosec B106  # none
        except (OSError, ssl.SSLError) as error:
            raise InvalidStudy(
                f"cannot use {certfile} with the key {keyfile}: {error}; expected PEM files, the key without a password"
            ) from None


def _check_workers(study: Study, workers: int) -> None:
    if workers > 1 and not parse(study.store_url)[0].shared:
        raise InvalidStudy(
            f"workers= must be 1, got {workers}: a database file takes one server process; more of them need "
            f"PostgreSQL (store.url; motet migrate moves a study there)"
        )
    if workers > 1 and sys.platform == "win32":
        raise InvalidStudy("workers= must be 1 on Windows, whose processes cannot share a socket this way")


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
            f"({key}=)"
        ) from None


def _address(listener: socket.socket, scheme: str) -> str:
    """The address to open on this machine."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # nosec B104  # shown, not bound
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _open(study: Study) -> tuple[Store, str]:
    """The study's database, made if there is none, and what is not fixed yet; its current release must be readable."""
    with ExitStack() as opened:
        store = Store(study.store_url, serving=True)
        opened.callback(store.close)
        with store.refusing():
            fixed = pins.pin(store, study, now=time.time())
        check_current(study, store)
        opened.pop_all()
    return store, study.not_fixed(fixed)


def check_current(study: Study, store: Store) -> None:
    """Refuse a database whose current release cannot be read. Of one that is withdrawn there is nothing to read."""
    try:
        with store.snapshot() as connection:
            current = releases.current(connection)
        if current is not None and (study.private or not current.withdrawn):
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


def operator_token(store: Store, token: str | None, show: Callable[[str], None]) -> tuple[str, str | None]:
    """The hash of the one that was chosen, or else of an earlier start, or made now and shown: then also the token."""
    new = None
    with store.transaction() as connection:
        store.dialect.lock_setup(connection)  # until the transaction ends, no other start gets past this line
        stored = operator_hash(connection)
        if token is None and stored is not None:
            return stored, None
        if token is None:
            token = new = secrets.token_urlsafe(32)
            show(new)
        set_operator_hash(connection, hash_token(token))
    return hash_token(token), new
