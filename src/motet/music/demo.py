"""The demo: the music study from nothing, served on this machine, with listeners who send ratings over HTTP.

``Demo`` works in threads of its own and keeps ``state`` up to date; ``view`` only reads it. When the demo is closed, at
any moment, its processes end and its files are removed.
"""

from __future__ import annotations

import secrets
import tempfile
import threading
import time
from bisect import bisect
from dataclasses import asdict, dataclass, field
from functools import partial
from math import ceil
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from motet.client.client import Client
from motet.errors import MotetError, NotReleased, Unreachable
from motet.music.crowd import EPSILON, RATINGS_PER_LISTENER, Crowd, Errors
from motet.music.hosting import is_free, running_server
from motet.music.load import Load
from motet.study.study import Study
from motet.tables.files import new_file
from motet.threads import blas_limit

RATINGS_PER_SECOND = 250.0  # that the interval between releases is made for
BUDGET_RELEASES = 10  # that share a listener's ε; the last two of the first ten contain all ratings
PACE_SECONDS = 60  # between later releases: they come for as long as somebody looks, and each is kept
PORTS = range(8000, 9000)
WATCH_SECONDS = 0.2  # between requests for a new release
RATE_SECONDS = 2.0  # over which the present rate is counted


@dataclass(frozen=True)
class Measurement:
    """A release: how many ratings were sent before it, ε spent so far, and the errors of listeners who use it."""

    version: int
    sent: int
    spent: float | None
    errors: Errors


@dataclass(frozen=True)
class Reference:
    """What a release is compared with: every listener alone, and all ratings shared without noise."""

    separate: Errors
    exact: Errors


@dataclass
class State:
    """How far the demo is, and what it measured."""

    clients: int
    ratings: int
    exact: bool
    activity: str = "simulating the listeners"
    url: str | None = None
    folder: Path | None = None
    version: int = 0  # of the current release
    due: float | None = None  # the next release, in seconds since 1970
    spent: float = 0.0  # of EPSILON, by a listener who was in all releases
    arrivals: list[float] = field(default_factory=list)  # when each rating was acknowledged, by the monotonic clock
    releases: list[Measurement] = field(default_factory=list)
    reference: Reference | None = None  # there before the first release
    done: bool = False

    @property
    def sent(self) -> int:
        return len(self.arrivals)

    @property
    def rate(self) -> float:
        """Ratings a second: at present, or over the whole time once all are sent."""
        if self.sent < self.ratings:
            return (self.sent - bisect(self.arrivals, time.monotonic() - RATE_SECONDS)) / RATE_SECONDS
        return self.sent / max(self.arrivals[-1] - self.arrivals[0], 1e-9)

    @property
    def improvement(self) -> float | None:
        """The last release's share of the improvement that sharing without noise brings; None before the end."""
        if not self.done or not self.releases or self.reference is None:
            return None
        alone, shared = self.reference.separate.both, self.reference.exact.both
        return (alone - self.releases[-1].errors.both) / (alone - shared)

    def to_dict(self) -> dict[str, Any]:
        """The figures, for programs."""
        return {
            "policy": "exact" if self.exact else "private",
            "clients": self.clients,
            "ratings": self.ratings,
            "sent": self.sent,
            "per_second": self.rate,
            "epsilon": None if self.exact else EPSILON,
            "spent": None if self.exact else self.spent,
            "done": self.done,
            "separate": None if self.reference is None else asdict(self.reference.separate),
            "exact": None if self.reference is None else asdict(self.reference.exact),
            "errors": asdict(self.releases[-1].errors) if self.releases else None,
            "kept": self.improvement,
            "releases": [asdict(release) for release in self.releases],
        }


class _Closed(Exception):
    """The demo was closed before all was done."""


