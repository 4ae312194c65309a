"""PostgreSQL's side of a study's database: its connections, what its errors mean, and deleted rows out of its files.

A row that is deleted stays in PostgreSQL's files until the table is written anew, and in its write-ahead log until that
is removed. An owner of tables may have them written anew; only whoever runs the server can have the log removed.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from sqlalchemy import Table, event
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import DBAPIError

from motet.store.election import PUBLISHER_LOCK

CONNECT_SECONDS = 5
SILENCE_SECONDS = 30  # of a network that does not acknowledge what was sent, and of a server behind it
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
KEEPING = ("examples", "clients", "log", "releases", "settings")  # tables of which a removal deletes something
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


def connect_options(url: URL, **limits: int) -> dict[str, Any]:
    """Of libpq, unless the URL has them: a server or network that does not answer is an error, and not a wait."""
    given = str(url.query.get("options", ""))
    waits = {
        "connect_timeout": CONNECT_SECONDS,
        "keepalives_idle": SILENCE_SECONDS // 2,
        "keepalives_interval": SILENCE_SECONDS // 6,
        "keepalives_count": 3,
        "tcp_user_timeout": 1000 * SILENCE_SECONDS,
        "application_name": "motet",
    }
    options = " ".join(f"-c {name}={value}" for name, value in (SERVER_LIMITS | limits).items())
    return {key: value for key, value in waits.items() if key not in url.query} | {"options": f"{options} {given}"}


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


def reason(error: Exception) -> str:
    """For clients, without names and addresses."""
    known = code(error)
    return next((text for begin, text in REASONS.items() if known.startswith(begin)), "") or (
        f"error {known}" if known else "there is no connection to it"
    )


def message(error: Exception) -> str:
    """For the operator, on one line: of several attempts to connect, the last one's."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    attempts = [line for line in lines if "failed: " in line]
    text = (attempts or lines or [type(error).__name__])[-1 if len(attempts) > 1 else 0]
    return re.sub(r"^.*failed: (?=\S)", "", text)


def insert_arrays(connection: Connection, table: Table, rows: Iterable[tuple[Any, ...]], on_conflict: str) -> None:
    """Insert many rows, as one array for each column: a statement with a value for each takes five times as long."""
    names = ", ".join(table.c.keys())
    arrays = ", ".join(f"%s::{ARRAYS[column.type.python_type]}[]" for column in table.c)
    statement = f"INSERT INTO {table.name} ({names}) SELECT * FROM unnest({arrays}) {on_conflict}"  # nosec B608  # names of ours
    remaining = iter(rows)
    while part := list(islice(remaining, ROWS_PER_ARRAY)):
        connection.exec_driver_sql(statement, tuple(map(list, zip(*part))))


@contextmanager
def advisory_lock(engine: Engine, name: str, *, shared: bool = False) -> Iterator[bool]:
    """Whether this process has the lock in the block; the engine has no pool, so it ends with the connection."""
    function = "pg_try_advisory_lock_shared" if shared else "pg_try_advisory_lock"
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        yield bool(connection.exec_driver_sql(f"SELECT {function}({ADVISORY_LOCKS[name]})").scalar())


# --- deleted rows ---


def scrub(engine: Engine, *, compact: bool) -> bool | None:
    """None if another transaction still needs deleted rows; otherwise whether the log has none of them either."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        if compact and not all(_write_anew(connection, table) for table in KEEPING):
            return None
        return _remove_log(connection)


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
