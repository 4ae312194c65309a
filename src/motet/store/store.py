"""A study's database, opened: connections, transactions, upgrades of its tables, and deleted rows out of its files.

The database is the truth, and every process is stateless. ``schema`` has the tables, ``dialects`` what differs between
``sqlite`` and ``postgresql``; the other modules of this room are the statements. Their functions work inside a
transaction that the caller began.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, NamedTuple, TypeAlias

import sqlalchemy
from sqlalchemy import Table, inspect, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from motet.errors import Busy, InvalidStore, MotetError
from motet.store import schema
from motet.store.chain import begin as begin_chain
from motet.store.dialects import Dialect
from motet.store.postgresql import PostgreSQL
from motet.store.records import mark_deletion, put, setting
from motet.store.sqlite import SQLite
from motet.study.schema import STORE_URLS
from motet.study.study import Study
from motet.text import alternatives, brief

DIALECTS: dict[str, Dialect] = {"sqlite": SQLite(), "postgresql": PostgreSQL()}  # by SQLAlchemy's name
LOG = logging.getLogger("motet.store")
Connection: TypeAlias = sqlalchemy.Connection
Progress: TypeAlias = Callable[[int], AbstractContextManager[Callable[[int], None]]]  # over this many examples
DatabaseError = SQLAlchemyError  # whatever a driver reports inside a transaction
OPEN_WAIT_SECONDS = 1.0  # for what an earlier process did not scrub
REST_BYTES_PER_SECOND = 2_000_000  # of the file: writing it anew holds writes, so they get this time after it
MAX_ERASURE_SECONDS = 3.0  # until a request is answered
MAX_REST_SECONDS = 1.0  # that a request waits for the next attempt to begin
MIN_SCRUB_PAUSE_SECONDS, MAX_SCRUB_PAUSE_SECONDS = 0.02, 1.0  # after an attempt that failed


class Store:
    """Opens a study's database, creates or upgrades its tables, and begins transactions.

    A server opens it with ``serving``: a database file takes one server at a time.
    """

    def __init__(self, url: str, *, serving: bool = False) -> None:
        self.dialect, self._url = parse(url)
        with ExitStack() as opened:
            if serving:
                with self.refusing():
                    opened.enter_context(self.dialect.lock_server(self._url))
            self.engine = self.dialect.open(self._url)
            opened.callback(self.engine.dispose)
            self._check_files: Callable[[], None] = lambda: None
            with self.refusing():
                with self.transaction() as connection:
                    self.dialect.lock_setup(connection)
                    _create_or_upgrade(connection)
                    if serving:
                        refuse_moved(connection)
                self._check_files = opened.enter_context(self.dialect.watch(self._url))
            self._scrubber = Scrubber(self._try_to_scrub)
            opened.callback(self._scrubber.close)
            self.close = opened.pop_all().close
        wait([self.scrub()], timeout=OPEN_WAIT_SECONDS)  # an earlier process may have ended before it did

    def refusing(self) -> AbstractContextManager[None]:
        """Errors of the database as one line, for whoever opens it."""
        return refusing(self._url, self.dialect)

    def unavailable(self, error: SQLAlchemyError) -> Busy:
        """An error of the database, for clients."""
        reason = self.dialect.reason(getattr(error, "orig", None) or error)
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
            options = self.dialect.snapshot_options
            with self.engine.connect().execution_options(**options) as connection, connection.begin():
                yield connection
        except SQLAlchemyError as error:
            raise self.unavailable(error) from error

    # --- deleted rows leave the files ---

    def scrub(self) -> Future[bool]:
        """Remove deleted rows from the files too: True when they are gone, False if that takes long.

        It is tried until it succeeds, on a thread of its own; the dialect's ``delay`` is when.
        """
        return self._scrubber.request()

    def _try_to_scrub(self) -> Scrubbed | None:
        with self.snapshot() as connection:
            mark = setting(connection, "unscrubbed")
        if (gone := self.dialect.scrub(self._url, compact=mark != "")) is None:
            return None
        if mark == "":
            return Scrubbed(0.0, gone)
        with self.transaction() as connection:
            if setting(connection, "unscrubbed") == mark:  # nothing was deleted meanwhile
                put(connection, "unscrubbed", "")
            return Scrubbed(self.dialect.size(connection) // REST_BYTES_PER_SECOND, gone)


def parse(url: str) -> tuple[Dialect, URL]:
    """The dialect of a database and its parsed URL."""
    try:
        parsed = make_url(url)
        dialect = DIALECTS[parsed.get_backend_name()]
        parsed.get_dialect()  # the driver is a known one
    except (ArgumentError, NoSuchModuleError, KeyError):
        raise InvalidStore(f"store.url: expected {alternatives(*STORE_URLS)}, got {brief(url)}") from None
    return dialect, parsed


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
    """Insert ``count`` rows, with values in the order of the table's columns."""
    DIALECTS[connection.dialect.name].insert_rows(connection, table, rows, count, on_conflict)


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


