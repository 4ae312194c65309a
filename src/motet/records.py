"""What happens to the tables: clients come and go, examples are added, replaced and removed, releases are kept.

Every function works inside a transaction that its caller began. Each change of an example takes the next number of
the log in that transaction, so that numbers are in the order of commits.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Connection, RowMapping, delete, func, select, update
from sqlalchemy.exc import IntegrityError

from motet.arrays import Array
from motet.errors import InvalidData, TooMany, UnknownExample, UnknownTask
from motet.model import Model
from motet.store import attempt, clients, examples, head, log

MANY = 500  # ids asked for at once


@dataclass(frozen=True)
class Example:
    """One example as it is kept: the client's own id for it, the input as bytes, output and noise."""

    id: str
    x: bytes
    y: float
    noise: float


@dataclass(frozen=True)
class Added:
    """``count`` are all of the client's examples now."""

    accepted: int
    duplicates: int
    count: int


def to_bytes(model: Model, row: Array) -> bytes:
    """An input as it is kept: its item's number where there is a catalogue, else its numbers."""
    return np.asarray(row[:1] if model.catalogue is not None else row, dtype="<f8").tobytes()


def from_bytes(model: Model, kept: Sequence[bytes]) -> Array:
    """The inputs' rows."""
    table = np.frombuffer(b"".join(kept), dtype="<f8").reshape(len(kept), -1)
    return table if model.catalogue is None else model.catalogue.rows[table[:, 0].astype(np.intp)]


def triples(kept: Sequence[Any], model: Model, dimension: int) -> tuple[Array, Array, Array]:
    """Inputs, outputs and noise of examples, or of rows of their table."""
    X = from_bytes(model, [example.x for example in kept]) if kept else np.empty((0, dimension))
    y, noise = np.array([(example.y, example.noise) for example in kept]).reshape(-1, 2).T
    return X, y, noise


# --- clients ---


def hashed(token: str) -> str:
    """Tokens are long and random, so one round of a plain hash keeps them."""
    return hashlib.sha256(token.encode()).hexdigest()


@dataclass(frozen=True)
class Enrolled:
    id: str
    name: str
    token: str  # shown once, kept hashed


def enrol(connection: Connection, names: Sequence[str]) -> list[Enrolled]:
    """New clients, all or none; their ids are random, so that they tell nothing of how many there are."""
    if not names or len(set(names)) < len(names) or not all(names):
        raise InvalidData("expected a list of names, each once and none empty")
    new = [Enrolled(secrets.token_hex(8), name, secrets.token_urlsafe(32)) for name in names]
    rows = [{"id": c.id, "name": c.name, "token": hashed(c.token), "revoked": False} for c in new]
    try:
        connection.execute(clients.insert(), rows)
    except IntegrityError:
        known = connection.execute(select(clients.c.name).where(clients.c.name.in_(names[:MANY]))).scalars().first()
        raise InvalidData(f"{known or 'one of the names'!r} is enrolled already: choose another name") from None
    return new


def client_of(connection: Connection, token: str) -> str | None:
    """The id of the client that holds a token, unless it was revoked."""
    held = (clients.c.token == hashed(token)) & clients.c.revoked.is_(False)
    return connection.execute(select(clients.c.id).where(held)).scalar()


def listed(connection: Connection, after: str = "", limit: int = 1000) -> list[RowMapping]:
    """Clients by name, with how many examples each has: for the operator."""
    count = select(func.count()).where(examples.c.client == clients.c.id).scalar_subquery()
    chosen = select(clients.c.id, clients.c.name, clients.c.revoked, count.label("examples"))
    return list(
        connection.execute(chosen.where(clients.c.name > after).order_by(clients.c.name).limit(limit)).mappings()
    )


def about(connection: Connection, client: str) -> dict[str, Any]:
    """What a client may know of itself."""
    name = connection.execute(select(clients.c.name).where(clients.c.id == client)).scalar()
    return {"name": name, "count": _count(connection, client)}


def rotate(connection: Connection, client: str) -> str:
    """A new token in place of the old one; a revoked client is let in again."""
    token = secrets.token_urlsafe(32)
    changed = update(clients).where(clients.c.id == client).values(token=hashed(token), revoked=False)
    _must(connection.execute(changed).rowcount, client)
    return token


def revoke(connection: Connection, client: str) -> None:
    """The client's token opens nothing any more; its examples stay."""
    _must(connection.execute(update(clients).where(clients.c.id == client).values(revoked=True)).rowcount, client)


def forget(connection: Connection, client: str) -> int:
    """Everything of a client but its random id in the log; tells how many examples went."""
    gone = connection.execute(delete(examples).where(examples.c.client == client)).rowcount
    _must(connection.execute(delete(clients).where(clients.c.id == client)).rowcount, client)
    _logged(connection, "forget", [(client, None)])
    return gone


def _must(found: int, client: str) -> None:
    if not found:
        raise UnknownTask(f"no client {client!r} is enrolled")


# --- a client's examples ---


