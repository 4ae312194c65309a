"""The server and the publisher of a study, each in a process that can kill itself at a named point.

What runs is the program's own; only the arrival at a point, and the end, are the test's.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import opendp.combinators
import opendp.measurements  # noqa: F401  imported late otherwise, by each process

import motet.cli.app  # noqa: F401  for commands that are forked from here too
from motet.server.app import create_app
from motet.server.logs import log_to_stderr
from motet.server.protection.connections import Listener, Server
from motet.server.publisher import run
from motet.server.service import Service
from motet.store.clients import hash_token
from motet.store.pins import pin
from motet.store.store import Store
from motet.study.study import Study


def program(arguments: list[str], environment: dict[str, str], log: Path) -> None:
    """``motet`` as it is started, from here on."""
    from tests.cli.program import become  # which forks from here too

    _log_to(log)
    become(arguments, environment)


def server(study_file: Path, log: Path, operator: str, point: str, arrivals: int) -> None:
    study, store = _opened(study_file, log)
    app = create_app(study, lambda: Service(study, store, hash_token(operator), reached=killing(point, arrivals)))
    limits = study.server
    listener = Listener(
        socket.create_server((limits.host, limits.port), backlog=2048),
        limit=limits.max_connections,
        limit_per_address=limits.max_connections_per_address,
        proxies=limits.proxies,
        tls=False,
    )
    Server(app, listener, proxies=limits.proxies).run()


def publisher(study_file: Path, log: Path, _: str, point: str, arrivals: int) -> None:
    study, store = _opened(study_file, log)
    run(
        store,
        study,
        until=lambda: False,
        reached=killing(point, arrivals),
        clock=partial(now, study_file),
    )


def clock_file(study_file: Path) -> Path:
    """If it is there, it says how many seconds the publisher's clock is ahead."""
    return study_file.with_suffix(".clock")


def now(study_file: Path) -> float:
    file = clock_file(study_file)
    return time.time() + (float(file.read_text(encoding="utf-8")) if file.exists() else 0.0)


def killing(point: str, arrivals: int) -> Callable[[str], None]:
    """kill -9 of this process at the n-th arrival at a point."""
    left = [arrivals]

    def reached(here: str) -> None:
        if here == point:
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

    return reached


def _opened(study_file: Path, log: Path) -> tuple[Study, Store]:
    _log_to(log)
    log_to_stderr()
    study = Study.load(study_file)
    store = Store(study.store_url)
    pin(store, study, now=time.time())
    return study, store


def _log_to(log: Path) -> None:
    with log.open("ab") as lines:
        for stream in (1, 2):
            os.dup2(lines.fileno(), stream)
