"""The publisher: learns what changed and releases by the clock, in a process of its own beside the server.

It holds nothing that the database does not: a new one learns from zero. A release comes when it is due even if nothing
changed, so that its existence reveals nothing.
"""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from motet.arrays import slices
from motet.errors import (
    BudgetSpent,
    EmptyData,
    InvalidData,
    InvalidModel,
    InvalidRelease,
    InvalidStore,
    MotetError,
    UnknownTask,
)
from motet.learning.admission import admit
from motet.learning.engine import Engine
from motet.privacy.ledger import Noise, opendp_noise
from motet.privacy.mechanism import release
from motet.server.logs import LogFormat, LogLevel, log_to_stderr
from motet.server.timing import Timing
from motet.store import chain, examples, releases
from motet.store.log import changed_since, newest_number
from motet.store.releases import NewRelease, Schedule
from motet.store.store import Connection, DatabaseError, Store
from motet.study.schema import MAX_BASIS_POINTS
from motet.study.study import Study
from motet.text import count, utc

LOG = logging.getLogger("motet.publisher")
TICK_SECONDS = 0.2
CLIENTS_PER_QUERY = 500
REST_SECONDS = 10.0  # between attempts at a release that a removal asks for: many removals get one
CLOCK_SECONDS = 60.0  # that a clock may be set without notice
CLOCK = (
    "the next release is due at {due}, more than the time between releases from now, {now}: set the clock; if it is "
    "right, back up this study and restore it, which schedules the release anew"
)
UNCOMPUTABLE = "the sums of the examples cannot be computed; the operator finds the reason in the publisher's log"
FAILED = "the publisher failed, and tries again; the operator finds the reason in its log"


@dataclass(frozen=True)
class Outcome:
    """What a schedule brings, a release or a refusal, and the moment at which it becomes known."""

    schedule: Schedule
    moment: float  # seconds since 1970
    release: NewRelease | None = None
    refusal: str = ""


