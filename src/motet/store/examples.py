"""Clients' examples in the database: added, replaced, removed, and read back as inputs, outputs and noise.

The format in which they are stored is chosen here. Additions are data: the writer makes many of them together.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Row, bindparam, func, select, update

from motet.arrays import Array, slices
from motet.errors import TooMany, Unauthorized, UnknownExample
from motet.model.model import Model
from motet.store.clients import INVALID_TOKEN, change_counts, require_token, summary
from motet.store.records import append, lock, mark_deletion, require_terms, supersede, take_numbers
from motet.store.schema import PRESENT, examples, log
from motet.store.store import Connection, insert_rows
from motet.tables.roles import Roles

IDS_PER_QUERY = 500
REMOVED_PER_EXAMPLE = 10  # ids of removed examples that are kept, for each example that a client may have
EXAMPLES_PER_QUERY = 5000
MAX_LOG_NUMBER = 2**63 - 1  # of the log
# Built once: every addition of examples uses it. The first condition is that of the index.
REMOVAL_COUNTS = (
    select(log.c.client, func.count())
    .where(log.c.client.in_(bindparam("clients", expanding=True)), log.c.kind != "add", log.c.kind == "remove")
    .group_by(log.c.client)
)


class Example(NamedTuple):
    """One example as it is stored: the client's own id for it, the input as bytes, output and noise."""

    id: str
    x: bytes | bytearray
    y: float
    noise: float

    @classmethod
    def of(cls, model: Model, id: str, row: Array, y: float, noise: float) -> Example:
        """An input's row, output and noise that the study takes."""
        return cls(id, to_bytes(model, row[None])[0], y, noise)


@dataclass(frozen=True)
class Added:
    """The outcome of an addition; ``count`` is the number of the client's examples after it."""

    accepted: int
    duplicates: int
    count: int


# --- inputs as bytes ---


def to_bytes(model: Model, rows: Array) -> list[bytearray]:
    """Inputs as they are stored: the item's number if there is a catalogue, else the numbers.

    Python's SQLite looks for adapters of every ``bytes``, which takes longer than to write it; not of these.
    """
    table = np.ascontiguousarray(rows[:, :1] if model.catalogue is not None else rows, dtype="<f8")
    every, width = bytearray(table), 8 * table.shape[1]
    return [every[begin : begin + width] for begin in range(0, len(every), width)]


def from_bytes(model: Model, stored: Sequence[bytes | bytearray]) -> Array:
    """The inputs' rows."""
    table = np.frombuffer(b"".join(stored), dtype="<f8").reshape(len(stored), -1)
    return table if model.catalogue is None else model.catalogue.rows[table[:, 0].astype(np.intp)]


def inputs(model: Model, stored: Sequence[bytes | bytearray]) -> list[Any]:
    """The inputs as they were sent."""
    return model.inputs(from_bytes(model, stored)) if stored else []


def triples(stored: Sequence[Any], model: Model, dimension: int) -> tuple[Array, Array, Array]:
    """Inputs, outputs and noise of examples, or of rows of their table."""
    X = from_bytes(model, [example.x for example in stored]) if stored else np.empty((0, dimension))
    y, noise = np.array([(example.y, example.noise) for example in stored]).reshape(-1, 2).T
    return X, y, noise


# --- adding ---


@dataclass(frozen=True)
class Addition:
    """New examples of one client; one whose id was ever used is a duplicate and changes nothing."""

    client: str
    columns: Sequence[Sequence[Any]]  # ids, inputs, outputs, noise: there may be many, so none is an object
    limit: int  # of examples per client
    token: str | None = None  # the hash of the client's: the addition is refused if it is not valid any more
    terms: str | None = None  # of the server: it is refused under others too

    def __len__(self) -> int:
        return len(self.columns[0])


def columns(
    model: Model, ids: Sequence[str], X: Array, y: Sequence[float], noise: Sequence[float]
) -> Sequence[Sequence[Any]]:
    """Those of an ``Addition``, from triples that the study takes."""
    return [ids, to_bytes(model, X), y, noise]


def add(connection: Connection, addition: Addition) -> Added:
    """An addition that may have duplicates."""
    lock(connection)
    if addition.token is not None:
        require_token(connection, addition.client, addition.token)
    by_id = {example[0]: example for example in reversed(list(zip(*addition.columns)))}  # the first counts
    for id in _used(connection, addition.client, list(by_id)):
        del by_id[id]
    if not by_id:
        return Added(0, len(addition), summary(connection, addition.client)["count"])
    new = dataclasses.replace(addition, columns=list(zip(*reversed(by_id.values()))))
    (done,) = add_all(connection, [new])
    return dataclasses.replace(done, duplicates=len(addition) - len(new))


def _used(connection: Connection, client: str, ids: list[str]) -> Iterator[str]:
    """The ids that the client has used before, also for examples that were removed."""
    for part in slices(len(ids), IDS_PER_QUERY):
        batch = examples.c.id.in_(ids[part])
        yield from connection.execute(select(examples.c.id).where(examples.c.client == client, batch)).scalars()


