"""Processes that a server starts beside itself: its publisher, and the workers of ``--workers``.

Each ends when its standard input closes, and so with the server, however that ends; one that fails is started again.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

LOG = logging.getLogger("motet")
KILL_SECONDS = 8.0  # after which a child that was asked to end is killed
RESTART_SECONDS = 1.0
SECRETS = ("MOTET_OPERATOR_TOKEN", "MOTET_TOKEN")  # the database has the hash of the first: no child needs them


class Child:
    """A process of ``child`` with a name and arguments, which inherits open files by their ``descriptors``.

    ``ready`` is set when it prints a line; ``ended`` is called with the number of each process that has ended.
    """

    def __init__(
        self,
        name: str,
        *arguments: str,
        descriptors: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
        ended: Callable[[int], object] = lambda _: None,
    ) -> None:
        self._name, self._descriptors, self._ended = name, descriptors, ended
        self._command = [sys.executable, "-m", "motet.server.processes.child", name, *arguments]
        inherited = {key: value for key, value in os.environ.items() if key not in SECRETS}
        self._environment = inherited | dict(environment or {})
        self.ready = threading.Event()
        self._stop = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._supervisor = threading.Thread(target=self._supervise, name=name, daemon=True)
        self._supervisor.start()

    def _supervise(self) -> None:
        if hasattr(signal, "pthread_sigmask"):  # Ctrl-C is for the server; its children inherit this
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        while not self._stop.is_set():
            pipe = subprocess.PIPE
            process = self._process = subprocess.Popen(
                self._command, stdin=pipe, stdout=pipe, pass_fds=self._descriptors, env=self._environment
            )
            if self._stop.is_set():  # while the process started
                self._close_input()
            with process.stdout or open(os.devnull, "rb") as printed:
                if printed.readline():
                    self.ready.set()
                code = process.wait()
            self._ended(process.pid)
            if not self._stop.is_set():
                LOG.error("the %s stopped with code %d: starting another", self._name, code)
                self._stop.wait(RESTART_SECONDS)

    def _close_input(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def stop(self) -> None:
        """Ask it to end."""
        self._stop.set()
        self._close_input()

    def end(self) -> None:
        """Wait until it has ended, and kill it if that takes long."""
        self._supervisor.join(KILL_SECONDS)
        if self._process is not None:
            self._process.kill()  # a stopped process does not notice anything
        self._supervisor.join(KILL_SECONDS)


@contextmanager
def running(*children: Child) -> Iterator[None]:
    """Until the end of the block, and then all of them end at the same time."""
    try:
        yield
    finally:
        for child in children:
            child.stop()
        for child in children:
            child.end()
