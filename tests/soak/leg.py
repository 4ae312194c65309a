"""One study on one database under mixed load and kills, checked all the time and compared at the end."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from motet.errors import InvalidStore
from motet.study.study import Study
from tests.postgres import Cluster
from tests.scenarios.after import Resources, check, check_ledger, check_sums, enrolled, wait_for_releases
from tests.scenarios.harness import Parts, parts, write_study
from tests.scenarios.load import Follower, Leaver, Requester, Sender, Watcher, Worker, load
from tests.scenarios.studies import EXACT, private
from tests.store.local_study import states

POINTS = {
    "server": ("before commit", "after commit"),
    "publisher": ("caught up", "publication"),
}
ARRIVALS = {"server": 30, "publisher": 3}  # there, before it kills itself
PUBLISHER_SHARE, POINT_SHARE, DATABASE_SHARE = 0.3, 0.25, 0.05  # of kills
MIN_PAUSE_SECONDS = 0.1  # on average
AUDIT_SECONDS = 3.0


class Auditor(Worker):
    """``motet verify``, again and again, beside the load."""

    def __init__(self, study: Path) -> None:
        super().__init__()
        self._study = Study.load(study)

    def step(self) -> None:
        try:
            found = states(self._study)
        except InvalidStore:  # the database is killed too
            self._ending.wait(0.1)
            return
        assert "failed" not in found.values(), found
        self.answers += 1
        self._ending.wait(AUDIT_SECONDS)


@dataclass
class Figures:
    """What a leg did."""

    policy: str
    database: str
    seconds: float = 0.0
    kills: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    absences: list[float] = field(default_factory=list)  # seconds from the kill of a server to its readiness
    megabytes: tuple[float, float] = (0.0, 0.0)  # of the server, at first and at last


class Leg:
    """``cluster`` and ``url`` are PostgreSQL's; without them the study keeps its data in a file."""

    def __init__(
        self, folder: Path, policy: str, seconds: float, *, cluster: Cluster | None = None, url: str = "", seed: int
    ) -> None:
        budget = 2 * int(seconds) + 100  # of which it makes one a second
        self._study = write_study(folder, EXACT if policy == "exact" else private(budget), database=url)
        self._policy, self._seconds, self._cluster, self._seed = policy, seconds, cluster, seed
        self._rng = np.random.default_rng(seed)
        self.figures = Figures(policy, "PostgreSQL" if url else "SQLite")

    def run(self, kills: int) -> None:
        """So many at random moments of its time, and of half as long again where starts are slow."""
        with parts(self._study) as running:
            senders = enrolled(running, self._seed)
            others = self._others(running)
            with load(running, senders) as watcher, ExitStack() as held:
                for worker in others.values():
                    held.enter_context(worker)
                wait_for_releases(watcher, 1)
                before, begun = Resources.of(running.processes["server"]), time.monotonic()
                self._kill(running, [*senders, watcher, *others.values()], begun + self._seconds, kills)
                wait_for_releases(watcher)
                last = Resources.of(running.processes["server"])
                self.figures.seconds = time.monotonic() - begun
            self._check(running, senders, watcher)
            counts = {name: worker.answers for name, worker in others.items()}
        self.figures.megabytes = before.megabytes, last.megabytes
        done = sum((sender.done for sender in senders), Counter[str]())
        self.figures.calls = done + Counter(counts) + Counter(download=watcher.answers, release=max(watcher.seen))

    def _others(self, place: Parts) -> dict[str, Worker]:
        workers: dict[str, Worker] = {
            "forget": Leaver(place),
            "stream": Follower(place),
            "verify": Auditor(place.study),
        }
        return workers if self._policy == "private" else workers | {"release now": Requester(place)}

    def _check(self, place: Parts, senders: list[Sender], watcher: Watcher) -> None:
        check(place, senders, watcher)
        check_ledger(place)
        assert "failed" not in states(Study.load(place.study)).values()
        if self._policy == "exact":
            check_sums(place, senders)

    # --- kills ---

    def _kill(self, place: Parts, workers: list[Worker], until: float, kills: int) -> None:
        """Pauses are random, and as long as the time that is left allows besides the kills."""
        busy, end = 0.0, until + self._seconds / 2  # busy: seconds that a kill and the start after it take, on average
        while (done := self.figures.kills.total()) < kills and time.monotonic() < end:
            mean = (until - time.monotonic()) / (kills - done) - busy
            self._wait(workers, min(time.monotonic() + self._rng.exponential(max(mean, MIN_PAUSE_SECONDS)), end))
            begun = time.monotonic()
            self._kill_one(place)
            busy += 0.2 * (time.monotonic() - begun - busy)
        self._wait(workers, until)

    def _wait(self, workers: list[Worker], until: float) -> None:
        while True:
            for worker in workers:
                worker.check()
            if time.monotonic() >= until:
                return
            time.sleep(min(0.1, max(0.0, until - time.monotonic())))

    def _kill_one(self, place: Parts) -> None:
        if self._cluster is not None and self._rng.uniform() < DATABASE_SHARE:
            self._cluster.crash()
            self._cluster.start()
            self.figures.kills["PostgreSQL"] += 1
            return
        victim = "publisher" if self._rng.uniform() < PUBLISHER_SHARE else "server"
        if victim not in place.processes:  # it ended because its database was away: ``motet serve`` starts another one
            place.start(victim)
        begun = time.monotonic()
        if self._rng.uniform() < POINT_SHARE:
            place.fall(victim, str(self._rng.choice(POINTS[victim])), int(self._rng.integers(1, ARRIVALS[victim])))
            begun = time.monotonic()
            place.start(victim)
            self.figures.kills[victim] += 1  # to start the one that kills itself there
            self.figures.kills[f"{victim} at a named point"] += 1
        else:
            place.kill(victim)
            self.figures.kills[victim] += 1
        if victim == "server":
            self.figures.absences.append(time.monotonic() - begun)
