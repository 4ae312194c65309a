"""New files: none is overwritten unless asked for, and files with private data are readable by their owner alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from motet.errors import InvalidData, MotetError


def check_new(path: Path, *, force: bool = False) -> None:
    """Refuse a file that exists, unless ``force``; before the work, so that none is lost."""
    if path.exists() and not force:
        raise InvalidData(f"{path} already exists: choose another name, or overwrite it with --force")


@contextmanager
def new_file(
    path: Path, refusal: type[MotetError], *, text: bool = False, keep_unfinished: bool = False
) -> Iterator[IO[Any]]:
    """A file that did not exist, for its owner alone, and on disk at the end.

    If the block fails, the file is removed; with ``keep_unfinished`` only if it is empty.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise refusal(f"{path} already exists: choose another name, or move it away") from None
    with open(descriptor, "w", encoding="utf-8", newline="") if text else open(descriptor, "wb") as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            if not (keep_unfinished and file.tell()):
                path.unlink()
            raise


@contextmanager
def writing(path: Path, refusal: type[MotetError]) -> Iterator[None]:
    """An error of the system while a file or folder is written, as a refusal."""
    try:
        yield
    except OSError as error:
        raise refusal(f"cannot write {path}: {error.strerror}; choose another place") from None
