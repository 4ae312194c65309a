"""Releases and the budget in the tables: what was published when, and what it has spent.

The ledger's row and the release's bytes are one transaction. Nobody sees a release before it is committed, and a
version is given once: where a backup was restored, what may have been given since it was made counts as given.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable
from dataclasses import asdict, dataclass, replace

import numpy as np
from sqlalchemy import Connection, case, func, select, update

from motet.errors import InvalidStore
from motet.privacy.coordinates import Coordinates
from motet.privacy.ledger import Ledger, Whole
from motet.store.store import clients as clients_table
from motet.store.store import head, put, releases, setting, taken
from motet.store.store import ledger as ledger_table


@dataclass(frozen=True)
class Published:
    version: int
    sequence: int  # of the log: what came later is not in it
    made: float  # seconds since 1970
    data: bytes


def latest(connection: Connection) -> Published | None:
    """The current release."""
    chosen = select(releases.c.version, releases.c.sequence, releases.c.made, releases.c.data)
    row = connection.execute(chosen.order_by(releases.c.version.desc()).limit(1)).first()
    return None if row is None else Published(*row)


def latest_version(connection: Connection) -> int:
    """Of the current release; 0 before the first."""
    return connection.execute(select(func.max(releases.c.version))).scalar() or 0


def given_version(connection: Connection) -> int:
    """The newest version that anyone may have seen, also one that a restored backup does not have."""
    charged = connection.execute(select(func.max(ledger_table.c.version))).scalar() or 0
    return max(latest_version(connection), charged, *(one.last for one in restorations(connection)), 0)


def noisy_sums(connection: Connection) -> list[Whole]:
    """Those of all private releases, oldest first."""
    kept = select(releases.c.noisy).where(releases.c.noisy.is_not(None)).order_by(releases.c.version)
    return [np.frombuffer(noisy, dtype="<i8").astype(np.int64) for noisy in connection.execute(kept).scalars()]


def hold_coordinates(connection: Connection, here: Coordinates) -> None:
    """Noisy sums add up only in the coordinates in which the first of them was made: keep them, or hold to them."""
    kept = setting(connection, "coordinates")
    if kept is None:
        put(connection, "coordinates", json.dumps(here.mark.tolist()))
    elif not here.same_as(np.array(json.loads(kept))):
        raise InvalidStore(
            "the earlier noisy sums are in coordinates that this machine's linear algebra does not find again: "
            "make the releases on a machine such as the one that made the first"
        )


def spent(connection: Connection, planned: Ledger) -> Ledger:
    """The study's ledger with what its releases have spent."""
    made = connection.execute(select(func.count()).select_from(ledger_table)).scalar_one()
    counts: dict[Hashable, int] = {}
    if planned.per == "client":
        rows = connection.execute(select(taken.c.client, taken.c.releases))
        counts = {row.client: row.releases for row in rows}
    return replace(planned, spent=made, taken=counts)


def want(connection: Connection) -> tuple[int, int]:
    """Ask the publisher for a release: the log's newest number, which it must have, and the version before it."""
    put(connection, "wanted", "yes")
    put(connection, "refused", "")
    return connection.execute(select(head.c.sequence)).scalar_one(), latest_version(connection)


def publish(connection: Connection, new: Published, noisy: Whole | None = None) -> None:
    """Keep a release; one of this version must not be there yet."""
    values = {"version": new.version, "sequence": new.sequence, "made": new.made, "data": new.data}
    kept = None if noisy is None else noisy.astype("<i8").tobytes()
    connection.execute(releases.insert().values(**values, noisy=kept))


def charge(connection: Connection, version: int, scale: float, clients: Iterable[str]) -> None:
    """Write down what a release spends; where the budget is per client, of these."""
    connection.execute(ledger_table.insert().values(version=version, scale=scale))
    for client in clients:
        more = update(taken).where(taken.c.client == client).values(releases=taken.c.releases + 1)
        if not connection.execute(more).rowcount:
            connection.execute(taken.insert().values(client=client, releases=1))


# --- a backup that was restored: what the clock may have brought after it was made ---


@dataclass(frozen=True)
class Restored:
    """Versions after ``version`` up to ``last`` may have been given from ``made`` until ``at``, and are lost."""

    version: int  # the newest that the backup knows of
    last: int
    made: float  # the backup, in seconds since 1970
    at: float

    @property
    def versions(self) -> str:
        """In words, empty where there are none."""
        first = self.version + 1
        if self.last <= first:
            return f"version {first}" if self.last == first else ""
        return f"versions {first} to {self.last}"


def restorations(connection: Connection) -> list[Restored]:
    """Every restored backup that this database comes from, oldest first."""
    return [Restored(**one) for one in json.loads(setting(connection, "restored") or "[]")]


def count_as_given(connection: Connection, lost: Restored, planned: Ledger | None) -> None:
    """Give no version again that may be known, and spend what such releases have spent.

    Where the budget is per client, all who are enrolled may have been in each of them. After as many as a client may
    take part in nothing more is to be spent, so the ledger needs no more rows.
    """
    put(connection, "restored", json.dumps([asdict(one) for one in (*restorations(connection), lost)]))
    if planned is None or lost.last == lost.version:
        return
    many = min(lost.last - lost.version, planned.releases)
    rows = [{"version": lost.version + k, "scale": planned.scale} for k in range(1, many + 1)]
    connection.execute(ledger_table.insert(), rows)
    if planned.per == "client":
        _charge_everyone(connection, many, planned.releases)


def _charge_everyone(connection: Connection, many: int, most: int) -> None:
    after = taken.c.releases + many
    connection.execute(update(taken).values(releases=case((after > most, most), else_=after)))
    without = select(clients_table.c.id).where(clients_table.c.id.not_in(select(taken.c.client)))
    new = [{"client": id, "releases": many} for id in connection.execute(without).scalars()]
    if new:
        connection.execute(taken.insert(), new)
