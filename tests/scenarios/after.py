"""What holds after every fault, in one check: ``after``.

Nothing acknowledged is lost and nothing is counted twice; log, versions and ledger have no gap and no repeat; ``motet
verify`` finds nothing; other clients were served meanwhile; memory, threads and descriptors are back; and whoever was
refused was told what to do.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
import psutil

from motet import Disclosed, Engine
from motet.study.study import Study
from tests.scenarios.harness import END, Parts, Place, poll
from tests.scenarios.load import Bystander, Sender, Watcher, load
from tests.store.local_study import states

NAMES = ("ann", "bob", "cem", "dora")
PATIENCE_SECONDS = 20.0  # that a client may wait on a machine where many tests run
WARM_ANSWERS = 60  # after which a server has all threads and connections that this load needs
MARGIN_MEGABYTES, MARGIN_THREADS, MARGIN_DESCRIPTORS = 32.0, 3, 12  # within which load alone varies


class Resources(NamedTuple):
    """What a process holds."""

    megabytes: float
    threads: int
    descriptors: int

    @classmethod
    def of(cls, pid: int) -> Resources:
        process = psutil.Process(pid)
        return cls(process.memory_info().rss / 2**20, process.num_threads(), process.num_fds())

    def exceed(self, before: Resources) -> bool:
        margins = (MARGIN_MEGABYTES, MARGIN_THREADS, MARGIN_DESCRIPTORS)
        return any(now > then + margin for now, then, margin in zip(self, before, margins))


class Scene:
    """A study in use: four clients who change what they sent, one who downloads, and one who notes every refusal."""

    def __init__(self, place: Parts, *, seed: int) -> None:
        self.place = place
        self.senders = enrolled(place, seed)
        with place.operator() as operator:
            (someone,) = operator.enroll(["bystander"])
        self.bystander = Bystander(place, someone)
        self._load = ExitStack()

    def __enter__(self) -> Self:
        self.watcher = self._load.enter_context(load(self.place, self.senders))
        self._load.enter_context(self.bystander)
        self.go_on()
        self.before = {pid: Resources.of(pid) for pid in self.place.processes.values()}
        self.bystander.begin()
        self.watcher.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._load.__exit__(kind, error, at)

    def go_on(self, answers: int = WARM_ANSWERS) -> None:
        """Wait until everybody is served: more answers to everyone, and a new release."""
        self.go_on_without_releases(answers)
        wait_for_releases(self.watcher, 1)

    def go_on_without_releases(self, answers: int = WARM_ANSWERS) -> None:
        marks = [(worker, worker.answers + answers // len(NAMES)) for worker in (*self.senders, self.bystander)]
        wait_for_answers(self.senders, answers)
        poll(lambda: all(worker.answers >= mark for worker, mark in marks), END, "everybody is served again")

    def allow_memory(self) -> None:
        """What a first crowd leaves in the allocator of a process is not given back, and so no leak if a second crowd
        leaves no more."""
        self.go_on()
        for pid, before in self.before.items():
            self.before[pid] = before._replace(megabytes=Resources.of(pid).megabytes)

    def end(self) -> None:
        """End the load, and report its errors."""
        self._load.close()


def after(scene: Scene, *, told: str = "", restarted: bool = False) -> None:
    """All that is promised after a fault, while the service goes on and then at rest.

    ``told`` is what each refusal has said to whoever asked meanwhile, a pattern; without it nobody may have been
    refused. A server that was ``restarted`` was away for a moment.
    """
    scene.go_on()
    check_resources(scene.before, scene.place)
    scene.end()
    check(scene.place, scene.senders, scene.watcher, scene.bystander)
    check_ledger(scene.place)
    found = states(Study.load(scene.place.study))
    assert "failed" not in found.values(), found
    check_service(scene, told, restarted)


def check_service(scene: Scene, told: str, restarted: bool) -> None:
    """Downloads went on whatever the fault; refusals said why, and what to do."""
    refusals, lost = scene.bystander.refusals, scene.bystander.lost
    assert bool(refusals) == bool(told), refusals[:5]
    assert [message for message in refusals if not re.search(told, message)] == []
    if not restarted:
        assert lost == []
        assert scene.watcher.longest_wait < PATIENCE_SECONDS


def check_resources(before: dict[int, Resources], place: Parts) -> None:
    """Of those processes that still run."""
    for pid in set(before) & set(place.processes.values()):
        held = [before[pid]]

        def are_back(pid: int = pid, held: list[Resources] = held) -> bool:
            held.append(Resources.of(pid))
            return not held[-1].exceed(held[0])

        try:
            poll(are_back, END, "memory, threads and descriptors are back")
        except AssertionError as error:
            raise AssertionError(f"{error}: {held[0]}, now {held[-1]}") from None


# --- what the clients know, and what the database has ---


def enrolled(place: Place, seed: int) -> list[Sender]:
    with place.operator() as operator:
        return [Sender(place, person, seed + k) for k, person in enumerate(operator.enroll(NAMES))]


def wait_for_answers(senders: Sequence[Sender], more: int) -> None:
    def answers() -> int:
        for sender in senders:
            sender.check()
        return sum(sender.answers for sender in senders)

    enough = answers() + more
    poll(lambda: answers() >= enough, END, f"{more} more answers")


def wait_for_releases(watcher: Watcher, more: int = 3) -> None:
    """Three by one publisher, so that it folds what changed in between."""
    before = max(watcher.seen, default=0)

    def go_on() -> bool:
        watcher.check()
        return max(watcher.seen, default=0) >= before + more

    poll(go_on, END, "releases go on")


def check(place: Place, senders: Sequence[Sender], watcher: Watcher, bystander: Bystander | None = None) -> None:
    """The database has what the clients know, each once; log, versions and ledger have no gap and no repeat.

    Of an example's replacements the log has the last: the numbers of the others are counted as they go.
    """
    known = {(s.id, id): triple for s in senders for id, triple in s.held.items()}
    if bystander is not None:
        known |= {(bystander.id, id): triple for id, triple in bystander.held.items()}
    found = place.rows("select client, id, x, y, noise from examples where x is not null")
    rows = {(client, id): (struct.unpack("<d", x)[0], y, w) for client, id, x, y, w in found}
    assert rows == known
    assert len(found) == len(known)
    (newest,) = place.rows("select sequence from head")[0]
    numbers = [n for (n,) in place.rows("select sequence from log order by sequence")]
    superseded = place.rows("select value from settings where key = 'superseded'")
    assert numbers == sorted(set(numbers) & set(range(1, newest + 1)))
    assert newest - len(numbers) == (int(superseded[0][0]) if superseded else 0)
    counts = place.rows("select id, count from clients")
    assert dict(counts) == {client: sum(who == client for who, _ in known) for client, _ in counts}
    versions = [version for (version,) in place.rows("select version from releases order by version")]
    assert versions == list(range(1, len(versions) + 1))
    assert set(watcher.seen) <= set(versions)
    assert watcher.seen


def check_ledger(place: Place) -> None:
    """A private release is charged once; one without noise never."""
    union = "select 'ledger', version from ledger union all select 'releases', version from releases order by 1, 2"
    rows = place.rows(union)  # both at one moment
    charged, made = ([version for table, version in rows if table == name] for name in ("ledger", "releases"))
    planned = Study.load(place.study).ledger()
    assert charged == ([] if planned is None else made)
    assert planned is None or len(charged) <= planned.releases


def released_all(place: Place) -> Disclosed:
    """The served release, once it has all that there is."""
    (newest,) = place.rows("select sequence from head")[0]
    (version,) = poll(
        lambda: place.rows(f"select version from releases where sequence = {newest} limit 1"), END, "the last release"
    )[0]
    with place.client() as anyone:
        poll(lambda: anyone.study()["version"] >= version, END, "it is served")
        return anyone.disclosed()


def check_sums(place: Place, senders: Sequence[Sender]) -> None:
    """The last release is that of an engine which learned once what the clients know."""
    engine = Engine(Study.load(place.study).model)
    for sender in senders:
        X, y, noise = np.array(list(sender.held.values())).T
        engine.learn_many([sender.id] * len(y), X[:, None], y, noise)
    found, expected = released_all(place), engine.disclose()
    for name in ("Lambda", "eta", "theta"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-10, atol=1e-10, err_msg=name)
