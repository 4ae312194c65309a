"""The files of a database that is a file: for their owner alone, and still the ones that were opened.

SQLite gives its write-ahead log and the log's index the rights of the database.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from pathlib import Path

from motet.errors import Busy, InvalidStore

LOG = logging.getLogger("motet.store")
SUFFIXES = ("", "-wal", "-shm")
MOVED = "the database's files were deleted or replaced: the server answers again when it is restarted, or they are back"


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


def _paths(database: Path) -> list[str]:
    """Of all files; SQLite keeps them where a link leads."""
    return [os.path.realpath(database) + suffix for suffix in SUFFIXES]


class OpenFiles:
    """The files of an open database, which nobody but their owner can read. ``check`` raises if they are not in their
    places any more: what is written then would be lost."""

    def __init__(self, database: Path) -> None:
        # A connection that stays open: when the last one is closed, SQLite deletes the log, and makes another later.
        self._connection = connect(database, timeout=10.0)
        self._connection.execute("SELECT count(*) FROM sqlite_master").close()
        self._opened = [(path, _identity(path)) for path in _paths(database)]
        for path, _ in self._opened:
            _narrow(path)

    def check(self) -> None:
        for path, identity in self._opened:
            if _identity(path) != identity:
                raise Busy(MOVED)

    def close(self) -> None:
        self._connection.close()


def _identity(path: str) -> tuple[int, int] | None:
    """Of a file, whatever its name; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _narrow(path: str) -> None:
    """Take the rights of others away. The file is not opened: closing it would end the locks of this process."""
    try:
        mode = os.stat(path).st_mode
        if mode & 0o077:
            os.chmod(path, mode & 0o700)
            LOG.warning("%s could be read by others: from now on only by its owner", path)
    except OSError as error:
        LOG.warning("%s may be read by others: %s", path, error.strerror)
