"""Releases, their schedule and the privacy budget in the database: what was released when, and what it has spent.

The ledger's row and the release's bytes are one transaction. Nobody sees a release before it is committed, and a
version is used once: after a backup was restored, versions that may have been released since it was made are skipped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Hashable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import case, func, select, update

from motet.errors import InvalidStore
from motet.privacy.coordinates import Coordinates
from motet.privacy.ledger import Integers, Ledger
from motet.store import chain
from motet.store.records import lock, mark_deletion, newest_number, put, setting
from motet.store.schema import clients, participations, releases
from motet.store.schema import ledger as ledger_rows
from motet.store.store import Connection, Store, insert_rows
from motet.study.pins import pinned_seconds
from motet.study.study import Study
from motet.text import MAX_TIME

# --- the schedule ---


def next_release(connection: Connection) -> float:
    """When the next release is due, in seconds since 1970."""
    due = setting(connection, "next")
    if due is None:
        raise InvalidStore("expected a database with a scheduled release, got one that was never served: serve it once")
    with suppress(ValueError):
        if 0.0 <= float(due) <= MAX_TIME:
            return float(due)
    raise InvalidStore(f"expected a database with a scheduled release, got the time {due!r:.30}: restore a backup")


def shortest_interval(connection: Connection, study: Study) -> float:
    """Seconds between two releases; those of the last start if the study is private, until another start has pinned
    a longer time."""
    seconds = pinned_seconds(setting(connection, "pinned") or "{}") if study.private else None
    return study.release.seconds if seconds is None else seconds


def latest(due: float, every: float, *, now: float) -> float:
    """The last scheduled time until ``now``, if a release is due every so many seconds; before the first, that."""
    return due if now < due else due + every * ((now - due) // every)


def upcoming(connection: Connection, planned: Ledger | None) -> float | None:
    """When the next release is due; None after the last that the budget allows."""
    over = planned is not None and budget(connection, planned).refusal is not None
    return None if over else next_release(connection)


def following(due: float, every: float, *, now: float) -> float:
    """The first scheduled time after ``now``."""
    return due if now < due else latest(due, every, now=now) + every


def set_next_release(connection: Connection, due: float) -> None:
    put(connection, "next", repr(due))


@dataclass(frozen=True)
class Schedule:
    """What a publisher acts on. Whoever acts first changes it, so nobody acts on it twice."""

    due: float  # the next release, in seconds since 1970
    version: int  # the newest that anyone may have seen
    head: str  # of the chain
    pinned: str = field(repr=False)  # the settings of the last start
    requested: bool = field(compare=False)  # the operator has asked for a release that is not made yet
    overdue: bool = field(compare=False)  # what the current release has was removed since, or it is withdrawn for that
    served: bool = field(compare=False)  # whether there is a current release, which is not withdrawn


def schedule(connection: Connection) -> Schedule:
    newest = newest_release(connection)
    return Schedule(
        next_release(connection),
        last_version(connection, newest.version),
        chain.head(connection),
        setting(connection, "pinned") or "",
        requested=setting(connection, "wanted") == "yes",
        overdue=newest.withdrawn or _holds_removed(connection, newest),
        served=newest.served,
    )


def _is_current(connection: Connection, acted_on: Schedule) -> bool:
    """Whether nobody has acted on a schedule yet; nobody can until the end of the transaction."""
    lock(connection)
    return schedule(connection) == acted_on


def request_release(connection: Connection) -> tuple[int, int]:
    """Ask the publisher for a release: returns the log's newest number, which it must include, and the version before
    it."""
    lock(connection)
    put(connection, "wanted", "yes")
    put(connection, "refused", "")
    return newest_number(connection), newest_release(connection).version


def request_after_removal(connection: Connection) -> int:
    """Ask for a release without what was just removed, and without noise: returns the number that it must include."""
    number = newest_number(connection)
    put(connection, "removed", str(number))
    return number


def begin(store: Store) -> None:
    """Before a release without noise is made while none is served: what is removed from now on may be in it."""
    with store.transaction() as connection:
        lock(connection)
        put(connection, "begun", str(newest_number(connection)))


def may_show(connection: Connection, number: int) -> bool:
    """Whether a release that is served, or is made while none is, may have what was removed with this number."""
    newest = newest_release(connection)
    if newest.served:
        return newest.sequence < number
    begun = setting(connection, "begun") or ""
    return begun.isdecimal() and int(begun) < number


class Newest(NamedTuple):
    """The newest release, without its bytes; version 0 before the first."""

    version: int = 0
    sequence: int = 0
    size: int = 0  # of its bytes: none if it is withdrawn

    @property
    def served(self) -> bool:
        return self.size > 0

    @property
    def withdrawn(self) -> bool:
        """No longer served; the next one ends that."""
        return self.version > 0 and not self.size


def newest_release(connection: Connection) -> Newest:
    chosen = select(releases.c.version, releases.c.sequence, func.length(releases.c.data).label("size"))
    row = connection.execute(chosen.order_by(releases.c.version.desc()).limit(1)).first()
    return Newest() if row is None else Newest(*row)


def _holds_removed(connection: Connection, newest: Newest) -> bool:
    """Whether a release that is served may have something that was removed after it."""
    removed = setting(connection, "removed") or "0"
    return newest.served and removed.isdecimal() and newest.sequence < int(removed)


def clear_request(connection: Connection) -> None:
    put(connection, "wanted", "no")


def refusal(connection: Connection) -> str | None:
    """Why the last release that was due was not made."""
    return setting(connection, "refused") or None


def postpone(store: Store, acted_on: Schedule, *, next_due: float, refusal: str) -> bool:
    """Schedule the next release, and store why there was none before it; False if another publisher was first.

    If the current release has what was removed since, it is withdrawn: nobody gets it any more.
    """
    with store.transaction() as connection:
        if not _is_current(connection, acted_on):
            return False
        if withdraws := bool(refusal) and _holds_removed(connection, newest_release(connection)):
            _withdraw(connection, refusal)
        _advance(connection, acted_on, next_due, refusal)
    if withdraws:
        store.scrub()
    return True


def _withdraw(connection: Connection, reason: str) -> None:
    """Delete the bytes of the newest release, which keeps its version."""
    row = connection.execute(select(releases).order_by(releases.c.version.desc()).limit(1)).mappings().one()
    emptied = {**row, "data": b""}
    connection.execute(update(releases).where(releases.c.version == row["version"]).values(data=b""))
    chain.append(connection, "withdrawal", chain.release(emptied))
    put(connection, "withdrawn", reason)
    mark_deletion(connection)


def _advance(connection: Connection, acted_on: Schedule, next_due: float, refusal: str) -> None:
    """To the next release. The request of the schedule is answered by this; one that was made later stays."""
    set_next_release(connection, next_due)
    put(connection, "refused", refusal)
    put(connection, "begun", "")
    if acted_on.requested:
        clear_request(connection)


# --- releases ---


@dataclass(frozen=True)
class StoredRelease:
    version: int
    sequence: int  # of the log: later changes are not in it
    made: float  # seconds since 1970
    data: bytes
    left_out: Mapping[str, str] = field(default_factory=dict)  # clients that are not in it, and why
    withdrawn: str = ""  # why nobody gets it any more, and it has no bytes


@dataclass(frozen=True, eq=False)
class PrivatePart:
    """Of a private release: its noisy sum, which later releases build on, and what it spends."""

    noisy: Integers
    scale: float  # of the noise
    charged: tuple[str, ...]  # the clients in it, if each has a budget of its own
    coordinates: Coordinates  # of the noisy sum


@dataclass(frozen=True, eq=False)
class NewRelease:
    """A release that is to be stored."""

    version: int
    sequence: int  # of the log: later changes are not in it
    data: bytes
    left_out: Mapping[str, str] = field(default_factory=dict)  # clients that are not in it, and why
    private: PrivatePart | None = None


def current(connection: Connection) -> StoredRelease | None:
    """The newest release."""
    chosen = select(releases.c.version, releases.c.sequence, releases.c.made, releases.c.data)
    row = connection.execute(chosen.order_by(releases.c.version.desc()).limit(1)).first()
    if row is None:
        return None
    left_out = json.loads(setting(connection, "left out") or "{}")
    withdrawn = "" if row.data else setting(connection, "withdrawn") or "its bytes were deleted"
    return StoredRelease(*row, left_out=left_out, withdrawn=withdrawn)


def history(connection: Connection, planned: Ledger | None, limit: int) -> list[dict[str, Any]]:
    """The newest releases first: version, time, and of private ones the scale of the noise and ε spent by then."""
    charged = ledger_rows.alias()
    until = select(func.count(charged.c.version)).where(charged.c.version <= releases.c.version).scalar_subquery()
    rows = releases.outerjoin(ledger_rows, releases.c.version == ledger_rows.c.version)
    chosen = select(releases.c.version, releases.c.made, ledger_rows.c.scale, until.label("charges")).select_from(rows)
    newest = connection.execute(chosen.order_by(releases.c.version.desc()).limit(limit))
    return [
        {
            "version": row.version,
            "made": row.made,
            "scale": row.scale,
            "spent": None if planned is None else replace(planned, releases_made=row.charges).epsilon_spent,
        }
        for row in newest
    ]


def last_version(connection: Connection, newest: int | None = None) -> int:
    """The newest version that anyone may have seen, also one that a restored backup does not have."""
    newest = newest_release(connection).version if newest is None else newest
    charged = connection.execute(select(func.max(ledger_rows.c.version))).scalar() or 0
    return max(newest, charged, *(one.last for one in gaps(connection)), 0)


def publish(
    store: Store,
    new: NewRelease,
    acted_on: Schedule,
    *,
    made: float,
    next_due: float,
    reached: Callable[[str], None] = lambda _: None,
) -> str | None:
    """Charge the ledger, store the release and schedule the next one, all or nothing.

    Without noise, the bytes of earlier releases are deleted: they may have inputs that were removed since. Returns
    the chain's new head; None if another publisher was first: there is one release for each time that is due, and one
    for each request.
    """
    private = new.private
    noisy = None if private is None else private.noisy.astype("<i8").tobytes()
    row = {"version": new.version, "sequence": new.sequence, "made": made, "data": new.data, "noisy": noisy}
    with store.transaction() as connection:
        if not _is_current(connection, acted_on):
            return None
        content = chain.release(row)
        if private is not None:
            content |= _charge(connection, {new.version: private.scale}, private.charged)
            if _stored_coordinates(connection) is None:
                put(connection, "coordinates", json.dumps(private.coordinates.fingerprint.tolist()))
        if _holds_removed(connection, newest_release(connection)):
            mark_deletion(connection)
        reached("ledger")
        connection.execute(releases.insert().values(**row))
        chain.append(connection, "release", content)
        put(connection, "left out", json.dumps(dict(new.left_out)))
        if private is None:
            connection.execute(update(releases).where(releases.c.version < new.version).values(data=b""))
        _advance(connection, acted_on, next_due, refusal="")
        head = chain.head(connection)
    reached("publication")
    if private is None:
        store.scrub()
    return head


# --- private releases: noisy sums and the ledger ---


def noisy_sums(connection: Connection) -> list[Integers]:
    """Of all private releases, oldest first."""
    sums = select(releases.c.noisy).where(releases.c.noisy.is_not(None)).order_by(releases.c.version)
    return [np.frombuffer(noisy, dtype="<i8").astype(np.int64) for noisy in connection.execute(sums).scalars()]


def check_coordinates(connection: Connection, coordinates: Coordinates) -> None:
    """Noisy sums add up only in the coordinates of the first of them: refuse others."""
    stored = _stored_coordinates(connection)
    if stored is not None and not coordinates.matches(np.array(json.loads(stored))):
        raise InvalidStore(
            "the linear algebra of this machine finds other coordinates than those of the earlier noisy sums: "
            "make the releases on a machine like the one that made the first"
        )


def _stored_coordinates(connection: Connection) -> str | None:
    """None before the first noisy sum: until then the model may change."""
    first = connection.execute(select(releases.c.version).where(releases.c.noisy.is_not(None)).limit(1)).scalar()
    return None if first is None else setting(connection, "coordinates")


def budget(connection: Connection, planned: Ledger) -> Ledger:
    """The study's ledger with how many releases were made, but without who took part in them."""
    made = connection.execute(select(func.count()).select_from(ledger_rows)).scalar_one()
    return replace(planned, releases_made=made)


