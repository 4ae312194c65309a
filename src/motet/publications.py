"""Releases and the budget in the tables: what was published when, and what it has spent.

The ledger's row and the release's bytes are one transaction. Nobody sees a release before it is committed, and a
version is given once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from sqlalchemy import Connection, func, select, update

from motet.ledger import Ledger, Whole
from motet.store import head, put, releases, taken
from motet.store import ledger as ledger_table


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
    """0 before the first release."""
    return connection.execute(select(func.max(releases.c.version))).scalar() or 0


def noisy_sums(connection: Connection) -> list[Whole]:
    """Those of all private releases, oldest first."""
    kept = select(releases.c.noisy).where(releases.c.noisy.is_not(None)).order_by(releases.c.version)
    return [np.frombuffer(noisy, dtype="<i8").astype(np.int64) for noisy in connection.execute(kept).scalars()]


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
