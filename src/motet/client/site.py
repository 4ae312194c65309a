"""A site that speaks for many clients over HTTP, for each under that client's own token."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from motet.client import batches
from motet.client.client import Client, Sent
from motet.client.tables import Examples
from motet.errors import Forbidden, InvalidData, StaleRelease, Unauthorized
from motet.text import first_few, tally

if TYPE_CHECKING:
    from motet.release.disclosed import Coefficients, Disclosed


class Site:
    """A server and the tokens of many clients, by their names; ``file`` is where these are from."""

    def __init__(self, server: Client, tokens: Mapping[str, str], file: str) -> None:
        self._server, self._tokens, self._file = server, tokens, file

    def check(self, clients: Iterable[str], file: str) -> None:
        """Raises unless there is a token for each of the clients of a file."""
        clients = list(clients)
        if lacking := [client for client in clients if client not in self._tokens]:
            raise InvalidData(
                f"{file}: {len(lacking)} of {len(clients)} clients have no token in {self._file} "
                f"({first_few(lacking)}), so nothing was sent: "
                "enroll them (motet enroll --out) and add their tokens, or leave their rows out"
            )

    def send(self, examples: Mapping[str, Examples], advance: Callable[[int], object]) -> dict[str, Sent]:
        """Each client's examples; where one is refused, those of the clients before it are stored."""
        sent: dict[str, Sent] = {}
        for client, own in examples.items():
            with self._speaking_for(client, sent) as me:
                sent[client] = batches.send(me, own, advance, client, sent)
        return sent

    def disclosed(self) -> Disclosed:
        """The current release, which is downloaded once for all."""
        with self._speaking_for(next(iter(self._tokens))) as me:
            return me.disclosed()

    def coefficients(
        self, clients: Iterable[str], advance: Callable[[], object]
    ) -> dict[str, tuple[Disclosed, Coefficients]]:
        """What an estimate of each client needs; not all are of one release where another comes meanwhile."""
        found = {}
        for client in clients:
            with self._speaking_for(client) as me:
                found[client] = me.coefficients()
            advance()
        return found

    @contextmanager
    def _speaking_for(self, client: str, done: Collection[str] = ()) -> Iterator[Client]:
        try:
            yield self._server.with_token(self._tokens[client])
        except (Unauthorized, Forbidden):
            stored = f"; all rows of {tally(done, 'client')} are stored" if done else ""
            raise InvalidData(
                f"the server knows no client with the token of {client} in {self._file}: put a new one there, from the "
                f"operator's motet clients --rotate, or leave {client} out{stored}"
            ) from None
        except StaleRelease as error:
            raise StaleRelease(f"client {client}: {error}") from None
