"""PostgreSQL: removed data leave its files, writers beside each other lose nothing, and its failures are one line."""

from __future__ import annotations

import os
import re
import signal
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from motet.errors import Busy, InvalidStore
from motet.server.publisher import run
from motet.store import clients
from motet.store import examples as stored
from motet.store.clients import list_clients
from motet.store.examples import Added, Example, add
from motet.store.postgresql import BEAT_SECONDS, LEASE_SECONDS
from motet.store.records import lock
from motet.store.store import Store, read_only
from motet.store.writer import Writer, commit
from motet.study.study import Study
from tests.postgres import Cluster
from tests.scenarios.harness import END, poll
from tests.store.empty_store import addition, enrolled, example
from tests.store.local_study import EXACT, local_study

NAME, SECRETS = "a name to be forgotten", [1234.5678 + k for k in range(200)]


@pytest.fixture
def pg_store(postgres_url: str) -> Iterator[Store]:
    opened = Store(postgres_url)
    yield opened
    opened.close()


# --- removed data ---


def files_with(cluster: Cluster, values: list[bytes]) -> set[str]:
    """Folders of the cluster in which a file has one of the values."""
    found = set()
    for path in cluster.data.rglob("*"):
        try:
            data = path.read_bytes() if path.is_file() else b""
        except FileNotFoundError:  # PostgreSQL removed it meanwhile
            continue
        if any(value in data for value in values):
            found.add(path.relative_to(cluster.data).parts[0])
    return found


def forgotten(store: Store) -> list[bytes]:
    """What a client had that came and went, after others had come and PostgreSQL had made its statistics."""
    ann, bob = enrolled(store, NAME, "bob")
    large = [struct.pack("<d", y) * 500 for y in SECRETS[:20]]  # kept apart from their rows
    with store.transaction() as c:
        add(c, addition(ann.id, [example(f"id of {k}", y) for k, y in enumerate(SECRETS)], 999))
        add(c, addition(ann.id, [Example(f"large {k}", x, 1.0, 1.0) for k, x in enumerate(large)], 999))
        add(c, addition(bob.id, [example(f"bob's {k}", 8765.4321) for k in range(300)], 999))
        stored.remove(c, ann.id, "id of 7")
    with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as c:
        c.exec_driver_sql("ANALYZE")
        c.exec_driver_sql("CHECKPOINT")
    with store.transaction() as c:
        clients.forget(c, ann.id)
    return [NAME.encode(), b"id of 7", b"large 1", *(struct.pack("<d", y) for y in SECRETS[::20])]


def test_what_is_forgotten_is_not_in_the_data_folder(pg_store: Store, postgres: Cluster) -> None:
    secrets = forgotten(pg_store)
    assert files_with(postgres, secrets) == {"base", "pg_wal"}
    assert pg_store.scrub().result(END) is True
    assert files_with(postgres, secrets) == set()
    assert files_with(postgres, [struct.pack("<d", 8765.4321)]) == {"base"}


def test_an_owner_without_further_rights_empties_the_tables_and_says_that_the_log_stays(postgres: Cluster) -> None:
    postgres.execute("CREATE ROLE plain LOGIN")
    database = postgres.create()
    postgres.execute(f"ALTER DATABASE {database} OWNER TO plain")
    url = postgres.url(database).replace("motet@", "plain@")
    with closing(Store(url)) as store:
        ann, _ = enrolled(store, NAME, "bob")
        secrets = [NAME.encode(), struct.pack("<d", SECRETS[0])]
        with store.transaction() as c:
            add(c, addition(ann.id, [example("1", SECRETS[0])], 9))
            clients.forget(c, ann.id)
        assert store.scrub().result(END) is False
        postgres.execute("CHECKPOINT")
        assert files_with(postgres, secrets) == {"pg_wal"}
        postgres.execute("GRANT pg_checkpoint TO plain")
        postgres.execute("GRANT EXECUTE ON FUNCTION pg_switch_wal() TO plain", database)
        assert store.scrub().result(END) is True
        assert files_with(postgres, secrets) == set()
    postgres.drop(database)
    postgres.execute("DROP ROLE plain")