def add(connection: Connection, client: str, new: Sequence[Example], *, limit: int) -> Added:
    """Take examples; one whose id was ever taken, also if removed since, is a duplicate and changes nothing."""
    _lock(connection)
    held = _count(connection, client)
    by_id = {example.id: example for example in reversed(new)}  # the first of an id counts
    for id in _taken(connection, client, list(by_id)):
        del by_id[id]
    fresh = list(reversed(by_id.values()))
    if held + len(fresh) > limit:
        raise TooMany(f"a client may have {limit} examples: {held} are here and {len(fresh)} came; remove some first")
    if fresh:
        connection.execute(examples.insert(), [{"client": client, **vars(example)} for example in fresh])
        _logged(connection, "add", [(client, example.id) for example in fresh])
    return Added(len(fresh), len(new) - len(fresh), held + len(fresh))


@dataclass(frozen=True)
class Addition:
    """Examples of one client to add, as a command."""

    client: str
    new: Sequence[Example]
    limit: int

    def __call__(self, connection: Connection) -> Added:
        return add(connection, self.client, self.new, limit=self.limit)


def apply(connection: Connection, commands: Sequence[Callable[[Connection], Any]]) -> list[Any]:
    """The results of many commands, or their refusals; additions go first, and together where nothing is amiss."""
    additions = [command for command in commands if isinstance(command, Addition)]
    together = attempt(connection, partial(_add_all, additions=additions)) if additions else []
    if isinstance(together, Exception):
        return [attempt(connection, command) for command in commands]
    added = iter(together)
    return [next(added) if isinstance(command, Addition) else attempt(connection, command) for command in commands]


def _add_all(connection: Connection, additions: Sequence[Addition]) -> list[Added]:
    """All of them in a few statements; raises where one is a duplicate, too many or a stranger's."""
    _lock(connection)
    who = {addition.client for addition in additions}
    counted = select(examples.c.client, func.count()).where(examples.c.client.in_(who)).group_by(examples.c.client)
    counts = dict.fromkeys(who, 0) | {row[0]: row[1] for row in connection.execute(counted)}
    done = []
    for addition in additions:
        counts[addition.client] += len(addition.new)
        if counts[addition.client] > addition.limit:
            raise TooMany("one of many has too many")
        done.append(Added(len(addition.new), 0, counts[addition.client]))
    rows = [{"client": a.client, **vars(example)} for a in additions for example in a.new]
    connection.execute(examples.insert(), rows)
    _logged(connection, "add", [(row["client"], row["id"]) for row in rows])
    return done


def replace(connection: Connection, client: str, example: Example) -> None:
    """Put another example in the place of one that is there."""
    values = {"x": example.x, "y": example.y, "noise": example.noise}
    if not connection.execute(update(examples).where(_at(client, example.id)).values(**values)).rowcount:
        raise UnknownExample(f"there is no example {example.id!r} to replace: send it first")
    _logged(connection, "replace", [(client, example.id)])


def remove(connection: Connection, client: str, id: str) -> None:
    if not connection.execute(delete(examples).where(_at(client, id))).rowcount:
        raise UnknownExample(f"there is no example {id!r} to remove")
    _logged(connection, "remove", [(client, id)])


def page(connection: Connection, client: str, after: str = "", limit: int = 100) -> list[Example]:
    """A client's own examples in the order of their ids."""
    chosen = select(examples.c.id, examples.c.x, examples.c.y, examples.c.noise).where(examples.c.client == client)
    rows = connection.execute(chosen.where(examples.c.id > after).order_by(examples.c.id).limit(limit))
    return [Example(*row) for row in rows]


def changed_since(connection: Connection, sequence: int) -> tuple[int, list[str]]:
    """The newest number of the log, and the clients to whom something happened after an older one."""
    newest = connection.execute(select(head.c.sequence)).scalar_one()
    who = select(log.c.client).where(log.c.sequence > sequence, log.c.sequence <= newest).distinct()
    return newest, list(connection.execute(who.order_by(log.c.client)).scalars())


def events_since(connection: Connection, client: str, sequence: int) -> list[tuple[str, str | None]]:
    """What happened to a client's examples after a number of the log: kinds and ids."""
    rows = select(log.c.kind, log.c.example).where(log.c.client == client, log.c.sequence > sequence)
    return [(kind, id) for kind, id in connection.execute(rows.order_by(log.c.sequence))]


def _at(client: str, id: str) -> ColumnElement[bool]:
    return (examples.c.client == client) & (examples.c.id == id)


def _lock(connection: Connection) -> None:
    """One writer at a time from here on: what was looked up stays true until the end of the transaction."""
    connection.execute(select(head.c.sequence).with_for_update())


def _count(connection: Connection, client: str) -> int:
    return connection.execute(select(func.count()).where(examples.c.client == client)).scalar_one()


def _taken(connection: Connection, client: str, ids: list[str]) -> Iterable[str]:
    for begin in range(0, len(ids), MANY):
        some = log.c.example.in_(ids[begin : begin + MANY])
        yield from connection.execute(
            select(log.c.example).where(log.c.kind == "add", log.c.client == client, some)
        ).scalars()


def _logged(connection: Connection, kind: str, what: Sequence[tuple[str, str | None]]) -> None:
    """The next numbers for what happened to these clients' examples."""
    number = connection.execute(
        update(head).values(sequence=head.c.sequence + len(what)).returning(head.c.sequence)
    ).scalar_one()
    first = number - len(what) + 1
    rows = [{"sequence": first + k, "kind": kind, "client": c, "example": id} for k, (c, id) in enumerate(what)]
    connection.execute(log.insert(), rows)
