"""The kinds of database that may keep a study, SQLite and PostgreSQL, and how each is opened, checked and copied.

No other module asks which database it is. To add one, write its ``Dialect`` here, enter it in ``DIALECTS``, and let the
study file take its URLs (``motet.study.schema``). The tables in ``store.schema`` are the same for all: a database that
has no text without a length, no partial index or no binary column of any size needs variants of their types there.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

from sqlalchemy import Connection, create_engine, event, func, select
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.pool import NullPool, StaticPool

from motet.errors import InvalidStore
from motet.store import postgresql
from motet.store.database_files import OpenFiles, connect, prepare
from motet.store.election import Candidate, Unopposed, lock_holder
from motet.store.lock import ServerLock
from motet.study.schema import STORE_URLS
from motet.text import brief

SCRUB_WAIT_SECONDS = 0.05  # for readers to end, while writers wait
MAX_COPY_BYTES = 2**30  # of a database that is copied to be read
MAX_COPY_ATTEMPTS = 40  # four a second
POOL_WAIT_SECONDS = 10.0  # for a connection, if all are in use


class Dialect(ABC):
    """One kind of database: how to open it, scrub it after a removal, check it and copy it, and who may use it at once.

    The defaults are those of a database server, which has programs of its own for checks and backups.
    """

    name: ClassVar[str]
    advice: ClassVar[str]  # for a database that cannot be used
    extra: ClassVar[str] = "server"  # of motet's packages, in pyproject.toml: what installs its driver
    undamaged: ClassVar[str]  # what to report if there is no ``damage``
    shared: ClassVar[bool] = False  # whether many servers may use it at once
    delay: ClassVar[str]  # when deleted rows leave the files, if not at once
    snapshot_options: ClassVar[dict[str, Any]] = {}  # of a transaction that reads the database at one moment

    def reason(self, error: Exception) -> str:
        """Of an error, for clients: nothing that is secret, such as an address."""
        return type(error).__name__

    def message(self, error: Exception) -> str:
        """Of an error, for the operator."""
        return str(error).partition("\n")[0]

    def is_conflict(self, error: Exception) -> bool:
        """Whether a transaction was undone because of others, and is to be tried again."""
        del error
        return False

    def lock_setup(self, connection: Connection) -> None:
        """One process at a time creates or upgrades tables, until the end of the transaction."""
        del connection

    @abstractmethod
    def open(self, url: URL) -> Engine:
        """To read and write; transactions that write have the execution option ``writes``."""

    @abstractmethod
    def open_read_only(self, url: URL) -> Engine:
        """To read: a transaction sees the database at one moment, and nothing can be changed."""

    def create_engine(self, url: URL, **options: Any) -> Engine:
        """SQLAlchemy's, or a refusal that says what to install."""
        try:
            return create_engine(url, **options)
        except ModuleNotFoundError as error:
            raise InvalidStore(f"this database needs {error.name}: pip install 'motet[{self.extra}]'") from None

    def watch(self, url: URL) -> OpenFiles | None:
        """For an open database whose files may be deleted or replaced meanwhile."""
        del url
        return None

    def lock_server(self, url: URL, *, alone: bool = False) -> Callable[[], None]:
        """Refuse a second server of a database that takes only one, or whoever must be ``alone`` beside any server.

        Returns what ends the lock, as the end of the process does.
        """
        del url, alone
        return lambda: None

    def candidate(self, engine: Engine) -> AbstractContextManager[Candidate]:
        """This process in the election of the one that publishes, if many processes serve the database."""
        del engine
        return nullcontext(Unopposed())

    @abstractmethod
    def scrub(self, url: URL, *, compact: bool) -> bool | None:
        """Remove deleted rows from the files too: None if a reader needs them still, otherwise whether all are gone.

        ``compact``: also from pages where they were before other rows moved them.
        """

    def size(self, connection: Connection) -> int:
        """Bytes of all that a ``scrub`` writes anew."""
        raise NotImplementedError

    def damage(self, connection: Connection) -> list[str]:
        """What a check of pages and indexes reports, if this program can make one."""
        del connection
        return []

    def file(self, url: URL) -> Path | None:
        """The database's file; None if it is not one file."""
        del url
        return None

    def copy(self, url: URL, target: Path) -> None:
        """Write a database that is a file, as it is at one moment and without deleted rows, to a new file."""
        raise NotImplementedError


