"""Servers for tests: the real program, or its parts forked, on free ports. Every wait polls, and has a deadline."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from sqlalchemy import Engine, create_engine
from sqlalchemy.pool import NullPool

from motet import Client
from motet.study.study import Study
from tests.scenarios import launcher

OPERATOR = "the-operators-token"
CURVES = """
[model]
alpha = 0.5
lam = 0.1
sigma2 = 1.0
common = { kernel = "rbf", length_scale = 0.5 }
individual = { kernel = "dot_product", sigma_0 = 1.0 }
[inputs]
dimension = 1
"""
START, END = 300.0, 120.0  # seconds, of a machine that is slow and busy: no wait takes longer than it must
WAITED_SHARE, MAX_PAUSE_SECONDS = 0.05, 0.1  # between two looks at what is waited for
RANDOM = random.SystemRandom()  # other numbers in each of the processes that run tests
FORKS = get_context("forkserver")  # of a process that has imported server, publisher and commands,
FORKS.set_forkserver_preload(["tests.scenarios.launcher", "pytest"])  # and what each child would import of ours


def poll(condition: Callable[[], Any], seconds: float, what: str) -> Any:
    """The condition's value, as soon as it is true; the longer it takes, the less often we look, and take its core."""
    begin = time.monotonic()
    while not (value := condition()):
        waited = time.monotonic() - begin
        assert waited < seconds, f"not within {seconds:g} s: {what}"
        time.sleep(min(max(0.01, WAITED_SHARE * waited), MAX_PAUSE_SECONDS))
    return value


def free_port() -> int:
    """One below those that the system gives to connections and to servers that ask for any: they would take it."""
    while True:
        with suppress(OSError), socket.create_server(("127.0.0.1", RANDOM.randrange(10_000, 32_000))) as free:
            port: int = free.getsockname()[1]
            return port


def write_study(folder: Path, body: str, *, database: str = "") -> Path:
    """A study file on a free port, with no limit to the rate of requests; its database is by default a file beside."""
    path = folder / "study.toml"
    stored = f'[store]\nurl = "{database}"\n' if database else ""
    served = "[server]\nport = 8000\nrate = 1e6\n"
    path.write_text(f'[study]\nname = "Scenario"\n{body}\n{stored}{served}', encoding="utf-8")
    return with_free_port(path)


def with_free_port(study: Path) -> Path:
    """The same file, with another port in place of its own."""
    text, places = re.subn(
        r"^port = \d+$", f"port = {free_port()}", study.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    assert places == 1
    study.write_text(text, encoding="utf-8")
    return study


def is_ready(url: str, context: ssl.SSLContext | None = None) -> bool:
    """Whether a server is there and ready; without httpx, whose every call would read all certificates."""
    try:
        with urlopen(f"{url}/readyz", timeout=5, context=context) as response:
            return bool(response.status == 200)
    except OSError:
        return False


class Place:
    """A study's files and address, whichever processes serve it."""

    _context: ssl.SSLContext | None = None

    def __init__(self, study: Path) -> None:
        self.study = study
        port = study.read_text(encoding="utf-8").split("port = ")[1].split()[0]
        self.url = f"http://127.0.0.1:{port}"

    def client(self, token: str = "") -> Client:
        """A client that waits for a server that is away, and looks often whether it is back."""
        return Client(self.url, token, retries=4000, sleep=lambda seconds: time.sleep(min(seconds, 0.03)))

    def operator(self) -> Client:
        return self.client(OPERATOR)

    def ready(self) -> bool:
        return is_ready(self.url, self._context)

    def on_disk(self, value: bytes) -> bool:
        """Whether a file of the database has these bytes, its log included."""
        return any(value in path.read_bytes() for path in self.study.parent.glob("study.db*"))

    @cached_property
    def database(self) -> Engine:
        """Behind everybody's back, with a connection for each use of it."""
        url = Study.load(self.study).store_url
        return create_engine(url, poolclass=NullPool, connect_args={"timeout": END} if "sqlite" in url else {})

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.database.connect() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(query)]

    def log(self) -> str:
        return self.study.with_suffix(".log").read_text(encoding="utf-8")


