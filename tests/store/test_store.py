"""The store: durable, counted once, and empty of what was removed."""

from __future__ import annotations

import sqlite3
import struct
import sys
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select, text
from sqlalchemy.dialects import registry
from sqlalchemy.schema import CreateTable

from motet.errors import InvalidData, InvalidStore, TooMany, UnknownExample, UnknownTask
from motet.store import clients
from motet.store import examples as stored
from motet.store.clients import client_with_token, enroll, list_clients
from motet.store.examples import Added, add
from motet.store.records import altered_since, changed_since, put, superseded
from motet.store.schema import PRESENT, VERSION, examples, head, log, metadata
from motet.store.store import DIALECTS, Store
from motet.store.writer import Write, commit
from tests.store.empty_store import addition, enrolled, example


def test_an_id_counts_once_also_after_it_was_removed(store: Store) -> None:
    (ann,) = enrolled(store, "ann")
    with store.transaction() as c:
        assert add(c, addition(ann.id, [example("a"), example("b"), example("a", 3.0)], 9)) == Added(2, 1, 2)
    with store.transaction() as c:
        assert add(c, addition(ann.id, [example("b", 7.0), example("c")], 9)) == Added(1, 1, 3)
        stored.remove(c, ann.id, "b")
    with store.transaction() as c:
        assert add(c, addition(ann.id, [example("b", 7.0)], 9)) == Added(0, 1, 2)
        stored.replace(c, ann.id, example("c", 5.0))
    with store.snapshot() as c:
        assert [(e.id, e.y) for e in stored.page(c, ann.id)] == [("a", 1.0), ("c", 5.0)]
        assert [e.id for e in stored.page(c, ann.id, after="a")] == ["c"]
        assert changed_since(c, 0) == (4, [ann.id])
        assert changed_since(c, 4) == (4, [])
    with pytest.raises(UnknownExample), store.transaction() as c:
        stored.remove(c, ann.id, "b")
    with pytest.raises(UnknownExample), store.transaction() as c:
        stored.replace(c, ann.id, example("b"))


def test_one_refusal_undoes_itself_and_nothing_else(store: Store) -> None:
    ann, bob = enrolled(store, "ann", "bob")
    done = commit(
        store,
        [
            addition(ann.id, [example("1")], 2),
            addition(bob.id, [example(str(k)) for k in range(3)], 2),
            addition("nobody", [example("1")], 2),
            addition(bob.id, [example("1")], 2),
        ],
    )
    assert [type(result) is Added for result in done] == [True, False, False, True]
    assert isinstance(done[1], TooMany)
    with store.snapshot() as c:
        assert c.execute(select(func.count()).select_from(examples)).scalar_one() == 2
        assert list(c.execute(select(log.c.sequence).order_by(log.c.sequence)).scalars()) == [1, 2]


def test_what_is_forgotten_is_not_on_the_disk(file_store: Store, tmp_path: Path) -> None:
    ann, bob = enrolled(file_store, "a name to be forgotten", "bob")
    secret, kept = 1234.5678, 8765.4321
    with file_store.transaction() as c:
        add(c, addition(ann.id, [example(f"{k}", secret + k) for k in range(200)], 999))
        add(c, addition(bob.id, [example("1", kept)], 9))
    assert on_disk(tmp_path, struct.pack(">d", secret + 7))
    with file_store.transaction() as c:
        assert clients.forget(c, ann.id) == 200
    assert file_store.scrub().result(60)
    for value in range(200):
        assert not on_disk(tmp_path, struct.pack(">d", secret + value))
    assert not on_disk(tmp_path, b"a name to be forgotten")
    assert on_disk(tmp_path, struct.pack(">d", kept))
    with file_store.snapshot() as c:
        assert client_with_token(c, ann.token) is None
    with pytest.raises(UnknownTask), file_store.transaction() as c:
        clients.forget(c, ann.id)


def on_disk(folder: Path, value: bytes) -> bool:
    """SQLite keeps numbers most significant byte first."""
    return any(value in path.read_bytes() for path in folder.iterdir())


