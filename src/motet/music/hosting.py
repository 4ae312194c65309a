"""A study's server as a process: start it, wait until it answers, and stop it with every process it started."""

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

START_SECONDS, STOP_SECONDS = 120.0, 60.0  # for a busy machine; the server waits some seconds for its publisher
HOST = "127.0.0.1"


class Server:
    """``motet serve`` in a session of its own, so that Ctrl-C does not reach it; its log is a file beside the study."""

    def __init__(self, study: Path, port: int, operator: str) -> None:
        self.url, self._operator, self._log = f"http://{HOST}:{port}", operator, study.with_suffix(".log")
        self._study, self._port = study, port
        self._process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        environment = os.environ | {"MOTET_OPERATOR_TOKEN": self._operator, "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "motet", "serve", str(self._study)]
        with self._log.open("wb") as log:
            return subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def restart(self, write: Callable[[int], Path], check: Callable[[], None]) -> None:
        """With another study file, which ``write`` writes for the same port; until it answers."""
        self.stop()
        self._study = write(self._port)
        self._process = self._started()
        self.wait(check)

    def wait(self, check: Callable[[], None]) -> None:
        """Until it answers; ``check`` may raise meanwhile."""
        deadline = time.monotonic() + START_SECONDS
        headers = {"Authorization": f"Bearer {self._operator}"}
        with httpx.Client(headers=headers, timeout=5.0, trust_env=False) as http:
            while True:
                with suppress(httpx.TransportError):  # with our token: the server at this address may be another one
                    if http.get(f"{self.url}/v1/clients").status_code == 200:
                        return
                check()
                self.check()
                if time.monotonic() > deadline:
                    raise MotetError(
                        f"expected a reply of the server within {START_SECONDS:g} s, got none: is the machine busy?"
                    )
                time.sleep(0.05)

    def check(self) -> None:
        """Raise the last message of the log if the server has ended by itself."""
        if self._process.poll() is not None:
            raise MotetError(f"the server ended with code {self._process.returncode}: {self._last_message()}")

    def _last_message(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        last = lines[-1] if lines else "its log is empty"
        try:
            return str(json.loads(last)["message"])
        except (ValueError, TypeError, KeyError):
            return last.removeprefix("motet: ")

    def stop(self) -> None:
        """With its publisher, even if the server was killed and could not stop it."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@contextmanager
def running_server(
    write: Callable[[int], Path], ports: Iterable[int], operator: str, check: Callable[[], None] = lambda: None
) -> Iterator[Server]:
    """A server at the first free port of these, stopped at the end of the block.

    ``write`` writes the study file for a port; ``check`` may raise while the server starts.
    """
    server = _start(write, ports, operator, check)
    try:
        yield server
    finally:
        server.stop()


def _start(write: Callable[[int], Path], ports: Iterable[int], operator: str, check: Callable[[], None]) -> Server:
    for port in filter(is_free, ports):
        server = Server(write(port), port, operator)
        try:
            server.wait(check)
            return server
        except MotetError:
            server.stop()
            if is_free(port):
                raise  # else another process took the port first
        except BaseException:
            server.stop()
            raise
    raise MotetError(f"expected a free port, but all of {ports!r} are taken: stop a program that listens there")


def is_free(port: int) -> bool:
    """Whether this process may listen at a port."""
    with socket.socket() as trial:
        # As the server does: a port that was just closed is free.
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((HOST, port))
        except OSError:
            return False
    return True