class Forked:
    """The program forked from a process that has imported it, with what is used here of a ``Popen``."""

    def __init__(self, arguments: list[str], environment: dict[str, str], log: Path) -> None:
        self._process = FORKS.Process(target=launcher.program, args=(arguments, environment, log), daemon=True)
        self._process.start()
        self.pid = self._process.pid or 0

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, seconds: float) -> int:
        self._process.join(seconds)
        assert self._process.exitcode is not None, f"the program does not end within {seconds:g} s"
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Program(Place):
    """``motet serve`` as people run it, with its publisher; without a ``token`` the operator's is the database's.

    If it is ``forked``, only its publisher is started as people start it, and both begin in half of the time.
    """

    process: Forked | subprocess.Popen[bytes]

    def __init__(
        self,
        study: Path,
        *options: str,
        context: ssl.SSLContext | None = None,
        token: str | None = OPERATOR,
        forked: bool = False,
    ) -> None:
        super().__init__(study)
        self._options, self._context, self._forked = options, context, forked
        self._environment = (
            os.environ | {"OPENBLAS_NUM_THREADS": "1"} | ({"MOTET_OPERATOR_TOKEN": token} if token else {})
        )
        if "--certfile" in options:
            self.url = self.url.replace("http:", "https:")
        self.start()

    def start(self) -> None:
        arguments, path = ["serve", str(self.study), *self._options], self.study.with_suffix(".log")
        if self._forked:
            self.process = Forked(arguments, self._environment, path)
        else:
            with path.open("ab") as log:
                command = [sys.executable, "-m", "motet", *arguments]
                self.process = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)
        poll(self._started, START, f"{self.url}/readyz")

    def _started(self) -> bool:
        assert self.process.poll() is None, self.log()
        return self.ready()

    @property
    def processes(self) -> dict[str, int]:
        return {"server": self.process.pid, "publisher": self.publisher}

    @property
    def publisher(self) -> int:
        """The publisher's process, once it runs."""
        processes: list[int] = poll(lambda: children(self.process.pid), START, "a publisher")
        return processes[0]

    def kill(self) -> None:
        """kill -9 of the server; its publisher ends by itself."""
        publisher = self.publisher
        self.process.kill()
        self.process.wait(END)
        poll(lambda: not is_running(publisher), END, "the publisher ends with its server")

    def kill_publisher(self) -> None:
        """kill -9 of the publisher alone; the server starts another."""
        publisher = self.publisher
        os.kill(publisher, signal.SIGKILL)
        poll(lambda: children(self.process.pid) not in ([], [publisher]), START, "another publisher")

    def end(self) -> None:
        publisher = self.publisher
        self.process.terminate()
        assert self.process.wait(END) == 0, self.log()
        poll(lambda: not is_running(publisher), END, "nothing is left of its publisher")


@contextmanager
def program(study: Path, *options: str, **how: Any) -> Iterator[Program]:
    """Served until the end, and then nothing of it is left."""
    running = Program(study, *options, **how)
    try:
        yield running
        running.end()
    finally:
        if running.process.poll() is None:
            running.process.kill()
            running.process.wait(END)


class Parts(Place):
    """Server and publisher apart, forked from a process that has imported them, so that many restarts are quick.

    Each part can kill itself at the n-th arrival at a named point.
    """

    def __init__(self, study: Path, operator: str = OPERATOR) -> None:
        super().__init__(study)
        self._operator = operator  # its token
        self._parts: dict[str, BaseProcess] = {}
        for name in ("server", "publisher"):
            self.start(name)

    def start(self, name: str, point: str = "", arrivals: int = 1) -> None:
        target = {"server": launcher.server, "publisher": launcher.publisher}[name]
        log = self.study.with_suffix(".log")
        part = FORKS.Process(target=target, args=(self.study, log, self._operator, point, arrivals), daemon=True)
        part.start()
        self._parts[name] = part
        if name == "server" and not point:
            poll(self._started, START, f"{self.url}/readyz")

    def _started(self) -> bool:
        assert self._parts["server"].is_alive(), self.log()
        return self.ready()

    @property
    def processes(self) -> dict[str, int]:
        return {name: part.pid for name, part in self._parts.items() if part.pid is not None and part.is_alive()}

    def kill(self, name: str) -> None:
        os.kill(self.processes[name], signal.SIGKILL)
        self.fell(name)

    def fell(self, name: str) -> None:
        """Wait until a part was killed, by us or by itself, and start it again."""
        self._await_kill(name)
        self.start(name)

    def _await_kill(self, name: str) -> None:
        part = self._parts[name]
        part.join(END)
        assert part.exitcode == -signal.SIGKILL, self.log()

    def fall(self, name: str, point: str, arrivals: int) -> None:
        """The same part again, which kills itself at a point. Nothing follows it."""
        self.kill_for_good(name)
        self.start(name, point, arrivals)
        self._await_kill(name)

    def kill_for_good(self, name: str) -> None:
        self._parts[name].kill()
        self._parts[name].join(END)

    def set_clock(self, ahead: float) -> None:
        """The publisher's is so many seconds ahead from now on."""
        clock = launcher.clock_file(self.study)
        clock.with_suffix(".new").write_text(f"{ahead}", encoding="utf-8")
        clock.with_suffix(".new").replace(clock)

    def end(self) -> None:
        for part in self._parts.values():
            part.kill()
            part.join(END)


@contextmanager
def parts(study: Path, operator: str = OPERATOR) -> Iterator[Parts]:
    """Served until the end, in a tenth of the time that ``program`` takes to begin."""
    running = Parts(study, operator)
    try:
        yield running
    finally:
        running.end()


def is_running(pid: int) -> bool:
    return _stat(pid)[0] not in ("Z", "X", "")


def children(pid: int) -> list[int]:
    """Processes that a process started and that still run."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [child for child in pids if _stat(child)[1] == str(pid) and is_running(child)]


def _stat(pid: int) -> tuple[str, str]:
    """State and parent of a process; empty if there is none."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return "", ""
    return state, parent
