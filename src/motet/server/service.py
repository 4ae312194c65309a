"""What the server's routes share: the study, its store and writer, the current release, and who is asking.

All that a stranger sees is a function of released databases and of the study's file: the release is looked up by the
clock, and nothing here counts what was not released.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool

from motet.errors import Forbidden, NotReleased, StaleRelease, Unauthorized
from motet.model.tasks import Own
from motet.privacy.ledger import Ledger
from motet.release.disclosed import Coefficients, Disclosed
from motet.server.metrics import Metrics
from motet.store import records
from motet.store import releases as publications
from motet.store.releases import Published
from motet.store.store import Store, setting
from motet.store.writer import Writer
from motet.study.study import Study
from motet.text import utc

LOG = logging.getLogger("motet.service")
T = TypeVar("T")
LOOK = 0.5  # seconds between looks for a new release
MANY = 100_000  # clients that are remembered


class Service:
    """One study as a running server has it."""

    def __init__(
        self, study: Study, store: Store, operator: str, *, reached: Callable[[str], None] = lambda _: None
    ) -> None:
        self.study, self.store = study, store
        self._loop = asyncio.get_running_loop()
        self.writer = Writer(store, reached=reached, answer=self._loop.call_soon_threadsafe)
        self.metrics = Metrics(lambda: self.writer.waiting, lambda: self.version)
        self._operator = operator  # hashed
        self._rates: dict[str, tuple[float, float]] = {}
        self._tokens: dict[str, str] = {}  # hashed, with the clients' ids
        self._access: str | None = None
        self.current: Published | None = None
        self.disclosed: Disclosed | None = None
        self.changed = asyncio.Condition()
        self._due = 0.0
        self._model = json.loads(study.model.to_json())

    # --- releases ---

    async def watch(self) -> None:
        """Look for new releases until cancelled, and wake whoever waits for one."""
        while True:
            try:
                await self.look()
            except SQLAlchemyError:
                self._tokens = {}
                LOG.exception("looking for a release failed")
            await asyncio.sleep(LOOK)

    async def look(self) -> None:
        newest, due, access = await self.read(_news)
        self._due = float(due or "0")
        if access != self._access:  # somebody's token opens nothing any more, perhaps through another server
            self._access = access
            self._tokens = {}
        if newest != self.version:
            self.current = await self.read(publications.latest)
            self.disclosed = Disclosed.from_bytes(self.current.data) if self.current else None
            async with self.changed:
                self.changed.notify_all()

    @property
    def version(self) -> int:
        """Of the current release; 0 before the first."""
        return self.current.version if self.current else 0

    @property
    def due(self) -> str:
        """When the next release is."""
        return utc(self._due)

    def released(self) -> Published:
        if self.current is None:
            raise NotReleased(f"nothing is released yet: the first release is due at {self.due}")
        return self.current

    async def status(self) -> dict[str, Any]:
        """What anyone may know: the study, its policy and budget, the current version and the next scheduled time."""
        return await self.read(self._status)

    def _status(self, connection: Connection) -> dict[str, Any]:
        study, planned = self.study, self.study.ledger()
        return {
            "name": study.name,
            "policy": study.release.policy,
            "model": self._model,
            "dimension": study.dimension,
            "limits": study.limits.model_dump(),
            "version": self.version,
            "next_release": float(setting(connection, "next") or "0"),
            "budget": None if planned is None else _budget(publications.spent(connection, planned)),
            "refused": setting(connection, "refused") or None,
        }

    # --- who asks ---

    async def client(self, token: str | None) -> str:
        """The id of the client that holds a token, looked up once and again after any token was withdrawn."""
        key, tokens = records.hashed(token or ""), self._tokens  # a withdrawal meanwhile leaves these behind
        if (known := tokens.get(key)) is not None:
            return known
        found = None if not token else await self.read(partial(records.client_of, token=token))
        if found is None:
            raise Unauthorized("expected the token of an enrolled client: Authorization: Bearer TOKEN")
        if len(tokens) > MANY:
            tokens.clear()
        tokens[key] = found
        return found

    async def check_operator(self, token: str | None) -> None:
        if token and hmac.compare_digest(records.hashed(token), self._operator):
            return
        await self.client(token)
        raise Forbidden("this call is the operator's")

    def admit(self, client: str) -> float | None:
        """Seconds to wait where a client asks too often; a bucket that fills at the study's rate."""
        rate = float(self.study.server.rate)
        now = time.monotonic()
        level, at = self._rates.get(client, (rate, now))
        level = min(rate, level + (now - at) * rate)
        if level < 1.0:
            return (1.0 - level) / rate
        if len(self._rates) > MANY:
            self._rates.clear()
        self._rates[client] = (level - 1.0, now)
        return None

    # --- an active client's part ---

    async def coefficients(self, client: str) -> Coefficients:
        """aʲ against the current release, from the client's own rows alone."""
        current, disclosed = self.released(), self.disclosed
        assert disclosed is not None
        own, released = await self.read(partial(self._own, client=client, current=current))
        kernel = self.study.model.individual
        return await run_in_threadpool(disclosed.coefficients, own, released, kernel)

    def _own(self, connection: Connection, client: str, current: Published) -> tuple[Own, Own | None]:
        """The client's examples, and those that the release has of it, where that is not the same."""
        held = records.page(connection, client, limit=self.study.limits.examples_per_client)
        own = self._folded(held)
        if self.study.private:  # its clipped part stays in
            return own, own.nothing
        if records.altered_since(connection, client, current.sequence):
            raise StaleRelease("you changed or removed examples since this release: ask again after the next one")
        new = records.came_since(connection, client, current.sequence)
        return own, self._folded([e for e in held if e.id not in new]) if new else None

    def _folded(self, held: list[records.Example]) -> Own:
        return Own.of(*records.triples(held, self.study.model, self.study.dimension))

    # --- the store ---

    async def read(self, command: Callable[[Connection], T]) -> T:
        return await run_in_threadpool(self._read, command)

    def _read(self, command: Callable[[Connection], T]) -> T:
        with self.store.snapshot() as connection:
            return command(connection)

    async def write(self, command: Callable[[Connection], T], *, scrub: bool = False, access: bool = False) -> T:
        """Queue a command and wait until it is durable; ``access`` where it changes which tokens open what."""
        answered: asyncio.Future[T] = self._loop.create_future()
        self.writer.submit(command, scrub=scrub).add_done_callback(partial(_hand_over, answered))
        done = await answered
        if access:
            self._tokens = {}
        return done


def _hand_over(answered: asyncio.Future[T], done: Future[T]) -> None:
    """From the writer to whoever waits; both on the event loop."""
    if answered.cancelled():
        return
    if (error := done.exception()) is not None:
        answered.set_exception(error)
    else:
        answered.set_result(done.result())


def _news(connection: Connection) -> tuple[int, str | None, str | None]:
    """The current version, when the next is due, and what changes with every withdrawal of a token."""
    return publications.latest_version(connection), setting(connection, "next"), setting(connection, "access")


def _budget(ledger: Ledger) -> dict[str, Any]:
    """What is planned and what is spent."""
    used = ledger.epsilon_spent
    return {
        "epsilon": ledger.epsilon,
        "delta": ledger.delta,
        "per": ledger.per,
        "releases": ledger.releases,
        "made": ledger.spent,
        "spent": used,
        "left": ledger.epsilon - used,
    }
