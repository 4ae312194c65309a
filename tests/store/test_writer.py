"""The writer: answered means durable, in order, many in one commit."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest
from sqlalchemy import Connection, event
from sqlalchemy.exc import OperationalError

from motet.errors import Busy, TooMany
from motet.store import examples
from motet.store.store import Store
from motet.store.writer import Writer
from tests.scenarios.harness import END
from tests.store.empty_store import addition, enrolled, example


def paused(writer: Writer) -> tuple[threading.Event, threading.Event]:
    """A writer that is busy until told: the events that it has begun, and that it may end."""
    begun, may_end = threading.Event(), threading.Event()

    def wait(_: Connection) -> None:
        begun.set()
        may_end.wait(END)

    writer.submit(wait)
    begun.wait(END)
    return begun, may_end


def test_what_waits_is_committed_together_and_each_gets_its_own_answer(store: Store) -> None:
    ann, bob = enrolled(store, "ann", "bob")
    commits = []
    event.listen(store.engine, "commit", lambda _: commits.append(1))
    writer = Writer(store)
    _, may_end = paused(writer)
    futures = [writer.submit(addition(who.id, [example(f"{k}")], 20)) for k in range(30) for who in (ann, bob)]
    may_end.set()
    writer.close()
    refused = [future for future in futures if isinstance(future.exception(), TooMany)]
    assert len(refused) == 20
    assert len(commits) == 2
    with store.snapshot() as c:
        assert [len(examples.page(c, who.id)) for who in (ann, bob)] == [20, 20]


def test_a_full_queue_and_a_closed_writer_refuse(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motet.store.writer.MAX_QUEUED", 2)
    (ann,) = enrolled(store, "ann")
    writer = Writer(store)
    _, may_end = paused(writer)
    add = addition(ann.id, [example("1")], 9)
    taken = [writer.submit(add), writer.submit(add)]
    with pytest.raises(Busy, match="try again"):
        writer.submit(add)
    may_end.set()
    writer.close()
    assert [future.result(END).accepted for future in taken] == [1, 0]
    with pytest.raises(Busy):
        writer.submit(add)


def test_a_database_that_fails_answers_nobody_with_success(
    file_store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (ann,) = enrolled(file_store, "ann")
    writer = Writer(file_store)

    def fail() -> None:
        raise OperationalError("commit", {}, sqlite3.OperationalError("disk full"))

    with monkeypatch.context() as patch:
        patch.setattr(file_store, "transaction", fail)
        for _ in range(2):
            with pytest.raises(Busy, match="cannot be used now: disk full; try again later"):
                writer.submit(addition(ann.id, [example("1")], 9)).result(END)
    caplog.set_level("INFO")
    assert writer.submit(addition(ann.id, [example("1")], 9)).result(END).accepted == 1
    writer.close()
    assert [record.message for record in caplog.records] == [
        "the database cannot be written: disk full",
        "the database can be written again",
    ]


def test_who_went_away_stops_nobody_else(store: Store) -> None:
    (ann,) = enrolled(store, "ann")
    writer = Writer(store)
    _, may_end = paused(writer)
    first, second = (writer.submit(addition(ann.id, [example(id)], 9)) for id in ("gone", "here"))
    assert first.cancel()
    may_end.set()
    assert second.result(END).count == 1
    writer.close()


def test_what_the_database_undoes_with_another_command_is_not_acknowledged(tmp_path: Path) -> None:
    """After some errors SQLite undoes the whole transaction by itself, and takes a commit of nothing for a success."""
    store = Store(f"sqlite:///{tmp_path / 'study.db'}")
    (ann,) = enrolled(store, "ann")
    writer = Writer(store)
    _, may_end = paused(writer)

    def fill(connection: Connection) -> None:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
        try:
            connection.exec_driver_sql("INSERT INTO settings VALUES ('large', hex(zeroblob(100000)))")
        finally:
            connection.exec_driver_sql("PRAGMA max_page_count = 4294967294")

    one, other = writer.submit(addition(ann.id, [example("1")], 9)), writer.submit(fill)
    may_end.set()
    for answer in (one, other):
        with pytest.raises(Busy, match="database or disk is full; try again later"):
            answer.result(END)
    assert writer.submit(addition(ann.id, [example("1")], 9)).result(END).accepted == 1
    writer.close()
    store.close()
