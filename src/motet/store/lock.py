"""One server for a database that is a file: a lock on another file beside it, while the server's process lives.

The lock is the system's, so it ends with the process, however that ends. It is not on the database file itself: closing
that anywhere in the process would end SQLite's own locks.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from motet.errors import InvalidStore

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


class ServerLock:
    """Refuses if another process has it; the file tells which."""

    def __init__(self, database: Path, advice: str) -> None:
        path = Path(f"{os.path.realpath(database)}-lock")
        try:
            names = database.stat().st_nlink if database.is_file() else 1
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise InvalidStore(f"{database}: expected a study's database, got {error.strerror}; {advice}") from None
        try:
            if names > 1:  # SQLite would keep a write-ahead log for each, which the others do not read
                raise InvalidStore(
                    f"{database}: expected a file with one name, got {names} hard links: remove the others"
                )
            self._take(database)
        except BaseException:
            self.release()
            raise

    def _take(self, database: Path) -> None:
        try:
            lock(self._descriptor)
        except OSError:
            process = os.read(self._descriptor, 20).decode("ascii", "replace").strip()
            raise InvalidStore(
                f"{database} is already served, by process {process or 'unknown'}: stop that server first, "
                "or serve a study with another database"
            ) from None
        os.truncate(self._descriptor, 0)
        os.write(self._descriptor, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1
