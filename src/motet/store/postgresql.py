"""PostgreSQL's side of a study's database: connections, errors, deleted rows out of its files, and leader election.

A row that is deleted stays in PostgreSQL's files until the table is written anew, and in its write-ahead log until that
is removed. An owner of tables may have them written anew; only whoever runs the server can have the log removed.

Of the processes that share a database the one that holds an advisory lock publishes. The lock belongs to a connection,
so it ends when the holder dies. A holder that is stopped or cut off shows nothing any more; PostgreSQL then ends its
connection, and another process is elected. An election saves work alone: the transaction that publishes sees to it that
nothing is released twice.
"""

from __future__ import annotations

import logging
import math
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from typing import Any, ClassVar

from sqlalchemy import Connection, Table, event, func, select
from sqlalchemy.engine import URL, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from motet.errors import InvalidStore
from motet.store.dialects import Dialect

LOG = logging.getLogger("motet.store")
POOL_WAIT_SECONDS = 10.0  # for a connection, if all are in use
PUBLISHER_LOCK = int.from_bytes(b"motet")  # the number of the advisory lock, in this database alone
BEAT_SECONDS = 1.0  # between two signs of life, and between two attempts to be elected
LEASE_SECONDS = 6.0  # after its last sign of life a process knows that it may not be the elected one any more,
SESSION_SECONDS = 8  # and after these PostgreSQL ends its connection
CONNECT_SECONDS = 5
NETWORK_SECONDS = 30  # of a network that does not acknowledge what was sent, and of a server behind it
ANSWER_SECONDS = 70.0  # more than the server's own limits
SERVER_LIMITS = {  # milliseconds, kept by the server
    "statement_timeout": 60_000,
    "lock_timeout": 10_000,
    "idle_in_transaction_session_timeout": 60_000,  # a process that was stopped holds no lock for longer
}
SCRUB_LIMITS = {"statement_timeout": 0, "lock_timeout": 50}  # while it waits for readers, others wait behind it
ADVISORY_LOCKS = {name: PUBLISHER_LOCK + k for k, name in enumerate(("server", "scrub", "setup"), start=1)}
ARRAYS = {str: "text", bytes: "bytea", float: "float8", int: "bigint", bool: "boolean"}  # types of elements
ROWS_PER_ARRAY = 5000
MIN_ROWS_AS_ARRAYS = 31  # fewer are written faster as values
SCRUBBED_TABLES = ("examples", "clients", "log", "releases", "settings")  # tables of which a removal deletes something
CONFLICTS = {"40001", "40P01"}  # serialization failure, deadlock: undone, and to be tried again
REASONS = {  # by how an error's code begins
    "08": "the connection to it was lost",
    "28": "it does not accept its user or password",
    "3D": "it does not exist",
    "42501": "its user lacks a right",
    "53": "it has no room, memory or connections left",
    "55P03": "another program has locked it",
    "57014": "it took too long",
    "57P": "it is shutting down or starting",
}
# Whether the server removes old parts of its log as soon as a checkpoint allows, and nobody else keeps them.
LOG_IS_REMOVED = """
SELECT current_setting('wal_recycle') = 'off' AND current_setting('archive_mode') = 'off'
    AND current_setting('wal_keep_size')::text IN ('0', '0MB') AND NOT EXISTS (SELECT FROM pg_replication_slots)
"""


