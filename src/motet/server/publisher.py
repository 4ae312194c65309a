"""The publisher: learns what changed and releases by the clock, in a process of its own beside the server.

``states`` has the states and the transitions between them, ``timing`` the moments and the clock, ``learner`` what it
has learned. A release comes when it is due even if nothing changed, so that its existence reveals nothing.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from motet.errors import BudgetSpent, EmptyData, InvalidData, InvalidModel, InvalidRelease, InvalidStore, MotetError
from motet.privacy.ledger import Perturbation, opendp_noise
from motet.privacy.mechanism import release
from motet.release.disclosed import Disclosed
from motet.server.learner import Learner
from motet.server.logs import LogFormat, LogLevel, log_to_stderr
from motet.server.states import CutOff, Pause, Prepared, Reading, State, Waiting, resumed
from motet.server.timing import CLOCK_SECONDS, TICK_SECONDS, SteadyClock, Timing
from motet.store import chain, releases
from motet.store.records import newest_number
from motet.store.releases import NewRelease, PrivatePart, Schedule
from motet.store.store import DatabaseError, Store
from motet.study.study import Study
from motet.text import utc

LOG = logging.getLogger("motet.publisher")
CLOCK = (
    "the next release is due at {due}, more than the time between releases from now, {now}: set the clock; if it is "
    "right, back up this study and restore it, which schedules the release anew"
)
UNCOMPUTABLE = "the sums of the examples cannot be computed; the operator finds the reason in the publisher's log"
FAILED = "the publisher failed, and tries again; the operator finds the reason in its log"


class Publisher:
    """``tick`` releases if it is time. Noise and clock are arguments for tests; no setting reaches them."""

    def __init__(
        self,
        store: Store,
        study: Study,
        *,
        noise: Perturbation = opendp_noise,
        clock: Callable[[], float] = time.time,
        reached: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._store, self._study, self._noise, self._reached = store, study, noise, reached
        self._timing, self._pinned = Timing(study.release), study.pinned()
        self.clock, self.learner = SteadyClock(clock), Learner(store, study, reached=reached)
        self._state: State = Waiting()
        self._pause = Pause()
        self._head = ""  # of the chain, after our last release
        self._logged, self._behind = "", False  # what was reported: a reason, and that the clock was set back

    def tick(self) -> int | None:
        """Make the release that is due or requested; its version, or None if there is none or it is refused.

        After a failure there is a pause, which doubles while nothing changes. What was learned is kept, unless the
        failure was not foreseen and may have left it half changed.
        """
        now, schedule, newest = self.clock.begin(), None, 0
        try:
            with self._store.snapshot() as connection:
                schedule, newest = releases.schedule(connection), newest_number(connection)
            self._pause = self._pause.at(now, schedule, newest, self._timing)
            if self._pause.holds(now):
                return None
            version = self._act(schedule, now)
        except Exception as error:
            self._fail(schedule, newest, error)
            return None
        self._pause = Pause()
        return version

    def _act(self, schedule: Schedule, now: float) -> int | None:
        """From state to state, as far as the clock allows."""
        if schedule.pinned != self._pinned:
            self._refuse_settings(schedule, now)
            return None
        if now < schedule.due:
            self._watch_clock(schedule, now)
        state = self._state = resumed(self._state, schedule, self._timing)
        if isinstance(state, Waiting):
            state = state.next(schedule, now, self._timing, has_read=self.learner.has_read)
        if isinstance(state, Reading):
            self.learner.read_ahead()
            ready = self.clock.worked()
            state = self._state = state.next(self._timing, since=self.clock.since, ready=ready)
        if isinstance(state, CutOff):
            state = self._state = self._cut_off(state)
        if not isinstance(state, Prepared) or self.clock.now() < state.moment:
            return None
        version = self._publish(state)
        self._state = Waiting(attempt=state.moment)
        return version

    # --- what keeps a release from being made ---

    def _fail(self, schedule: Schedule | None, newest: int, error: Exception) -> None:
        foreseen = isinstance(error, (MotetError, DatabaseError))
        if not foreseen:
            self.learner.forget()
        ended = self.clock.worked()
        self._pause = self._pause.after_failure(self._timing, begun=self.clock.since, ended=ended, newest=newest)
        if not foreseen or not self._study.private:  # a private release stays at its moments
            self._state = Waiting(attempt=ended)
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

    def _postpone(self, schedule: Schedule, next_due: float, reason: str) -> None:
        self._log(reason, logging.WARNING, "no release: %s", reason)
        releases.postpone(self._store, schedule, next_due=next_due, refusal=reason)

    def _refuse_settings(self, schedule: Schedule, now: float) -> None:
        """Another start has pinned other settings than ours: the release is its publisher's, and so is the schedule."""
        reason = f"{self._study.path.name} was changed since the server started: start it again"
        is_due = schedule.overdue or now >= schedule.due
        if schedule.requested or (is_due and self._logged != reason):
            self._postpone(schedule, schedule.due, reason)

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

    # --- from the cut-off to a release ---

    def _cut_off(self, state: CutOff) -> State:
        """At its moment: the release of a schedule, or why there is none."""
        now = self.clock.read()
        if state.is_past(now):
            self.clock.restart()
            return Waiting()
        if now < state.moment:
            return state
        offset = self.clock.offset
        if not (self._study.private or state.schedule.served):
            releases.begin(self._store)
        self.learner.catch_up()
        new, refusal = None, ""
        try:
            self._check_chain(state.schedule)
            new = self._new_release(state.schedule.version + 1)
        except (BudgetSpent, EmptyData, InvalidStore) as error:
            refusal = str(error)
        ready = self.clock.worked()
        return state.prepared(self._timing, new, refusal, ready=ready, jump=self.clock.offset - offset)

    def _check_chain(self, schedule: Schedule) -> None:
        """Before each private release. One without noise spends nothing: the chain is checked if it is not our own."""
        if self._study.private or schedule.head != self._head:
            with self._store.snapshot() as connection:
                chain.check(connection)

    def _new_release(self, version: int) -> NewRelease:
        planned, mechanism = self._study.ledger(), self._study.mechanism()
        learner, engine = self.learner, self.learner.engine
        if planned is None or mechanism is None:
            learner.leave_out()
            if version > 1 and not engine.tasks:
                engine.open(self._study.dimension)  # an empty release must replace one that has columns
            data = self._bytes(engine.disclose(version=version))
            return NewRelease(version, learner.sequence, data, learner.left_out)
        coordinates = mechanism.clip.coordinates
        with self._store.snapshot() as connection:
            releases.check_coordinates(connection, coordinates)
            ledger, earlier = releases.current_ledger(connection, planned), releases.noisy_sums(connection)
        charged = tuple(map(str, ledger.charged(engine.tasks)))
        made = release(engine, mechanism, ledger, earlier=earlier, version=version, noise=self._noise)
        private = PrivatePart(made.noisy, ledger.scale, charged, coordinates)
        return NewRelease(version, learner.sequence, self._bytes(made.disclosed), private=private)

    def _bytes(self, disclosed: Disclosed) -> bytes:
        return replace(disclosed, names=self._study.names).to_bytes()

    def _publish(self, state: Prepared) -> int | None:
        """Store what is prepared and schedule the next release."""
        schedule, new = state.schedule, state.release
        next_due = releases.following(schedule.due, self._study.release.seconds, now=state.moment)
        if new is None:
            self._postpone(schedule, next_due, state.refusal)
            return None
        head = releases.publish(self._store, new, schedule, made=state.moment, next_due=next_due, reached=self._reached)
        if head is None:
            LOG.warning("release %d is not made twice: another publisher was first", new.version)
            return None
        self._logged, self._head = "", head
        policy = self._study.release.policy
        LOG.info("release %d is out (%s), chain %s", new.version, policy, head[: chain.SHOWN_LETTERS])
        self._report_end()
        return new.version

    def _report_end(self) -> None:
        """Log that this was the last release, if the budget is spent; and not again when the next one would be due."""
        planned = self._study.ledger()
        with self._store.snapshot() as connection:
            end = None if planned is None else releases.budget(connection, planned).refusal
        if end is not None:
            LOG.warning("no more releases: %s", end)
            self._logged = end


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
    with store.dialect.election(store.engine) as is_elected:
        was_elected = False
        while not until():
            if elected := is_elected():
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
