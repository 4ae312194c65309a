"""The publisher: learns what changed and releases by the clock, in a process of its own beside the server.

It holds nothing that the database does not: a new one learns from zero. A release comes when it is due even if nothing
changed, so that its existence reveals nothing.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from motet.arrays import slices
from motet.errors import BudgetSpent, EmptyData, InvalidStore, MotetError, UnknownTask
from motet.learning.admission import admit
from motet.learning.engine import Engine
from motet.privacy.ledger import Noise, opendp_noise
from motet.privacy.mechanism import release
from motet.server.logs import LogFormat, LogLevel, log_to_stderr
from motet.store import chain, examples, releases
from motet.store.log import changed_since
from motet.store.releases import NewRelease, Schedule
from motet.store.store import Connection, Store
from motet.study.schema import MAX_BASIS_POINTS
from motet.study.study import Study
from motet.text import count, utc

LOG = logging.getLogger("motet.publisher")
TICK_SECONDS = 0.2
STOP_SECONDS = 2.0  # for a release that is under way
CLIENTS_PER_QUERY = 500
CLOCK_SECONDS = 60.0  # that a clock may be set back without notice
CLOCK = (
    "the next release is due at {due}, more than the time between releases from now, {now}: set the clock; if it is "
    "right, back up this study and restore it, which schedules the release anew"
)


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
        self._left_out: dict[str, str] = {}  # clients that the engine had to forget, and why
        self._pinned, self._refusal, self._behind = study.pinned(), "", False
        self._head = ""  # of the chain, after our last release

    def tick(self) -> int | None:
        """Make the release that is due or requested; its version, or None if there is none or it is refused."""
        with self._store.snapshot() as connection:
            schedule = releases.schedule(connection)
        now = self._clock()
        requested = schedule.requested and not self._study.private  # private releases come by the clock alone
        if now < schedule.due and not requested:
            self._watch_clock(schedule, now)
            return None
        self.catch_up()
        return self._release(schedule, now)

    def catch_up(self) -> None:
        """Bring the engine up to date with the log. Clients that were left out get another chance.

        Most of it in many short snapshots: as long as one is held, removed data stay in the database's files. The last
        one has what changed meanwhile, so the engine then is the database at one moment.
        """
        with self._store.snapshot() as connection:
            newest, changed = changed_since(connection, self._sequence)
        clients = list(dict.fromkeys([*changed, *self._left_out]))
        for part in slices(len(clients), CLIENTS_PER_QUERY):
            with self._store.snapshot() as connection:
                self._relearn(connection, clients[part])
        with self._store.snapshot() as connection:
            newest, clients = changed_since(connection, newest)
            for part in slices(len(clients), CLIENTS_PER_QUERY):
                self._relearn(connection, clients[part])
        self._sequence = newest
        self._reached("caught up")

    def _relearn(self, connection: Connection, clients: list[str]) -> None:
        for client in clients:
            with suppress(UnknownTask):
                self._engine.forget(client)
        rows = examples.of_clients(connection, clients)
        if rows:
            triples = examples.triples(rows, self._study.model, self._study.dimension)
            self._engine.learn_many([row.client for row in rows], *triples)

    def _watch_clock(self, schedule: Schedule, now: float) -> None:
        """The next release is at most ``every`` away, unless the clock was set back.

        Without noise it is scheduled anew. A private one stays where it is: else a clock that is set back again and
        again would bring more releases than a restored backup is charged for.
        """
        every = self._study.release.seconds
        behind = schedule.due > now + every + CLOCK_SECONDS
        if behind == self._behind:
            return
        self._behind = behind
        if behind and not self._study.private:
            LOG.warning("the clock was set back: the next release is due in %g s", every)
            releases.postpone(self._store, schedule, next_due=now + every, refusal="")
        else:
            self._postpone(schedule, schedule.due, CLOCK.format(due=utc(schedule.due), now=utc(now)) if behind else "")

    def _release(self, schedule: Schedule, now: float) -> int | None:
        version = schedule.version + 1
        next_due = releases.following(schedule.due, self._study.release.seconds, now=now)
        try:
            if schedule.pinned != self._pinned:
                raise InvalidStore(f"{self._study.path.name} was changed since the server started: start it again")
            self._check_chain(schedule)
            new = self._new_release(version, now)
        except (BudgetSpent, EmptyData, InvalidStore) as refusal:
            self._postpone(schedule, next_due, str(refusal))
            return None
        head = releases.publish(self._store, new, schedule, next_due=next_due, reached=self._reached)
        if head is None:
            LOG.warning("release %d is not made twice: another publisher was first", version)
            return None
        self._refusal, self._head = "", head
        LOG.info("release %d is out (%s), chain %s", version, self._study.release.policy, head[: chain.SHOWN_LETTERS])
        self._report_end()
        return version

    def _report_end(self) -> None:
        """Log that this was the last release, if the budget is spent; and not again when the next one would be due."""
        planned = self._study.ledger()
        with self._store.snapshot() as connection:
            end = None if planned is None else releases.budget(connection, planned).refusal
        if end is not None:
            LOG.warning("no more releases: %s", end)
            self._refusal = end

    def _check_chain(self, schedule: Schedule) -> None:
        """Before each private release. One without noise spends nothing: the chain is checked if it is not our own."""
        if self._study.private or schedule.head != self._head:
            with self._store.snapshot() as connection:
                chain.check(connection)

    def _new_release(self, version: int, now: float) -> NewRelease:
        planned, mechanism = self._study.ledger(), self._study.mechanism()
        if planned is None or mechanism is None:
            self._leave_out()
            if version > 1 and not self._engine.tasks:
                self._engine.open(self._study.dimension)  # an empty release must replace one that has columns
            data = self._engine.disclose(version=version).to_bytes()
            return NewRelease(version, self._sequence, now, data, self._left_out)
        with self._store.transaction() as connection:
            releases.fix_coordinates(connection, mechanism.clip.coordinates)
            ledger, earlier = releases.current_ledger(connection, planned), releases.noisy_sums(connection)
        made = release(self._engine, mechanism, ledger, earlier=earlier, version=version, noise=self._noise)
        before, after = ledger.participation, made.ledger.participation
        charged = tuple(str(client) for client, count in after.items() if count > before.get(client, 0))
        data = made.disclosed.to_bytes()
        return NewRelease(version, self._sequence, now, data, noisy_sum=made.noisy, scale=ledger.scale, charged=charged)

    def _leave_out(self) -> None:
        """Take out of the engine whoever prevents a release. Logs have no ids: the operator is shown who it is."""
        before = self._left_out
        left_out = admit(self._engine, max_inputs=MAX_BASIS_POINTS)
        self._left_out = {str(client): reason for client, reason in left_out.items()}
        if self._left_out.keys() - before.keys():
            LOG.warning("%s left out: motet clients shows who and why", count(len(self._left_out), "client"))

    def _postpone(self, schedule: Schedule, next_due: float, reason: str) -> None:
        if reason and reason != self._refusal:  # log it once, not at every tick
            LOG.warning("no release: %s", reason)
        self._refusal = reason
        releases.postpone(self._store, schedule, next_due=next_due, refusal=reason)


def run(store: Store, study: Study, *, until: Callable[[], bool]) -> None:
    """Tick until ``until`` is true. After a failure a new publisher tries again; the same failure is logged once."""
    publisher, failure = Publisher(store, study), ""
    while not until():
        try:
            with store.publishing() as first:
                if first:
                    publisher.tick()
            failure = ""
        except Exception as error:
            if repr(error) != failure:
                LOG.exception("the publisher failed, and tries again every %g s", TICK_SECONDS)
            publisher, failure = Publisher(store, study), repr(error)
        time.sleep(TICK_SECONDS)


def main(study_path: str, log_format: LogFormat, log_level: LogLevel) -> None:
    """Run until standard input closes, and so until the server ends that started this process.

    A release that takes longer than ``STOP_SECONDS`` then is not made: nothing is lost, for the database has all.
    """
    log_to_stderr(log_format, log_level)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server stops it
    stop = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        stop.set()
        time.sleep(STOP_SECONDS)
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    try:
        study = Study.load(study_path)
        store = Store(study.store_url)
    except MotetError as error:
        LOG.error("cannot start: %s", error)
        sys.exit(1)
    run(store, study, until=stop.is_set)
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]
