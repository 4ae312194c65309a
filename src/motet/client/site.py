"""A site: many clients of a study over HTTP. It enrolls them, sends their tables, and gets their coefficients.

Each request for a client goes under that client's own token.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from motet.client.client import Client, Enrolled, Sent
from motet.client.payload import examples_to_list
from motet.client.responses import ExamplePlace
from motet.client.tables import Examples, Inputs
from motet.errors import (
    EmptyData,
    Forbidden,
    InvalidData,
    MotetError,
    ServerError,
    StaleRelease,
    TooLarge,
    Unauthorized,
    UnknownExample,
    Unreachable,
)
from motet.text import count, first_few, tally

if TYPE_CHECKING:
    from motet.release.coefficients import Coefficients
    from motet.release.disclosed import Disclosed

MAX_NAME_LETTERS = 200

T = TypeVar("T")


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


# --- the examples of a table, under one token ---


def check_owner(me: Client, rows_of: Inputs) -> None:
    """Raises if a table's column of clients names another than the one whose token this is."""
    table, column = rows_of.table, rows_of.layout.client
    if column not in table.columns:
        return
    about = me.me()
    for client, rows in table.groups(column).items():
        if client not in (about.get("name"), about.get("id")):
            expected = f"expected {about.get('name')!r}, whose token this is, got {client!r:.60}"
            advice = "use each client's own token (tokens=), or correct the table"
            raise table.refusal(rows[0], column, f"{expected}, so nothing was done: {advice}")


def send(
    me: Client,
    examples: Examples,
    advance: Callable[[int], object],
    client: str = "",
    done_clients: Collection[str] = (),
) -> Sent:
    """Send a table's examples. An error names the row, and reports which rows are stored all the same.

    If the table has several clients, ``client`` is the one that the examples are of, and ``done_clients`` are those
    whose rows were sent before.
    """
    total, stored = Sent(0, 0, 0), 0
    try:
        for total in me.send_requests(examples_to_list(*examples.triples, examples.ids)):
            advance(total.accepted + total.duplicates - stored)
            stored = total.accepted + total.duplicates
    except (TooLarge, Unauthorized, Forbidden):
        raise
    except MotetError as error:
        note = _done(examples, stored, client, done_clients, "are stored, and sending them again changes nothing")
        if not note and client and not isinstance(error, (Unreachable, ServerError)):
            note = "; nothing was stored"
        raise located(error, examples, ExamplePlace.parse(error.where), client, note) from None
    return total


@dataclass(frozen=True)
class Removal:
    """How many examples were removed or replaced, the ids of those that are not stored, and whether the old values have
    left the server's files already."""

    count: int
    missing: list[str]
    erased: bool


def replace(
    me: Client,
    examples: Examples,
    advance: Callable[[int], object],
    client: str = "",
    done_clients: Collection[str] = (),
) -> Removal:
    """Put each example of a table in the place of the stored one with its id. See ``send``."""
    erased = True  # by the last request: if nothing of that is left, nothing of the earlier ones is
    for k, (id, x, y, noise) in enumerate(zip(examples.ids, *examples.triples)):
        try:
            erased = me.replace(id, x, y, noise)
        except (Unauthorized, Forbidden):
            raise
        except MotetError as error:
            place = ExamplePlace(k, (error.where or "").removeprefix("body."))
            note = _done(examples, k, client, done_clients, "are replaced, and replacing them again changes nothing")
            raise located(error, examples, place, client, note) from None
        advance(1)
    return Removal(len(examples.ids), [], erased)


def remove(me: Client, ids: Sequence[str], advance: Callable[[int], object] = lambda _: None) -> Removal:
    """Remove examples by their ids, all that are stored."""
    missing, erased = list[str](), True
    for k, id in enumerate(ids):
        try:
            erased = me.remove(id)
        except UnknownExample:
            missing.append(id)
        except MotetError as error:
            done = f"; {count(k - len(missing), 'example')} removed before" if k > len(missing) else ""
            raise error.reworded(f"{error}{done}") from None
        advance(1)
    return Removal(len(ids) - len(missing), missing, erased)


def remove_rows(me: Client, examples: Examples, advance: Callable[[int], object], *_: object) -> Removal:
    """``remove`` for the rows of a table, with the arguments of ``send``."""
    return remove(me, examples.ids, advance)


def located(error: MotetError, examples: Examples, place: ExamplePlace | None, client: str, note: str) -> MotetError:
    """The error with file, row and column of its example, the client if there are several, and a note."""
    where = None
    if place is not None and place.example < len(examples.X):
        where = examples.table.place(place.example, examples.column(place.field))
    subject = ", ".join(filter(None, [where, client and f"client {client}"]))
    return type(error)((f"{subject}: {error}" if subject else str(error)) + note, where=where)


def _done(examples: Examples, rows: int, client: str, done_clients: Collection[str], what: str) -> str:
    """What is done all the same: so many rows of a client, and all of others; empty if there are none."""
    parts = [f"all rows of {tally(done_clients, 'client')}"] if done_clients else []
    if rows:
        first = examples.table.numbers[rows]  # that is not done
        parts.append(f"{f'the rows of {client}' if client else 'the rows'} above row {first}")
    return f"; {' and '.join(parts)} {what}" if parts else ""


# --- many clients, with a token each ---


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
                f"({first_few(missing)}), so nothing was changed: enroll them and add their tokens, "
                "or leave their rows out"
            )

    def each(
        self, examples: Mapping[str, Examples], act: Callable[..., T], advance: Callable[[int], object]
    ) -> dict[str, T]:
        """``act``, which is ``send`` or takes the same arguments, for each client in turn and under its own token."""
        done: dict[str, T] = {}
        for client, table in examples.items():
            with self.client(client, done) as me:
                done[client] = act(me, table, advance, client, done)
        return done

    def disclosed(self) -> Disclosed:
        """The current release, downloaded once for all clients."""
        with self.client(next(iter(self._tokens))) as me:
            return me.disclosed()

    def coefficients(
        self, clients: Iterable[str], advance: Callable[[], object]
    ) -> dict[str, tuple[Disclosed, Coefficients]]:
        """What an estimate of each client needs; they are of several releases if one is published meanwhile."""
        coefficients = {}
        for client in clients:
            with self.client(client) as me:
                coefficients[client] = me.coefficients()
            advance()
        return coefficients

    @contextmanager
    def client(self, name: str, done_clients: Collection[str] = ()) -> Iterator[Client]:
        """A client under its own token; errors name it, and a token of another client is refused."""
        done = f"; all rows of {tally(done_clients, 'client')} are done" if done_clients else ""
        try:
            me = self._server.with_token(self._tokens[name])
            if (owner := me.me().get("name")) != name:
                raise InvalidData(f"{self.file}: the token of {name} is that of {owner!r:.60}: correct the file{done}")
            yield me
        except (Unauthorized, Forbidden):
            raise InvalidData(
                f"the server refused the token of {name} in {self.file}: put a new one there, which the operator "
                f"makes with motet clients rotate, or leave {name} out{done}"
            ) from None
        except StaleRelease as error:
            raise error.reworded(f"client {name}: {error}") from None