def test_tokens_open_one_client_and_are_not_kept(store: Store, backend: str, tmp_path: Path) -> None:
    ann, bob = enrolled(store, "ann", "bob")
    with store.snapshot() as c:
        assert [client_with_token(c, t) for t in (ann.token, bob.token, "garbage", "")] == [ann.id, bob.id, None, None]
    assert backend != "sqlite" or not on_disk(tmp_path, ann.token.encode())
    with store.transaction() as c:
        clients.revoke(c, ann.id)
        assert client_with_token(c, ann.token) is None
        renewed = clients.rotate(c, ann.id)
        assert [client_with_token(c, t) for t in (ann.token, renewed)] == [None, ann.id]
        assert [(row["name"], row["examples"]) for row in list_clients(c)] == [("ann", 0), ("bob", 0)]
    for names in ([], ["x", "x"], [""], ["carl", "ann"]):
        with pytest.raises(InvalidData), store.transaction() as c:
            enroll(c, names)
    with store.snapshot() as c:
        assert len(list_clients(c)) == 2


steps_taken = st.tuples(st.sampled_from(["add", "replace", "remove", "forget"]), st.integers(0, 1), st.integers(0, 3))


@given(steps=st.lists(steps_taken))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_log_tells_all_that_happened_in_order(store: Store, steps: list[tuple[str, int, int]]) -> None:
    with store.transaction() as c:
        for table in reversed(metadata.sorted_tables):
            c.execute(table.update().values(sequence=0) if table is head else table.delete())
        put(c, "schema", str(VERSION))
    people = enrolled(store, "ann", "bob")
    held: dict[tuple[str, str], float] = {}
    used: set[tuple[str, str]] = set()
    for number, (kind, who, k) in enumerate(steps):
        client, id, y = people[who].id, str(k), float(number)
        actions: dict[str, Write] = {
            "add": addition(client, [example(id, y)], 9),
            "replace": partial(stored.replace, client=client, example=example(id, y)),
            "remove": partial(stored.remove, client=client, id=id),
            "forget": partial(clients.forget, client=client),
        }
        (done,) = commit(store, [actions[kind]])
        if isinstance(done, Exception):
            continue
        if kind == "add" and (client, id) not in used:
            held[client, id] = y
            used.add((client, id))
        elif kind == "replace":
            held[client, id] = y
        elif kind == "remove":
            del held[client, id]
        elif kind == "forget":
            held = {key: value for key, value in held.items() if key[0] != client}
    with store.snapshot() as c:
        found = {(row.client, row.id): row.y for row in c.execute(select(examples).where(PRESENT))}
        counts = {row["id"]: row["examples"] for row in list_clients(c)}
        numbers = list(c.execute(select(log.c.sequence).order_by(log.c.sequence)).scalars())
        newest, changed = changed_since(c, 0)
        altered = select(log.c.client, log.c.example, func.count()).where(log.c.kind.in_(["replace", "remove"]))
        per_example = c.execute(altered.where(log.c.example.is_not(None)).group_by(log.c.client, log.c.example)).all()
        gone = superseded(c)
    assert found == held
    assert {client for client, _ in used} <= set(changed)
    assert all(rows == 1 for *_, rows in per_example)  # an example has its last change alone
    assert counts == {who: sum(client == who for client, _ in held) for who in counts}
    assert len(numbers) == newest - gone
    assert not numbers or (numbers[0], numbers[-1]) == (1, newest)


