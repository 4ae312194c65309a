"""Moving a study: nothing is lost, nothing is spent twice, whatever interrupts it."""

from __future__ import annotations

import os
import shutil
import signal
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from motet.errors import Busy, InvalidStore
from motet.server.publisher import Publisher
from motet.store import clients, examples, migrate, schema
from motet.store.backup import back_up, restore
from motet.store.examples import Example, add
from motet.store.store import Store
from motet.study.study import Study
from tests.scenarios.harness import END, FORKS
from tests.store.empty_store import addition
from tests.store.local_study import BEGIN, EVERY, EXACT, PER_CLIENT, PRIVATE, local_study, reopened, silent, states

URLS = Callable[[], str]
Copies = Callable[..., Study]
NOW = BEGIN + 4 * EVERY  # when they are in use


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Studies to copy, since each takes long to make."""
    folders = {body: tmp_path_factory.mktemp("template") for body in (EXACT, PRIVATE, PER_CLIENT)}
    for body, folder in folders.items():
        make(folder, body)
    return folders


@pytest.fixture
def in_use(tmp_path: Path, templates: dict[str, Path]) -> Callable[..., Study]:
    def copied(body: str, name: str = "study") -> Study:
        shutil.copytree(templates[body], tmp_path / name)
        return Study.load(tmp_path / name / "study.toml")

    return copied


def make(folder: Path, body: str) -> None:
    """A study with all that may be in its tables: removed, replaced, forgotten, revoked, released, retired."""
    with local_study(folder, body) as study:
        dora, emil, fay = study.enroll("dora", "Émil", "fay")
        for k in range(4):
            study.release()
            study.add(dora, (0.1 * k, 1.0), (0.3 * k, -0.0), first=2 * k)
        study.add(emil, (1.0, 2.0))
        study.add(fay, (1.0, 2.0))
        study.do(examples.remove, dora, "3")
        study.do(examples.replace, dora, Example("2", b"\0" * 8, 7.0, 2.0))
        study.do(clients.forget, fay)
        study.do(clients.revoke, emil)


def rows(url: str) -> dict[str, list[Any]]:
    """Of all tables, but for what says where the study is and which move brought it there."""
    with closing(Store(url)) as store, store.snapshot() as c:
        tables = {table.name: list(map(tuple, c.execute(select(table)))) for table in schema.metadata.sorted_tables}
    tables["settings"] = [row for row in tables["settings"] if row[0] not in ("moved", "move")]
    tables["head"] = [row[1:] for row in tables["head"]]
    return {name: sorted(found, key=repr) for name, found in tables.items()}


def moved(study: Study, url: str, file: str) -> Study:
    """The study after its move, with another file beside the old one."""
    migrate.migrate(study, url, silent)
    text = study.path.read_text(encoding="utf-8").partition("[store]")[0]
    path = study.path.with_name(file)
    path.write_text(f'{text}[store]\nurl = "{url}"\n', encoding="utf-8")
    return Study.load(path)


@pytest.mark.parametrize("body", [EXACT, PRIVATE, PER_CLIENT], ids=["exact", "private", "per client"])
def test_there_and_back_nothing_differs_and_the_study_goes_on(in_use: Copies, empty_postgres: URLS, body: str) -> None:
    study = in_use(body)
    before = rows(study.store_url)
    there = moved(study, empty_postgres(), "there.toml")
    assert rows(there.store_url) == before
    back = moved(there, "sqlite:///back.db", "back.toml")
    assert rows(back.store_url) == before
    there = moved(back, empty_postgres(), "again.toml")
    on = reopened(there.path, NOW)
    assert on.release() == [5]
    assert "failed" not in states(on).values()
    with on.store.snapshot() as c:
        (dora,) = [row["id"] for row in clients.list_clients(c) if row["name"] == "dora"]
    with on.store.transaction() as c:  # an id that was removed stays used
        assert add(c, addition(dora, [Example("3", b"\0" * 8, 1.0, 1.0)], 99)).duplicates == 1
    on.store.close()


def test_the_source_takes_and_releases_nothing_any_more(tmp_path: Path, in_use: Copies, empty_postgres: URLS) -> None:
    study = in_use(PRIVATE)
    there = moved(study, empty_postgres(), "there.toml")
    for old in (study, there):
        if old is there:
            moved(there, "sqlite:///back.db", "back.toml")
        with pytest.raises(InvalidStore, match=r"was moved to .*: write that as url in the section \[store\]"):
            Store(old.store_url, serving=True)
        with pytest.raises(InvalidStore, match="was moved to"):
            back_up(old, tmp_path / "backup.zip")
        with closing(Store(old.store_url)) as store:  # a server that does not know
            late = Publisher(store, old, clock=lambda: NOW + 100.0)
            assert late.tick() is None
            for write in (
                lambda c: examples.add(c, addition("ann", [Example("9", b"\0" * 8, 1.0, 1.0)], 99)),
                lambda c: clients.enroll(c, ["zoe"]),
                lambda c: clients.revoke(c, "ann"),
                lambda c: examples.remove(c, "ann", "0"),
            ):
                with pytest.raises(Busy, match="moved to another database"), store.transaction() as c:
                    write(c)


def test_a_move_is_refused_in_one_line(tmp_path: Path, in_use: Copies, empty_postgres: URLS, postgres_url: str) -> None:
    study, other = in_use(PRIVATE), in_use(EXACT, "other")
    url, before = empty_postgres(), rows(study.store_url)

    def refused(moving: Study, target: str, reason: str) -> None:
        with pytest.raises(InvalidStore, match=reason) as error:
            migrate.migrate(moving, target, silent)
        assert "\n" not in str(error.value)
        assert "secret" not in str(error.value)

    refused(study, f"sqlite:///{tmp_path}/study/study.db", "got the same one")
    refused(study, "sqlite:///../other/study.db", "got one that has a study: choose another one")
    refused(study, "mysql://me:secret@localhost/x", "store.url: expected")
    refused(study, "postgresql+psycopg://me:secret@127.0.0.1:1/x", "Connection refused")
    with closing(Store(study.store_url, serving=True)):
        refused(study, url, "already served")
    Store(study.store_url, serving=True).close()  # it was not sealed
    assert rows(study.store_url) == before
    there = moved(study, postgres_url, "there.toml")
    refused(study, url, "was moved to .*: end that one first")
    refused(other, postgres_url, "has a study")
    with closing(Store(there.store_url, serving=True)):
        refused(there, "sqlite:///back.db", "is served")
    assert migrate.migrate(study, postgres_url, silent).again


def test_a_copy_that_fails_leaves_the_source_as_it_was(in_use: Copies, empty_postgres: URLS) -> None:
    study, url = in_use(PRIVATE), empty_postgres()
    before = rows(study.store_url)
    for k, point in enumerate(("copied examples", "copied")):

        def fail(reached: str, point: str = point) -> None:
            if reached == point:
                raise OSError("no space left")

        with pytest.raises(OSError, match="no space"):
            migrate.migrate(study, url, silent, reached=fail)
        Store(study.store_url, serving=True).close()
        assert rows(study.store_url) == before, k
    moved(study, url, "there.toml")


def die_in_move(path: Path, url: str, point: str) -> None:
    """Move a study, and be killed at a point."""

    def reached(name: str) -> None:
        if name == point:
            os.kill(os.getpid(), signal.SIGKILL)

    migrate.migrate(Study.load(path), url, silent, reached=reached)


POINTS = {"postgresql": ("sealed", "copied examples", "copied", "committed"), "sqlite": ("copied", "committed")}


@pytest.mark.parametrize("target", POINTS)
def test_a_move_that_is_killed_at_any_point_is_ended_by_another_run(
    tmp_path: Path, in_use: Copies, postgres_url: str, target: str
) -> None:
    study = in_use(PRIVATE)
    before = rows(study.store_url)
    url = postgres_url
    if target == "sqlite":
        study, url = moved(study, postgres_url, "there.toml"), f"sqlite:///{tmp_path}/new.db"
    for point in POINTS[target]:
        move = FORKS.Process(target=die_in_move, args=(study.path, url, point))
        move.start()
        move.join(END)
        assert move.exitcode == -signal.SIGKILL
        with pytest.raises(InvalidStore, match="if the move was interrupted, run motet migrate again"):
            Store(study.store_url, serving=True)
        with pytest.raises(InvalidStore, match="end that one first"):
            migrate.migrate(study, "sqlite:///another.db", silent)
    assert migrate.migrate(study, url, silent).again
    assert rows(url) == before
    Store(url, serving=True).close()


def test_memory_does_not_grow_with_the_study(tmp_path: Path, empty_postgres: URLS) -> None:
    peaks = []
    for size in (1_000, 8_000):
        folder = tmp_path / str(size)
        folder.mkdir()
        with local_study(folder, EXACT) as study:
            (many,) = study.enroll("many")
            new = [Example(str(k), b"\0" * 8, 1.0, 1.0) for k in range(size)]
            with study.store.transaction() as c:
                add(c, addition(many, new, size))
        tracemalloc.start()
        migrate.migrate(study.study, empty_postgres(), silent)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 1e6


def test_a_backup_of_postgresql_is_restored_to_a_file_and_moved_back(
    tmp_path: Path, in_use: Copies, empty_postgres: URLS
) -> None:
    there = moved(in_use(PRIVATE), empty_postgres(), "there.toml")
    back_up(there, tmp_path / "backup.zip", now=NOW)
    done = restore(tmp_path / "backup.zip", tmp_path / "restored", now=NOW)
    assert done.study.store_url.startswith("sqlite:///")
    again = moved(done.study, empty_postgres(), "again.toml")
    on = reopened(again.path, NOW)
    assert on.release() == [5]
    assert states(on) == {}
    on.store.close()
