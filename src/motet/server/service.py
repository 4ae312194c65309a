"""The state behind the routes: the study, its store and writer, the current release, tokens and rates.

What a stranger sees depends only on releases and on the study file: the current release is looked up by the clock, and
nothing public counts examples that are not released.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from starlette.concurrency import run_in_threadpool

from motet.engine.admission import UNUSABLE
from motet.errors import (
    Forbidden,
    InvalidRelease,
    MotetError,
    NotFinite,
    NotPositiveDefinite,
    NotReleased,
    StaleRelease,
    Unauthorized,
    Unusable,
)
from motet.model.tasks import Task
from motet.privacy.ledger import Ledger
from motet.release.coefficients import Coefficients
from motet.release.disclosed import Disclosed
from motet.server.bodies import Bodies
from motet.server.metrics import Metrics
from motet.server.pages import study_page
from motet.server.protection.connections import max_connections
from motet.server.protection.rates import MAX_ADDRESS_LETTERS, Buckets, Proxies, Turns, Turnstile, UnderWay, network
from motet.server.protection.streams import Streams
from motet.store import clients, releases
from motet.store import examples as stored
from motet.store.records import altered_since
from motet.store.releases import StoredRelease
from motet.store.store import Connection, Store
from motet.store.writer import Write, Writer
from motet.study.study import Study
from motet.text import utc

LOG = logging.getLogger("motet.service")
T = TypeVar("T")
REFRESH_SECONDS = 0.5  # between looks for a new release
LATE_SECONDS = 300.0  # after which a release that is due is reported
MAX_REMOVAL_SECONDS, LOOK_SECONDS = 3.0, 0.1  # that a removal waits for a release, and between looks
STILL_RELEASED = (
    "the current release may have it until the next one, which is asked for and replaces it, or it is withdrawn"
)
MAX_CACHED_CLIENTS = 100_000
MEASURED_CLIENTS, MAX_MEASURED_EXAMPLES = 200, 200  # how many the operator's figures are of, and their examples
MAX_FAILURES, FAILURES_PER_SECOND = 100, 5.0  # tokens of one network that are not valid: at once, and then


class Service:
    """One study in a running server. The clock, of rates, is an argument for tests."""

    def __init__(
        self,
        study: Study,
        store: Store,
        operator: str,
        *,
        reached: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.study, self.store, self.terms = study, store, study.terms
        self._loop = asyncio.get_running_loop()
        self.writer = Writer(store, reached=reached, answer=self._loop.call_soon_threadsafe)
        self.metrics = Metrics(
            {
                "motet_waiting": lambda: self.writer.waiting,
                "motet_release": lambda: self.version,
                "motet_left_out": lambda: len(self.left_out),
                "motet_refused": lambda: self._refused,
            }
        )
        self.bodies = Bodies(study)
        self._operator = operator  # the hash of the operator's token
        self._requests = Buckets(clock)  # by client
        self._failures = Buckets(clock)  # of tokens, by network
        self._turns = Turns()
        self.readers = Turnstile()  # of what is public and long
        self._client_ids: dict[str, str] = {}  # by the hash of a token
        self._access: str | None = None  # changes when any token becomes invalid
        self.current: StoredRelease | None = None
        self.disclosed: Disclosed | None = None
        proxies, each = Proxies(study.server.proxies), study.server.max_connections_per_address
        self.under_way = UnderWay(each, proxies)
        streams, by_address = max_connections(study.server.max_connections) // 2, UnderWay(max(1, each // 2), proxies)
        self.streams = Streams(streams, lambda: self.version, self.is_valid, by_address)
        self._waking: asyncio.Task[None] | None = None  # a task that nobody holds may vanish
        self._refused = False
        self._due: float | None = None  # the next release, in seconds since 1970; None after the last
        self._late_due: float | None = None  # the last one that was reported
        self._model = msgspec.Raw(msgspec.json.encode(study.model.to_spec()))  # it may have a long catalogue
        self._shown = Shown(b"", b"", b"")

    # --- releases ---

    async def watch(self) -> None:
        """Refresh until cancelled, whatever the database has. A failure is logged when it begins and when it ends."""
        failing = False
        while True:
            try:
                await self.refresh()
            except MotetError as error:
                self._client_ids = {}
                if not failing:
                    LOG.error("no news from the database: %s", getattr(error.__cause__, "orig", None) or error)
                failing = True
            else:
                if failing:
                    LOG.info("the database answers again")
                failing = False
                self._report_lateness()
            await asyncio.sleep(REFRESH_SECONDS)

    async def refresh(self) -> None:
        """Look for a new release and for tokens that are no longer valid, and wake whoever waits for a release."""
        newest, self._due, refusal, access, operator = await self.read(self._news)
        self._refused = refusal is not None
        if self.store.dialect.shared and operator not in (None, self._operator):  # another server has started with it
            self._operator, self._access = str(operator), None
        if access != self._access:  # a token became invalid, perhaps through another server
            self._client_ids = {}
            await self._end_streams()  # before any of them hears of a release
            self._access = access
        if (newest.version, newest.withdrawn) != _state(self.current):
            current = await self.read(releases.current)
            data = current.data if current else b""
            disclosed = await run_in_threadpool(Disclosed.from_bytes, data) if data else None
            if current is not None and _state(current) > _state(self.current):  # and no other call was faster
                self.current, self.disclosed = current, disclosed
                self._waking = asyncio.create_task(self.streams.wake())
        self.metrics.update()

    def _news(self, connection: Connection) -> tuple[releases.Newest, float | None, str | None, str | None, str | None]:
        """The newest release, when the next is due, why the last that was due was not made, a text that changes when
        any token becomes invalid, and the hash of the operator's."""
        due, refusal = releases.upcoming(connection, self.study.ledger()), releases.refusal(connection)
        access, operator = clients.access_mark(connection), clients.operator_hash(connection)
        return releases.newest_release(connection), due, refusal, access, operator

    async def _end_streams(self) -> None:
        """Those whose token is not valid any more."""
        if tokens := self.streams.tokens:
            valid = await self.read(partial(clients.valid_tokens, hashes=tokens))
            self.streams.end(tokens - valid - {self._operator})

    async def is_valid(self, token: str) -> bool:
        """Whether a hashed token, a client's or the operator's, opens something now."""
        return token == self._operator or bool(await self.read(partial(clients.valid_tokens, hashes=[token])))

    def _report_lateness(self) -> None:
        """Log once that a release does not come: a publisher that was stopped cannot."""
        late = self._due is not None and time.time() > self._due + LATE_SECONDS
        if late and self._due != self._late_due:
            LOG.error("the release of %s is late: is the publisher running, or busy for long?", utc(self._due or 0.0))
            self._late_due = self._due

    async def keep_up(self) -> None:
        """Know the current release, if another server of the database may have shown it to somebody already.

        So whoever asks now one server and now another never gets an older release than before.
        """
        if self.store.dialect.shared:
            await self.refresh()

    @property
    def version(self) -> int:
        """Of the current release; 0 before the first, and while it is withdrawn."""
        return self.current.version if self.current and not self.current.withdrawn else 0

    @property
    def left_out(self) -> Mapping[str, str]:
        """The clients that are not in the current release, by id, and why."""
        return self.current.left_out if self.current else {}

    def current_release(self) -> StoredRelease:
        if self.current is None:
            due = "none will come" if self._due is None else f"the first release is due at {utc(self._due)}"
            raise NotReleased(f"nothing is released yet: {due}")
        if self.current.withdrawn:
            raise NotReleased(
                f"release {self.current.version} is withdrawn: it had data that were removed, and none without them is "
                f"made yet ({self.current.withdrawn}); try again later"
            )
        return self.current

    async def status(self) -> dict[str, Any]:
        """The public facts: the study, its policy and budget, the current version and the time of the next release."""
        await self.keep_up()
        return await self.read(self._status)

    async def shown(self) -> Shown:
        """The status as it is sent, made when it has changed; otherwise all readers share the same bytes."""
        await self.keep_up()
        return await self.read(self._show)

    def _show(self, connection: Connection) -> Shown:
        status = self._status(connection)
        brief = msgspec.json.encode({key: value for key, value in status.items() if key != "model"})
        shown = self._shown
        if brief != shown.brief:
            shown = self._shown = Shown(brief, msgspec.json.encode(status), study_page(status).encode())
        return shown

    def _status(self, connection: Connection) -> dict[str, Any]:
        study, planned = self.study, self.study.ledger()
        budget = None if planned is None else releases.budget(connection, planned)
        return {
            "name": study.name,
            "policy": study.release.policy,
            "model": self._model,
            "dimension": study.dimension,
            "bounds": study.input_bounds,
            "limits": study.limits.model_dump(),
            "table": study.table.model_dump(),
            "output": study.output.model_dump() | {"name": study.output_name},
            "settings": study.settings_source,
            "version": self.version,
            "withdrawn": (self.current and self.current.withdrawn) or None,
            "next_release": self._next_release(connection, planned),
            "budget": None if budget is None else _budget(budget),
            "refused": (budget and budget.refusal) or releases.refusal(connection),
        }

    def _next_release(self, connection: Connection, planned: Ledger | None) -> float | None:
        """When the release after the current one is due: one that is stored and not served yet is still to come."""
        return self._due if self.current is None else releases.upcoming(connection, planned)

    def shortened(self) -> float | None:
        """The share of clients that the clip shortens, of some at random; None without noise."""
        if (mechanism := self.study.mechanism()) is None:
            return None
        with self.store.snapshot() as connection:
            ids = clients.random_clients(connection, MEASURED_CLIENTS, max_examples=MAX_MEASURED_EXAMPLES)
            rows = stored.of_clients(connection, ids)
        each = (list(group) for _, group in groupby(rows, lambda row: row.client))
        model, dimension = self.study.model, self.study.dimension
        norms = mechanism.clip.norms(stored.triples(group, model, dimension) for group in each)
        return float(np.mean(norms > 1)) if len(norms) else None

    # --- callers ---

    async def client(self, token: str | None) -> str:
        """The id of the client with this token, from a cache that is emptied when any token becomes invalid."""
        key, ids = clients.hash_token(token or ""), self._client_ids  # a dict that is emptied meanwhile is another one
        if (id := ids.get(key)) is not None:
            return id
        id = None if not token else await self.read(partial(clients.client_with_token, token=token))
        if id is None:
            raise Unauthorized(clients.INVALID_TOKEN)
        if len(ids) > MAX_CACHED_CLIENTS:
            ids.clear()
        ids[key] = id
        return id

    async def check_operator(self, token: str | None) -> None:
        if token and hmac.compare_digest(clients.hash_token(token), self._operator):
            return
        await self.client(token)
        raise Forbidden("only the operator may make this call: expected the operator's token, got a client's")

    def seconds_to_wait(self, client: str) -> float | None:
        """None if a client may call now."""
        rate = float(self.study.server.rate)
        return self._requests.seconds_to_wait(client, rate, capacity=max(rate, 1.0))

    def seconds_to_guess(self, address: str) -> float | None:
        """None if an address may have tried one more token that is not valid."""
        return self._failures.seconds_to_wait(
            network(address[:MAX_ADDRESS_LETTERS]), FAILURES_PER_SECOND, capacity=MAX_FAILURES
        )

    async def end_for(self, client: str) -> str | None:
        """Why no later release will have what a client sends; None while one will."""
        planned = self.study.ledger()
        if planned is None or (planned.per == "study" and self._due is not None):
            return None
        return await self.read(partial(releases.end_for, planned=planned, client=client))

    # --- an active client's coefficients ---

    async def coefficients(self, client: str, token: str) -> Coefficients:
        """aʲ for the current release, from this client's rows alone; one client at a time, as matrices are large.

        It may wait for long, so the token, hashed, is checked when the rows are read.
        """
        async with self._turns.turn(client):
            await self.keep_up()
            current, disclosed = self.current_release(), self.disclosed
            assert disclosed is not None
            task, released = await self.read_for(token, partial(self._tasks, client=client, current=current))
            try:
                return await run_in_threadpool(disclosed.coefficients, task, released, self.study.model.individual)
            except (InvalidRelease, NotFinite, NotPositiveDefinite):
                raise Unusable(f"{UNUSABLE}; no release has them: replace or remove some") from None

    def _tasks(self, connection: Connection, client: str, current: StoredRelease) -> tuple[Task, Task | None]:
        """The client's examples now, and those that the release contains if they differ."""
        examples = stored.page(connection, client, limit=self.study.limits.examples_per_client)
        task = self._task(examples)
        if self.study.private or client in current.left_out:  # a clipped part stays in the release; or nothing is in it
            return task, Task.empty(self.study.dimension)
        if altered_since(connection, client, current.sequence):
            raise StaleRelease("you changed or removed examples since this release: try again after the next one")
        new = stored.added_since(connection, client, current.sequence)
        return task, self._task([e for e in examples if e.id not in new]) if new else None

    def _task(self, examples: list[stored.Example]) -> Task:
        return Task.of(*stored.triples(examples, self.study.model, self.study.dimension))

    # --- the store ---

    async def read(self, command: Callable[[Connection], T]) -> T:
        return await run_in_threadpool(self._read, command)

    async def read_for(self, token: str, command: Callable[[Connection], T]) -> T:
        """``read`` for a client: refused if its token, hashed, is not valid at the moment that is read."""

        def checked(connection: Connection) -> T:
            if not clients.valid_tokens(connection, [token]):
                raise Unauthorized(clients.INVALID_TOKEN)
            return command(connection)

        return await self.read(checked)

    def _read(self, command: Callable[[Connection], T]) -> T:
        with self.store.snapshot() as connection:
            return command(connection)

    async def write(self, write: Write, *, scrub: bool = False, access: bool = False) -> Any:
        """Queue a write and wait until it is durable; ``access`` if it makes a token invalid."""
        waiting: asyncio.Future[Any] = self._loop.create_future()
        self.writer.submit(write, scrub=scrub).add_done_callback(partial(_hand_over, waiting))
        result = await waiting
        if access:
            self._client_ids = {}
        return result

    async def remove(self, command: Callable[[Connection], T], *, access: bool = False) -> tuple[T, str]:
        """``write`` for a command that deletes; also where what it deleted still is, and until when: empty if nowhere.

        Without noise the current release may have it: the next one is asked for in the same transaction.
        """
        if self.study.private:
            removal = await self.write(command, scrub=True, access=access)
            return removal.result, "" if await asyncio.wrap_future(removal.erased) else self.store.dialect.delay

        def requesting(connection: Connection) -> tuple[T, int]:
            return command(connection), releases.request_after_removal(connection)

        result, number = await self.write(requesting, access=access)
        try:
            replaced = await self._is_replaced(number)
        finally:
            erased = self.store.scrub()  # once, after the release: it takes long, and has a rest after it
        gone = await asyncio.wrap_future(erased)
        notes = [STILL_RELEASED] * (not replaced) + [self.store.dialect.delay] * (not gone)
        return result, "; ".join(notes)

    async def _is_replaced(self, number: int) -> bool:
        """Whether no release that is served, or will be, is older than a number of the log; waits a while for that."""
        deadline = time.monotonic() + MAX_REMOVAL_SECONDS
        with suppress(MotetError):  # the removal is durable, whatever the database says now
            while True:
                shows = await self.read(partial(releases.may_show, number=number))
                await self.refresh()  # what we serve is no older than that
                if not shows:
                    return True
                if time.monotonic() > deadline:
                    break
                await asyncio.sleep(LOOK_SECONDS)
        return False


def _hand_over(waiting: asyncio.Future[T], written: Future[T]) -> None:
    """Pass a result from the writer to the request that waits for it; both are on the event loop."""
    if waiting.cancelled():
        return
    if (error := written.exception()) is not None:
        waiting.set_exception(error)
    else:
        waiting.set_result(written.result())


def _state(release: StoredRelease | None) -> tuple[int, bool]:
    """Version, and whether it is withdrawn: later states are greater."""
    return (release.version, bool(release.withdrawn)) if release else (0, False)


class Shown(NamedTuple):
    """The status of a study as bytes."""

    brief: bytes  # JSON without the model
    whole: bytes  # JSON
    page: bytes  # HTML


def _budget(ledger: Ledger) -> dict[str, Any]:
    """The planned and the spent budget."""
    spent = ledger.epsilon_spent
    return {
        "epsilon": ledger.epsilon,
        "delta": ledger.delta,
        "per": ledger.per,
        "releases": ledger.releases,
        "made": ledger.releases_made,
        "spent": spent,
        "left": ledger.epsilon - spent,
    }
