"""The SDK: one client of a study, its operator, or anyone who only downloads, over HTTP.

A passive estimate needs the release alone, so nothing but a GET leaves the machine. Every example has an id that is
made here, so a request that is repeated after a lost response counts once. The numerical code is loaded when an
estimate is asked for.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import quote

import httpx

from motet.client.connection import Connection, pause
from motet.client.payload import check_id, examples_to_list
from motet.client.responses import MAX_RELEASE_BYTES, ExamplePlace, field_of
from motet.errors import (
    InvalidData,
    MotetError,
    NotReleased,
    ServerError,
    StaleRelease,
    TooLarge,
    Unauthorized,
    UnknownExample,
    UnknownTask,
)

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

    from motet.release.coefficients import Coefficients
    from motet.release.disclosed import Disclosed, Estimate

EXAMPLES_PER_REQUEST = 500
NAMES_PER_REQUEST = 500
COEFFICIENT_ATTEMPTS = 3  # to get coefficients and a release that belong together
RELEASE_TIMEOUT = 90.0  # seconds that a release may take

T = TypeVar("T")


@dataclass(frozen=True)
class Sent:
    """How many examples were new, how many the server had by their ids, and how many it has of this client now.

    ``ended`` is why no later release will have them; None while one will.
    """

    accepted: int
    duplicates: int
    count: int
    ended: str | None = None


@dataclass(frozen=True)
class Enrolled:
    id: str
    name: str
    token: str = field(repr=False)  # the server shows it only once


class _Cache:
    """The last release that was downloaded, with its ETag; replaced as one, so threads and clients may share it."""

    release: tuple[str, Disclosed] | None = None


class Client:
    """A study's server at ``url``; ``token`` is by default that of MOTET_TOKEN, and "" means none.

    ``retries`` is how often a request is repeated. If ``http`` is given it keeps its own settings and is not closed; by
    default the authorities of SSL_CERT_FILE are trusted, if it is set. A token for another machine without https warns.
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
        self._cache = _Cache()

    def __repr__(self) -> str:
        return f"Client({self._server.url!r}, {'with' if self._server.has_token else 'without'} a token)"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._server.close()

    def with_token(self, token: str) -> Client:
        """Another client of the same server, which shares connections and downloads with this one."""
        other = copy(self)
        other._server = self._server.with_token(token)
        return other

    # --- anyone ---

    def study(self) -> dict[str, Any]:
        """The study: its model, policy and budget, the current version, and when the next release is due.

        ``next_release`` is None after the last release that the budget allows, and ``refused`` then has the reason.
        """
        return self._server.request_json("GET", "/v1/study")

    def disclosed(self) -> Disclosed:
        """The current release, downloaded only if it is newer than the last one."""
        cached = self._cache.release
        headers = {"If-None-Match": cached[0]} if cached else None
        response = self._server.request("GET", "/v1/disclosed", headers=headers, max_bytes=MAX_RELEASE_BYTES)
        if response.status_code == 304:
            if cached is None:
                raise ServerError("GET /v1/disclosed: response 304 (not modified), but no release was downloaded yet")
            return cached[1]
        from motet.release.disclosed import Disclosed

        release = Disclosed.from_bytes(response.content)
        etag = response.headers.get("ETag")
        self._cache.release = (etag, release) if etag and etag.isascii() else None
        return release

    def estimate(self, X: Any = None, y: Any = None, noise: Any = None, individual: Kernel | None = None) -> Estimate:
        """This client's function: from private examples, which stay here, or without arguments from those it sent."""
        if X is not None and y is not None:
            return self.disclosed().estimate(X, y, noise, individual)
        if any(argument is not None for argument in (X, y, noise, individual)):
            raise InvalidData("expected X and y for a passive estimate, or nothing for that of the examples sent")
        release, coefficients = self.coefficients()
        return release.active_estimate(coefficients)

    def releases(self, poll: float = 60.0) -> Generator[Disclosed, None, None]:
        """Every release from now on, as it is published; the current one first, unless it was downloaded before.

        If the server offers no stream of events, it is asked every ``poll`` seconds.
        """
        cached = self._cache.release
        seen = cached[1].digest if cached else None
        with closing(self._release_signals(poll)) as signals:
            for _ in signals:
                try:
                    release = self.disclosed()
                except NotReleased:
                    continue
                if release.digest != seen:
                    seen = release.digest
                    yield release

    def _release_signals(self, poll: float) -> Generator[None, None, None]:
        """Yields when to look for a release: now, at each event, when the stream was lost, else every ``poll`` s."""
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

    # --- a client ---

    def send(self, x: Any, y: float, noise: float = 1.0, id: str | None = None) -> Sent:
        """One example; with an ``id`` the call may be repeated.

        ``x`` is a catalogue's name, a mapping from the study's columns to cells, or a list of numbers.
        """
        return self.send_many([x], [y], [noise], None if id is None else [id])

    def send_many(
        self,
        X: Any,
        y: Any,
        noise: Any = None,
        ids: Sequence[str] | None = None,
        *,
        chunk: int = EXAMPLES_PER_REQUEST,
        progress: Callable[[int, int], object] | None = None,
    ) -> Sent:
        """Many examples, at most ``chunk`` in a request, which is stored whole or not at all; see ``send``.

        Inputs by name are a data frame, a mapping of columns, or a list of mappings. An array has rows of numbers.
        """
        if chunk < 1:
            raise InvalidData(f"chunk must be a positive number of examples, got {chunk!r}")
        examples = examples_to_list(X, y, noise, ids)
        n, total = len(examples), Sent(0, 0, 0)
        try:
            for total in self.send_requests(examples, chunk):
                if progress is not None:
                    progress(total.accepted + total.duplicates, n)
        except MotetError as error:
            place, stored = ExamplePlace.parse(error.where), total.accepted + total.duplicates
            field = f", {place.field}" if place is not None and place.field else ""
            message = f"{error}" if place is None else f"example {place.example} of {n}{field}: {error}"
            raise error.reworded(message + (f"; the first {stored} are stored" if stored else "")) from error
        if ids is None:  # nobody else has these ids: a duplicate is of our own request, whose response was lost
            total = replace(total, accepted=total.accepted + total.duplicates, duplicates=0)
        return total

    def send_requests(self, examples: Sequence[dict[str, Any]], chunk: int = EXAMPLES_PER_REQUEST) -> Iterator[Sent]:
        """``examples`` of ``examples_to_list``, in as many requests as needed; yields the totals after each of them.

        An error's ``where`` counts from the first of the examples.
        """
        total = Sent(0, 0, 0)

        def request(begin: int, end: int) -> Sent:
            try:
                body = self._server.request_json("POST", "/v1/examples", json={"examples": examples[begin:end]})
            except MotetError as error:
                if (place := ExamplePlace.parse(error.where)) is not None:
                    error.where = str(place._replace(example=begin + place.example))
                raise
            ended = field_of(body, "ended", str) if body.get("ended") is not None else None
            accepted, duplicates, count = (field_of(body, name, int) for name in ("accepted", "duplicates", "count"))
            return Sent(accepted, duplicates, count, ended)

        for sent in _in_requests(len(examples), chunk, request):
            accepted, duplicates = total.accepted + sent.accepted, total.duplicates + sent.duplicates
            total = replace(sent, accepted=accepted, duplicates=duplicates)
            yield total

    def me(self) -> dict[str, Any]:
        """What the server stores about this client."""
        return self._server.request_json("GET", "/v1/me")

    def coefficients(self) -> tuple[Disclosed, Coefficients]:
        """The current release, and this client's coefficients for it, from the examples that it sent."""
        from motet.release.coefficients import Coefficients, release_digest

        for attempt in range(COEFFICIENT_ATTEMPTS):
            if attempt:
                self._server.sleep(pause(attempt))
            body = self._server.request_json("GET", "/v1/me/coefficients")
            digest, cached = release_digest(body), self._cache.release
            release = cached[1] if cached and cached[1].digest == digest else self.disclosed()
            if release.digest == digest:
                return release, Coefficients.from_dict(body, release.dimension)
        raise StaleRelease(
            f"coefficients and release were of different versions {COEFFICIENT_ATTEMPTS} times: try again later"
        )

    def examples(self) -> Iterator[dict[str, Any]]:
        """All examples that the server stores of this client."""
        return self._server.pages("/v1/me/examples", "examples")

    def replace(self, id: str, x: Any, y: float, noise: float = 1.0) -> bool:
        """Replace the example that has this id; returns whether the old values are erased, as ``remove`` does."""
        (example,) = examples_to_list([x], [y], [noise], [id])
        del example["id"]
        return self._removal("PUT", f"/v1/me/examples/{_path_part(id)}", json=example)

    def remove(self, id: str) -> bool:
        """Remove the example that has this id.

        True: nothing of it is in the files of the server's database, nor, without noise, in the release that it serves.
        False: it is deleted and in no release computed later, and leaves the files when no program reads the old ones
        and the release when the next one is computed; or the server's response was lost.
        """
        return self._removal("DELETE", f"/v1/me/examples/{_path_part(id)}", done=(UnknownExample,))

    def forget_me(self) -> bool:
        """Delete everything of this client, its token included; returns whether it is erased, as ``remove`` does."""
        self.me()  # the token is valid now, so if it is not after a lost response, the client was forgotten
        return self._removal("DELETE", "/v1/me", done=(Unauthorized, UnknownTask))

    def _removal(self, method: str, path: str, **options: Any) -> bool:
        return self._server.request(method, path, **options).status_code == 200

    # --- the operator ---

    def enroll(self, names: Iterable[str]) -> list[Enrolled]:
        """New clients, all in one request, with the tokens to hand to them."""
        new = [names] if isinstance(names, str) else list(names)
        body = self._server.request_json("POST", "/v1/clients", json={"names": new}, once=True)
        clients = field_of(body, "clients", list)
        return [Enrolled(*(field_of(client, name, str) for name in ("id", "name", "token"))) for client in clients]

    def enroll_many(self, names: Sequence[str]) -> Iterator[list[Enrolled]]:
        """New clients, request by request, so that no token is lost if a later request fails."""
        return _in_requests(len(names), NAMES_PER_REQUEST, lambda begin, end: self.enroll(names[begin:end]))

    def clients(self) -> list[dict[str, Any]]:
        """All clients: id, name, how many examples, and whether the token is revoked."""
        return list(self._server.pages("/v1/clients", "clients"))

    def figures(self) -> dict[str, Any]:
        """For the operator: how many clients have how many examples, and the share that the clip shortens."""
        return dict(self._server.request_json("GET", "/v1/clients/figures"))

    def revoke(self, id: str) -> None:
        """Make the client's token invalid; its examples stay."""
        self._server.request("DELETE", f"/v1/clients/{_path_part(id)}")

    def forget(self, id: str) -> bool:
        """Delete a client's examples, name and token; returns whether they are erased, as ``remove`` does."""
        path = f"/v1/clients/{_path_part(id)}"
        return self._removal("DELETE", path, done=(UnknownTask,), params={"examples": "true"})

    def rotate(self, id: str) -> str:
        """A new token in place of the client's old one; a client that was revoked is let in again."""
        return field_of(self._server.request_json("POST", f"/v1/clients/{_path_part(id)}/token"), "token", str)

    def release_now(self) -> int:
        """Ask for a release, if the policy allows it; returns its version."""
        body = self._server.request_json("POST", "/v1/releases", once=True, timeout=RELEASE_TIMEOUT)
        return field_of(body, "version", int)

    def release_history(self) -> dict[str, Any]:
        """``releases``, newest first, with their times, noise and ε spent; ``next``, what the next one would have."""
        body = self._server.request_json("GET", "/v1/releases")
        return {"releases": field_of(body, "releases", list), "next": field_of(body, "next", dict)}

    def refusals(self) -> list[dict[str, Any]]:
        """The last requests that the server refused, newest first: time, method, route and status."""
        return field_of(self._server.request_json("GET", "/v1/refusals"), "refusals", list)


def _in_requests(n: int, size: int, request: Callable[[int, int], T]) -> Iterator[T]:
    """``request(begin, end)`` for 0 to n in steps of ``size``; a step that is too large for the server is halved."""
    begin = 0
    while begin < n:
        end = min(begin + size, n)
        try:
            result = request(begin, end)
        except TooLarge:
            if end - begin == 1:
                raise
            size = (end - begin) // 2
            continue
        yield result
        begin = end


def _path_part(id: str) -> str:
    """An id as a part of an address."""
    return quote(check_id(id), safe="")
