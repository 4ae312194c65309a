"""The states of a publisher from one release to the next: a finite-state machine of frozen values.

It waits until a release is near; reads nearly all data ahead; waits for the cut-off, at which the rest is read; and has
a release, or a refusal, prepared until the moment at which that becomes known. A transition is pure: a state, the
schedule and a reading of the clock give the next state. ``Publisher.tick`` does the work in between.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

from motet.server.timing import CLOCK_SECONDS, Timing
from motet.store.releases import NewRelease, Schedule

REST_SECONDS = 10.0  # between attempts at a release that a removal asks for: many removals get one


@dataclass(frozen=True)
class Waiting:
    """Until a release is near, or asked for."""

    attempt: float = -math.inf  # when the last one ended

    def next(self, schedule: Schedule, now: float, timing: Timing, *, has_read: bool) -> Waiting | Reading:
        """A private study reads nearly all when it starts, so that the first release has no more to read than others.

        Private releases come by the clock alone; others also when the operator or a removal asks for one.
        """
        rests = 0.0 <= now - self.attempt < min(REST_SECONDS, timing.release.seconds)
        requested = not timing.private and (schedule.requested or (schedule.overdue and not rests))
        is_near = requested or now >= timing.reading(schedule.due)
        return Reading(schedule, is_near) if is_near or (timing.private and not has_read) else self


@dataclass(frozen=True)
class Reading:
    """Nearly all that changed is read: now, within one tick."""

    schedule: Schedule
    is_near: bool  # whether the release follows

    def next(self, timing: Timing, *, since: float, ready: float) -> Waiting | CutOff:
        """The cut-off, if reading began ``since`` and ended when it was ``ready``."""
        if not self.is_near:
            return Waiting()
        return CutOff(self.schedule, timing.cut_off(self.schedule.due, since=since, ready=ready))


@dataclass(frozen=True)
class CutOff:
    """Until the ``moment`` at which the data of the release are read."""

    schedule: Schedule
    moment: float  # seconds since 1970

    def is_past(self, now: float) -> bool:
        """Whether this process was stopped, or the clock set forward: another cut-off is needed."""
        return now > self.moment + CLOCK_SECONDS

    def prepared(
        self, timing: Timing, new: NewRelease | None, refusal: str, *, ready: float, jump: float = 0.0
    ) -> Prepared:
        """With a release that was ``ready`` then; ``jump`` is by how much the clock was set forward meanwhile."""
        moment = timing.publication(self.schedule.due, begun=self.moment + jump, ready=ready)
        return Prepared(self.schedule, moment, new, refusal)


@dataclass(frozen=True)
class Prepared:
    """Until the ``moment`` at which the release becomes known, or why there is none."""

    schedule: Schedule
    moment: float  # seconds since 1970
    release: NewRelease | None = None
    refusal: str = ""


State: TypeAlias = Waiting | Reading | CutOff | Prepared


def resumed(state: State, schedule: Schedule, timing: Timing) -> State:
    """What a state is at the next tick: moments are fixed for one schedule, and by a private release alone."""
    if isinstance(state, Waiting) or (timing.private and state.schedule == schedule):
        return state
    return Waiting()


@dataclass(frozen=True)
class Pause:
    """After failures: exponential backoff. New data or a request end it early, unless releases are private."""

    begun: float = 0.0  # seconds since 1970
    until: float = 0.0
    soonest: float = 0.0  # when it may end early
    newest: int = 0  # of the log, when it began
    failures: int = 0  # in a row

    def holds(self, now: float) -> bool:
        return self.begun <= now < self.until

    def at(self, now: float, schedule: Schedule, newest: int, timing: Timing) -> Pause:
        changed = schedule.requested or newest != self.newest
        return Pause() if changed and now >= self.soonest and not timing.private else self

    def after_failure(self, timing: Timing, *, begun: float, ended: float, newest: int) -> Pause:
        """The next one, after an attempt from ``begun`` to ``ended``."""
        failures = self.failures + 1
        until, soonest = (timing.retry(begun=begun, ended=ended, failures=number) for number in (failures, 1))
        return Pause(ended, until, soonest, newest, failures)