def current_ledger(connection: Connection, planned: Ledger) -> Ledger:
    """The study's ledger with what its releases have spent."""
    counts: dict[Hashable, int] = {}
    if planned.per == "client":
        rows = connection.execute(select(participations.c.client, participations.c.releases))
        counts = {row.client: row.releases for row in rows}
    return replace(budget(connection, planned), participation=counts)


def participation(connection: Connection, client: str) -> int:
    """In how many releases a client has taken part, if the budget is per client."""
    chosen = select(participations.c.releases).where(participations.c.client == client)
    return connection.execute(chosen).scalar() or 0


def end_for(connection: Connection, planned: Ledger, client: str) -> str | None:
    """Why no later release will have what a client sends; None while one will."""
    taken_part = participation(connection, client) if planned.per == "client" else 0
    return budget(connection, planned).end_for(taken_part)


def _charge(connection: Connection, scales: Mapping[int, float], clients: Collection[str]) -> chain.Content:
    """Add rows to the ledger, scales by version, and one participation to each client; returns what to chain."""
    connection.execute(
        ledger_rows.insert(), [{"version": version, "scale": scale} for version, scale in scales.items()]
    )
    one_more = "ON CONFLICT (client) DO UPDATE SET releases = taken.releases + 1"
    insert_rows(connection, participations, ((client, 1) for client in clients), len(clients), on_conflict=one_more)
    return chain.charges(connection, scales)


