"""A database of every schema that ever landed is upgraded when it is opened, and says what it said before."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from motet.errors import InvalidStore
from motet.store import store as store_module
from motet.store.pins import pin
from motet.store.schema import VERSION
from motet.store.store import Store
from motet.study.study import Study
from tests.compatibility.schemas import SCHEMAS, answers, build
from tests.scenarios.harness import END, FORKS
from tests.store.local_study import LocalStudy, states

WRITTEN = sorted(int(path.name) for path in SCHEMAS.iterdir())
# Of the days when the number was 1 already, and the tables still changed: no count of examples with a client.
UNFINISHED = """
CREATE TABLE settings (key VARCHAR NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE head (one INTEGER NOT NULL PRIMARY KEY, sequence INTEGER NOT NULL);
CREATE TABLE clients (id VARCHAR NOT NULL PRIMARY KEY, name VARCHAR NOT NULL, token VARCHAR NOT NULL, revoked BOOLEAN);
CREATE TABLE examples (client VARCHAR NOT NULL, id VARCHAR NOT NULL, x BLOB, y FLOAT, noise FLOAT);
CREATE TABLE log (sequence INTEGER NOT NULL PRIMARY KEY, kind VARCHAR NOT NULL, client VARCHAR NOT NULL);
INSERT INTO settings VALUES ('schema', '1');
"""


def test_there_is_a_database_of_every_schema() -> None:
    """Whoever raises the number writes one of the schema before: ``tests/compatibility/schemas.py`` says how."""
    assert set(range(1, VERSION)) <= set(WRITTEN)
    assert max(WRITTEN) <= VERSION


def version(study: Path) -> str:
    with closing(sqlite3.connect(study.with_suffix(".db"))) as database:
        return str(database.execute("SELECT value FROM settings WHERE key = 'schema'").fetchone()[0])


@pytest.mark.parametrize("number", WRITTEN)
def test_it_is_upgraded_on_opening_and_answers_the_same(number: int, tmp_path: Path) -> None:
    path = build(number, tmp_path)
    study, then = Study.load(path), json.loads((SCHEMAS / str(number) / "answers.json").read_text(encoding="utf-8"))
    assert (version(path), answers(study)) == (str(number), then)  # before it is upgraded, too
    with closing(Store(study.store_url)) as store:
        pin(store, study, now=2e9)
    assert (version(path), answers(study)) == (str(VERSION), then)
    assert states(study) == {}
    again = LocalStudy(path, begun=False)
    again.now = 4e9
    assert again.release()[0] is not None  # it goes on
    again.store.close()
    assert states(study) == {}


def die_in_upgrade(url: str) -> None:
    """Open a database, and be killed after the statements of an upgrade, before its end."""
    steps = store_module.MIGRATIONS

    def killed(connection: store_module.Connection, number: int) -> None:
        steps[number](connection)
        os.kill(os.getpid(), signal.SIGKILL)

    store_module.MIGRATIONS = {number: lambda c, number=number: killed(c, number) for number in steps}  # type: ignore[misc]
    Store(url)


@pytest.mark.parametrize("number", [number for number in WRITTEN if number < VERSION])
def test_an_upgrade_that_is_killed_changes_nothing(number: int, tmp_path: Path) -> None:
    path = build(number, tmp_path)
    study = Study.load(path)
    then = answers(study)
    child = FORKS.Process(target=die_in_upgrade, args=(study.store_url,))
    child.start()
    child.join(END)
    assert child.exitcode == -signal.SIGKILL
    assert (version(path), answers(study)) == (str(number), then)
    with closing(Store(study.store_url)) as store:
        pin(store, study, now=2e9)
    assert (version(path), answers(study), states(study)) == (str(VERSION), then, {})


@pytest.mark.parametrize("number", [VERSION + 1, 0, "junk"])
def test_a_schema_that_is_not_known_is_refused_and_left_alone(number: object, tmp_path: Path) -> None:
    path = build(WRITTEN[-1], tmp_path)
    with closing(sqlite3.connect(path.with_suffix(".db"))) as database:
        database.execute("UPDATE settings SET value = ? WHERE key = 'schema'", (str(number),))
        database.commit()
    with pytest.raises(InvalidStore, match=f"schema 1 to {VERSION}, got {number}: upgrade motet, or choose another"):
        Store(Study.load(path).store_url)
    assert version(path) == str(number)


@pytest.mark.parametrize("statement", ["UPDATE settings SET value = x'00'", "UPDATE ledger SET scale = x''"])
def test_rows_of_another_type_are_refused_in_one_line(statement: str, tmp_path: Path) -> None:
    path = build(1, tmp_path)
    with closing(sqlite3.connect(path.with_suffix(".db"))) as database:
        database.execute("INSERT INTO ledger VALUES (1, 1.0)")
        database.execute(statement)
        database.commit()
    with pytest.raises(InvalidStore) as refused:
        Store(Study.load(path).store_url)
    assert "\n" not in str(refused.value)


def test_tables_that_never_were_a_version_are_refused_in_one_line(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "study.db")) as database:
        database.executescript(UNFINISHED)
    with pytest.raises(InvalidStore, match="expected a study's database, got") as refused:
        Store(f"sqlite:///{tmp_path / 'study.db'}")
    assert "\n" not in str(refused.value)