@contextmanager
def reader(url: str, statement: str) -> Iterator[None]:
    """Another program that reads the database as it is now."""
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        connection.execute(statement.encode())
        yield


@pytest.mark.parametrize("statement", ["SELECT count(*) FROM examples", "SELECT sequence FROM head"])
def test_beside_a_reader_removed_data_stay_no_write_waits_and_they_leave_when_it_ends(
    pg_store: Store, postgres_url: str, postgres: Cluster, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it has not read the table yet."""
    monkeypatch.setattr("motet.store.store.MAX_ERASURE_SECONDS", 0.5)
    ann, bob = enrolled(pg_store, "ann", "bob")
    with closing(Writer(pg_store)) as writer:
        writer.submit(addition(ann.id, [example("1", SECRETS[0])], 9)).result(END)
        secret = [struct.pack("<d", SECRETS[0])]
        with reader(postgres_url, statement):
            removal = writer.submit(lambda c: stored.remove(c, ann.id, "1"), scrub=True).result(END)
            done = [writer.submit(addition(bob.id, [example(str(k))], 99)).result(END).count for k in range(20)]
            assert done == list(range(1, 21))
            assert removal.erased.result(END) is False
        poll(lambda: not files_with(postgres, secret), END, "removed data leave the disk")


# --- many writers ---


def test_writers_of_many_processes_lose_nothing_and_count_nothing_twice(postgres_url: str) -> None:
    """Each with a store of its own, opened at once on an empty database; all add to the same clients."""
    with ThreadPoolExecutor(4) as pool:
        stores = list(pool.map(Store, [postgres_url] * 4))
        people = enrolled(stores[0], "ann", "bob")

        def write(k: int) -> list[Any]:
            results = []
            for j in range(30):
                both = [addition(p.id, [example(f"{j}"), example(f"{k} {j}")], 999) for p in people]
                results += commit(stores[k], both if k % 2 else both[::-1])
                if j % 10 == k:
                    results += commit(stores[k], [lambda c: clients.rotate(c, people[0].id)])
                    results += commit(stores[k], [partial(clients.enroll, names=[f"{k} {j}", f"{3 - k} {j}"])])
            return results

        added = [r for results in pool.map(write, range(4)) for r in results if isinstance(r, Added)]
    assert (len(added), sum(r.accepted for r in added), sum(r.duplicates for r in added)) == (240, 300, 180)
    with stores[0].snapshot() as c:
        counts = {row["name"]: row["examples"] for row in list_clients(c)}
        numbers = list(c.exec_driver_sql("SELECT sequence FROM log ORDER BY sequence").scalars())
    assert (counts["ann"], counts["bob"]) == (150, 150)
    assert numbers == list(range(1, len(numbers) + 1))
    for store in stores:
        store.close()


def test_a_connection_that_a_thread_has_while_the_store_closes_is_closed_by_it(postgres_url: str) -> None:
    store = Store(postgres_url)
    with store.snapshot() as late:
        driver = late.connection.driver_connection
        store.close()
        assert late.exec_driver_sql("SELECT 1").scalar() == 1
        assert driver is not None
        assert not driver.closed
    assert driver.closed


@pytest.mark.parametrize("code", ["40001", "40P01"])
def test_a_transaction_that_others_undid_is_tried_again(pg_store: Store, code: str) -> None:
    (ann,) = enrolled(pg_store, "ann")
    failures = [1, 1]

    def conflict(connection: Any) -> str:
        stored.add(connection, addition(ann.id, [example(str(len(failures)))], 9))
        if failures:
            failures.pop()
            connection.exec_driver_sql(f"DO $$ BEGIN RAISE 'conflict' USING ERRCODE = '{code}'; END $$")
        return "done"

    assert commit(pg_store, [conflict]) == ["done"]
    with pg_store.snapshot() as c:
        assert [e.id for e in stored.page(c, ann.id)] == ["0"]
    failures += [1] * 9
    with pytest.raises(OperationalError):
        commit(pg_store, [conflict])


def test_order_does_not_depend_on_the_databases_collation(postgres: Cluster) -> None:
    database = f"{postgres.create()}_icu"
    postgres.execute(f"CREATE DATABASE {database} TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'")
    assert postgres.execute("SELECT 'a' < 'B'", database) == [(True,)]
    names = ["B", "a", "Z", "é", "_", "10", "9", "a b", "ab"]
    with closing(Store(postgres.url(database))) as store:
        (ann, *_) = enrolled(store, *names)
        with store.transaction() as c:
            add(c, addition(ann.id, [example(name) for name in names], 99))
            assert [row["name"] for row in list_clients(c)] == sorted(names)
            assert [e.id for e in stored.page(c, ann.id)] == sorted(names)
            assert [e.id for e in stored.page(c, ann.id, after="Z", limit=2)] == ["_", "a"]
    postgres.drop(database)


# --- failures ---


def test_a_database_that_cannot_be_opened_is_one_line_without_the_password(
    postgres: Cluster, postgres_url: str, tmp_path: Path
) -> None:
    (postgres.data / "pg_hba.conf").write_text("host all strict all scram-sha-256\nhost all all all trust\n")
    postgres.execute("SELECT pg_reload_conf()")
    postgres.execute("CREATE ROLE strict LOGIN PASSWORD 'right'")
    address = f"127.0.0.1:{postgres.port}"
    for url, reason in {
        f"postgresql+psycopg://motet:secret@{address}/nothing": 'database "nothing" does not exist',
        f"postgresql+psycopg://strict:secret@{address}/study": 'password authentication failed for user "strict"',
        f"postgresql+psycopg://nobody:secret@{address}/study": 'role "nobody" does not exist',
        "postgresql+psycopg://me:secret@127.0.0.1:1/study": "Connection refused",
        "postgresql+psycopg://me:secret@localhost:1/study": "Connection refused",
        "postgresql+psycopg://me:secret@no.such.host.invalid/study": "no.such.host.invalid",
    }.items():
        for open in (Store, lambda url: Store(url, serving=True)):
            with pytest.raises(InvalidStore, match=f"expected a study's database, got .*{reason}.*; check that") as no:
                open(url)
            assert "secret" not in str(no.value)
            assert "\n" not in str(no.value)
    (tmp_path / "study.toml").write_text(f'{EXACT}[store]\nurl = "{postgres_url}"\n', encoding="utf-8")
    study = Study.load(tmp_path / "study.toml")
    with pytest.raises(InvalidStore, match="without its tables: serve the study first"), read_only(study):
        pass


def cut(cluster: Cluster, store: Store) -> None:
    """End all connections of a store's database, as a network that fails does."""
    cluster.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        f"WHERE datname = '{store.engine.url.database}' AND pid <> pg_backend_pid()"
    )


