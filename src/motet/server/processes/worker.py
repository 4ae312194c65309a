"""One of the processes of ``motet serve --workers``: a server on a socket that all of them accept connections from.

Workers know nothing of each other. What one of them writes, the others read in the database.
"""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Callable
from functools import partial

from motet.errors import MotetError
from motet.server.app import http_server
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
    try:
        study = Study.load(study_path)
        store = Store(study.store_url, serving=True)
        with store.snapshot() as connection:
            token = operator_hash(connection)
    except MotetError as error:
        LOG.error("cannot start: %s", error)
        sys.exit(1)
    assert token is not None  # the parent's start stored one
    shared = socket.socket(fileno=int(descriptor))
    http_server(
        study, store, token, shared, certificate=certificate, ready=partial(print, "ready", flush=True), until=until
    ).run()
