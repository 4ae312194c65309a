"""Scrubbing: what was removed leaves the files, whoever reads them meanwhile, and no write waits for it."""

from __future__ import annotations

import random
import shutil
import sqlite3
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from motet.store import clients
from motet.store import examples as stored
from motet.store import store as database
from motet.store.examples import Example, add
from motet.store.records import setting
from motet.store.store import Scrubbed, Scrubber, Store, read_only
from motet.store.writer import Writer
from tests.scenarios.harness import END, poll
from tests.store.empty_store import addition, enrolled, example
from tests.store.local_study import EXACT, local_study


def on_disk(folder: Path, value: bytes) -> bool:
    """In the database or its log. Its third file has no rows, and to close it would end the locks of this process."""
    return any(value in path.read_bytes() for path in (folder / "study.db", folder / "study.db-wal") if path.exists())


@contextmanager
def reader(folder: Path) -> Iterator[None]:
    """Another program that reads the database as it is now."""
    connection = sqlite3.connect(folder / "study.db", isolation_level=None)
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM examples").fetchone()
    yield
    connection.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "MAX_ERASURE_SECONDS", 0.2)


def test_beside_a_reader_removed_data_stay_no_write_waits_and_they_leave_when_it_ends(
    file_store: Store, tmp_path: Path, impatient: None, caplog: pytest.LogCaptureFixture
) -> None:
    del impatient
    ann, bob = enrolled(file_store, "ann", "bob")
    secret = struct.pack(">d", 1234.5678)
    writer = Writer(file_store)
    writer.submit(addition(ann.id, [example("1", 1234.5678)], 9)).result(END)
    with reader(tmp_path):
        removal = writer.submit(partial(stored.remove, client=ann.id, id="1"), scrub=True).result(END)
        done = [writer.submit(addition(bob.id, [example(str(k))], 999)).result(END).count for k in range(100)]
        assert done == list(range(1, 101))
        assert removal.erased.result(END) is False
        assert on_disk(tmp_path, secret)
        poll(lambda: "still in the database's files: a program reads" in caplog.text, END, "a warning")
    poll(lambda: not on_disk(tmp_path, secret), END, "removed data leave the disk, though nothing is written")
    again = writer.submit(partial(stored.replace, client=bob.id, example=example("1", 2.0)), scrub=True).result(END)
    assert again.erased.result(END) is True
    writer.close()


