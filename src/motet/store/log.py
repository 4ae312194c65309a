"""The log of a study: every change of an example takes the next number, in the transaction that makes the change.

So numbers are in the order of commits, and whoever remembers a number can ask what changed after it.
"""

from __future__ import annotations

from sqlalchemy import bindparam, func, select, update

from motet.store.schema import head, log
from motet.store.store import Connection

# Built once: every addition of examples uses it.
NUMBERING = update(head).values(sequence=head.c.sequence + bindparam("count")).returning(head.c.sequence)


def lock(connection: Connection) -> None:
    """One writer at a time from here on: what was looked up stays true until the end of the transaction."""
    connection.execute(select(head.c.sequence).with_for_update())


def take_numbers(connection: Connection, count: int) -> int:
    """The first of the next ``count`` numbers; locks too."""
    return int(connection.execute(NUMBERING, {"count": count}).scalar_one()) - count + 1


def newest_number(connection: Connection) -> int:
    return int(connection.execute(select(head.c.sequence)).scalar_one())


def append(connection: Connection, number: int, kind: str, client: str, example: str | None = None) -> None:
    connection.execute(log.insert().values(sequence=number, kind=kind, client=client, example=example))


def changed_since(connection: Connection, number: int) -> tuple[int, list[str]]:
    """The newest number, and the clients whose examples changed after ``number``, by their first change."""
    newest = newest_number(connection)
    changed = select(log.c.client).where(log.c.sequence > number, log.c.sequence <= newest).group_by(log.c.client)
    return newest, list(connection.execute(changed.order_by(func.min(log.c.sequence))).scalars())


def altered_since(connection: Connection, client: str, number: int) -> bool:
    """Whether a client replaced or removed examples after ``number``."""
    altered = select(log.c.sequence).where(log.c.client == client, log.c.kind != "add", log.c.sequence > number)
    return connection.execute(altered.limit(1)).scalar() is not None
