"""A backup put back, so that nothing is spent twice and no version has two meanings.

What was released after the backup was made is not in it. The clock bounds how many such releases there can be; they
count as given: their versions are skipped, and a private study's ledger is charged for them.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from motet.errors import InvalidData, InvalidStore
from motet.store import releases as publications
from motet.store.backup import Manifest, extract
from motet.store.releases import Restored
from motet.store.store import Store, put, setting
from motet.study.study import Study

MOST = 2**31 - 1  # a version that the tables can hold


@dataclass(frozen=True)
class Restoration:
    """A study that is in place again; ``due`` is its next release."""

    study: Study
    lost: Restored
    due: float  # seconds since 1970


def restore(file: Path, folder: Path, *, last: int | None = None, now: float | None = None) -> Restoration:
    """Put a backup into a new folder, whole or not at all.

    ``last`` is the newest version that anyone has seen. It replaces the clock's bound under ``exact``, where releases
    also come when asked for; a private study is charged for what the clock allows, or for more if ``last`` says so.
    """
    now = time.time() if now is None else now
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidStore(f"{folder} is there already: choose another folder, or move it away")
    try:
        folder.absolute().parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".restore-", dir=folder.absolute().parent) as near:
            inside = Path(near) / "study"
            inside.mkdir(mode=0o700)
            manifest = extract(file, inside)
            lost, due = _settled(_loaded(inside, manifest), manifest, last, now)
            os.rename(inside, folder)
    except OSError as error:
        raise InvalidStore(f"cannot write {folder}: {error.strerror}; choose another place") from None
    return Restoration(Study.load(folder / manifest.study), lost, due)


def _loaded(folder: Path, manifest: Manifest) -> Study:
    study = Study.load(folder / manifest.study)
    if Path(str(make_url(study.store_url).database)) != (folder / manifest.database).resolve():
        raise InvalidStore(f"{manifest.study}: expected a database beside it, got one elsewhere; take another backup")
    return study


def _settled(study: Study, manifest: Manifest, last: int | None, now: float) -> tuple[Restored, float]:
    """Count as given what may be, and put the next release behind it."""
    try:
        store = Store(study.store_url)
        with closing(store), store.transaction() as connection:
            if (reason := study.contradicts(setting(connection, "pinned") or "")) is not None:
                raise InvalidStore(f"{study.path.name}: {reason}; this backup cannot be served")
            due, every = float(setting(connection, "next") or now), study.release.seconds
            lost = _lost(connection, study, manifest, due, last, now)
            publications.count_as_given(connection, lost, study.ledger())
            if due <= now:
                due += every * (1 + (now - due) // every)
            put(connection, "next", repr(due))
            put(connection, "wanted", "no")
    except SQLAlchemyError as error:
        raise InvalidStore(f"expected a study's database in the backup, got {error}; take another backup") from None
    return lost, due


def _lost(
    connection: Connection, study: Study, manifest: Manifest, due: float, last: int | None, now: float
) -> Restored:
    """Which versions may have been given since the backup was made."""
    if now < manifest.made:
        raise InvalidData("expected a time after the backup was made, got an earlier one: set this machine's clock")
    version, planned = publications.given_version(connection), study.ledger()
    highest = planned.releases if planned is not None and planned.per == "study" else MOST
    most = version + scheduled(due, study.release.seconds, since=manifest.made, now=now)
    if last is None:
        last = min(most, highest)
    elif not version <= last <= highest:
        raise InvalidData(f"expected as the last version one from {version}, the backup's, to {highest}, got {last}")
    return Restored(version, last if planned is None else max(last, min(most, highest)), manifest.made, now)


def scheduled(due: float, every: float, *, since: float, now: float) -> int:
    """How many releases the clock can have brought after ``since``, the first of them due then or overdue."""
    if now < due:
        return 0
    return int((now - due) // every) - int(max(since - due, 0.0) // every) + 1