# --- deleted rows leave the files, as soon as no reader needs them ---


class Scrubbed(NamedTuple):
    """An attempt that no reader prevented: how many seconds the writers shall have before the next one, and whether the
    bytes are gone; False if that is not ours to do."""

    rest: float
    gone: bool = True


class Scrubber:
    """Runs ``attempt`` until it succeeds; None means that a reader prevented it."""

    def __init__(self, attempt: Callable[[], Scrubbed | None]) -> None:
        self._attempt = attempt
        self._lock = threading.Lock()
        self._waiting: list[tuple[float, Future[bool]]] = []  # each with the end of its wait
        self._wanted, self._closed = threading.Event(), threading.Event()
        self._next = 0.0  # when the next attempt may begin, of time.monotonic
        self._thread: threading.Thread | None = None
        self._failing_since: float | None = None
        self._reported = ""  # the reason in the log

    def request(self) -> Future[bool]:
        """True as soon as all that is deleted by now has left the files; False if that takes longer."""
        answer: Future[bool] = Future()
        answer.set_running_or_notify_cancel()  # from here on nobody can cancel it
        with self._lock:
            now = time.monotonic()
            if self._closed.is_set() or self._next - now > MAX_REST_SECONDS:
                answer.set_result(False)
            else:
                self._waiting.append((now + MAX_ERASURE_SECONDS, answer))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="scrubber", daemon=True)
                self._thread.start()
        self._wanted.set()
        return answer

    def close(self) -> None:
        """End after the attempt that is under way. What is pending stays so."""
        with self._lock:
            self._closed.set()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()
        self._answer(self._taken(), False)

    def _run(self) -> None:
        pause = MIN_SCRUB_PAUSE_SECONDS
        while self._wanted.wait() and not self._closed.is_set():
            self._wanted.clear()
            waiting = self._taken()
            done = self._try()
            if done is None:
                self._put_back(waiting)
                rest = pause = min(2 * pause, MAX_SCRUB_PAUSE_SECONDS)
            else:
                self._answer(waiting, done.gone)
                rest, pause = done.rest, MIN_SCRUB_PAUSE_SECONDS
            self._next = time.monotonic() + rest
            self._closed.wait(rest)

    def _try(self) -> Scrubbed | None:
        """An attempt. If they fail for longer than requests wait, the reason is logged once, and then the success."""
        try:
            done, reason = self._attempt(), "a program reads the database for long"
        except Exception as error:  # a full disk, for example
            done, reason = None, str(error).partition("\n")[0]
        if done is not None:
            if self._reported:
                LOG.info("removed data have left the database's files")
            self._failing_since, self._reported = None, ""
            return done
        now = time.monotonic()
        self._failing_since = self._failing_since or now
        if now - self._failing_since > MAX_ERASURE_SECONDS and reason != self._reported:
            LOG.warning("removed data are still in the database's files: %s; trying again", reason)
            self._reported = reason
        return None

    def _taken(self) -> list[tuple[float, Future[bool]]]:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        return waiting

    def _put_back(self, waiting: list[tuple[float, Future[bool]]]) -> None:
        """Answer those that have waited long enough; the attempt is repeated for all of them."""
        now = time.monotonic()
        with self._lock:
            self._waiting += [one for one in waiting if one[0] > now]
        self._answer([one for one in waiting if one[0] <= now], False)
        self._wanted.set()

    def _answer(self, waiting: list[tuple[float, Future[bool]]], gone: bool) -> None:
        for _, answer in waiting:
            answer.set_result(gone)