def test_a_connection_that_was_lost_is_replaced_and_nothing_acknowledged_is(pg_store: Store, postgres: Cluster) -> None:
    (ann,) = enrolled(pg_store, "ann")
    points: dict[str, Callable[[], None]] = {}
    with closing(Writer(pg_store, reached=lambda point: points.pop(point, lambda: None)())) as writer:

        def send(id: str) -> Any:
            return writer.submit(addition(ann.id, [example(id)], 99)).result(END)

        assert send("1").count == 1
        cut(postgres, pg_store)
        assert send("2").count == 2  # a connection that was idle
        points["before commit"] = lambda: cut(postgres, pg_store)
        with pytest.raises(Busy, match="it is shutting down or starting; try again later"):
            send("3")
        assert send("3") == Added(1, 0, 3)
        points["before commit"] = postgres.crash
        with pytest.raises(Busy, match=r"cannot be used now: (there is no connection to it|it is shutting).*try again"):
            send("4")
        with pytest.raises(Busy, match="there is no connection to it"):
            send("4")
        with pytest.raises(Busy, match="there is no connection to it"), pg_store.snapshot():
            pass
        postgres.start()
        assert send("4") == Added(1, 0, 4)
        points["after commit"] = lambda: cut(postgres, pg_store)
        assert send("5").count == 5