# --- restored backups: what may have been released after a backup was made ---


@dataclass(frozen=True)
class Gap:
    """Versions after ``version`` up to ``last`` may have been released from ``made`` until ``at``, and are lost."""

    version: int  # the newest that the backup knows of
    last: int
    made: float  # the backup, in seconds since 1970
    at: float

    @property
    def versions(self) -> str:
        """In words; empty if there are none."""
        first = self.version + 1
        if self.last <= first:
            return f"version {first}" if self.last == first else ""
        return f"versions {first} to {self.last}"


def gaps(connection: Connection) -> list[Gap]:
    """The gap of every restored backup that this database comes from, oldest first."""
    try:
        return [Gap(**one) for one in json.loads(setting(connection, "restored") or "[]")]
    except (ValueError, TypeError):
        raise InvalidStore(chain.BROKEN) from None


def skip(connection: Connection, gap: Gap, planned: Ledger | None) -> None:
    """Skip the versions of a gap, and charge what such releases have spent.

    If the budget is per client, every enrolled client may have been in each of them. After as many as a client may
    take part in nothing more can be spent, so the ledger needs no more rows.
    """
    chain.check(connection)
    put(connection, "restored", json.dumps([asdict(one) for one in (*gaps(connection), gap)]))
    content: chain.Content = {"gaps": [asdict(gap)]}
    if planned is not None and gap.last > gap.version:
        count = min(gap.last - gap.version, planned.releases)
        if planned.per == "client":
            _charge_everyone(connection, count, limit=planned.releases)
        content |= _charge(connection, {gap.version + k: planned.scale for k in range(1, count + 1)}, ())
    chain.append(connection, "restoration", content)


def _charge_everyone(connection: Connection, count: int, *, limit: int) -> None:
    after = participations.c.releases + count
    connection.execute(update(participations).values(releases=case((after > limit, limit), else_=after)))
    others = select(clients.c.id).where(clients.c.id.not_in(select(participations.c.client)))
    new = [{"client": id, "releases": count} for id in connection.execute(others).scalars()]
    if new:
        connection.execute(participations.insert(), new)
