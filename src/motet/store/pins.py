"""The settings of a study's last start in its database, and what has happened since that fixes some of them.

They change with a start alone, so that every example was checked by them, and every release is made by them. What has
happened is read from the tables: a log with an addition, a backup, a version that was or may have been released.
"""

from __future__ import annotations

from sqlalchemy import select

from motet.errors import InvalidStore
from motet.store import chain
from motet.store.records import lock, put, setting
from motet.store.releases import last_version, latest, next_release, set_next_release, shortest_interval
from motet.store.schema import log
from motet.store.store import Connection, Store
from motet.study.pins import BACKUP, EXAMPLE, RELEASE, Since, pinned_seconds
from motet.study.study import Study

FIRST_START = "the first start"  # of an earlier version, which did not record whether there were backups
NO_BACKUP, HAS_BACKUP = "none", "made"


def since(connection: Connection) -> Since:
    """What has happened to a study that fixes settings.

    The log keeps the addition of an example that was removed, and of a client that was forgotten.
    """
    added = connection.execute(select(log.c.sequence).where(log.c.kind == "add").limit(1)).scalar()
    backups = {None: FIRST_START, NO_BACKUP: ""}
    return Since(
        example="" if added is None else EXAMPLE,
        backup=backups.get(setting(connection, "backup"), BACKUP),
        release=RELEASE if last_version(connection) else "",
    )


def contradiction(connection: Connection, study: Study) -> str | None:
    """Why a study contradicts what is fixed, naming the key; None if it does not."""
    return study.contradicts(setting(connection, "pinned") or "", since(connection))


def pin(store: Store, study: Study, *, now: float) -> Since:
    """Store the settings of a start and schedule its next release; a study that changes what is fixed is refused.

    Returns what is fixed by now.
    """
    with store.transaction() as connection:
        lock(connection)  # no example and no release comes in between
        before = setting(connection, "pinned")
        if before is None:
            put(connection, "backup", NO_BACKUP)
        elif (reason := contradiction(connection, study)) is not None:
            raise InvalidStore(
                f"{study.path}: {reason}; change it back, or start a new study with another database ([store] url)"
            )
        fixed = since(connection)
        set_next_release(connection, _due(connection, study, fixed, before, now))
        put(connection, "terms", study.terms)
        if before != (pinned := study.pinned()):
            chain.check(connection)
            put(connection, "pinned", pinned)
            chain.append(connection, "start", chain.pins(connection))
    return fixed


def _due(connection: Connection, study: Study, fixed: Since, before: str | None, now: float) -> float:
    """When a start schedules the next release.

    Before the first release and the first backup no restoration will count by the clock: another time between releases
    counts from now on. After them a longer one counts from the last time of the schedule before it, and without noise
    a shorter one from now on.
    """
    every = study.release.seconds
    if before is None:
        return now + every
    due = next_release(connection)
    if not fixed.promise and (pinned_seconds(before) != every or due > now + every):
        return now + every
    due = latest(due, shortest_interval(connection, study), now=now)
    return due if study.private else min(due, now + every)


def fix_promise(store: Store, study: Study) -> None:
    """Before a backup: from now on policy, budget and time between releases are those that it will be restored with."""
    with store.transaction() as connection:
        lock(connection)
        fixed = since(connection)._replace(backup=BACKUP)
        if (reason := study.contradicts(setting(connection, "pinned") or "", fixed)) is not None:
            raise InvalidStore(
                f"{study.path}: {reason}; it was edited since the last start: start the server with it, or change it "
                "back, before a backup"
            )
        put(connection, "backup", HAS_BACKUP)
