"""A study's database, opened: connections and transactions, and upgrades of its tables.

The database is the truth, and every process is stateless. ``schema`` has the tables, ``dialects`` what differs between
SQLite and PostgreSQL; the other modules of this room are the statements. Their functions work inside a transaction that
the caller began.
"""

from __future__ import annotations

import os
import secrets
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import chain, islice
from typing import Any, TypeAlias

import sqlalchemy
from sqlalchemy import Table, inspect, select
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from motet.errors import Busy, InvalidStore, MotetError
from motet.store import postgresql, schema
from motet.store.chain import begin as begin_chain
from motet.store.dialects import Dialect, parse
from motet.store.election import Candidate
from motet.store.scrubber import Scrubbed, Scrubber
from motet.store.settings import put, setting
from motet.study.study import Study

Connection: TypeAlias = sqlalchemy.Connection
DatabaseError = SQLAlchemyError  # whatever a driver reports inside a transaction
OPEN_WAIT_SECONDS = 1.0  # for what an earlier process did not scrub
REST_BYTES_PER_SECOND = 2_000_000  # of the file: writing it anew holds writes, so they get this time after it
MIN_ROWS_AS_ARRAYS = 30  # of PostgreSQL; fewer are written faster as values
ROWS_PER_STATEMENT = (*range(1, 100), 100, 200, 400, 800)  # fewer than the 128 statements that Python's SQLite caches


