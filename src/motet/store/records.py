"""What a study's database records of itself: settings, a text for each key, and the log of all changes of examples.

Every change takes the next number of the log, in the transaction that makes the change. So numbers are in the order of
commits, and whoever remembers one can ask what changed after it. A replaced or removed example has the row of its last
change alone, so that the log is as long as the data, however often they change.
"""

from __future__ import annotations

import secrets

from sqlalchemy import Connection, bindparam, delete, func, select, update

from motet.errors import Busy, InvalidStore
from motet.store.schema import HERE, head, log, settings

MOVED_AWAY = "the study was moved to another database: its operator has to serve it from there"
# Built once: every addition of examples uses it.
NUMBERING = (
    update(head)
    .where(head.c.one == HERE)
    .values(sequence=head.c.sequence + bindparam("count"))
    .returning(head.c.sequence)
)

TERMS = select(settings.c.value).where(settings.c.key == "terms")  # built once: every addition of examples uses it


# --- settings ---


def setting(connection: Connection, key: str) -> str | None:
    """The text, None if there is none; a damaged database may have anything in its place."""
    value = connection.execute(select(settings.c.value).where(settings.c.key == key)).scalar()
    if value is not None and not isinstance(value, str):
        raise InvalidStore(
            f"expected the setting {key!r} as text, got {value!r:.60}: motet verify shows what is damaged"
        )
    return value


def put(connection: Connection, key: str, value: str) -> None:
    present = settings.update().where(settings.c.key == key)
    if connection.execute(present.values(value=value)).rowcount == 0:
        connection.execute(settings.insert().values(key=key, value=value))


def mark_deletion(connection: Connection) -> None:
    """Deleted rows may still be in the files until a ``Store.scrub`` that begins after the commit."""
    put(connection, "unscrubbed", secrets.token_hex(8))


def require_terms(connection: Connection, terms: str) -> None:
    """Refuse what a client sends to a server that was started with other inputs, limits or promise than the last one.

    A database file has one server at a time; others may have more.
    """
    if connection.execute(TERMS).scalar() != terms:
        raise Busy("the study was changed since this server started: its operator has to start it again")


# --- the log ---


def lock(connection: Connection) -> None:
    """One writer at a time from here on: what was looked up stays true until the end of the transaction.

    Every transaction that writes takes this lock before any other, so that no two wait for each other.
    """
    if connection.execute(select(head.c.one).with_for_update()).scalar() != HERE:
        raise Busy(MOVED_AWAY)


def take_numbers(connection: Connection, count: int) -> int:
    """The first of the next ``count`` numbers; locks too."""
    newest = connection.execute(NUMBERING, {"count": count}).scalar()
    if newest is None:
        raise Busy(MOVED_AWAY)
    return int(newest) - count + 1


def newest_number(connection: Connection) -> int:
    return int(connection.execute(select(head.c.sequence)).scalar_one())


def append(connection: Connection, number: int, kind: str, client: str, example: str | None = None) -> None:
    connection.execute(log.insert().values(sequence=number, kind=kind, client=client, example=example))


def supersede(connection: Connection, number: int) -> None:
    """Delete the row of an example's last replacement, which a newer one follows; any other row stays."""
    last = delete(log).where(log.c.sequence == number, log.c.kind == "replace", log.c.example.is_not(None))
    if connection.execute(last).rowcount:
        put(connection, "superseded", str(superseded(connection) + 1))


def superseded(connection: Connection) -> int:
    """How many rows of the log newer ones have superseded."""
    text = setting(connection, "superseded") or "0"
    if not text.isdecimal():
        raise InvalidStore(f"expected a count of superseded rows, got {text!r:.30}: restore a backup")
    return int(text)


def changed_since(connection: Connection, number: int) -> tuple[int, list[str]]:
    """The newest number, and the clients whose examples changed after ``number``, by their first change."""
    newest = newest_number(connection)
    changed = select(log.c.client).where(log.c.sequence > number, log.c.sequence <= newest).group_by(log.c.client)
    return newest, list(connection.execute(changed.order_by(func.min(log.c.sequence))).scalars())


def altered_since(connection: Connection, client: str, number: int) -> bool:
    """Whether a client replaced or removed examples after ``number``."""
    altered = select(log.c.sequence).where(log.c.client == client, log.c.kind != "add", log.c.sequence > number)
    return connection.execute(altered.limit(1)).scalar() is not None
