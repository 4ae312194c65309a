"""The SDK: one client of a study, its operator, or a stranger who only downloads, over HTTP.

A passive estimate needs the release alone, so nothing but a GET leaves the machine. Every example has an id that is
made here, so a request that is repeated after a lost answer counts once. What estimates is loaded when it is needed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import httpx

from motet.client.connection import Connection, pause
from motet.client.payload import check_id, examples_to_list
from motet.client.responses import field_of
from motet.errors import (
    InvalidData,
    MotetError,
    NotReleased,
    ServerError,
    StaleRelease,
    Unauthorized,
    UnknownExample,
    UnknownTask,
)

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

    from motet.release.disclosed import Coefficients, Disclosed, Estimate

ATTEMPTS = 3  # to get coefficients and a release that belong together
PATIENCE = 90.0  # seconds that a release may take


@dataclass(frozen=True)
class Sent:
    """How many examples were new, how many the server had by their ids, and how many it has of this client now."""

    accepted: int
    duplicates: int
    count: int


@dataclass(frozen=True)
class Enrolled:
    id: str
    name: str
    token: str = field(repr=False)  # the server shows it this once


class _Shelf:
    """The last release that came, with its ETag; replaced as one, so that threads and clients may share it."""

    held: tuple[str, Disclosed] | None = None


class Client:
    """A study's server at ``url``; ``token`` is by default that of MOTET_TOKEN, and "" is none.

    ``retries`` is how often a request is repeated. An ``http`` that is given keeps its own settings and is not closed.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        http: httpx.Client | None = None,
        timeout: float = 30.0,
        retries: int = 5,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        token = os.environ.get("MOTET_TOKEN", "") if token is None else token
        self._server = Connection(url, token, http=http, timeout=timeout, retries=retries, sleep=sleep)
        self._shelf = _Shelf()

    def __repr__(self) -> str:
        return f"Client({self._server.url!r}, {'with' if self._server.has_token else 'without'} a token)"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._server.close()

    def with_token(self, token: str) -> Client:
        """Another client of the same server, who shares connections and downloads with this one."""
        other = copy(self)
        other._server = self._server.holding(token)
        return other

    # --- what anyone may ask ---

    def study(self) -> dict[str, Any]:
        """The study: its model, policy and budget, the current version, and when the next release is due."""
        return self._server.answer("GET", "/v1/study")

    def disclosed(self) -> Disclosed:
        """The current release, downloaded only where it is another than the last one."""
        held = self._shelf.held
        response = self._server.request("GET", "/v1/disclosed", headers={"If-None-Match": held[0]} if held else None)
        if response.status_code == 304:
            if held is None:
                raise ServerError("GET /v1/disclosed: the server says that a release is known here, but none is")
            return held[1]
        from motet.release.disclosed import Disclosed

        release = Disclosed.from_bytes(response.content)
        etag = response.headers.get("ETag")
        self._shelf.held = (etag, release) if etag and etag.isascii() else None
        return release

    def estimate(self, X: Any = None, y: Any = None, noise: Any = None, individual: Kernel | None = None) -> Estimate:
        """One's own function: from private examples, which stay here, or without any from those that were sent."""
        if X is not None and y is not None:
            return self.disclosed().estimate(X, y, noise, individual)
        if any(given is not None for given in (X, y, noise, individual)):
            raise InvalidData("expected X and y for a passive estimate, or nothing for that of the examples sent")
        release, coefficients = self.coefficients()
        return release.active_estimate(coefficients)

    def releases(self, poll: float = 60.0) -> Generator[Disclosed, None, None]:
        """Every release from now on, as it comes; the current one first, unless it was downloaded before.

        ``poll`` is how many seconds pass between looks where the server does not tell by itself.
        """
        held = self._shelf.held
        seen = held[1].digest if held else None
        with closing(self._moments(poll)) as moments:
            for _ in moments:
                try:
                    release = self.disclosed()
                except NotReleased:
                    continue
                if release.digest != seen:
                    seen = release.digest
                    yield release

    def _moments(self, poll: float) -> Generator[None, None, None]:
        """When to look for a release: now, when the stream says so or was lost, else every ``poll`` seconds."""
        yield
        failures = 0
        while True:
            try:
                with closing(self._server.events("/v1/stream", "release", silence=poll)) as events:
                    for _ in events:
                        failures = 0
                        yield
            except MotetError:
                break  # refused
            failures += 1
            self._server.sleep(pause(failures))
            yield
        while True:
            self._server.sleep(poll)
            yield

    # --- a client's own ---

    def send(self, x: Any, y: float, noise: float = 1.0, id: str | None = None) -> Sent:
        """One example: ``x`` is a catalogue's name or a list of numbers; with an ``id`` the call may be repeated."""
        return self.send_many([x], [y], [noise], None if id is None else [id])

    def send_many(
        self,
        X: Any,
        y: Any,
        noise: Any = None,
        ids: Sequence[str] | None = None,
        *,
        chunk: int = 500,
        progress: Callable[[int, int], object] | None = None,
    ) -> Sent:
        """Many examples, ``chunk`` of them in a request that is taken whole or not at all; see ``send`` for ``ids``."""
        if chunk < 1:
            raise InvalidData(f"chunk must be a positive number of examples, got {chunk!r}")
        examples = examples_to_list(X, y, noise, ids)
        n, total = len(examples), Sent(0, 0, 0)
        for begin in range(0, n, chunk):
            end = min(begin + chunk, n)
            try:
                sent = self._post(examples[begin:end])
            except MotetError as error:
                if chunk >= n:
                    raise
                which = f"in the request with examples {begin} to {end - 1} of {n} (those before it are stored)"
                raise type(error)(f"{which}: {error}") from error
            total = Sent(total.accepted + sent.accepted, total.duplicates + sent.duplicates, sent.count)
            if progress is not None:
                progress(end, n)
        if ids is None:  # nobody else has these ids: a duplicate is our own, whose answer was lost
            total = Sent(total.accepted + total.duplicates, 0, total.count)
        return total

    def _post(self, examples: list[dict[str, Any]]) -> Sent:
        found = self._server.answer("POST", "/v1/examples", json={"examples": examples})
        return Sent(*(field_of(found, name, int) for name in ("accepted", "duplicates", "count")))

    def me(self) -> dict[str, Any]:
        """What the server knows of this client."""
        return self._server.answer("GET", "/v1/me")

    def coefficients(self) -> tuple[Disclosed, Coefficients]:
        """The current release, and what the server makes of it with the examples that this client sent."""
        from motet.release.coefficients import coefficients_from_dict, release_of

        for attempt in range(ATTEMPTS):
            if attempt:
                self._server.sleep(pause(attempt))
            data = self._server.answer("GET", "/v1/me/coefficients")
            held = self._shelf.held
            release = held[1] if held and held[1].digest == release_of(data) else self.disclosed()
            if release.digest == release_of(data):
                return release, coefficients_from_dict(data, release.landmarks.shape[1])
        raise StaleRelease(f"coefficients and release did not belong together {ATTEMPTS} times: try again later")

    def examples(self) -> Iterator[dict[str, Any]]:
        """All examples that the server has of this client."""
        return self._server.pages("/v1/me/examples", "examples")

    def replace(self, id: str, x: Any, y: float, noise: float = 1.0) -> None:
        """Put another example in the place of one."""
        (example,) = examples_to_list([x], [y], [noise], [id])
        del example["id"]
        self._server.request("PUT", f"/v1/me/examples/{_part(id)}", json=example)

    def remove(self, id: str) -> None:
        self._server.request("DELETE", f"/v1/me/examples/{_part(id)}", done=(UnknownExample,))

    def forget_me(self) -> None:
        """Take back everything of this client, and its token with it."""
        self.me()  # the token is good now, so where it is not after a lost answer, it was forgotten
        self._server.request("DELETE", "/v1/me", done=(Unauthorized, UnknownTask))

    # --- the operator's ---

    def enroll(self, names: Iterable[str]) -> list[Enrolled]:
        """New clients, with the tokens to hand to them."""
        listed = [names] if isinstance(names, str) else list(names)
        found = self._server.answer("POST", "/v1/clients", json={"names": listed}, once=True)
        new = field_of(found, "clients", list)
        return [Enrolled(*(field_of(client, name, str) for name in ("id", "name", "token"))) for client in new]

    def clients(self) -> list[dict[str, Any]]:
        return list(self._server.pages("/v1/clients", "clients"))

    def revoke(self, id: str) -> None:
        """The client's token opens nothing any more; its examples stay."""
        self._server.request("DELETE", f"/v1/clients/{_part(id)}")

    def rotate(self, id: str) -> str:
        """A new token in place of the client's old one."""
        return field_of(self._server.answer("POST", f"/v1/clients/{_part(id)}/token"), "token", str)

    def release_now(self) -> int:
        """Ask for a release, where the policy allows; its version."""
        return field_of(self._server.answer("POST", "/v1/releases", once=True, patience=PATIENCE), "version", int)


def _part(id: str) -> str:
    """An id as a part of an address."""
    return quote(check_id(id), safe="")
