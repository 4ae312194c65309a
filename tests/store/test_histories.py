"""Whatever an operator does with backups, publishers and the study file, nobody loses more than was promised."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from motet.errors import InvalidStore, UnknownExample
from motet.server.publisher import Publisher
from motet.store.backup import back_up, restore
from motet.store.clients import enroll, summary
from motet.store.examples import Example, add, remove
from motet.store.pins import pin
from motet.store.releases import current_ledger, participation
from motet.store.schema import ledger
from motet.store.store import Store
from motet.study.study import Study
from tests.store.empty_store import addition
from tests.store.local_study import BEGIN, PRIVATE

PLANNED = 12
PER_STUDY = PRIVATE.replace("releases = 6", f'releases = {PLANNED}\nper = "study"')
PER_CLIENT = PER_STUDY.replace('per = "study"', 'per = "client"')
FASTER, SLOWER = 4, 17  # seconds, in place of 10
EDITS = {
    "every": [f'"{seconds}s"' for seconds in (FASTER, 10, 11, 13, SLOWER)],
    "epsilon": ["1.5", "3.0", "5.0"],
    "releases": ["6", "12", "20"],
    "per": ['"study"', '"client"'],
    "policy": ['"private"', '"exact"'],
}


class History:
    """A study of one client from its first start on; after a restoration it goes on in another folder, and the old one
    is left.

    What the client has lost is the sum of 1/s² over the releases that it is in, s their scale of noise; it was promised
    N/s² of N planned ones when it sent its example, or less.
    """

    def __init__(self, folder: Path, body: str, *, sent: bool) -> None:
        self.folder, self.now, self.seen, self.folders = folder, BEGIN, list[int](), 0
        self.backups: list[Path] = []
        folder.mkdir(exist_ok=True)
        (folder / "study.toml").write_text(body, encoding="utf-8")
        self.mechanism: Any = None
        self.client, self.sent, self.counted = "", 0, 0  # in how many releases it is, by the database
        self.lost, self.promised = 0.0, math.inf
        self.start(folder / "study.toml")
        with self.store.transaction() as connection:
            (ann,) = enroll(connection, ["ann"])
        self.client = ann.id
        if sent:
            self.send(0)

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
        if self.sent:  # a promise that became stricter counts too
            self.note_promise()

    def publisher(self, reached: Callable[[str], None] = lambda _: None, store: Store | None = None) -> Publisher:
        store = store or self.store
        return Publisher(store, self.study, noise=lambda total, _: total, clock=lambda: self.now, reached=reached)

    def close(self) -> None:
        if hasattr(self, "store"):
            self.store.close()

    # --- what may happen ---

    def send(self, _: int) -> None:
        self.sent += 1
        with self.store.transaction() as connection:
            add(connection, addition(self.client, [Example(f"{self.sent}", struct.pack("<d", 0.5), 1.0, 1.0)], 99))
        self.note_promise()

    def remove_all(self, _: int) -> None:
        """What was promised stays."""
        for number in range(self.sent):
            with suppress(UnknownExample), self.store.transaction() as connection:
                remove(connection, self.client, f"{number + 1}")

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

    def stop_for_an_edit(self, edit: tuple[str, str]) -> None:
        """A publisher is stopped in the midst of a release, and the server begins again with another file."""
        with closing(Store(self.study.store_url)) as store:
            late = self.publisher(lambda point: self.edit(edit) if point == "caught up" else None, store)
            self.see(late.tick(), late.tick())

    def back_up(self, _: int) -> None:
        self.backups.append(self.folder / f"{len(self.backups)}.zip")
        back_up(self.study, self.backups[-1], now=self.now)

    def restore(self, number: int) -> None:
        if self.backups:
            self.folders += 1
            file = self.backups[number % len(self.backups)]
            self.start(restore(file, self.folder / f"folder {self.folders}", now=self.now).study.path)

    def edit(self, change: tuple[str, str]) -> None:
        """Another value in the study file, and a restart; undone if that is refused."""
        path, text = self.study.path, self.study.path.read_text(encoding="utf-8")
        path.write_text(re.sub(rf"^{change[0]} = .*$", " = ".join(change), text, flags=re.MULTILINE), encoding="utf-8")
        try:
            self.start(path)
        except InvalidStore:
            path.write_text(text, encoding="utf-8")

    # --- what must hold ---

    def note_promise(self) -> None:
        planned = self.study.ledger()
        if planned is not None:
            self.promised = min(self.promised, planned.releases / planned.scale**2)

    def see(self, *versions: int | None) -> None:
        new = [version for version in versions if version is not None]
        self.seen += new
        before, self.counted = self.counted, self.count()
        scales = self.scales(new)
        if len(scales) < len(new):  # one without noise
            self.lost = math.inf if self.has_sent() else self.lost
        elif self.study.release.per == "study":
            self.lost += sum(scale**-2 for scale in scales)
        elif self.counted > before:
            self.lost += (self.counted - before) * scales[-1] ** -2

    def scales(self, versions: list[int]) -> list[float]:
        """Of the noise that was added, by the ledger."""
        with self.store.snapshot() as connection:
            rows = connection.execute(select(ledger.c.scale).where(ledger.c.version.in_(versions))).scalars()
            return list(rows)

    def has_sent(self) -> bool:
        with self.store.snapshot() as connection:
            return bool(summary(connection, self.client)["count"])

    def count(self) -> int:
        with self.store.snapshot() as connection:
            return participation(connection, self.client)

    def check(self) -> None:
        planned = self.study.ledger()
        assert self.lost <= self.promised * (1 + 1e-9), (self.lost, self.promised)
        assert len(set(self.seen)) == len(self.seen), f"a version that was seen twice: {self.seen}"
        if planned is None:
            return
        with self.store.snapshot() as connection:
            charged = current_ledger(connection, planned).releases_made
        if planned.per == "study":
            assert len(self.seen) <= charged <= planned.releases, (self.seen, charged)
        assert self.count() <= planned.releases


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    numbers = iter(range(10**6))
    return (tmp_path_factory.mktemp(f"history{number}") for number in numbers)


edits = st.sampled_from([(key, value) for key, values in EDITS.items() for value in values])
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["tick", "tick", "stop", "wait"]), st.integers(1, 40)),
        st.tuples(st.sampled_from(["back_up", "restore", "send", "remove_all"]), st.integers(0, 3)),
        st.tuples(st.sampled_from(["edit", "edit", "stop_for_an_edit"]), edits),
    ),
    max_size=16,
)
TICKS = [("tick", 10)] * 2
TWO_PUBLISHERS = [("back_up", 0), ("wait", 10), ("stop", 10), ("restore", 0), *TICKS]
QUICK, SLOW = ("every", f'"{FASTER}s"'), ("every", f'"{SLOWER}s"')
SHORTENED = [("back_up", 0), ("edit", QUICK), *[("tick", 4)] * 6, ("restore", 0), *TICKS]
OVERDUE = [("wait", 25), ("back_up", 0), ("edit", SLOW), ("tick", 1), ("tick", 1), ("restore", 0), *TICKS]
FEWER = [("back_up", 0), ("edit", ("releases", "6")), *[("tick", 10)] * 6, ("restore", 0), *[("tick", 10)] * 12]
MORE = [("back_up", 0), ("edit", ("epsilon", "5.0")), ("send", 0), *TICKS, ("restore", 0), ("send", 0), *TICKS]
IN_BETWEEN = [("wait", 10), ("stop_for_an_edit", ("epsilon", "1.5")), *TICKS * 6]
OTHERWISE = [("edit", ("policy", '"exact"')), ("send", 0), ("edit", ("policy", '"private"')), *TICKS]
WITHOUT_NOISE = [("send", 0), ("remove_all", 0), ("edit", ("policy", '"exact"')), ("send", 0), *TICKS]


@pytest.mark.parametrize("sent", [True, False], ids=["after its first example", "before"])
@pytest.mark.parametrize("body", [PER_STUDY, PER_CLIENT], ids=["per study", "per client"])
@given(steps=steps)
@example(steps=TWO_PUBLISHERS)
@example(steps=SHORTENED)
@example(steps=OVERDUE)
@example(steps=FEWER)
@example(steps=MORE)
@example(steps=IN_BETWEEN)
@example(steps=OTHERWISE)
@example(steps=WITHOUT_NOISE)
@settings(max_examples=10)
def test_nobody_loses_more_than_was_promised(
    folders: Iterator[Path], body: str, sent: bool, steps: list[tuple[str, Any]]
) -> None:
    """Nor are more releases seen than are charged, and none of one version twice."""
    live(next(folders), body, sent, steps)


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
@pytest.mark.parametrize("steps", [TWO_PUBLISHERS, FEWER, IN_BETWEEN], ids=["two publishers", "fewer", "in between"])
@pytest.mark.usefixtures("backend")
def test_nor_on_postgresql(tmp_path: Path, steps: list[tuple[str, Any]]) -> None:
    live(tmp_path, PER_CLIENT, True, steps)


def live(folder: Path, body: str, sent: bool, steps: list[tuple[str, Any]]) -> None:
    history = History(folder, body, sent=sent)
    for step, value in [*steps, *[("tick", 20)] * 3]:
        getattr(history, step)(value)
        history.check()
    history.close()
