"""The database goes away, is locked, full, read-only or cut off while it is in use; and what holds after that."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from motet.client.client import Client
from motet.errors import Busy
from motet.store.backup import back_up, restore
from motet.store.examples import page
from motet.store.store import read_only
from motet.study.study import Study
from tests.postgres import Cluster
from tests.scenarios.after import Scene, after
from tests.scenarios.faults import full_disk, proxy
from tests.scenarios.harness import END, Parts, parts, poll, write_study
from tests.scenarios.studies import EXACT, private
from tests.store.local_study import states

TOLD = "503 the database cannot be used now: .*(try again|restart)"


@contextmanager
def in_use(folder: Path, database: str, *, seed: int, body: str = EXACT) -> Iterator[Scene]:
    with parts(write_study(folder, body, database=database)) as running, Scene(running, seed=seed) as scene:
        yield scene


def refused(scene: Scene, times: int = 1) -> None:
    """Wait until somebody was told."""
    enough = len(scene.bystander.refusals) + times
    poll(lambda: len(scene.bystander.refusals) >= enough, END, "a refusal")


def name_of(url: str) -> str:
    return url.rpartition("/")[2]


# --- both databases ---


def test_a_locked_database_is_waited_for_and_then_refuses(tmp_path: Path, database: str) -> None:
    """Whoever holds the lock: a program of the operator's, or a server that was stopped in the middle."""
    with in_use(tmp_path, database, seed=1) as scene:
        with scene.place.database.connect() as other:
            other.exec_driver_sql("UPDATE head SET sequence = sequence" if database else "BEGIN IMMEDIATE")
            refused(scene)
        after(scene, told=TOLD)


def test_a_full_disk_takes_nothing_and_loses_nothing(
    tmp_path: Path, database: str, request: pytest.FixtureRequest
) -> None:
    """Nor is a private release charged that found no room, or made that was not charged."""
    with in_use(tmp_path, database, seed=2, body=private(1000)) as scene, scene.place.operator() as operator:
        fillers = operator.enroll([f"filler {k}" for k in range(20)])
        if database:
            full = request.getfixturevalue("postgres").full_disk()
        else:
            full = full_disk(scene.place.processes.values(), max(map(size, tmp_path.glob("study.db*"))) + 2**17)
        with full:
            last = next(k for k, filler in enumerate(fillers) if is_refused(scene.place, filler.token))
            refused(scene, 3)
        for filler in fillers[: last + 1]:
            operator.forget(filler.id)
        after(scene, told=TOLD)


def size(path: Path) -> int:
    return path.stat().st_size


def is_refused(place: Parts, token: str) -> bool:
    """Whether as much as a client may send finds no room."""
    with Client(place.url, token, retries=0) as client:
        try:
            client.send_many([[0.5]] * 2000, [1.0] * 2000, chunk=500)
        except Busy:
            return True
    return False


def test_a_clock_that_is_set_back_and_forward_spends_no_budget(tmp_path: Path, database: str) -> None:
    years = 1e8
    with in_use(tmp_path, database, seed=3, body=private(1000)) as scene, scene.place.operator() as operator:
        scene.place.set_clock(-years)
        poll(lambda: "set the clock" in (operator.study()["refused"] or ""), END, "the study says what to do")
        before = scene.place.rows("select version from ledger")
        scene.go_on_without_releases()
        assert scene.place.rows("select version from ledger") == before
        for ahead in (0.0, years):
            scene.place.set_clock(ahead)
            scene.go_on()
        after(scene)


def test_a_backup_under_load_has_all_that_was_acknowledged_and_its_restoration_pays(
    tmp_path: Path, database: str
) -> None:
    """What was acknowledged before the backup began is in it; what was released after it is charged."""
    with in_use(tmp_path, database, seed=4, body=private(1000)) as scene:
        acknowledged = {id: triple[1] for id, triple in scene.bystander.held.items()}
        back_up(Study.load(scene.place.study), tmp_path / "backup.zip")
        scene.go_on()
        after(scene)
        ((last,),) = scene.place.rows("select max(version) from ledger")
    restored = restore(tmp_path / "backup.zip", tmp_path / "restored", now=time.time()).study
    assert "failed" not in states(restored).values()
    with read_only(restored) as connection:
        kept = {example.id: example.y for example in page(connection, scene.bystander.id, limit=10_000)}
        assert connection.exec_driver_sql("select max(version) from ledger").scalar_one() >= last
    assert acknowledged.items() <= kept.items()


# --- SQLite ---


def test_files_that_are_moved_away_and_back(tmp_path: Path) -> None:
    with in_use(tmp_path, "", seed=4) as scene:
        files = list(tmp_path.glob("study.db*"))
        for path in files:
            path.rename(tmp_path / f"away-{path.name}")
        refused(scene, 3)
        for path in files:
            (tmp_path / f"away-{path.name}").rename(path)
        after(scene, told="503 the database's files were deleted or replaced: the server answers again when it is rest")


# --- PostgreSQL ---


def test_a_restart_of_postgresql(tmp_path: Path, postgres: Cluster, postgres_url: str) -> None:
    """By its operator, and after a crash, from which it recovers."""
    with in_use(tmp_path, postgres_url, seed=5) as scene:
        for end in (postgres.stop, postgres.crash):
            end()
            refused(scene)
            postgres.start()
            scene.go_on()
        after(scene, told=TOLD)


def test_a_connection_that_is_cut_at_a_commit_before_it_or_at_any_moment(
    tmp_path: Path, postgres: Cluster, postgres_url: str
) -> None:
    """Whether a commit that was not answered took place, nobody knows; what is sent again counts once."""
    with proxy(postgres.port) as between:
        url = f"postgresql+psycopg://motet@127.0.0.1:{between.port}/{name_of(postgres_url)}"
        with in_use(tmp_path, url, seed=6) as scene:
            for before in (True, False) * 2:
                cuts = between.cuts
                between.cut_at(b"COMMIT", before=before)
                poll(lambda cuts=cuts: between.cuts > cuts, END, "a cut")  # type: ignore[misc]
            while not scene.bystander.refusals:
                between.cut()
                scene.go_on(8)
            after(scene, told=TOLD)


def test_a_postgresql_that_only_reads(tmp_path: Path, postgres: Cluster, postgres_url: str) -> None:
    """As after a switch to a replica."""
    with in_use(tmp_path, postgres_url, seed=7) as scene:
        with postgres.only_reads():
            refused(scene, 3)
        after(scene, told=TOLD)
