"""A backup restored, so that nothing is spent twice and no version has two meanings.

Releases made after the backup are not in it. The clock limits how many there can be: from a backup on the budget of a
private study stays, and its time between releases never becomes shorter. All of them count as made: their versions are
skipped, and a private study's ledger is charged for them.
"""

from __future__ import annotations

import os
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from motet.errors import InvalidData, InvalidStore, MotetError
from motet.files import writing
from motet.store import pins, releases
from motet.store.backup import MAX_VERSION, Manifest, extract
from motet.store.dialects import parse
from motet.store.releases import Gap
from motet.store.store import Connection, Store
from motet.store.workspace import workspace
from motet.study.study import Study

ROUNDING_SECONDS = 1e-3  # in favour of more releases


@dataclass(frozen=True)
class Restoration:
    """A restored study; ``due`` is its next release."""

    study: Study
    gap: Gap
    due: float  # seconds since 1970


def restore(file: Path, folder: Path, *, last: int | None = None, now: float | None = None) -> Restoration:
    """Restore a backup to a new folder, whole or not at all.

    ``last`` is the newest version that anyone has seen. It replaces the clock's limit under ``exact``, where releases
    are also made on request; a private study is charged for what the clock allows, or for more if ``last`` is more.
    """
    now = time.time() if now is None else now
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidStore(f"{folder} already exists: choose another folder, or move it away")
    with writing(folder, InvalidStore):
        folder.absolute().parent.mkdir(parents=True, exist_ok=True)
        with workspace(folder.absolute().parent, ".restore-") as inside:
            manifest = extract(file, inside)
            gap, due = _skip_gap(_loaded(inside, manifest), manifest, last, now)
            os.rename(inside, folder)
    return Restoration(Study.load(folder / manifest.study), gap, due)


def _loaded(folder: Path, manifest: Manifest) -> Study:
    study = Study.load(folder / manifest.study)
    dialect, url = parse(study.store_url)
    if dialect.file(url) != (folder / manifest.database).resolve():
        raise InvalidStore(f"{manifest.study}: expected a database beside it, got one elsewhere; take another backup")
    return study


def _skip_gap(study: Study, manifest: Manifest, last: int | None, now: float) -> tuple[Gap, float]:
    """Count as made what may have been released since the backup, and schedule the next release after it."""
    try:
        store = Store(study.store_url)
        with closing(store), store.transaction() as connection:
            if (reason := pins.contradiction(connection, study)) is not None:
                raise InvalidStore(f"{study.path.name}: {reason}; this backup cannot be served")
            due = releases.next_release(connection)
            gap = _gap(connection, study, manifest, due, last, now)
            releases.skip(connection, gap, study.ledger())
            due = releases.following(due, releases.shortest_interval(connection, study), now=now)
            due = min(due, now + study.release.seconds)  # it is later if the clock was wrong, and set back
            releases.set_next_release(connection, due)
            releases.clear_request(connection)
    except MotetError:
        raise
    except (SQLAlchemyError, ValueError, TypeError, KeyError, ArithmeticError) as error:  # its rows may be anything
        cause = str(getattr(error, "orig", None) or error).partition("\n")[0]
        raise InvalidStore(f"expected a study's database in the backup, got {cause}; take another backup") from None
    return gap, due


def _gap(connection: Connection, study: Study, manifest: Manifest, due: float, last: int | None, now: float) -> Gap:
    """Which versions may have been released since the backup was made."""
    if now < manifest.made:
        raise InvalidData("expected a time after the backup was made, got an earlier one: set this machine's clock")
    version, planned = releases.last_version(connection), study.ledger()
    ends = planned is not None and planned.per == "study"
    limit = planned.releases if planned is not None and ends else MAX_VERSION
    every = releases.shortest_interval(connection, study)
    first = min(due, manifest.made + every)  # another restoration of this backup may have set it
    by_clock = min(version + scheduled(first, every, since=manifest.made, now=now), limit)
    if last is None:
        last = by_clock
    elif not version <= last <= limit:
        until = f" to {limit}, the last of its budget" if ends else f" to {limit}"
        raise InvalidData(f"expected a version from {version}, the newest in the backup,{until}, got {last}")
    return Gap(version, last if planned is None else max(last, by_clock), manifest.made, now)


def scheduled(due: float, every: float, *, since: float, now: float) -> int:
    """How many releases the clock allows after ``since``, if the first of them was due then or overdue."""
    now, since = now + ROUNDING_SECONDS, since - ROUNDING_SECONDS
    if now < due:
        return 0
    return int((now - due) // every) - int(max(since - due, 0.0) // every) + 1