def test_whoever_stops_in_a_transaction_stops_nobody_for_long(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("motet.store.postgresql.SERVER_LIMITS", {"lock_timeout": 200, "statement_timeout": 5000})
    with closing(Store(postgres_url)) as one, closing(Store(postgres_url)) as other:
        (ann,) = enrolled(one, "ann")
        stopped, may_end = threading.Event(), threading.Event()

        def stop(connection: Any) -> None:
            lock(connection)
            stopped.set()
            may_end.wait(END)

        with closing(Writer(one)) as slow, closing(Writer(other)) as quick:
            slow.submit(stop)
            stopped.wait(END)
            with pytest.raises(Busy, match="another program has locked it; try again later"):
                quick.submit(addition(ann.id, [example("1")], 9)).result(END)
            may_end.set()
            poll(lambda: added(quick, ann.id), END, "it is written when the lock is free")


def test_a_server_that_hangs_at_a_commit_is_an_error_and_what_it_then_commits_counts_once(
    postgres_url: str, postgres: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("motet.store.postgresql.ANSWER_SECONDS", 0.5)
    hanging: list[int] = []

    def hang(point: str) -> None:
        if point == "before commit" and not hanging:
            database = postgres_url.rpartition("/")[2]
            busy = f"SELECT pid FROM pg_stat_activity WHERE datname = '{database}' AND state = 'idle in transaction'"
            ((pid,),) = postgres.execute(busy)
            hanging.append(int(str(pid)))
            os.kill(hanging[0], signal.SIGSTOP)

    with closing(Store(postgres_url)) as store:
        (ann,) = enrolled(store, "ann")
        with closing(Writer(store, reached=hang)) as writer:
            send = partial(writer.submit, addition(ann.id, [example("1")], 9))
            with pytest.raises(Busy, match="there is no connection to it; try again later"):
                send().result(END)
            os.kill(hanging[0], signal.SIGCONT)
            again = send().result(END)
            assert (again.accepted + again.duplicates, again.count) == (1, 1)


def added(writer: Writer, client: str) -> bool:
    try:
        return bool(writer.submit(addition(client, [example("1")], 9)).result(END).count == 1)
    except Busy:
        return False


def test_an_elected_process_that_falls_silent_is_replaced_within_ten_seconds(tmp_path: Path, postgres_url: str) -> None:
    """It knows that it may not be elected any more before PostgreSQL ends its session."""
    statements: list[str] = []
    with local_study(tmp_path, f'{EXACT}[store]\nurl = "{postgres_url}"\n') as study:
        event.listen(study.store.engine, "before_cursor_execute", lambda _, __, text, *___: statements.append(text))
        end = time.monotonic() + END
        run(study.store, study.study, until=lambda: "idle_session" in "".join(statements) or time.monotonic() > end)
    (seconds,) = re.findall(r"idle_session_timeout = '(\d+)s'", "\n".join(statements))
    assert LEASE_SECONDS < float(seconds) <= 10 - 2 * BEAT_SECONDS


def test_a_study_is_kept_in_postgresql_by_its_url(tmp_path: Path, postgres_url: str) -> None:
    with local_study(tmp_path, f'{EXACT}[store]\nurl = "{postgres_url}"\n') as study:
        assert study.release(2) == [1, 2]
    assert not (tmp_path / "study.db").exists()
