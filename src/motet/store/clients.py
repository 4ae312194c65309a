"""Clients and tokens in the database: enrolling, revoking, forgetting, and who a token belongs to."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import Connection, RowMapping, bindparam, delete, func, select, update
from sqlalchemy.exc import IntegrityError

from motet.arrays import slices
from motet.errors import InvalidData, Unauthorized, UnknownTask
from motet.store.records import append, lock, mark_deletion, put, setting, take_numbers
from motet.store.schema import clients, examples, log

NAMES_PER_QUERY = 500
# Built once: every addition of examples uses it.
COUNTING = (
    update(clients)
    .where(clients.c.id.in_(bindparam("ids", expanding=True)))
    .values(count=clients.c.count + bindparam("change"))
    .returning(clients.c.id, clients.c.count, clients.c.token, clients.c.revoked)
)
INVALID_TOKEN = "expected the token of an enrolled client: Authorization: Bearer TOKEN"  # nosec B105  # a message


@dataclass(frozen=True)
class Enrollment:
    """A new client; the token is shown once, and stored hashed."""

    id: str
    name: str
    token: str


def hash_token(token: str) -> str:
    """Tokens are long and random, so one round of a plain hash protects them."""
    return hashlib.sha256(token.encode()).hexdigest()


def enroll(connection: Connection, names: Sequence[str]) -> list[Enrollment]:
    """New clients, all or none; their ids are random, so that they do not show how many clients there are."""
    if not names or len(set(names)) < len(names) or not all(names):
        raise InvalidData("expected a list of names, each once and none empty")
    new = [Enrollment(secrets.token_hex(8), name, secrets.token_urlsafe(32)) for name in names]
    rows = [{"id": c.id, "name": c.name, "token": hash_token(c.token), "revoked": False, "count": 0} for c in new]
    lock(connection)
    try:
        with connection.begin_nested():
            connection.execute(clients.insert(), rows)
    except IntegrityError:
        same = select(clients.c.name).where(clients.c.name.in_(names[:NAMES_PER_QUERY]))
        name = connection.execute(same).scalars().first()
        raise InvalidData(f"{name or 'one of the names'!r} is already enrolled: choose another name") from None
    return new


def client_with_token(connection: Connection, token: str) -> str | None:
    """The id of the client that a token belongs to, unless it was revoked."""
    valid = (clients.c.token == hash_token(token)) & clients.c.revoked.is_(False)
    return connection.execute(select(clients.c.id).where(valid)).scalar()


def list_clients(connection: Connection, after: str = "", limit: int = 1000) -> list[RowMapping]:
    """Clients by name, with the number of examples of each: for the operator."""
    chosen = select(clients.c.id, clients.c.name, clients.c.revoked, clients.c.count.label("examples"))
    page = chosen.where(clients.c.name > after).order_by(clients.c.name).limit(limit)
    return list(connection.execute(page).mappings())


def totals(connection: Connection) -> tuple[int, int]:
    """How many clients have examples, and how many examples all have: for the operator."""
    chosen = select(func.count(), func.coalesce(func.sum(clients.c.count), 0)).where(clients.c.count > 0)
    senders, total = connection.execute(chosen).one()
    return int(senders), int(total)


def all_clients(connection: Connection) -> Iterator[RowMapping]:
    """Ids and names of all clients."""
    return iter(connection.execute(select(clients.c.id, clients.c.name)).mappings())


def clients_by_examples(connection: Connection) -> dict[int, int]:
    """How many clients have so many examples: for the operator."""
    counted = select(clients.c.count, func.count()).group_by(clients.c.count).order_by(clients.c.count)
    return {row[0]: row[1] for row in connection.execute(counted)}


def random_clients(connection: Connection, number: int, *, max_examples: int) -> list[str]:
    """The ids of some clients who have examples, and not more than so many."""
    some = select(clients.c.id).where(clients.c.count.between(1, max_examples)).order_by(func.random()).limit(number)
    return list(connection.execute(some).scalars())


def find_client(connection: Connection, name_or_id: str) -> RowMapping | None:
    """Id, name and whether it is revoked; None if there is no such client."""
    chosen = select(clients.c.id, clients.c.name, clients.c.revoked)
    either = chosen.where((clients.c.id == name_or_id) | (clients.c.name == name_or_id))
    rows = connection.execute(either).mappings().all()
    if len(rows) > 1:
        raise InvalidData(
            f"{name_or_id!r} is one client's name and another's id: give the first's id or the second's name"
        )
    return rows[0] if rows else None


def summary(connection: Connection, client: str) -> RowMapping:
    """What a client may know of itself: its name, and how many examples it has."""
    chosen = select(clients.c.name, clients.c.count).where(clients.c.id == client)
    if (row := connection.execute(chosen).mappings().first()) is None:
        raise _unknown(client)
    return row


def rotate(connection: Connection, client: str) -> str:
    """A new token in place of the old one; a revoked client is let in again."""
    token = secrets.token_urlsafe(32)
    _update(connection, client, token=hash_token(token), revoked=False)
    return token


def revoke(connection: Connection, client: str) -> None:
    """The client's token opens nothing any more; its examples stay."""
    _update(connection, client, revoked=True)