def add_all(connection: Connection, additions: Sequence[Addition]) -> list[Added]:
    """All additions in a few statements; none may have duplicates.

    Raises if an id was used, a token is not valid any more, the terms are others, or a client is unknown, would have
    too many or has removed too many.
    """
    first = take_numbers(connection, len(additions))
    for terms in {addition.terms for addition in additions} - {None}:
        require_terms(connection, str(terms))
    totals = Counter[str]()
    for addition in additions:
        totals[addition.client] += len(addition)
    counts, later, done = change_counts(connection, totals), Counter[str](), []
    removed = _removals(connection, list(totals))
    for addition in reversed(additions):
        (count, token, revoked), new = counts[addition.client], len(addition)
        if addition.token is not None and (revoked or addition.token != token):
            raise Unauthorized(INVALID_TOKEN)
        count -= later[addition.client]
        if count > addition.limit:
            limit = f"limit of {addition.limit} examples per client exceeded"
            raise TooMany(f"{limit}: {count - new} stored, {new} sent")
        if (gone := removed.get(addition.client, 0)) >= REMOVED_PER_EXAMPLE * addition.limit:
            raise TooMany(
                f"expected fewer than {REMOVED_PER_EXAMPLE * addition.limit} removed examples, got {gone}: their ids "
                "are kept, so that none comes back; replace examples instead of removing and adding them, or be "
                "forgotten and enrolled anew"
            )
        done.append(Added(new, 0, count))
        later[addition.client] += new
    numbered = list(enumerate(additions, start=first))
    rows = (zip(repeat(a.client), repeat(number), *a.columns) for number, a in numbered)
    insert_rows(connection, examples, chain.from_iterable(rows), totals.total())
    insert_rows(connection, log, ((number, "add", a.client, None) for number, a in numbered), len(numbered))
    return done[::-1]


def _removals(connection: Connection, clients: Sequence[str]) -> dict[str, int]:
    """How many examples each client has removed, if any: the index of alterations has them."""
    removed: dict[str, int] = {}
    for part in slices(len(clients), IDS_PER_QUERY):
        rows = connection.execute(REMOVAL_COUNTS, {"clients": clients[part]})
        removed |= {row[0]: row[1] for row in rows}
    return removed


# --- replacing and removing ---


def replace(connection: Connection, client: str, example: Example, terms: str | None = None) -> None:
    """Put another example in the place of a stored one; ``terms`` are the server's."""
    if terms is not None:
        lock(connection)
        require_terms(connection, terms)
    _alter(connection, "replace", client, example.id, {"x": example.x, "y": example.y, "noise": example.noise})


def remove(connection: Connection, client: str, id: str) -> None:
    _alter(connection, "remove", client, id, {"x": None, "y": None, "noise": None})
    change_counts(connection, {client: -1})


def _alter(connection: Connection, kind: str, client: str, id: str, values: dict[str, Any]) -> None:
    number = take_numbers(connection, 1)
    stored = (examples.c.client == client) & (examples.c.id == id) & PRESENT
    before = connection.execute(select(examples.c.sequence).where(stored)).scalar()
    if before is None:
        raise UnknownExample(f"there is no example {id!r} to {kind}")
    connection.execute(update(examples).where(stored).values(sequence=number, **values))
    supersede(connection, before)
    append(connection, number, kind, client, id)
    mark_deletion(connection)


# --- reading ---


def page(connection: Connection, client: str, after: str = "", limit: int = 100) -> list[Example]:
    """A client's own examples in the order of their ids."""
    chosen = select(examples.c.id, examples.c.x, examples.c.y, examples.c.noise).where(examples.c.client == client)
    rows = connection.execute(chosen.where(PRESENT, examples.c.id > after).order_by(examples.c.id).limit(limit))
    return [Example(*row) for row in rows]


def of_clients(connection: Connection, clients: Sequence[str]) -> Sequence[Row[Any]]:
    """All examples of these clients, each client's together."""
    chosen = select(examples).where(examples.c.client.in_(clients), PRESENT)
    return connection.execute(chosen.order_by(examples.c.client, examples.c.id)).all()


def added_since(connection: Connection, client: str, number: int) -> set[str]:
    """The ids of a client's examples that were added or replaced after a number of the log."""
    new = select(examples.c.id).where(examples.c.client == client, PRESENT, examples.c.sequence > number)
    return set(connection.execute(new).scalars())


def count_examples(connection: Connection, *, until: int = MAX_LOG_NUMBER) -> int:
    """How many there are, or those up to a number of the log."""
    stored = select(func.count()).select_from(examples).where(PRESENT, examples.c.sequence <= until)
    return connection.execute(stored).scalar_one()


def batches(connection: Connection, *, until: int = MAX_LOG_NUMBER) -> Iterator[Sequence[Row[Any]]]:
    """All examples up to a number of the log, many at a time, each client's together."""
    chosen = select(examples).where(PRESENT, examples.c.sequence <= until)
    ordered = chosen.order_by(examples.c.client, examples.c.id)
    with connection.execute(ordered, execution_options={"yield_per": EXAMPLES_PER_QUERY}) as rows:
        yield from rows.partitions()


def example_roles(dimension: int) -> Roles:
    """The columns of ``example_tables``."""
    return Roles("client", "y", tuple(f"x{k}" for k in range(dimension)), "noise")


def example_tables(connection: Connection, model: Model, dimension: int) -> Iterator[dict[str, Any]]:
    """All examples in tables, each client's together."""
    for rows in batches(connection):
        X, y, noise = triples(rows, model, dimension)
        inputs = dict(zip(example_roles(dimension).inputs, X.T))
        yield {"client": np.array([row.client for row in rows], dtype=object), **inputs, "y": y, "noise": noise}