@dataclass(frozen=True)
class Pause:
    """After failures: since and until when, and from when on new data or a request end it."""

    since: float = 0.0  # seconds since 1970
    until: float = 0.0
    soonest: float = 0.0
    newest: int = 0  # of the log, when it began
    failures: int = 0  # in a row


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
        self._timing, self._pause, self._logged = Timing(study.release), Pause(), ""
        self._since = 0.0  # the last moment that does not depend on how long anything took
        self._ahead = 0.0  # of the clock, of one that nobody can set, when a tick began
        self._worked_until = 0.0
        self._attempt = -math.inf  # when the last one ended, of the clock
        self._pinned, self._behind = study.pinned(), False
        self._head = ""  # of the chain, after our last release
        self._forget()

    def _forget(self) -> None:
        """Hold nothing, as at the start."""
        self._engine, self._sequence = Engine(self._study.model), 0
        self._left_out: dict[str, str] = {}  # clients that the engine had to forget, and why
        self._has_read = False
        self._cut_offs: dict[Schedule, float] = {}
        self._outcome: Outcome | None = None

    def tick(self) -> int | None:
        """Make the release that is due or requested; its version, or None if there is none or it is refused.

        After a failure there is a pause, which doubles while nothing changes. What was learned is kept, unless the
        failure was not foreseen and may have left it half changed.
        """
        now, schedule, newest = self._clock(), None, 0
        self._ahead = now - time.monotonic()
        if not self._worked_until <= now <= self._worked_until + 2 * TICK_SECONDS:  # it has waited
            self._since = now
        try:
            with self._store.snapshot() as connection:
                schedule, newest = releases.schedule(connection), newest_number(connection)
            if self._is_pausing(schedule, newest, now):
                return None
            version = self._act(schedule, now)
        except Exception as error:
            if not isinstance(error, (MotetError, DatabaseError)):
                self._forget()
            self._fail(schedule, newest, error)
            return None
        self._pause = Pause()
        return version

    # --- failures ---

    def _is_pausing(self, schedule: Schedule, newest: int, now: float) -> bool:
        changed = schedule.requested or newest != self._pause.newest
        if changed and now >= self._pause.soonest and not self._study.private:
            self._pause = Pause()
        return self._pause.since <= now < self._pause.until

    def _fail(self, schedule: Schedule | None, newest: int, error: Exception) -> None:
        self._worked_until = self._attempt = self._reading()
        failures, times = self._pause.failures + 1, {"begun": self._since, "ended": self._worked_until}
        until, soonest = (self._timing.retry(**times, failures=count) for count in (failures, 1))
        self._pause = Pause(self._worked_until, until, soonest, newest, failures)
        self._log(repr(error), logging.ERROR, "no release; another attempt follows: %s", error, exc_info=error)
        refusal = UNCOMPUTABLE if isinstance(error, (InvalidData, InvalidModel, InvalidRelease)) else FAILED
        if schedule is not None:
            with suppress(MotetError, DatabaseError):
                releases.postpone(self._store, schedule, next_due=schedule.due, refusal=refusal)

    def _log(self, key: str, level: int, *arguments: Any, **settings: Any) -> None:
        """Once, and not at every tick."""
        if key and key != self._logged:
            LOG.log(level, *arguments, **settings)
        self._logged = key

    # --- from the log to a release ---

    def _act(self, schedule: Schedule, now: float) -> int | None:
        if schedule.pinned != self._pinned:
            self._refuse_settings(schedule, now)
            return None
        if now < schedule.due:
            self._watch_clock(schedule, now)
        if self._outcome is None or self._outcome.schedule != schedule:
            self._outcome = None
            if (begun := self._cut_off(schedule, now)) is None or self._clock() < begun:
                return None
            if self._clock() > begun + CLOCK_SECONDS:  # it was stopped, or the clock set forward
                self._cut_offs, self._since = {}, self._clock()
                return None
            self._outcome = self._prepare(schedule, begun)
        if self._clock() < self._outcome.moment:
            return None
        version = self._publish(self._outcome)
        self._outcome = None
        return version

    def _refuse_settings(self, schedule: Schedule, now: float) -> None:
        """Another start has pinned other settings than ours: the release is its publisher's, and so is the schedule."""
        reason = f"{self._study.path.name} was changed since the server started: start it again"
        is_due = schedule.overdue or now >= schedule.due
        if schedule.requested or (is_due and self._logged != reason):
            self._postpone(schedule, schedule.due, reason)

    def _cut_off(self, schedule: Schedule, now: float) -> float | None:
        """When the data of this schedule's release are read, None if that is far; reads nearly all of them ahead."""
        private, moments = self._study.private, self._cut_offs
        rests = 0.0 <= now - self._attempt < min(REST_SECONDS, self._study.release.seconds)
        requested = schedule.requested or (schedule.overdue and not rests)
        requested = requested and not private  # private releases come by the clock alone
        is_far = now < self._timing.reading(schedule.due) and not requested
        if schedule not in moments and (not is_far or (private and not self._has_read)):
            self._read_ahead()
        if is_far:
            return None
        if not private:
            return now
        if schedule not in moments:
            ready = self._reading()
            self._cut_offs = {schedule: self._timing.cut_off(schedule.due, since=self._since, ready=ready)}
        return self._cut_offs[schedule]

    def _read_ahead(self) -> None:
        """Learn nearly all that changed, in many short snapshots.

        As long as one is held, removed data stay in the database's files. So the one at the cut-off has little to read.
        """
        with self._store.snapshot() as connection:
            newest, changed = changed_since(connection, self._sequence)
        for part in slices(len(changed), CLIENTS_PER_QUERY):
            with self._store.snapshot() as connection:
                self._relearn(connection, changed[part])
        self._sequence, self._has_read = newest, True
        self._reached("read ahead")
        self._worked_until = self._reading()

    def catch_up(self) -> None:
        """Bring the engine up to date with the log of this moment. Clients that were left out get another chance."""
        with self._store.snapshot() as connection:
            newest, changed = changed_since(connection, self._sequence)
            clients = list(dict.fromkeys([*changed, *self._left_out]))
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

    def _reading(self) -> float:
        """The clock. If it was set forward since the tick began, so is the moment from which work is counted.

        That is no time that was needed: a private release would be put off by as much, rounded up.
        """
        reading = self._clock()
        jump = reading - time.monotonic() - self._ahead
        if jump > CLOCK_SECONDS:
            self._since, self._ahead = self._since + jump, self._ahead + jump
        return reading

    def _report_end(self) -> None:
        """Log that this was the last release, if the budget is spent; and not again when the next one would be due."""
        planned = self._study.ledger()
        with self._store.snapshot() as connection:
            end = None if planned is None else releases.budget(connection, planned).refusal
        if end is not None:
            LOG.warning("no more releases: %s", end)
            self._logged = end

    def _check_chain(self, schedule: Schedule) -> None:
        """Before each private release. One without noise spends nothing: the chain is checked if it is not our own."""
        if self._study.private or schedule.head != self._head:
            with self._store.snapshot() as connection:
                chain.check(connection)

    def _prepare(self, schedule: Schedule, begun: float) -> Outcome:
        """The release of a schedule, or why there is none, with the moment at which that becomes known."""
        ahead = self._ahead
        if not (self._study.private or schedule.served):
            releases.begin(self._store)
        self.catch_up()
        new, refusal = None, ""
        try:
            self._check_chain(schedule)
            new = self._new_release(schedule.version + 1)
        except (BudgetSpent, EmptyData, InvalidStore) as error:
            refusal = str(error)
        self._worked_until = self._reading()
        begun += self._ahead - ahead
        moment = self._timing.publication(schedule.due, begun=begun, ready=self._worked_until)
        return Outcome(schedule, moment, None if new is None else replace(new, made=moment), refusal)

    def _new_release(self, version: int) -> NewRelease:
        planned, mechanism = self._study.ledger(), self._study.mechanism()
        if planned is None or mechanism is None:
            self._leave_out()
            if version > 1 and not self._engine.tasks:
                self._engine.open(self._study.dimension)  # an empty release must replace one that has columns
            data = replace(self._engine.disclose(version=version), names=self._study.names).to_bytes()
            return NewRelease(version, self._sequence, 0.0, data, self._left_out)
        coordinates = mechanism.clip.coordinates
        with self._store.snapshot() as connection:
            releases.check_coordinates(connection, coordinates)
            ledger, earlier = releases.current_ledger(connection, planned), releases.noisy_sums(connection)
        made = release(self._engine, mechanism, ledger, earlier=earlier, version=version, noise=self._noise)
        before, after = ledger.participation, made.ledger.participation
        charged = tuple(str(client) for client, count in after.items() if count > before.get(client, 0))
        data = replace(made.disclosed, names=self._study.names).to_bytes()
        return NewRelease(
            version,
            self._sequence,
            0.0,
            data,
            noisy_sum=made.noisy,
            scale=ledger.scale,
            charged=charged,
            coordinates=coordinates,
        )

    def _leave_out(self) -> None:
        """Take out of the engine whoever prevents a release. Logs have no ids: the operator is shown who it is."""
        before = self._left_out
        left_out = admit(self._engine, max_inputs=MAX_BASIS_POINTS)
        self._left_out = {str(client): reason for client, reason in left_out.items()}
        if self._left_out.keys() - before.keys():
            LOG.warning("%s left out: motet clients shows who and why", count(len(self._left_out), "client"))

    def _postpone(self, schedule: Schedule, next_due: float, reason: str) -> None:
        self._log(reason, logging.WARNING, "no release: %s", reason)
        releases.postpone(self._store, schedule, next_due=next_due, refusal=reason)

    def _publish(self, outcome: Outcome) -> int | None:
        """Store an outcome and schedule the next one."""
        schedule, new, self._attempt = outcome.schedule, outcome.release, outcome.moment
        next_due = releases.following(schedule.due, self._study.release.seconds, now=outcome.moment)
        if new is None:
            self._postpone(schedule, next_due, outcome.refusal)
            return None
        head = releases.publish(self._store, new, schedule, next_due=next_due, reached=self._reached)
        if head is None:
            LOG.warning("release %d is not made twice: another publisher was first", new.version)
            return None
        self._logged, self._head = "", head
        policy = self._study.release.policy
        LOG.info("release %d is out (%s), chain %s", new.version, policy, head[: chain.SHOWN_LETTERS])
        self._report_end()
        return new.version


def run(
    store: Store,
    study: Study,
    *,
    until: Callable[[], bool],
    reached: Callable[[str], None] = lambda _: None,
    clock: Callable[[], float] = time.time,
) -> None:
    """Tick until ``until`` is true, at whole multiples of the time between ticks, however long the last one took.

    Of the publishers that share a database only the elected one ticks; the others hold nothing.
    """
    publisher = Publisher(store, study, reached=reached, clock=clock)
    with store.candidate() as candidate:
        was_elected = False
        while not until():
            if elected := candidate.elected:
                publisher.tick()
            elif was_elected:
                LOG.warning("another publisher may be elected: this one stands by")
                publisher = Publisher(store, study, reached=reached, clock=clock)
            was_elected = elected
            time.sleep(TICK_SECONDS - time.time() % TICK_SECONDS)


def main(study_path: str, log_format: LogFormat, log_level: LogLevel, *, until: Callable[[], bool]) -> None:
    """Open a study and its store, and run."""
    log_to_stderr(log_format, log_level)
    try:
        study = Study.load(study_path)
        store = Store(study.store_url)
    except MotetError as error:
        LOG.error("cannot start: %s", error)
        sys.exit(1)
    run(store, study, until=until)
    store.close()
