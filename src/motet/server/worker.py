"""One of the processes of ``motet serve --workers``: a server on a socket that all of them accept connections from.

Workers know nothing of each other. What one of them writes, the others read in the database.
"""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from motet.errors import MotetError
from motet.server.http import http_server, listener
from motet.server.logs import LogFormat, LogLevel, log_to_stderr
from motet.store.clients import operator_hash
from motet.store.store import Store
from motet.study.study import Study

LOG = logging.getLogger("motet")


def main(
    descriptor: str,
    study_path: str,
    log_format: LogFormat,
    log_level: LogLevel,
    *certificate: str,
    until: Callable[[], bool],
) -> None:
    """Serve what the parent has opened; ``descriptor`` is its socket's, ``certificate`` files for TLS and its key."""
    log_to_stderr(log_format, log_level)
    certfile, keyfile = map(Path, certificate) if certificate else (None, None)
    try:
        study = Study.load(study_path)
        store = Store(study.store_url, serving=True)
        with store.snapshot() as connection:
            token = operator_hash(connection)
    except MotetError as error:
        LOG.error("cannot start: %s", error)
        sys.exit(1)
    assert token is not None  # the parent's start stored one
    shared = listener(study, socket.socket(fileno=int(descriptor)), tls=certfile is not None)
    server = http_server(
        study, store, token, shared, certfile=certfile, keyfile=keyfile, ready=_show_ready, until=until
    )
    server.run()


def _show_ready() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()
