"""The moments of a release: when its data are read, when it is published, and when a failed attempt is repeated.

Under ``private`` all of them are public: they follow from the schedule, and not from how long clients' data take. Most
are read ahead, the rest at the cut-off; what comes later is for the next release. The release is prepared until it is
due, and published then. If something takes longer, the delay is rounded up to one step, three, seven and so on, so that
it shows the time that was needed only to a factor of two.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from motet.errors import InvalidStudy
from motet.privacy.clipping import MAX_INPUTS_PER_CLIENT
from motet.study.schema import Release
from motet.study.study import Study

TICK_SECONDS = 0.2  # between two looks of the publisher
CLOCK_SECONDS = 60.0  # that a clock may be set without notice
MAX_LEAD_SECONDS, MAX_STEP_SECONDS = 60.0, 1.0
LEAD_SHARE = 0.1  # of the time between two releases, if that is less
READING_SECONDS, INVERSION_SECONDS = 2e-5, 5e-10  # of a slow core: for an example, and for the cube of their number
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 300.0  # after failures: doubled from the one to the other


@dataclass(frozen=True)
class Timing:
    """Of a study with this section of its file. Moments are in seconds since 1970, ``since`` and ``begun`` public."""

    release: Release

    @property
    def private(self) -> bool:
        return self.release.policy == "private"

    @property
    def lead(self) -> float:
        """Seconds from the cut-off of a release to its due time."""
        return min(MAX_LEAD_SECONDS, LEAD_SHARE * self.release.seconds) if self.private else 0.0

    def reading(self, due: float) -> float:
        """When to begin to read ahead."""
        return due - 2 * self.lead

    def cut_off(self, due: float, *, since: float, ready: float) -> float:
        """When to read the rest of the data, if most were read ``since`` then and until now."""
        return self._rounded(max(due - self.lead, since), ready) if self.private else ready

    def publication(self, due: float, *, begun: float, ready: float) -> float:
        """When to publish what was begun at the cut-off and is ready now."""
        return self._rounded(max(due, begun), ready) if self.private else ready

    def retry(self, *, begun: float, ended: float, failures: int) -> float:
        """When to try again after so many failures in a row, the last from ``begun`` to ``ended``.

        The pause is at least as long as the attempt, so that failures take at most half of a core's time.
        """
        doubled = FIRST_PAUSE_SECONDS * 2.0 ** min(failures - 1, 60)  # a float ends at the 1024th doubling
        pause = min(doubled, MAX_PAUSE_SECONDS, max(self.release.seconds, 1.0))
        return begun + _rounded_up(max(pause, 2 * (ended - begun)), FIRST_PAUSE_SECONDS)

    def _rounded(self, moment: float, ready: float) -> float:
        return moment + _rounded_up(ready - moment, min(MAX_STEP_SECONDS, LEAD_SHARE * self.release.seconds))


class SteadyClock:
    """A clock that can be set, read beside one that cannot, so that no jump is taken for time that work needed.

    A private release would be put off by as much, rounded up. ``since`` is the last moment that does not depend on how
    long anything took; if the clock was set forward since a tick began, so is that.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.now = clock
        self.since = 0.0
        self.offset = 0.0  # of the clock from the one that cannot be set
        self._worked_until = 0.0

    def begin(self) -> float:
        """A tick begins; if nothing was done for longer than between two ticks, so does what it needs."""
        now = self.now()
        self.offset = now - time.monotonic()
        if not self._worked_until <= now <= self._worked_until + 2 * TICK_SECONDS:
            self.since = now
        return now

    def read(self) -> float:
        """The time amid a tick: by how much the clock was set forward since it began is no part of what follows."""
        reading = self.now()
        jump = reading - time.monotonic() - self.offset
        if jump > CLOCK_SECONDS:
            self.since, self.offset = self.since + jump, self.offset + jump
        return reading

    def worked(self) -> float:
        """Work has ended: returns when."""
        self._worked_until = self.read()
        return self._worked_until

    def restart(self) -> None:
        """What was begun is begun anew."""
        self.since = self.now()


def client_seconds(examples: int) -> float:
    """What one client's part of a private release takes on a slow machine: to read it, and to invert its covariance."""
    return READING_SECONDS * examples + INVERSION_SECONDS * min(examples, MAX_INPUTS_PER_CLIENT) ** 3


def check_lead(study: Study) -> None:
    """Refuse a private study in which one client alone could delay a release, so that everybody sees that it sent."""
    examples, every = study.limits.examples_per_client, study.release.seconds
    work = client_seconds(examples)
    if study.private and Timing(study.release).lead < work:
        raise InvalidStudy(
            f"{study.path.name}, release.every: expected at least {math.ceil(work / LEAD_SHARE)}s, a tenth of which is "
            f"enough to compute the part of a client with {examples} examples (limits.examples_per_client), got "
            f"{every:g}s: choose a longer time or fewer examples"
        )


def _rounded_up(delay: float, step: float) -> float:
    """The first of 0, 1, 3, 7, … steps that is no less than a delay."""
    rounded, more = 0.0, step
    while rounded < delay:
        rounded, more = rounded + more, 2 * more
    return rounded