def test_copies_of_rows_that_were_moved_leave_the_disk_also_after_a_crash(
    file_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite moves rows when a page is full, and may leave their bytes in its unused part."""
    rng = random.Random(0)
    monkeypatch.setattr("secrets.token_hex", lambda n: rng.randbytes(n).hex())  # clients' ids decide where rows are
    people = [client.id for client in enrolled(file_store, *map(str, range(100)))]
    owners = rng.choices(people, k=400)
    values = [[1000.3 + (5 * k + j) / 7 for j in range(5)] for k in range(400)]
    with file_store.transaction() as c:
        for k, owner in enumerate(owners):
            new = [Example(str(y), bytes(8 * rng.choice([1, 1, 3, 40])), y, 1.0) for y in values[k]]
            stored.add_all(c, [addition(owner, new, 9999)])
    with file_store.transaction() as c:
        for client in people[:50]:
            clients.forget(c, client)
    (tmp_path / "crashed").mkdir()
    for name in ("study.db", "study.db-wal"):
        shutil.copy(tmp_path / name, tmp_path / "crashed" / name)
    assert file_store.scrub().result(END)
    opened = Store(f"sqlite:///{tmp_path}/crashed/study.db")
    assert opened.scrub().result(END)
    for folder in (tmp_path, tmp_path / "crashed"):
        data = b"".join((folder / name).read_bytes() for name in ("study.db", "study.db-wal"))
        for owner, ys in zip(owners, values):
            assert {struct.pack(">d", y) in data for y in ys} == {owner in people[50:]}
    opened.close()


def test_ids_of_a_forgotten_client_leave_the_log(file_store: Store, tmp_path: Path) -> None:
    """Those of single removals stay, so that a late repetition is a duplicate."""
    people = enrolled(file_store, "ann", "bob")
    for person in people:
        with file_store.transaction() as c:
            add(c, addition(person.id, [example(f"{person.name} on monday"), example("2")], 9))
            stored.remove(c, person.id, f"{person.name} on monday")
            stored.replace(c, person.id, example("2", 5.0))
    with file_store.transaction() as c:
        clients.forget(c, people[0].id)
    assert file_store.scrub().result(END)
    assert not on_disk(tmp_path, b"ann on monday")
    assert on_disk(tmp_path, b"bob on monday")


def test_ids_that_an_earlier_version_kept_leave_the_log(file_store: Store, tmp_path: Path) -> None:
    with file_store.transaction() as c:
        c.exec_driver_sql("DELETE FROM settings WHERE key = 'unscrubbed'")
        c.exec_driver_sql("UPDATE settings SET value = '1' WHERE key = 'schema'")
        c.exec_driver_sql("DROP TABLE chain")
        c.exec_driver_sql("INSERT INTO log VALUES (1, 'remove', 'forgotten', 'ann on monday')")
        c.exec_driver_sql("UPDATE head SET sequence = 1")
    file_store.close()
    opened = Store(f"sqlite:///{tmp_path / 'study.db'}")
    assert opened.scrub().result(END)
    assert not on_disk(tmp_path, b"ann on monday")
    with opened.snapshot() as c:
        assert setting(c, "unscrubbed") == ""
    opened.close()


def test_whoever_verifies_or_exports_keeps_nothing_in_the_files(tmp_path: Path) -> None:
    with local_study(tmp_path, EXACT) as study, read_only(study.study) as connection:
        (ann,) = connection.exec_driver_sql("SELECT id FROM clients WHERE name = 'ann'").scalars()
        study.do(clients.forget, ann)  # and scrub
        before = connection.exec_driver_sql("SELECT count(*) FROM examples").scalar_one()
        assert before == 6  # it reads the database of one moment
        with pytest.raises(OperationalError, match="readonly"):
            connection.exec_driver_sql("DELETE FROM examples")


# --- the thread ---


@contextmanager
def running(attempt: Callable[[], Scrubbed | None]) -> Iterator[Scrubber]:
    made = Scrubber(attempt)
    yield made
    made.close()
    assert made.request().result(0) is False


def test_an_attempt_is_repeated_until_it_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "MAX_ERASURE_SECONDS", END)
    outcomes: list[Scrubbed | None] = [None, None, Scrubbed(0.0)]
    with running(lambda: outcomes.pop(0) if len(outcomes) > 1 else outcomes[0]) as made:
        assert made.request().result(END)
        assert made.request().result(END)


def test_an_attempt_that_fails_is_no_end(impatient: None, caplog: pytest.LogCaptureFixture) -> None:
    del impatient
    full = threading.Event()
    full.set()

    def attempt() -> Scrubbed:
        if full.is_set():
            raise OSError("no space left")
        return Scrubbed(0.0)

    with running(attempt) as made:
        assert made.request().result(END) is False
        assert made.request().result(END) is False
        poll(lambda: "no space left; trying again" in caplog.text, END, "a warning")
        full.clear()
        caplog.set_level("INFO")
        poll(lambda: "have left" in caplog.text, END, "success without another request")
        assert caplog.text.count("no space left") == 1


def test_only_an_attempt_that_begins_after_the_request_answers_it() -> None:
    begun, may_end, attempts = threading.Semaphore(0), threading.Semaphore(0), []

    def attempt() -> Scrubbed:
        attempts.append(1)
        begun.release()
        may_end.acquire()
        return Scrubbed(0.0)

    with running(attempt) as made:
        first = made.request()
        begun.acquire()
        second = made.request()
        may_end.release()
        assert first.result(END)
        begun.acquire()
        assert not second.done()
        may_end.release(9)
        assert second.result(END)


def test_writers_rest_between_attempts_and_requests_do_not_wait_for_that() -> None:
    attempts = []

    def attempt() -> Scrubbed:
        attempts.append(1)
        return Scrubbed(1000.0)

    with running(attempt) as made:
        assert made.request().result(END)
        poll(lambda: made.request().result(END) is False, END, "an answer at once")
        assert len(attempts) == 1