class PostgreSQL(Dialect):
    """A database of a server, for any number of processes and machines at once."""

    advice = "check that the server is running, its address, database and user, and PGPASSWORD or ~/.pgpass"
    extra = "postgres"
    shared = True
    undamaged = "every example has its client; pages and indexes are PostgreSQL's to check: run pg_amcheck"
    delay = "the tables have them no more, but PostgreSQL's log has until its server removes that"
    snapshot_options: ClassVar[dict[str, Any]] = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}

    def open(self, url: URL) -> Engine:
        engine = self.create_engine(
            url,
            pool_pre_ping=True,  # a connection that was lost is replaced
            pool_timeout=POOL_WAIT_SECONDS,
            isolation_level="READ COMMITTED",  # after waiting for the lock of the log a writer sees what others wrote
            connect_args=connect_options(url),
        )
        bound_waits(engine, ANSWER_SECONDS)
        close_late(engine)
        return engine

    def open_read_only(self, url: URL) -> Engine:
        options = connect_options(url, statement_timeout=0, idle_in_transaction_session_timeout=0)
        return self.create_engine(url, execution_options=self.snapshot_options, connect_args=options)

    def reason(self, error: Exception) -> str:
        number = code(error)
        return next((text for begin, text in REASONS.items() if number.startswith(begin)), "") or (
            f"error {number}" if number else "there is no connection to it"
        )

    def message(self, error: Exception) -> str:
        """On one line: of several attempts to connect, the last one's."""
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        attempts = [line for line in lines if "failed: " in line]
        text = (attempts or lines or [type(error).__name__])[-1 if len(attempts) > 1 else 0]
        return re.sub(r"^.*failed: (?=\S)", "", text)

    def is_conflict(self, error: Exception) -> bool:
        return code(error) in CONFLICTS

    def insert_rows(
        self, connection: Connection, table: Table, rows: Iterable[tuple[Any, ...]], count: int, on_conflict: str
    ) -> None:
        """Many as one array for each column: a statement with a value for each takes five times as long."""
        if count < MIN_ROWS_AS_ARRAYS:
            super().insert_rows(connection, table, rows, count, on_conflict)
            return
        names = ", ".join(table.c.keys())
        arrays = ", ".join(f"%s::{ARRAYS[column.type.python_type]}[]" for column in table.c)
        statement = f"INSERT INTO {table.name} ({names}) SELECT * FROM unnest({arrays}) {on_conflict}"  # nosec B608  # names of ours
        remaining = iter(rows)
        while part := list(islice(remaining, ROWS_PER_ARRAY)):
            connection.exec_driver_sql(statement, tuple(map(list, zip(*part))))

    def lock_setup(self, connection: Connection) -> None:
        connection.execute(select(func.pg_advisory_xact_lock(ADVISORY_LOCKS["setup"])))

    @contextmanager
    def lock_server(self, url: URL, *, alone: bool = False) -> Iterator[None]:
        """Servers share it."""
        engine = self.create_engine(url, poolclass=NullPool, connect_args=connect_options(url))
        with advisory_lock(engine, "server", shared=not alone) as is_held:
            if not is_held:
                who = "is served, or moved" if alone else "is being moved"
                raise InvalidStore(f"{url.database} {who}: stop its servers first, or wait for the end of the move")
            yield

    def scrub(self, url: URL, *, compact: bool) -> bool | None:
        options = connect_options(url, **SCRUB_LIMITS)
        engine = self.create_engine(url, poolclass=NullPool, connect_args=options)
        with advisory_lock(engine, "scrub") as is_first:
            if not is_first:  # another server does it
                return None
            with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                if compact and not all(_write_anew(connection, table) for table in SCRUBBED_TABLES):
                    return None
                return _remove_log(connection)

    def size(self, connection: Connection) -> int:
        tables = (select(func.pg_total_relation_size(table)) for table in SCRUBBED_TABLES)
        return sum(int(connection.execute(table).scalar_one()) for table in tables)

    @contextmanager
    def election(self, engine: Engine) -> Iterator[Callable[[], bool]]:
        with closing(Candidate(engine)) as candidate:
            yield candidate.is_elected


# --- connections ---


def connect_options(url: URL, **limits: int) -> dict[str, Any]:
    """Of libpq, unless the URL has them: a server or network that does not answer is an error, and not a wait."""
    own = str(url.query.get("options", ""))
    waits = {
        "connect_timeout": CONNECT_SECONDS,
        "keepalives_idle": NETWORK_SECONDS // 2,
        "keepalives_interval": NETWORK_SECONDS // 6,
        "keepalives_count": 3,
        "tcp_user_timeout": 1000 * NETWORK_SECONDS,
        "application_name": "motet",
    }
    options = " ".join(f"-c {name}={value}" for name, value in (SERVER_LIMITS | limits).items())
    return {key: value for key, value in waits.items() if key not in url.query} | {"options": f"{options} {own}"}


def bound_waits(engine: Engine, seconds: float) -> None:
    """A server that was stopped, or hangs, keeps its connections: whoever waits for it longer than this gets an error.

    The driver is imported here, since not everybody has it.
    """
    from psycopg import Connection as Driver
    from psycopg import OperationalError

    class BoundedDriver(Driver[Any]):
        def wait(self, gen: Any, *options: Any, **others: Any) -> Any:
            return super().wait(_until(gen, time.monotonic() + seconds, self), *options, **others)

    def _until(gen: Any, end: float, driver: Driver[Any]) -> Any:
        """The driver's generator, which gets 0 from time to time if there is nothing to read."""
        try:
            waits_for = next(gen)
            while True:
                ready = yield waits_for
                if not ready and time.monotonic() > end:
                    driver.close()
                    raise OperationalError(f"it did not answer for {seconds:g} s")
                waits_for = gen.send(ready)
        except StopIteration as done:
            return done.value

    event.listen(engine, "do_connect", lambda _, __, given, named: BoundedDriver.connect(*given, **named))