def test_the_log_is_as_long_as_the_data_however_often_they_change(store: Store) -> None:
    """And whoever remembers a number hears of a change that came after it."""
    ann, bob = enrolled(store, "ann", "bob")
    for client in (ann, bob):
        commit(store, [addition(client.id, [example("1"), example("2")], 2)])
    for y in range(50):
        with store.snapshot() as c:
            before, _ = changed_since(c, 0)
        commit(store, [partial(stored.replace, client=ann.id, example=example("1", float(y)))])
        with store.snapshot() as c:
            assert changed_since(c, before) == (before + 1, [ann.id])
            assert altered_since(c, ann.id, before)
            assert not altered_since(c, bob.id, 0)
    with store.snapshot() as c:
        assert [row.kind for row in c.execute(select(log).order_by(log.c.sequence))] == ["add", "add", "replace"]
    commit(store, [partial(stored.remove, client=ann.id, id="1")])
    with store.snapshot() as c:
        assert [row.kind for row in c.execute(select(log).order_by(log.c.sequence))] == ["add", "add", "remove"]


def test_ids_of_removed_examples_are_kept_and_so_they_are_limited(store: Store) -> None:
    (ann,) = enrolled(store, "ann")
    for k in range(stored.REMOVED_PER_EXAMPLE):
        (added, removed) = commit(
            store, [addition(ann.id, [example(str(k))], 1), partial(stored.remove, client=ann.id, id=str(k))]
        )
        assert (added, removed) == (Added(1, 0, 1), None)
    (refused, repeated) = commit(store, [addition(ann.id, [example(id)], 1) for id in ("new", "0")])
    assert isinstance(refused, TooMany)
    assert "expected fewer than 10 removed examples, got 10" in str(refused)
    assert repeated == Added(0, 1, 0)


def test_a_store_is_opened_again_and_a_newer_one_is_refused(store_url: str) -> None:
    url = store_url
    store = Store(url)
    (ann,) = enrolled(store, "ann")
    store.close()
    store = Store(url)
    with store.transaction() as c:
        assert client_with_token(c, ann.token) == ann.id
        assert c.dialect.name != "sqlite" or c.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        put(c, "schema", "99")
    store.close()
    with pytest.raises(InvalidStore, match=r"expected a database of schema 1 to \d+, got 99: upgrade motet"):
        Store(url)


@pytest.mark.parametrize(
    "url", ["", "nonsense", "mysql://me:secret@localhost/x", "oracle+oracledb://x", "sqlite+other:///x"]
)
def test_other_databases_are_refused(url: str) -> None:
    with pytest.raises(InvalidStore, match=r'^store\.url: expected "sqlite:///file.db" or "postgresql') as refused:
        Store(url)
    assert "secret" not in str(refused.value)


def test_a_database_that_cannot_be_opened_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "folder.db").mkdir()
    (tmp_path / "junk.db").write_bytes(b"something else, long enough to be read as a header" * 20)
    for name, reason in (("folder.db", "something that is not a file"), ("junk.db", "file is not a database")):
        with pytest.raises(InvalidStore, match=f"{name}: expected a study's database, got {reason}; ") as refused:
            Store(f"sqlite:///{tmp_path / name}")
        assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("name", DIALECTS)
def test_every_database_can_have_the_tables(name: str) -> None:
    dialect = registry.load(name)()
    for table in metadata.sorted_tables:
        assert f"CREATE TABLE {table.name}" in str(CreateTable(table).compile(dialect=dialect))


def test_postgresql_is_refused_without_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql+psycopg://me:secret@127.0.0.1:1/study"
    with pytest.raises(
        InvalidStore, match=r"^study: expected .* refused.*; check that the server is running"
    ) as refused:
        Store(url)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(InvalidStore, match=r"needs psycopg: pip install 'motet\[postgres\]'") as missing:
        Store(url)
    for error in (refused, missing):
        assert "secret" not in str(error.value)
        assert len(str(error.value).splitlines()) == 1


def test_another_process_reads_while_one_writes(file_store: Store, tmp_path: Path) -> None:
    (ann,) = enrolled(file_store, "ann")
    reader = sqlite3.connect(tmp_path / "study.db")
    with file_store.transaction() as c:
        add(c, addition(ann.id, [example("1")], 9))
        assert reader.execute("select count(*) from examples").fetchone() == (0,)
    assert reader.execute("select count(*) from examples").fetchone() == (1,)
    reader.close()
