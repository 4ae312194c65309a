"""A server of a study as a process of one's own: begun, waited for, and ended with all that it began."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from motet.errors import MotetError

START, END = 120.0, 60.0  # seconds that a busy machine may take; the server gives its publisher half a minute
HOST = "127.0.0.1"


class Server:
    """``motet serve`` in a session of its own, so that Ctrl-C reaches us alone; its log is a file beside the study."""

    def __init__(self, study: Path, port: int, operator: str) -> None:
        self.url, self._operator, self._log = f"http://{HOST}:{port}", operator, study.with_suffix(".log")
        environment = os.environ | {"MOTET_OPERATOR_TOKEN": operator, "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "motet", "serve", str(study)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def wait(self, give_up: Callable[[], None]) -> None:
        """Until it answers; ``give_up`` may raise meanwhile."""
        deadline = time.monotonic() + START
        while not self._answers():
            give_up()
            self.check()
            if time.monotonic() > deadline:
                raise MotetError(f"expected an answer of the server within {START:g} s, got none: is the machine busy?")
            time.sleep(0.05)

    def _answers(self) -> bool:
        """With our token: at this address may be somebody else's server."""
        headers = {"Authorization": f"Bearer {self._operator}"}
        try:
            answer = httpx.get(f"{self.url}/v1/clients", headers=headers, timeout=5.0, trust_env=False)
        except httpx.TransportError:
            return False
        return answer.status_code == 200

    def check(self) -> None:
        """Raises where the server has ended by itself, with the last that it said."""
        if self._process.poll() is not None:
            raise MotetError(f"the server ended with code {self._process.returncode}: {self._last_words()}")

    def _last_words(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        last = lines[-1] if lines else "its log is empty"
        try:
            return str(json.loads(last)["message"])
        except (ValueError, TypeError, KeyError):
            return last.removeprefix("motet: ")

    def end(self) -> None:
        """With its publisher, also where it was killed and could not end that one itself."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@contextmanager
def hosted(
    write: Callable[[int], Path], ports: Iterable[int], operator: str, give_up: Callable[[], None] = lambda: None
) -> Iterator[Server]:
    """A server that answers at the first of these ports that is free, ended in the end.

    ``write`` makes the study's file for a port; ``give_up`` may raise while the server is waited for.
    """
    server = _begun(write, ports, operator, give_up)
    try:
        yield server
    finally:
        server.end()


def _begun(write: Callable[[int], Path], ports: Iterable[int], operator: str, give_up: Callable[[], None]) -> Server:
    for port in filter(is_free, ports):
        server = Server(write(port), port, operator)
        try:
            server.wait(give_up)
            return server
        except MotetError:
            server.end()
            if is_free(port):
                raise  # else somebody was quicker
        except BaseException:
            server.end()
            raise
    raise MotetError(f"expected a free port, but all of {ports!r} are taken: end what listens there")


def is_free(port: int) -> bool:
    """Whether we may listen at a port, and nobody does."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server: one that was just left is free
        try:
            trial.bind((HOST, port))
        except OSError:
            return False
    return True