class SQLite(Dialect):
    """A file, with a write-ahead log beside it while it is open."""

    name = "SQLite"
    advice = "check the path and its permissions; restore a backup if the file is damaged"
    undamaged = "SQLite reports no damage to pages and indexes"
    delay = "the bytes leave the database's files in some minutes, or when no program reads the old ones any more"
    pragmas = (
        "journal_mode = WAL",
        "synchronous = FULL",
        "secure_delete = ON",
        "foreign_keys = ON",
        "busy_timeout = 10000",
        "cache_size = -65536",  # 64 MB: clients' rows lie apart
        "temp_store = MEMORY",  # a file elsewhere would have rows that nobody scrubs
    )

    def open(self, url: URL) -> Engine:
        prepare(self.file(url), self.advice)
        engine = self.create_engine(url)

        @event.listens_for(engine, "connect")
        def configure(connection: Any, _: Any) -> None:
            connection.isolation_level = None  # transactions begin at our BEGIN
            for pragma in self.pragmas:
                connection.execute(f"PRAGMA {pragma}").close()

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            """A writer takes its lock at once: one that waits until it writes may find the database changed."""
            writes = connection.get_execution_options().get("writes")
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

        return engine

    def open_read_only(self, url: URL) -> Engine:
        engine = self.create_engine(make_url("sqlite://"), creator=lambda: self._snapshot(url), poolclass=StaticPool)

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            connection.exec_driver_sql("PRAGMA query_only = ON")
            connection.exec_driver_sql("BEGIN")

        return engine

    def _snapshot(self, url: URL) -> sqlite3.Connection:
        """A copy in memory: who reads it for long delays no scrubbing. A very large file is read as it is."""
        source = connect(self.file(url), timeout=10.0)
        if self.file(url).stat().st_size > MAX_COPY_BYTES:
            return source
        with closing(source):
            copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            attempts = count(1)

            def progress(*_: int) -> None:
                if next(attempts) > MAX_COPY_ATTEMPTS:
                    raise sqlite3.OperationalError("database is locked")

            source.backup(copy, progress=progress)  # in one step; more only if somebody has locked the file
        return copy

    def reason(self, error: Exception) -> str:
        """SQLite's own, such as "database or disk is full"."""
        return str(error) if isinstance(error, sqlite3.Error) else super().reason(error)

    def watch(self, url: URL) -> OpenFiles:
        try:
            return OpenFiles(self.file(url))
        except sqlite3.Error as error:
            raise InvalidStore(f"{url.database}: expected a study's database, got {error}; {self.advice}") from None

    def lock_server(self, url: URL, *, alone: bool = False) -> Callable[[], None]:
        del alone  # a server always is
        return ServerLock(self.file(url), self.advice).release

    def scrub(self, url: URL, *, compact: bool) -> bool | None:
        """SQLite overwrites a row that is deleted, but its write-ahead log keeps the old pages until it is emptied, and
        a page from which other rows were moved may have a copy until the file is written anew.

        The log is emptied before that too: otherwise each attempt beside a reader would add the whole file to it.
        """
        with closing(connect(self.file(url), timeout=SCRUB_WAIT_SECONDS)) as connection:
            for pragma in ("secure_delete = ON", "synchronous = FULL", "temp_store = MEMORY"):
                connection.execute(f"PRAGMA {pragma}").close()
            if not _empty_log(connection):
                return None
            if not compact:
                return True
            connection.execute("VACUUM")
            return _empty_log(connection) or None

    def size(self, connection: Connection) -> int:
        pages, bytes_a_page = (connection.exec_driver_sql(f"PRAGMA {name}") for name in ("page_count", "page_size"))
        return int(pages.scalar_one()) * int(bytes_a_page.scalar_one())

    def damage(self, connection: Connection) -> list[str]:
        return [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check(1)") if row[0] != "ok"]

    def file(self, url: URL) -> Path:
        if not url.database or url.database.startswith((":memory:", "file:")):
            raise InvalidStore(f"store.url: expected the path of a file, got {brief(str(url.database))}")
        return Path(url.database)

    def copy(self, url: URL, target: Path) -> None:
        try:
            with closing(self._snapshot(url)) as source:
                source.execute("VACUUM INTO ?", (str(target),))
        except sqlite3.Error as error:
            full = getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
            advice = "make room where the copy is to be" if full else "check it with motet verify"
            raise InvalidStore(f"{url.database}: cannot be copied: {error}; {advice}") from None


def _empty_log(connection: sqlite3.Connection) -> bool:
    """Most of it while others write; then all of it, if readers of old pages end within the connection's time-out."""
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").close()
    (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy


class PostgreSQL(Dialect):
    """A database of a server, for any number of processes and machines at once."""

    name = "PostgreSQL"
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
            connect_args=postgresql.connect_options(url),
        )
        postgresql.bound_waits(engine, postgresql.ANSWER_SECONDS)
        postgresql.close_late(engine)
        return engine

    def open_read_only(self, url: URL) -> Engine:
        options = postgresql.connect_options(url, statement_timeout=0, idle_in_transaction_session_timeout=0)
        return self.create_engine(url, execution_options=self.snapshot_options, connect_args=options)

    def reason(self, error: Exception) -> str:
        return postgresql.reason(error)

    def message(self, error: Exception) -> str:
        return postgresql.message(error)

    def is_conflict(self, error: Exception) -> bool:
        return postgresql.code(error) in postgresql.CONFLICTS

    def lock_setup(self, connection: Connection) -> None:
        connection.execute(select(func.pg_advisory_xact_lock(postgresql.ADVISORY_LOCKS["setup"])))

    def lock_server(self, url: URL, *, alone: bool = False) -> Callable[[], None]:
        """Servers share it."""
        engine = self.create_engine(url, poolclass=NullPool, connect_args=postgresql.connect_options(url))
        with ExitStack() as held:
            if not held.enter_context(postgresql.advisory_lock(engine, "server", shared=not alone)):
                who = "is served, or moved" if alone else "is being moved"
                raise InvalidStore(f"{url.database} {who}: stop its servers first, or wait for the end of the move")
            return held.pop_all().close

    def scrub(self, url: URL, *, compact: bool) -> bool | None:
        options = postgresql.connect_options(url, **postgresql.SCRUB_LIMITS)
        engine = self.create_engine(url, poolclass=NullPool, connect_args=options)
        with postgresql.advisory_lock(engine, "scrub") as first:  # not for every server at once
            return postgresql.scrub(engine, compact=compact) if first else None

    def size(self, connection: Connection) -> int:
        tables = (select(func.pg_total_relation_size(table)) for table in postgresql.KEEPING)
        return sum(int(connection.execute(table).scalar_one()) for table in tables)

    def candidate(self, engine: Engine) -> AbstractContextManager[Candidate]:
        return lock_holder(engine)


DIALECTS: dict[str, Dialect] = {"sqlite": SQLite(), "postgresql": PostgreSQL()}  # by SQLAlchemy's name


def parse(url: str) -> tuple[Dialect, URL]:
    """The dialect of a database and its parsed URL."""
    try:
        parsed = make_url(url)
        dialect = DIALECTS[parsed.get_backend_name()]
        parsed.get_dialect()  # the driver is a known one
    except (ArgumentError, NoSuchModuleError, KeyError):
        raise InvalidStore(f"store.url: expected {STORE_URLS}, got {brief(url)}") from None
    return dialect, parsed


def dialect_of(connection: Connection) -> Dialect:
    return DIALECTS[connection.dialect.name]