def _update(connection: Connection, client: str, **values: Any) -> None:
    lock(connection)
    if not connection.execute(update(clients).where(clients.c.id == client).values(**values)).rowcount:
        raise _unknown(client)
    _renew_access_mark(connection)


def forget(connection: Connection, client: str) -> int:
    """Delete everything of a client but its random id in the log; returns how many examples it had."""
    number = take_numbers(connection, 1)
    count: int = summary(connection, client)["count"]
    connection.execute(delete(examples).where(examples.c.client == client))
    connection.execute(delete(clients).where(clients.c.id == client))
    connection.execute(update(log).where(log.c.client == client, log.c.kind != "add").values(example=None))
    append(connection, number, "forget", client)
    mark_deletion(connection)
    _renew_access_mark(connection)
    return count


Tally: TypeAlias = tuple[int, str, bool]  # number of examples, hash of the token, whether that is revoked


def change_counts(connection: Connection, changes: Mapping[str, int]) -> dict[str, Tally]:
    """Add to the clients' numbers of examples, and return the new ones; one statement for equal changes."""
    by_change: dict[int, list[str]] = {}
    for client, change in changes.items():
        by_change.setdefault(change, []).append(client)
    counts: dict[str, Tally] = {}
    for change, ids in by_change.items():
        counts |= {row[0]: row[1:] for row in connection.execute(COUNTING, {"ids": ids, "change": change})}
    for client in changes:
        if client not in counts:
            raise _unknown(client)
    return counts


def require_token(connection: Connection, client: str, hashed: str) -> None:
    """Refuse a token that became invalid since the request began; it stays valid until the end of the transaction."""
    valid = (clients.c.id == client) & (clients.c.token == hashed) & clients.c.revoked.is_(False)
    if connection.execute(select(clients.c.id).where(valid).with_for_update()).scalar() is None:
        raise Unauthorized(INVALID_TOKEN)


def valid_tokens(connection: Connection, hashes: Collection[str]) -> set[str]:
    """Those of some hashed tokens that open something at the moment of a snapshot."""
    valid, tokens = set[str](), list(hashes)
    for part in slices(len(tokens), NAMES_PER_QUERY):
        chosen = select(clients.c.token).where(clients.c.token.in_(tokens[part]), clients.c.revoked.is_(False))
        valid |= set(connection.execute(chosen).scalars())
    return valid


def _unknown(client: str) -> UnknownTask:
    return UnknownTask(f"no client {client!r} is enrolled")


# --- settings about tokens ---


def access_mark(connection: Connection) -> str | None:
    """Another value after every withdrawal of a token: a server that caches tokens must then look them up again."""
    return setting(connection, "access")


def _renew_access_mark(connection: Connection) -> None:
    put(connection, "access", secrets.token_hex(8))


def operator_hash(connection: Connection) -> str | None:
    """The hash of the operator's token; None before the first start."""
    return setting(connection, "operator")


def set_operator_hash(connection: Connection, hashed: str) -> None:
    lock(connection)
    put(connection, "operator", hashed)
