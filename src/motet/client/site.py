"""A site: many clients of a study over HTTP. It enrolls them, sends their tables, and gets their coefficients.

Each request for a client goes under that client's own token.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from motet.client.client import Client, Enrolled, Sent
from motet.client.payload import examples_to_list
from motet.client.responses import ExamplePlace
from motet.client.tables import Examples
from motet.errors import (
    EmptyData,
    Forbidden,
    InvalidData,
    MotetError,
    ServerError,
    StaleRelease,
    TooLarge,
    Unauthorized,
    Unreachable,
)
from motet.text import first_few, tally

if TYPE_CHECKING:
    from motet.release.coefficients import Coefficients
    from motet.release.disclosed import Disclosed

MAX_NAME_LETTERS = 200


def enroll(operator: Client, names: Sequence[str]) -> Iterator[list[Enrolled]]:
    """New clients, some at a time, so that no token is lost if a later request fails."""
    _check_names(operator, names)
    enrolled = 0
    try:
        for new in operator.enroll_many(names):
            enrolled += len(new)
            yield new
    except MotetError as error:
        if not enrolled:
            raise
        done = f"the {enrolled} before {names[enrolled]!r} are enrolled: leave them out next time"
        raise error.reworded(f"{error}; {done}") from None


def _check_names(operator: Client, names: Sequence[str]) -> None:
    if not names:
        raise EmptyData("expected the names of new clients, got none: give them as arguments, or in a file")
    for name, times in Counter(names).items():
        if times > 1:
            raise InvalidData(f"expected each name once, got {name!r:.60} {times} times")
        if not 0 < len(name) <= MAX_NAME_LETTERS:
            raise InvalidData(f"a name has 1 to {MAX_NAME_LETTERS} letters, got {len(name)}: {name!r:.60}")
    enrolled = {client["name"] for client in operator.clients()}
    if taken := [name for name in names if name in enrolled]:
        more = f" and {len(taken) - 1} more are" if len(taken) > 1 else " is"
        raise InvalidData(
            f"{taken[0]!r}{more} already enrolled, so no one was enrolled now: choose other names, or leave them out"
        )


def send(
    me: Client,
    examples: Examples,
    advance: Callable[[int], object],
    client: str = "",
    sent_clients: Collection[str] = (),
) -> Sent:
    """Send a table's examples. An error names the row, and reports which rows are stored all the same.

    If the table has several clients, ``client`` is the one that the examples are of, and ``sent_clients`` are those
    whose rows were sent before.
    """
    total = Sent(0, 0, 0)
    stored = 0
    try:
        for total in me.send_requests(examples_to_list(*examples.triples, examples.ids)):
            advance(total.accepted + total.duplicates - stored)
            stored = total.accepted + total.duplicates
    except (TooLarge, Unauthorized, Forbidden):
        raise
    except MotetError as error:
        first = examples.table.numbers[stored] if stored else 0
        sure = not isinstance(error, (Unreachable, ServerError))
        place = _place(error, examples)
        subject = ", ".join(filter(None, [place, client and f"client {client}"]))
        message = f"{subject}: {error}" if subject else str(error)
        raise type(error)(message + _stored(client, first, sent_clients, sure=sure), where=place) from None
    return total


def _place(error: MotetError, examples: Examples) -> str | None:
    """File, row and column of the example that an error is about."""
    place = ExamplePlace.parse(error.where)
    if place is None or place.example >= len(examples.X):
        return None
    columns = {f"x.{k}": column for k, column in enumerate(examples.columns)} | {"y": "y", "noise": "noise"}
    return examples.table.place(place.example, columns.get(place.field))


def _stored(client: str, first: int, sent_clients: Collection[str], *, sure: bool) -> str:
    """What is stored if the request that begins with row ``first`` failed, 0 being the client's first request."""
    parts = [f"all rows of {tally(sent_clients, 'client')}"] if sent_clients else []
    if first:
        parts.append(f"{f'the rows of {client}' if client else 'the rows'} above row {first}")
    if not parts:
        return "; nothing was stored" if client and sure else ""
    return f"; {' and '.join(parts)} are stored, and sending them again changes nothing"


class Site:
    """A server and the tokens of many clients, by their names; ``file`` is the table of the tokens."""

    def __init__(self, server: Client, tokens: Mapping[str, str], file: str) -> None:
        self._server, self._tokens, self.file = server, tokens, file

    @property
    def clients(self) -> Collection[str]:
        return self._tokens.keys()

    def check(self, clients: Collection[str], file: str) -> None:
        """Raises unless there is a token for each client of a table."""
        if missing := [client for client in clients if client not in self._tokens]:
            raise InvalidData(
                f"{file}: {len(missing)} of {len(clients)} clients have no token in {self.file} "
                f"({first_few(missing)}), so nothing was sent: enroll them (motet enroll --out) and add their tokens, "
                "or leave their rows out"
            )

    def send(self, examples: Mapping[str, Examples], advance: Callable[[int], object]) -> dict[str, Sent]:
        """Send each client's examples; if one is refused, those of the clients before it are stored."""
        sent: dict[str, Sent] = {}
        for client, table in examples.items():
            with self._as_client(client, sent) as me:
                sent[client] = send(me, table, advance, client, sent)
        return sent

    def disclosed(self) -> Disclosed:
        """The current release, downloaded once for all clients."""
        with self._as_client(next(iter(self._tokens))) as me:
            return me.disclosed()

    def coefficients(
        self, clients: Iterable[str], advance: Callable[[], object]
    ) -> dict[str, tuple[Disclosed, Coefficients]]:
        """What an estimate of each client needs; they are of several releases if one is published meanwhile."""
        coefficients = {}
        for client in clients:
            with self._as_client(client) as me:
                coefficients[client] = me.coefficients()
            advance()
        return coefficients

    @contextmanager
    def _as_client(self, client: str, sent_clients: Collection[str] = ()) -> Iterator[Client]:
        """A client under its own token; errors name it."""
        try:
            yield self._server.with_token(self._tokens[client])
        except (Unauthorized, Forbidden):
            stored = f"; all rows of {tally(sent_clients, 'client')} are stored" if sent_clients else ""
            raise InvalidData(
                f"the server refused the token of {client} in {self.file}: put a new one there, which the operator "
                f"makes with motet clients --rotate, or leave {client} out{stored}"
            ) from None
        except StaleRelease as error:
            raise error.reworded(f"client {client}: {error}") from None
