"""What happens to the tables: clients come and go, examples are added, replaced and removed, releases are kept.

Every function works inside a transaction that its caller began. Each change of an example takes the next number of
the log in that transaction, so that numbers are in the order of commits.
"""

from __future__ import annotations

import dataclasses
import hashlib
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, Row, RowMapping, bindparam, delete, select, update
from sqlalchemy.exc import IntegrityError

from motet.arrays import Array
from motet.errors import InvalidData, TooMany, UnknownExample, UnknownTask
from motet.model.model import Model
from motet.store.store import attempt, clients, examples, head, insert_rows, log, put

MANY = 500  # ids asked for at once
PRESENT = examples.c.x.is_not(None)  # not removed
# What every addition does, built once.
NUMBERING = update(head).values(sequence=head.c.sequence + bindparam("many")).returning(head.c.sequence)
COUNTING = (
    update(clients)
    .where(clients.c.id.in_(bindparam("who", expanding=True)))
    .values(count=clients.c.count + bindparam("more"))
    .returning(clients.c.id, clients.c.count)
)


class Example(NamedTuple):
    """One example as it is kept: the client's own id for it, the input as bytes, output and noise."""

    id: str
    x: bytes | bytearray
    y: float
    noise: float


@dataclass(frozen=True)
class Added:
    """``count`` are all of the client's examples now."""

    accepted: int
    duplicates: int
    count: int


def to_bytes(model: Model, rows: Array) -> list[bytearray]:
    """Inputs as they are kept: the item's number where there is a catalogue, else the numbers.

    Python's SQLite looks for adapters of every ``bytes``, which takes longer than to write it; not of these.
    """
    kept = np.ascontiguousarray(rows[:, :1] if model.catalogue is not None else rows, dtype="<f8")
    every, width = bytearray(kept), 8 * kept.shape[1]
    return [every[begin : begin + width] for begin in range(0, len(every), width)]


def from_bytes(model: Model, kept: Sequence[bytes | bytearray]) -> Array:
    """The inputs' rows."""
    table = np.frombuffer(b"".join(kept), dtype="<f8").reshape(len(kept), -1)
    return table if model.catalogue is None else model.catalogue.rows[table[:, 0].astype(np.intp)]


def inputs(model: Model, kept: Sequence[bytes | bytearray]) -> list[Any]:
    """The inputs as they were sent: names, or lists of numbers."""
    if not kept:
        return []
    rows = from_bytes(model, kept)
    return rows.tolist() if model.catalogue is None else model.catalogue.name_rows(rows)


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
    rows = [{"id": c.id, "name": c.name, "token": hashed(c.token), "revoked": False, "count": 0} for c in new]
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
    chosen = select(clients.c.id, clients.c.name, clients.c.revoked, clients.c.count.label("examples"))
    return list(
        connection.execute(chosen.where(clients.c.name > after).order_by(clients.c.name).limit(limit)).mappings()
    )


def about(connection: Connection, client: str) -> dict[str, Any]:
    """What a client may know of itself."""
    found = connection.execute(select(clients.c.name, clients.c.count).where(clients.c.id == client)).mappings().first()
    _must(found, client)
    return dict(found or {})


def rotate(connection: Connection, client: str) -> str:
    """A new token in place of the old one; a revoked client is let in again."""
    token = secrets.token_urlsafe(32)
    changed = update(clients).where(clients.c.id == client).values(token=hashed(token), revoked=False)
    _must(connection.execute(changed).rowcount, client)
    _withdrawn(connection)
    return token


def revoke(connection: Connection, client: str) -> None:
    """The client's token opens nothing any more; its examples stay."""
    _must(connection.execute(update(clients).where(clients.c.id == client).values(revoked=True)).rowcount, client)
    _withdrawn(connection)


def forget(connection: Connection, client: str) -> int:
    """Everything of a client but its random id in the log; tells how many examples went."""
    number = _numbers(connection, 1)
    gone: int = about(connection, client)["count"]
    connection.execute(delete(examples).where(examples.c.client == client))
    connection.execute(delete(clients).where(clients.c.id == client))
    connection.execute(log.insert().values(sequence=number, kind="forget", client=client))
    _withdrawn(connection)
    return gone


def _withdrawn(connection: Connection) -> None:
    """Tell whoever remembers tokens to look again."""
    put(connection, "access", secrets.token_hex(8))


def _must(found: Any, client: str) -> None:
    if not found:
        raise UnknownTask(f"no client {client!r} is enrolled")


# --- a client's examples ---


@dataclass(frozen=True)
class Addition:
    """Examples of one client to add, as a command; one whose id was ever taken is a duplicate and changes nothing."""

    client: str
    columns: Sequence[Sequence[Any]]  # ids, inputs, outputs, noise: there may be many, so none is an object
    limit: int  # of examples that a client may have

    @classmethod
    def of(cls, client: str, new: Iterable[Example], limit: int) -> Addition:
        return cls(client, list(zip(*new)), limit)

    def __len__(self) -> int:
        return len(self.columns[0])

    def __call__(self, connection: Connection) -> Added:
        _lock(connection)
        by_id = {example[0]: Example(*example) for example in reversed(list(zip(*self.columns)))}  # the first counts
        for id in _taken(connection, self.client, list(by_id)):
            del by_id[id]
        fresh = list(reversed(by_id.values()))
        if not fresh:
            return Added(0, len(self), about(connection, self.client)["count"])
        (done,) = _added(connection, [self.of(self.client, fresh, self.limit)])
        return dataclasses.replace(done, duplicates=len(self) - len(fresh))