def close_late(engine: Engine) -> None:
    """A connection that a thread still has when the engine is disposed of is closed when it is given back, not kept."""
    disposed = threading.Event()
    event.listen(engine, "engine_disposed", lambda _: disposed.set())
    event.listen(engine, "checkin", lambda _, record: record.invalidate() if disposed.is_set() else None)


def code(error: BaseException) -> str:
    """PostgreSQL's, of five letters; empty if the error is not from the server."""
    return getattr(getattr(error, "orig", None) or error, "sqlstate", None) or ""


@contextmanager
def advisory_lock(engine: Engine, name: str, *, shared: bool = False) -> Iterator[bool]:
    """Whether this process has the lock in the block; the engine has no pool, so it ends with the connection."""
    function = "pg_try_advisory_lock_shared" if shared else "pg_try_advisory_lock"
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        yield bool(connection.exec_driver_sql(f"SELECT {function}({ADVISORY_LOCKS[name]})").scalar())


# --- deleted rows ---


def _write_anew(connection: Connection, table: str) -> bool:
    """A table and its indexes in new files; False if a transaction that began earlier may still see a deleted row.

    Plain VACUUM would leave the bytes in the free part of their pages.
    """
    notices: list[str] = []
    driver = connection.connection.driver_connection
    assert driver is not None
    driver.add_notice_handler(listener := lambda notice: notices.append(notice.message_detail or ""))
    try:
        connection.exec_driver_sql(f"VACUUM (FULL, VERBOSE) {table}")
    except DBAPIError as error:
        if code(error) == "55P03":  # a reader has the table
            return False
        raise
    finally:
        driver.remove_notice_handler(listener)
    counts = [re.search(r"\d+", notice) for notice in notices]  # "0 dead row versions cannot be removed yet."
    return any(counts) and all(match is None or int(match[0]) == 0 for match in counts)


def _remove_log(connection: Connection) -> bool:
    """Whether the server has removed its log up to now. It takes two rights that an owner of tables need not have."""
    try:
        if not connection.exec_driver_sql(LOG_IS_REMOVED).scalar():
            return False
        connection.exec_driver_sql("SELECT pg_switch_wal()")
        connection.exec_driver_sql("CHECKPOINT")
    except DBAPIError as error:
        if code(error) == "42501":
            return False
        raise
    return True


# --- leader election ---


class Candidate:
    """One process of those that would publish: a thread tries to get the lock, and shows signs of life while it holds
    it."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._ended = engine, threading.Event()
        self._alive = -math.inf  # when the elected process last showed that it lives
        self._thread = threading.Thread(target=self._run, name="election", daemon=True)
        self._thread.start()

    def is_elected(self) -> bool:
        return time.monotonic() < self._alive + LEASE_SECONDS

    def close(self) -> None:
        self._ended.set()
        self._thread.join(LEASE_SECONDS)

    def _run(self) -> None:
        failure = ""
        while not self._ended.is_set():
            try:
                with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                    connection.detach()  # it is closed at the end, and the lock with it
                    failure = ""
                    self._stand(connection)
            except SQLAlchemyError as error:
                if (reason := type(getattr(error, "orig", None) or error).__name__) != failure:
                    LOG.error("cannot ask which publisher is elected: %s", reason)
                failure = reason
            self._alive = -math.inf
            self._ended.wait(BEAT_SECONDS)

    def _stand(self, connection: Connection) -> None:
        """Until the end, or until the connection breaks."""
        connection.exec_driver_sql(f"SET idle_session_timeout = '{SESSION_SECONDS}s'")
        attempt, sign = select(func.pg_try_advisory_lock(PUBLISHER_LOCK)), select(1)
        elected = False
        while not self._ended.is_set():
            now = time.monotonic()
            elected = bool(connection.execute(sign if elected else attempt).scalar())
            if elected:
                self._alive = now
            self._ended.wait(BEAT_SECONDS)
