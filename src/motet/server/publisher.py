"""Folds what changed and releases by the clock, beside the server and in a process of its own.

It holds nothing that the database does not: a new one folds from zero. Releases come when their time has come, also
when nothing changed, so that a release's existence says nothing.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from sqlalchemy import Connection, update
from sqlalchemy.exc import IntegrityError

from motet.errors import BudgetSpent, EmptyData, InvalidStore, UnknownTask
from motet.learning.engine import Engine
from motet.privacy.ledger import Noise, Whole, opendp_noise
from motet.privacy.mechanism import release
from motet.server.logs import log_to_stderr
from motet.store import records
from motet.store import releases as publications
from motet.store.releases import Published
from motet.store.store import Store, put, releases, setting
from motet.study.study import Study

LOG = logging.getLogger("motet.publisher")
TICK = 0.2  # seconds
SOME = 500  # clients whose examples are asked for at once


def pin(store: Store, study: Study, *, now: float) -> None:
    """On the first start keep what the study may not change later and when it releases first; else hold it to that."""
    with store.transaction() as connection:
        pinned = setting(connection, "pinned")
        if pinned is not None and (reason := study.contradicts(pinned)):
            raise InvalidStore(
                f"{study.path}: {reason}; this database was begun otherwise: take another one, or undo it"
            )
        put(connection, "pinned", study.pinned())
        if pinned is None:
            put(connection, "next", repr(now + study.release.seconds))


class Publisher:
    """``tick`` releases if it is time. Noise and clock are arguments for tests; no setting reaches them."""

    def __init__(
        self,
        store: Store,
        study: Study,
        *,
        noise: Noise = opendp_noise,
        clock: Callable[[], float] = time.time,
        reached: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._store, self._study, self._noise, self._clock, self._reached = store, study, noise, clock, reached
        self._engine, self._sequence = Engine(study.model), 0

    def tick(self) -> int | None:
        """The version of the release that was due, if one was and the budget allows it."""
        with self._store.snapshot() as connection:
            due, wanted = float(setting(connection, "next") or "inf"), setting(connection, "wanted")
        now = self._clock()
        if now < due and wanted != "yes":
            return None
        self.fold()
        every = self._study.release.seconds
        following = due if now < due else due + every * (1 + (now - due) // every)
        return self._release(now, following, wanted == "yes")

    def fold(self) -> None:
        """Bring the engine up to date with the log."""
        with self._store.snapshot() as connection:
            newest, who = records.changed_since(connection, self._sequence)
            for begin in range(0, len(who), SOME):
                self._refresh(connection, who[begin : begin + SOME])
        self._sequence = newest
        self._reached("fold")

    def _refresh(self, connection: Connection, who: list[str]) -> None:
        for client in who:
            with suppress(UnknownTask):
                self._engine.forget(client)
        rows = records.of_many(connection, who)
        if rows:
            known = records.triples(rows, self._study.model, self._study.dimension)
            self._engine.learn_many([row.client for row in rows], *known)

    def _release(self, now: float, following: float, wanted: bool) -> int | None:
        with self._store.snapshot() as connection:
            version = publications.given_version(connection) + 1
        try:
            data, noisy, scale, clients = self._made(version)
        except (BudgetSpent, EmptyData, InvalidStore) as refusal:
            self._put_off(following, wanted, str(refusal))
            return None
        try:
            with self._store.transaction() as connection:
                if scale is not None:
                    publications.charge(connection, version, scale, clients)
                self._reached("ledger")
                publications.publish(connection, Published(version, self._sequence, now, data), noisy)
                if not self._study.private:  # earlier ones may have inputs that were removed since
                    connection.execute(update(releases).where(releases.c.version < version).values(data=b""))
                _settle(connection, following, wanted)
        except IntegrityError:  # another publisher was first
            return None
        self._reached("publication")
        if not self._study.private:
            self._store.scrub()
        LOG.info("release %d, %s", version, self._study.release.policy)
        return version

    def _made(self, version: int) -> tuple[bytes, Whole | None, float | None, list[str]]:
        """The bytes, and of a private release its noisy sum, scale and, where they pay each, clients."""
        planned, mechanism = self._study.ledger(), self._study.mechanism()
        if planned is None or mechanism is None:
            if version > 1 and not self._engine.tasks:
                self._engine.open(self._study.dimension)  # to replace a release that has its columns
            return replace(self._engine.disclose(), version=version).to_bytes(), None, None, []
        with self._store.transaction() as connection:
            publications.hold_coordinates(connection, mechanism.clip.at)
            ledger, earlier = publications.spent(connection, planned), publications.noisy_sums(connection)
        made = release(self._engine, mechanism, ledger, earlier=earlier, version=version, noise=self._noise)
        paying = [c for c, count in made.ledger.taken.items() if count > ledger.taken.get(c, 0)]
        return made.disclosed.to_bytes(), made.noisy, ledger.scale, [str(client) for client in paying]

    def _put_off(self, following: float, wanted: bool, reason: str) -> None:
        LOG.warning("no release: %s", reason)
        with self._store.transaction() as connection:
            _settle(connection, following, wanted, reason)


def _settle(connection: Connection, following: float, wanted: bool, refused: str = "") -> None:
    """When the next release is due, and why this one was not made; a wish that came after the fold stays."""
    put(connection, "next", repr(following))
    put(connection, "refused", refused)
    if wanted:
        put(connection, "wanted", "no")


def run(store: Store, study: Study, *, until: Callable[[], bool]) -> None:
    """Tick until told to end. What goes wrong is logged, and tried again at the next tick."""
    publisher = Publisher(store, study)
    while not until():
        try:
            publisher.tick()
        except Exception:
            LOG.exception("a tick failed")
            publisher = Publisher(store, study)
        time.sleep(TICK)


def main() -> None:
    """``python -m motet.server.publisher STUDY``: ends when its standard input closes, so with its server."""
    log_to_stderr()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server tells it when to end
    study = Study.load(sys.argv[1])
    store = Store(study.store_url)
    ended = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=listen, daemon=True).start()
    run(store, study, until=ended.is_set)
    store.close()


if __name__ == "__main__":
    main()
