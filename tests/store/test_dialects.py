"""A kind of database from outside: what its ``Dialect`` has to say is enough for all that is done with a study."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine import URL, Engine

from motet.errors import InvalidStudy
from motet.store.backup import back_up, restore
from motet.store.dialects import Dialect
from motet.store.store import DIALECTS, Store
from motet.study.schema import STORE_URLS
from motet.study.study import Study
from tests.store.local_study import EXACT, PRIVATE, LocalStudy, local_study, states
from tests.store.test_migrate import moved, rows


class JournalDialect(SQLiteDialect_pysqlite):
    """SQLAlchemy's side of it: SQLite under another name, which no module of ours knows."""

    name = "journal"
    supports_statement_cache = True


class Journal(Dialect):
    """A database that keeps a journal of what it undoes; whether it is a file, others need not know."""

    name = "Journal"
    advice = "check its address"
    undamaged = "its pages are its own to check"
    delay = "deleted rows leave it at once"

    def open(self, url: URL) -> Engine:
        return self._engine(url, "journal_mode = DELETE", "foreign_keys = ON", "busy_timeout = 10000")

    def open_read_only(self, url: URL) -> Engine:
        return self._engine(url, "query_only = ON")

    def _engine(self, url: URL, *pragmas: str) -> Engine:
        engine = self.create_engine(url)

        @event.listens_for(engine, "connect")
        def configure(connection: Any, _: Any) -> None:
            connection.isolation_level = None
            for pragma in pragmas:
                connection.execute(f"PRAGMA {pragma}").close()

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            connection.exec_driver_sql(
                "BEGIN IMMEDIATE" if connection.get_execution_options().get("writes") else "BEGIN"
            )

        return engine

    def scrub(self, url: URL, *, compact: bool) -> bool | None:
        del url, compact
        return True


@pytest.fixture(autouse=True)
def extended(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    registry.register("journal", __name__, "JournalDialect")
    monkeypatch.setitem(DIALECTS, "journal", Journal())
    monkeypatch.setitem(STORE_URLS, "journal:///place", r"journal:///\S+")
    yield
    registry.impls.pop("journal")


def kept(body: str, folder: Path) -> str:
    return f'{body}\n[store]\nurl = "journal:///{folder / "study.journal"}"\n'


@pytest.mark.parametrize("body", [EXACT, PRIVATE], ids=["exact", "private"])
def test_it_keeps_a_study_and_its_backup_is_restored_anywhere(tmp_path: Path, body: str) -> None:
    with local_study(tmp_path, kept(body, tmp_path)) as study:
        (dora,) = study.enroll("dora")
        study.add(dora, *((0.01 * k, 1.0) for k in range(40)))
        assert study.release(2) == [1, 2]
        assert "failed" not in states(study).values()
        manifest = back_up(study.study, tmp_path / "backup.zip")
        assert manifest.version == 2
    restored = restore(tmp_path / "backup.zip", tmp_path / "anywhere").study
    assert not (tmp_path / "study.db").exists()
    assert rows(restored.store_url)["examples"] == rows(study.study.store_url)["examples"]


def test_a_study_is_moved_there_and_back(tmp_path: Path) -> None:
    with local_study(tmp_path, PRIVATE) as study:
        study.release(2)
    before = rows(study.study.store_url)
    there = moved(study.study, f"journal:///{tmp_path / 'there.journal'}", "there.toml")
    assert rows(there.store_url) == before
    back = moved(there, "sqlite:///back.db", "back.toml")
    assert rows(back.store_url) == before
    on = LocalStudy(back.path, begun=False)
    with closing(on.store):
        on.now = study.now
        assert on.release() == [3]


def test_no_other_address_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "study.toml").write_text(kept(EXACT, tmp_path), encoding="utf-8")
    monkeypatch.delitem(STORE_URLS, "journal:///place")
    with pytest.raises(InvalidStudy, match=r'store.url: expected "sqlite:///file.db" or "postgresql\+psycopg://…"'):
        Study.load(tmp_path / "study.toml")
    Store(f"journal:///{tmp_path / 'study.journal'}").close()
