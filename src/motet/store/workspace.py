"""A folder of a command's own, near what it writes: backups are made there, and restored there, until they are whole.

A command that is killed leaves its folder behind, with a copy of a database in it. The next one removes that: a lock
inside, which the system ends with the process, tells whether somebody still works there.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from motet.store.lock import lock

LOCK = "in-use"
MAX_START_SECONDS = 60.0  # from the making of a folder to its lock


@contextmanager
def workspace(parent: Path, prefix: str) -> Iterator[Path]:
    """An empty folder for its owner alone, on the same disk as ``parent``'s files; at the end nothing is left of it."""
    for path in parent.glob(f"{prefix}*"):
        _remove_abandoned(path)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent) as folder:
        descriptor = os.open(Path(folder, LOCK), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            lock(descriptor)
            inside = Path(folder, "work")
            inside.mkdir(mode=0o700)
            yield inside
        finally:
            os.close(descriptor)


def _remove_abandoned(folder: Path) -> None:
    """Remove what a killed command left, and leave what another one works in."""
    with suppress(OSError):  # another one has the lock, or it is not ours
        if not (folder / LOCK).exists():
            if time.time() - folder.stat().st_mtime > MAX_START_SECONDS:
                folder.rmdir()  # only if it is empty
            return
        descriptor = os.open(folder / LOCK, os.O_RDWR)
        try:
            lock(descriptor)
            shutil.rmtree(folder)
        finally:
            os.close(descriptor)