def apply(connection: Connection, commands: Sequence[Callable[[Connection], Any]]) -> list[Any]:
    """The results of many commands, or their refusals. Additions go first, together: one that is refused, or has a
    duplicate, fails all of them, and then they are to be applied ``apart`` in another transaction."""
    additions = [command for command in commands if isinstance(command, Addition)]
    added = iter(_added(connection, additions) if additions else [])
    return [next(added) if isinstance(command, Addition) else attempt(connection, command) for command in commands]


def apart(connection: Connection, commands: Sequence[Callable[[Connection], Any]]) -> list[Any]:
    """As ``apply``, each command for itself."""
    return [attempt(connection, command) for command in commands]


def _added(connection: Connection, additions: Sequence[Addition]) -> list[Added]:
    """All of them in a few statements; raises where an id was taken, a client is unknown or would have too many."""
    first = _numbers(connection, len(additions))
    totals = Counter[str]()
    for addition in additions:
        totals[addition.client] += len(addition)
    counts = _counted(connection, totals)
    done = []
    for addition in reversed(additions):
        count, came = counts[addition.client], len(addition)
        if count > addition.limit:
            raise TooMany(
                f"a client may have {addition.limit} examples: {count - came} are here and {came} came; "
                "remove some first"
            )
        done.append(Added(came, 0, count))
        counts[addition.client] -= came
    numbered = list(enumerate(additions, start=first))
    rows = (zip(repeat(a.client), repeat(k), *a.columns) for k, a in numbered)
    insert_rows(connection, examples, chain.from_iterable(rows), totals.total())
    insert_rows(connection, log, ((k, "add", a.client, None) for k, a in numbered), len(numbered))
    return done[::-1]


def _counted(connection: Connection, more: Mapping[str, int]) -> dict[str, int]:
    """How many examples clients have when so many more came; in one statement where these are equally many."""
    by_number: dict[int, list[str]] = {}
    for client, number in more.items():
        by_number.setdefault(number, []).append(client)
    counts: dict[str, int] = {}
    for number, who in by_number.items():
        counts |= {row[0]: row[1] for row in connection.execute(COUNTING, {"who": who, "more": number})}
    for client in more:
        _must(client in counts, client)
    return counts


def replace(connection: Connection, client: str, example: Example) -> None:
    """Put another example in the place of one that is there."""
    _alter(connection, "replace", client, example.id, {"x": example.x, "y": example.y, "noise": example.noise})


def remove(connection: Connection, client: str, id: str) -> None:
    _alter(connection, "remove", client, id, {"x": None, "y": None, "noise": None})
    _counted(connection, {client: -1})


def _alter(connection: Connection, kind: str, client: str, id: str, values: dict[str, Any]) -> None:
    number = _numbers(connection, 1)
    there = (examples.c.client == client) & (examples.c.id == id) & PRESENT
    if not connection.execute(update(examples).where(there).values(sequence=number, **values)).rowcount:
        raise UnknownExample(f"there is no example {id!r} to {kind}")
    connection.execute(log.insert().values(sequence=number, kind=kind, client=client, example=id))


def page(connection: Connection, client: str, after: str = "", limit: int = 100) -> list[Example]:
    """A client's own examples in the order of their ids."""
    chosen = select(examples.c.id, examples.c.x, examples.c.y, examples.c.noise).where(examples.c.client == client)
    rows = connection.execute(chosen.where(PRESENT, examples.c.id > after).order_by(examples.c.id).limit(limit))
    return [Example(*row) for row in rows]


def of_many(connection: Connection, who: Sequence[str]) -> Sequence[Row[Any]]:
    """All examples of these clients, each client's together."""
    chosen = select(examples).where(examples.c.client.in_(who), PRESENT)
    return connection.execute(chosen.order_by(examples.c.client, examples.c.id)).all()


def changed_since(connection: Connection, sequence: int) -> tuple[int, list[str]]:
    """The newest number of the log, and the clients to whom something happened after an older one."""
    newest = connection.execute(select(head.c.sequence)).scalar_one()
    who = select(log.c.client).where(log.c.sequence > sequence, log.c.sequence <= newest).distinct()
    return newest, list(connection.execute(who.order_by(log.c.client)).scalars())


def came_since(connection: Connection, client: str, sequence: int) -> set[str]:
    """The ids of a client's examples that came after a number of the log."""
    came = select(examples.c.id).where(examples.c.client == client, PRESENT, examples.c.sequence > sequence)
    return set(connection.execute(came).scalars())


def altered_since(connection: Connection, client: str, sequence: int) -> bool:
    """Whether a client replaced or removed examples after a number of the log."""
    altered = select(log.c.sequence).where(log.c.client == client, log.c.kind != "add", log.c.sequence > sequence)
    return connection.execute(altered.limit(1)).scalar() is not None


def _lock(connection: Connection) -> None:
    """One writer at a time from here on: what was looked up stays true until the end of the transaction."""
    connection.execute(select(head.c.sequence).with_for_update())


def _numbers(connection: Connection, many: int) -> int:
    """The first of so many next numbers of the log; holds the lock too."""
    return int(connection.execute(NUMBERING, {"many": many}).scalar_one()) - many + 1


def _taken(connection: Connection, client: str, ids: list[str]) -> Iterable[str]:
    for begin in range(0, len(ids), MANY):
        some = examples.c.id.in_(ids[begin : begin + MANY])
        yield from connection.execute(select(examples.c.id).where(examples.c.client == client, some)).scalars()
