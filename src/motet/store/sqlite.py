"""SQLite's side of a study's database: a file for its owner alone, with a write-ahead log, and one server at a time.

SQLite gives its write-ahead log and the log's index the rights of the database. The lock of a server is the system's,
on another file beside, so it ends with the process, however that ends; closing the database file itself anywhere in the
process would end SQLite's own locks.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, event
from sqlalchemy.engine import URL, Engine
from sqlalchemy.pool import StaticPool

from motet.errors import Busy, InvalidStore
from motet.store.dialects import Dialect
from motet.text import brief

LOG = logging.getLogger("motet.store")
SUFFIXES = ("", "-wal", "-shm")
FILES_MOVED = (
    "the database's files were deleted or replaced: the server answers again when it is restarted, or they are back"
)
SCRUB_WAIT_SECONDS = 0.05  # for readers to end, while writers wait
MAX_COPY_BYTES = 2**30  # of a database that is copied to be read
MAX_COPY_ATTEMPTS = 40  # four a second

if sys.platform == "win32":
    import msvcrt

    def lock(descriptor: int) -> None:
        os.lseek(descriptor, 2**20, os.SEEK_SET)  # beyond the number of the process, so that others can read this
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)

else:
    import fcntl

    def lock(descriptor: int) -> None:
        """Take the lock of an open file until it is closed, or the process ends; raises if somebody has it."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


class SQLite(Dialect):
    """A file, with a write-ahead log beside it while it is open."""

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
        engine = self.create_engine(URL.create("sqlite"), creator=lambda: self._snapshot(url), poolclass=StaticPool)

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

    def watch(self, url: URL) -> AbstractContextManager[Callable[[], None]]:
        return open_files(self.file(url), self.advice)

    def lock_server(self, url: URL, *, alone: bool = False) -> AbstractContextManager[None]:
        del alone  # a server always is
        return server_lock(self.file(url), self.advice)

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


# --- the files of an open database ---


def connect(database: Path, *, timeout: float) -> sqlite3.Connection:
    """To a file that exists, without SQLAlchemy; waits for others at most so many seconds."""
    address = f"{database.absolute().as_uri()}?mode=rw"
    return sqlite3.connect(address, timeout=timeout, isolation_level=None, uri=True, check_same_thread=False)


def prepare(database: Path, advice: str) -> None:
    """Make the file if there is none, and refuse what is not a file."""
    path = os.path.realpath(database)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        return
    except FileExistsError:
        reason = None if os.path.isfile(path) else "something that is not a file"
    except OSError as error:
        reason = error.strerror
    if reason is not None:
        raise InvalidStore(f"{database}: expected a study's database, got {reason}; {advice}")


@contextmanager
def open_files(database: Path, advice: str) -> Iterator[Callable[[], None]]:
    """The files of an open database, which nobody but their owner can read; the check raises if they were moved."""
    try:  # a connection that stays open: when the last one is closed, SQLite deletes the log, and makes another later
        connection = connect(database, timeout=10.0)
        connection.execute("SELECT count(*) FROM sqlite_master").close()
    except sqlite3.Error as error:
        raise InvalidStore(f"{database}: expected a study's database, got {error}; {advice}") from None
    with closing(connection):
        paths = [os.path.realpath(database) + suffix for suffix in SUFFIXES]  # SQLite keeps them where a link leads
        opened = {path: _identity(path) for path in paths}
        for path in paths:
            _narrow(path)

        def check() -> None:
            if any(_identity(path) != identity for path, identity in opened.items()):
                raise Busy(FILES_MOVED)

        yield check


def _identity(path: str) -> tuple[int, int] | None:
    """Of a file, whatever its name; None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _narrow(path: str) -> None:
    """Take the rights of others away. The file is not opened: closing it would end the locks of this process."""
    try:
        mode = os.stat(path).st_mode
        if mode & 0o077:
            os.chmod(path, mode & 0o700)
            LOG.warning("%s could be read by others: from now on only by its owner", path)
    except OSError as error:
        LOG.warning("%s may be read by others: %s", path, error.strerror)


# --- one server at a time ---


@contextmanager
def server_lock(database: Path, advice: str) -> Iterator[None]:
    """Refuses if another process has it; the file tells which."""
    try:
        names = database.stat().st_nlink if database.is_file() else 1
        descriptor = os.open(f"{os.path.realpath(database)}-lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise InvalidStore(f"{database}: expected a study's database, got {error.strerror}; {advice}") from None
    try:
        if names > 1:  # SQLite would keep a write-ahead log for each, which the others do not read
            raise InvalidStore(f"{database}: expected a file with one name, got {names} hard links: remove the others")
        try:
            lock(descriptor)
        except OSError:
            process = os.read(descriptor, 20).decode("ascii", "replace").strip()
            raise InvalidStore(
                f"{database} is already served, by process {process or 'unknown'}: stop that server first, "
                "or serve a study with another database"
            ) from None
        os.truncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(descriptor)
