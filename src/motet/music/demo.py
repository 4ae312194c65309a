"""The demo: the music study from nothing, served on this machine, and learned from listeners who send over HTTP.

``Demo`` works in threads of its own and writes down in ``state`` how far it is; whoever shows it only looks. When it
is closed, at whatever moment, its processes end and its files go.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import threading
import time
from functools import partial
from math import ceil
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
from threadpoolctl import threadpool_limits

from motet.client.client import Client
from motet.errors import MotetError, NotReleased, Unreachable
from motet.music.crowd import EXAMPLES, Crowd, Errors
from motet.music.hosting import hosted, is_free
from motet.music.load import Load
from motet.music.progress import Measured, Reference, State
from motet.release.disclosed import Disclosed
from motet.study.study import Study

PACE = 250.0  # ratings a second that the clock of releases is made for
RELEASES = 10  # that share ε; the last two have all ratings
PORTS = range(8000, 9000)
AT_ONCE = 1000  # listeners enrolled in one request
LOOK = 0.2  # seconds between looks for a release


class _Ended(Exception):
    """Closed before all was done."""


class Demo:
    """Begun when entered and closed when left; without a ``port`` it takes the first free one from 8000."""

    def __init__(self, clients: int, *, exact: bool = False, seed: int = 0, port: int | None = None) -> None:
        self.state = State(clients, clients * EXAMPLES, exact)
        if port is not None and not is_free(port):
            advice = "choose another, or leave it out for the next free one"
            raise MotetError(f"expected a free port, but {port} is taken or not allowed: {advice}")
        self._seed, self._ports = seed, PORTS if port is None else range(port, port + 1)
        self._ending = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="demo")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ending.set()
        self._thread.join()

    def check(self) -> None:
        """Raises what went wrong in the demo's threads."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            with tempfile.TemporaryDirectory(prefix="motet-demo-") as folder, threadpool_limits(1):
                self._play(Path(folder).resolve())
        except _Ended:
            pass
        except BaseException as error:  # for whoever shows it
            self._error = error

    def _play(self, folder: Path) -> None:
        state = self.state
        crowd = Crowd(state.clients, self._seed)
        every = max(1, ceil(state.ratings / PACE / (RELEASES - 2)))
        write = partial(crowd.write, folder, exact=state.exact, every=every, releases=RELEASES)
        operator = secrets.token_urlsafe(32)
        state.doing = "starting the server"
        self._go_on()
        with (
            hosted(write, self._ports, operator, self._go_on) as server,
            httpx.Client(trust_env=False, timeout=30.0) as http,
        ):
            anyone = Client(server.url, "", http=http, sleep=self._ending.wait)
            tokens = self._enrolled(anyone.with_token(operator), folder)
            state.url, state.folder = server.url, folder
            study = Study.load(folder / "study.toml")
            try:
                self._learn(crowd, study, anyone, [anyone.with_token(token) for token in tokens])
            except Unreachable:
                server.check()
                raise
            while not self._ending.wait(1.0):
                server.check()

    def _go_on(self) -> None:
        if self._ending.is_set():
            raise _Ended

    def _enrolled(self, operator: Client, folder: Path) -> list[str]:
        """The listeners' tokens; one more is kept in a file, for the commands to try."""
        self.state.doing = "enrolling the listeners"
        names = [f"listener {j + 1}" for j in range(self.state.clients)]
        tokens: list[str] = []
        for begin in range(0, len(names), AT_ONCE):
            self._go_on()
            tokens += [enrolled.token for enrolled in operator.enroll(names[begin : begin + AT_ONCE])]
        (you,) = operator.enroll(["you"])
        with open(os.open(folder / "token", os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
            file.write(you.token)
        return tokens

    def _learn(self, crowd: Crowd, study: Study, anyone: Client, clients: list[Client]) -> None:
        """Until all is sent, and released where the budget allows it."""
        state = self.state
        state.doing = "listeners send"
        self._look_up(anyone)
        span = self._until_last(study.release.seconds)
        with Load(crowd, clients, span=span, arrivals=state.arrivals, ending=self._ending) as load:
            state.reference = Reference(crowd.separate(study.model), crowd.exact(study.model))
            self._watch(crowd, anyone, clients, load)
        self._go_on()  # else it was stopped before all was sent
        state.doing, state.done = "all is sent and released", True

    def _until_last(self, every: float) -> float:
        """Seconds until half a period before the last release but one."""
        due = self.state.due or time.time()
        return max(due + every * (RELEASES - 2.5) - time.time(), every)

    def _watch(self, crowd: Crowd, anyone: Client, clients: list[Client], load: Load) -> None:
        """Judge every release, until all is sent, and in one of them or no other comes."""
        seen = after = 0
        while not (load.over and (after == 2 or not self._more_come(seen))):
            self._go_on()
            sent, release = self.state.sent, _newest(anyone)
            if release is None or release.version == seen:
                self._ending.wait(LOOK)
                continue
            seen, after = release.version, after + (self.state.exact and load.over)
            spent = self._look_up(anyone)
            self.state.releases.append(Measured(seen, sent, spent, _judged(crowd, release, clients)))

    def _more_come(self, version: int) -> bool:
        return self.state.exact or version < RELEASES

    def _look_up(self, anyone: Client) -> float | None:
        """When the next release is due, and ε; gives what is spent of it."""
        study = anyone.study()
        budget = study["budget"]
        self.state.due = study["next_release"] if self._more_come(study["version"]) else None
        self.state.epsilon = budget and budget["epsilon"]
        return budget and float(budget["spent"])


def _judged(crowd: Crowd, release: Disclosed, clients: list[Client]) -> Errors:
    """Active listeners ask for their coefficients; passive ones have the release, the same file for all of them."""
    return crowd.errors(lambda j: clients[j].estimate(), lambda j: release.estimate(*crowd.ratings(j)))


def _newest(anyone: Client) -> Disclosed | None:
    try:
        return anyone.disclosed()
    except NotReleased:
        return None
