"""Many names or a whole table over HTTP, in requests that the server takes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeVar

from motet.client.client import Client, Enrolled, Sent
from motet.client.tables import Examples
from motet.errors import (
    EmptyData,
    Forbidden,
    InvalidData,
    MotetError,
    ServerError,
    TooLarge,
    Unauthorized,
    Unreachable,
)
from motet.text import tally

MOST = 500  # names or examples in a request
LONGEST = 200  # letters of a name
T = TypeVar("T")


def enroll(operator: Client, names: Sequence[str]) -> Iterator[list[Enrolled]]:
    """New clients, some at a time, so that no token is lost where a later request fails."""
    _check_names(operator, names)

    def request(begin: int, end: int) -> list[Enrolled]:
        try:
            return operator.enroll(names[begin:end])
        except TooLarge:
            raise
        except MotetError as error:
            done = f"; the {begin} before {names[begin]!r} are enrolled: leave them out next time" if begin else ""
            raise type(error)(f"{error}{done}") from None

    yield from _batched(len(names), request)


def _check_names(operator: Client, names: Sequence[str]) -> None:
    if not names:
        raise EmptyData("expected the names of new clients, got none: give them as arguments, or in a file")
    for name, times in Counter(names).items():
        if times > 1:
            raise InvalidData(f"expected each name once, got {name!r:.60} {times} times")
        if not 0 < len(name) <= LONGEST:
            raise InvalidData(f"a name has 1 to {LONGEST} letters, got {len(name)}: {name!r:.60}")
    known = {client["name"] for client in operator.clients()}
    if taken := [name for name in names if name in known]:
        more = f" and {len(taken) - 1} more are" if len(taken) > 1 else " is"
        raise InvalidData(f"{taken[0]!r}{more} enrolled already, so nobody was: choose other names, or leave them out")


def send(
    me: Client, examples: Examples, advance: Callable[[int], object], client: str = "", before: Collection[str] = ()
) -> Sent:
    """A table's examples; a refusal names the row, and says which rows are stored all the same.

    Where the table has several clients it also says whose row it is; ``before`` are those whose rows were sent.
    """
    X, y, noise, ids = examples.X, examples.y, examples.noise, examples.ids

    def request(begin: int, end: int) -> Sent:
        try:
            return me.send_many(X[begin:end], y[begin:end], noise[begin:end], ids[begin:end])
        except (TooLarge, Unauthorized, Forbidden):
            raise
        except MotetError as error:
            first = examples.table.numbers[begin] if begin else 0
            known = _stored(client, first, before, sure=not isinstance(error, (Unreachable, ServerError)))
            raise type(error)(_located(str(error), examples, begin, client) + known) from None

    total = Sent(0, 0, 0)
    for sent in _batched(len(X), request):
        total = Sent(total.accepted + sent.accepted, total.duplicates + sent.duplicates, sent.count)
        advance(sent.accepted + sent.duplicates)
    return total


def _located(message: str, examples: Examples, begin: int, client: str) -> str:
    """A server's refusal, with the row in place of the example's number in the request."""
    places = [f"client {client}"] if client else []
    if found := re.match(r"(?:body\.)?examples\.(\d+)[\w.]*: ", message):
        table, message = examples.table, message[found.end() :]
        places = [table.file, f"row {table.numbers[begin + int(found[1])]}", *places]
    return ": ".join([", ".join(places), message] if places else [message])


def _stored(client: str, first: int, before: Collection[str], *, sure: bool) -> str:
    """What is stored where the request that begins with row ``first`` was refused, 0 being the client's first one."""
    parts = [f"all rows of {tally(before, 'client')}"] if before else []
    if first:
        parts.append(f"{f'what {client} has' if client else 'what is'} above row {first}")
    if not parts:
        return "; nothing was stored" if client and sure else ""
    are, them = ("are", "them") if before else ("is", "it")
    return f"; {' and '.join(parts)} {are} stored, and sending {them} again changes nothing"


def _batched(n: int, request: Callable[[int, int], T]) -> Iterator[T]:
    """``request`` from one number to the next until ``n``; where one is too large, half as many at a time."""
    begin, size = 0, MOST
    while begin < n:
        end = min(begin + size, n)
        try:
            found = request(begin, end)
        except TooLarge:
            if end - begin == 1:
                raise
            size = (end - begin) // 2
            continue
        yield found
        begin = end
