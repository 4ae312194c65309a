"""Whatever an operator does with backups, publishers and the study file, nobody sees more releases than are planned."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from motet.errors import InvalidStore
from motet.server.publisher import Publisher
from motet.store.backup import back_up
from motet.store.clients import enroll
from motet.store.examples import Addition, Example
from motet.store.releases import current_ledger, participation, pin
from motet.store.restore import restore
from motet.store.store import Store
from motet.study.study import Study
from tests.store.local_study import BEGIN, PRIVATE

PLANNED = 12
PER_STUDY = PRIVATE.replace("releases = 6", f"releases = {PLANNED}")
PER_CLIENT = PRIVATE.replace("releases = 6", f'releases = {PLANNED}\nper = "client"')
FASTER, SLOWER = 4, 17  # seconds, in place of 10


class History:
    """A study of one client from its first start on; after a restoration it goes on in another folder, and the old one
    is left."""

    def __init__(self, folder: Path, body: str) -> None:
        self.folder, self.now, self.seen, self.folders = folder, BEGIN, list[int](), 0
        self.backups: list[Path] = []
        folder.mkdir(exist_ok=True)
        (folder / "study.toml").write_text(body, encoding="utf-8")
        self.mechanism: Any = None
        self.client, self.taken_part, self.counted = "", 0, 0  # in how many releases: in fact, and by the database
        self.start(folder / "study.toml")
        with self.store.transaction() as connection:
            (ann,) = enroll(connection, ["ann"])
            Addition.of(ann.id, [Example("1", struct.pack("<d", 0.5), 1.0, 1.0)], 9)(connection)
        self.client = ann.id

    def start(self, path: Path) -> None:
        """A server that begins, with two publishers."""
        study = Study.load(path)
        if self.mechanism is None:
            self.mechanism = study.mechanism()
        vars(study)["_mechanism"] = self.mechanism  # the same for all, and slow to make
        store = Store(study.store_url)
        try:
            pin(store, study, now=self.now)
        except InvalidStore:
            store.close()
            raise
        self.close()
        self.study, self.store = study, store
        self.publishers = [self.publisher() for _ in range(2)]
        self.counted = self.count()

    def publisher(self, reached: Callable[[str], None] = lambda _: None) -> Publisher:
        return Publisher(self.store, self.study, noise=lambda total, _: total, clock=lambda: self.now, reached=reached)

    def close(self) -> None:
        if hasattr(self, "store"):
            self.store.close()

    # --- what may happen ---

    def wait(self, seconds: int) -> None:
        self.now += seconds

    def tick(self, seconds: int) -> None:
        self.now += seconds
        self.see(*(publisher.tick() for publisher in self.publishers))

    def stop(self, seconds: int) -> None:
        """A publisher is stopped in the midst of a release, and another one goes on for a while."""

        def reached(point: str) -> None:
            if point == "caught up":
                for _ in range(2):
                    self.see(self.publishers[1].tick())
                    self.now += seconds

        self.see(self.publisher(reached).tick())

    def back_up(self, _: int) -> None:
        self.backups.append(self.folder / f"{len(self.backups)}.zip")
        back_up(self.study, self.backups[-1], now=self.now)

    def restore(self, number: int) -> None:
        if self.backups:
            self.folders += 1
            file = self.backups[number % len(self.backups)]
            self.start(restore(file, self.folder / f"folder {self.folders}", now=self.now).study.path)

    def edit(self, seconds: int) -> None:
        """Another time between releases in the study file, and a restart; undone if that is refused."""
        path, text = self.study.path, self.study.path.read_text(encoding="utf-8")
        path.write_text(text.replace(f'"{self.study.release.seconds:g}s"', f'"{seconds}s"'), encoding="utf-8")
        try:
            self.start(path)
        except InvalidStore:
            path.write_text(text, encoding="utf-8")

    # --- what must hold ---

    def see(self, *versions: int | None) -> None:
        self.seen += [version for version in versions if version is not None]
        before, self.counted = self.counted, self.count()
        self.taken_part += self.counted - before

    def count(self) -> int:
        with self.store.snapshot() as connection:
            return participation(connection, self.client)

    def check(self) -> None:
        planned = self.study.ledger()
        assert planned is not None
        with self.store.snapshot() as connection:
            charged = current_ledger(connection, planned).releases_made
        if planned.per == "study":
            assert len(self.seen) <= charged <= PLANNED, (self.seen, charged)
        else:
            assert self.taken_part <= self.count() <= PLANNED, (self.taken_part, self.count())
        assert len(set(self.seen)) == len(self.seen), f"a version that was seen twice: {self.seen}"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    numbers = iter(range(10**6))
    return (tmp_path_factory.mktemp(f"history{number}") for number in numbers)


steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["tick", "tick", "stop", "wait"]), st.integers(1, 40)),
        st.tuples(st.sampled_from(["back_up", "restore"]), st.integers(0, 3)),
        st.tuples(st.just("edit"), st.sampled_from([FASTER, 10, 11, 13, SLOWER])),
    ),
    max_size=16,
)
TWO_PUBLISHERS = [("back_up", 0), ("wait", 10), ("stop", 10), ("restore", 0), *[("tick", 10)] * 2]
SHORTENED = [("back_up", 0), ("edit", FASTER), *[("tick", 4)] * 6, ("restore", 0), *[("tick", 10)] * 2]
OVERDUE = [
    ("wait", 25),
    ("back_up", 0),
    ("edit", SLOWER),
    ("tick", 1),
    ("tick", 1),
    ("restore", 0),
    *[("tick", 10)] * 2,
]


@pytest.mark.parametrize("body", [PER_STUDY, PER_CLIENT], ids=["per study", "per client"])
@given(steps=steps)
@example(steps=TWO_PUBLISHERS)
@example(steps=SHORTENED)
@example(steps=OVERDUE)
@settings(max_examples=10, deadline=None)
def test_nobody_sees_more_releases_than_are_planned(
    folders: Iterator[Path], body: str, steps: list[tuple[str, int]]
) -> None:
    """Nor is a client in more of them than it may, and none is in more than are charged."""
    history = History(next(folders), body)
    for step, value in [*steps, *[("tick", 20)] * 3]:
        getattr(history, step)(value)
        history.check()
    history.close()