class Store:
    """Opens a study's database, creates or upgrades its tables, and begins transactions.

    A server opens it with ``serving``: a database file takes one server at a time.
    """

    def __init__(self, url: str, *, serving: bool = False) -> None:
        self._dialect, self._url = parse(url)
        with ExitStack() as opened:
            if serving:
                with self.refusing():
                    opened.callback(self._dialect.lock_server(self._url))
            self.engine = self._dialect.open(self._url)
            opened.callback(self.engine.dispose)
            self._check_files: Callable[[], None] = lambda: None
            with self.refusing():
                with self.transaction() as connection:
                    self._dialect.lock_setup(connection)
                    _create_or_upgrade(connection)
                    if serving:
                        refuse_moved(connection)
                if (files := self._dialect.watch(self._url)) is not None:
                    opened.callback(files.close)
                    self._check_files = files.check
            self._scrubber = Scrubber(self._try_to_scrub)
            opened.callback(self._scrubber.close)
            self.close = opened.pop_all().close
        wait([self.scrub()], timeout=OPEN_WAIT_SECONDS)  # an earlier process may have ended before it did

    def refusing(self) -> AbstractContextManager[None]:
        """Errors of the database as one line, for whoever opens it."""
        return refusing(self._url, self._dialect)

    def unavailable(self, error: SQLAlchemyError) -> Busy:
        """An error of the database, for clients."""
        reason = self._dialect.reason(getattr(error, "orig", None) or error)
        return Busy(f"the database cannot be used now: {reason}; try again later")

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """All of it or nothing, durable when it ends."""
        self._check_files()
        with self.engine.connect().execution_options(writes=True) as connection, connection.begin():
            yield connection
        self._check_files()

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """The database at one moment, to read from."""
        self._check_files()
        try:
            options = self._dialect.snapshot_options
            with self.engine.connect().execution_options(**options) as connection, connection.begin():
                yield connection
        except SQLAlchemyError as error:
            raise self.unavailable(error) from error

    def lock_setup(self, connection: Connection) -> None:
        """Until this transaction ends, no other server that starts gets past this line."""
        self._dialect.lock_setup(connection)

    def is_conflict(self, error: SQLAlchemyError) -> bool:
        """Whether a transaction was undone because of others, and is to be tried again."""
        return self._dialect.is_conflict(error)

    def candidate(self) -> AbstractContextManager[Candidate]:
        """This process in the election of the one that publishes."""
        return self._dialect.candidate(self.engine)

    @property
    def shared(self) -> bool:
        """Whether other servers may use the database at the same time."""
        return self._dialect.shared

    # --- deleted rows leave the files ---

    def scrub(self) -> Future[bool]:
        """Remove deleted rows from the files too: True when they are gone, False if that takes long.

        It is tried until it succeeds, on a thread of its own; ``delay`` is when.
        """
        return self._scrubber.request()

    @property
    def delay(self) -> str:
        return self._dialect.delay

    def _try_to_scrub(self) -> Scrubbed | None:
        with self.snapshot() as connection:
            mark = setting(connection, "unscrubbed")
        if (gone := self._dialect.scrub(self._url, compact=mark != "")) is None:
            return None
        if mark == "":
            return Scrubbed(0.0, gone)
        with self.transaction() as connection:
            if setting(connection, "unscrubbed") == mark:  # nothing was deleted meanwhile
                put(connection, "unscrubbed", "")
            return Scrubbed(self._dialect.size(connection) // REST_BYTES_PER_SECOND, gone)


def is_shared(url: str) -> bool:
    """Whether many servers may use a database at the same time."""
    return parse(url)[0].shared


@contextmanager
def read_only(study: Study) -> Iterator[Connection]:
    """A study's database at one moment: nothing is changed or created, and a server may run meanwhile."""
    dialect, url = parse(study.store_url)
    file = dialect.file(url)
    if file is not None and os.path.lexists(file) and not file.is_file():
        raise InvalidStore(f"expected a database at {file}, got something that is not a file: {dialect.advice}")
    if file is not None and not file.is_file():
        raise InvalidStore(f"expected a database at {file}, got none: serve the study first, motet serve {study.path}")
    engine = dialect.open_read_only(url)
    try:
        with refusing(url, dialect), engine.connect() as connection, connection.begin():
            if not inspect(connection).has_table(schema.settings.name):
                raise InvalidStore(
                    f"{url.database}: expected a study's database, got one without its tables: serve the study first, "
                    f"motet serve {study.path}"
                )
            schema_version(connection)
            yield connection
    finally:
        engine.dispose()


@contextmanager
def refusing(url: URL, dialect: Dialect) -> Iterator[None]:
    """Errors of a database that is opened, as one line."""
    try:
        yield
    except MotetError:
        raise
    except (SQLAlchemyError, ValueError, TypeError, KeyError, ArithmeticError) as error:  # its rows may be anything
        if isinstance(error, UnicodeDecodeError):  # SQLite's message, with bytes of a damaged file
            cause = error.object.decode(errors="replace")
        else:
            cause = dialect.message(getattr(error, "orig", None) or error)
        raise InvalidStore(f"{url.database}: expected a study's database, got {cause}; {dialect.advice}") from None


def insert_rows(
    connection: Connection, table: Table, rows: Iterable[tuple[Any, ...]], count: int, *, on_conflict: str = ""
) -> None:
    """Insert ``count`` rows, with values in the order of the table's columns, many to a statement.

    Python's SQLite lets other threads run before every row of an executemany, which beside a busy event loop may take
    milliseconds a row; SQLAlchemy's own way to write many rows at once takes longer than the database.
    """
    if connection.dialect.paramstyle != "qmark" and count > MIN_ROWS_AS_ARRAYS:
        postgresql.insert_arrays(connection, table, rows, on_conflict)
        return
    names = ", ".join(table.c.keys())
    mark = "?" if connection.dialect.paramstyle == "qmark" else "%s"
    row = f"({', '.join([mark] * len(table.c))})"
    values = chain.from_iterable(rows)
    while count:
        batch = ROWS_PER_STATEMENT[bisect_right(ROWS_PER_STATEMENT, count) - 1]
        count -= batch
        statement = f"INSERT INTO {table.name} ({names}) VALUES {', '.join([row] * batch)} {on_conflict}"  # nosec B608  # names of ours
        connection.exec_driver_sql(statement, tuple(islice(values, batch * len(table.c))))


def schema_version(connection: Connection) -> int:
    """Of the tables; refuses one that this program does not have."""
    version = setting(connection, "schema") or ""
    if not version.isdecimal() or not 1 <= int(version) <= schema.VERSION:
        raise InvalidStore(
            f"expected a database of schema 1 to {schema.VERSION}, got {version or 'none'}: upgrade motet, or choose "
            "another database"
        )
    return int(version)


def refuse_moved(connection: Connection) -> None:
    """A study that was copied to another database is not served from the first, or its budget would be spent twice."""
    if (target := setting(connection, "moved")) is not None:
        raise InvalidStore(
            f"the study was moved to {target}: write that as url in the section [store] of its file; if the move was "
            "interrupted, run motet migrate again first"
        )


def mark_deletion(connection: Connection) -> None:
    """Deleted rows may still be in the files until a ``scrub`` that begins after the commit."""
    put(connection, "unscrubbed", secrets.token_hex(8))


def _create_or_upgrade(connection: Connection) -> None:
    schema.metadata.create_all(connection)
    if setting(connection, "schema") is None:
        connection.execute(schema.head.insert().values(one=schema.HERE, sequence=0))
        put(connection, "unscrubbed", "")
    else:
        for version in range(schema_version(connection), schema.VERSION):
            MIGRATIONS[version](connection)
    put(connection, "schema", str(schema.VERSION))


def _from_1_to_2(connection: Connection) -> None:
    """Version 1 kept ids of examples of forgotten clients, and had no chain."""
    forgotten = schema.log.c.client.not_in(select(schema.clients.c.id))
    connection.execute(schema.log.update().where(schema.log.c.kind != "add", forgotten).values(example=None))
    mark_deletion(connection)
    begin_chain(connection)


MIGRATIONS: dict[int, Callable[[Connection], None]] = {1: _from_1_to_2}