class Demo:
    """Starts when entered and closes when left; without a ``port`` it takes the first free one from 8000."""

    def __init__(self, clients: int, *, exact: bool = False, seed: int = 0, port: int | None = None) -> None:
        self.state = State(clients, clients * RATINGS_PER_LISTENER, exact)
        if port is not None and not is_free(port):
            advice = "choose another, or leave it out for the next free one"
            raise MotetError(f"expected a free port, but {port} is taken or not allowed: {advice}")
        self._seed, self._ports = seed, PORTS if port is None else range(port, port + 1)
        self._closing = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="demo")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._closing.set()
        self._thread.join()

    def check(self) -> None:
        """Raise the error that ended the demo's thread, if there is one."""
        if self._error is not None:
            raise self._error

    def _check_open(self) -> None:
        if self._closing.is_set():
            raise _Closed

    def _run(self) -> None:
        try:
            with tempfile.TemporaryDirectory(prefix="motet-demo-") as folder, blas_limit:
                self._play(Path(folder).resolve())
        except _Closed:
            pass
        except BaseException as error:  # check raises it in the caller's thread
            self._error = error

    def _play(self, folder: Path) -> None:
        state = self.state
        crowd = Crowd(state.clients, self._seed)
        every = max(1, ceil(state.ratings / RATINGS_PER_SECOND / (BUDGET_RELEASES - 2)))
        write = partial(crowd.write, folder, exact=state.exact, releases=BUDGET_RELEASES)
        operator = secrets.token_urlsafe(32)
        state.activity = "starting the server"
        self._check_open()
        with (
            running_server(partial(write, every=every), self._ports, operator, self._check_open) as server,
            httpx.Client(trust_env=False, timeout=30.0) as http,
        ):
            state.url = server.url
            anyone = Client(server.url, "", http=http, sleep=self._closing.wait)
            tokens = self._enroll(anyone.with_token(operator), folder)
            state.folder = folder
            study = Study.load(folder / "study.toml")
            try:
                self._learn(crowd, study, anyone, [anyone.with_token(token) for token in tokens])
            except Unreachable:
                server.check()
                raise
            if not state.exact and every < PACE_SECONDS:
                state.activity = "starting the server again, for a release every minute"
                server.restart(partial(write, every=PACE_SECONDS), self._check_open)
            state.activity, state.done = "all ratings are sent and released", True
            while not self._closing.wait(1.0):
                server.check()

    def _enroll(self, operator: Client, folder: Path) -> list[str]:
        """The listeners' tokens; one more goes into a file, for the commands that a user may try."""
        self.state.activity = "enrolling the listeners"
        tokens: list[str] = []
        for clients in operator.enroll_many([*(f"listener {j + 1}" for j in range(self.state.clients)), "you"]):
            self._check_open()
            tokens += [client.token for client in clients]
        with new_file(folder / "token", MotetError, text=True) as file:
            file.write(tokens.pop())
        return tokens

    def _learn(self, crowd: Crowd, study: Study, anyone: Client, clients: list[Client]) -> None:
        """Until all ratings are sent and released."""
        state = self.state
        state.activity = "listeners send"
        self._read_study(anyone)
        every = study.release.seconds
        # All is sent half an interval before the last release but one.
        span = (state.due or time.time()) + every * (BUDGET_RELEASES - 2.5) - time.time()
        with Load(crowd, clients, span=max(span, every), arrivals=state.arrivals, stop=self._closing) as load:
            state.reference = Reference(crowd.separate(study.model), crowd.shared(study.model))
            self._measure_releases(crowd, anyone, clients, load)
        self._check_open()  # else it was closed before all was sent

    def _measure_releases(self, crowd: Crowd, anyone: Client, clients: list[Client], load: Load) -> None:
        """Each release as it comes, until two contain all ratings and the first listeners' budgets are spent."""
        state, version, complete = self.state, 0, 0
        while complete < 2 or (not state.exact and version < BUDGET_RELEASES):
            self._check_open()
            sent = state.sent
            try:
                release = anyone.disclosed()
            except NotReleased:
                release = None
            if release is None or release.version == version:
                self._closing.wait(WATCH_SECONDS)
                continue
            version, complete = release.version, complete + load.over
            self._read_study(anyone)
            spent = None if state.exact else state.spent
            errors = crowd.errors(lambda j: clients[j].estimate(), release)
            state.releases.append(Measurement(version, sent, spent, errors))

    def _read_study(self, anyone: Client) -> None:
        """The current version, when the next release is due, and ε spent."""
        study = anyone.study()
        self.state.version = study["version"]
        self.state.due = study["next_release"]
        if study["budget"] is not None:
            self.state.spent = float(study["budget"]["spent"])
