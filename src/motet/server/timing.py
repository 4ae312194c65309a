"""The moments of a release: when its data are read, when it is published, and when a failed attempt is repeated.

Under ``private`` all of them are public: they follow from the schedule, and not from how long clients' data take. Most
are read ahead, the rest at the cut-off; what comes later is for the next release. The release is prepared until it is
due, and published then. If something takes longer, the delay is rounded up to one step, three, seven and so on, so that
it shows the time that was needed only to a factor of two.
"""

from __future__ import annotations

from dataclasses import dataclass

from motet.study.schema import Release

MAX_LEAD_SECONDS, MAX_STEP_SECONDS = 60.0, 1.0
LEAD_SHARE = 0.1  # of the time between two releases, if that is less
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 300.0  # after failures: doubled from the one to the other


@dataclass(frozen=True)
class Timing:
    """Of a study with this section of its file. Moments are in seconds since 1970, ``since`` and ``begun`` public."""

    release: Release

    @property
    def lead(self) -> float:
        """Seconds from the cut-off of a release to its due time."""
        return 0.0 if self.release.policy == "exact" else min(MAX_LEAD_SECONDS, LEAD_SHARE * self.release.seconds)

    def reading(self, due: float) -> float:
        """When to begin to read ahead."""
        return due - 2 * self.lead

    def cut_off(self, due: float, *, since: float, ready: float) -> float:
        """When to read the data of a private release, if most were read ``since`` then and until now."""
        return self._rounded(max(due - self.lead, since), ready)

    def publication(self, due: float, *, begun: float, ready: float) -> float:
        """When to publish what was begun at the cut-off and is ready now."""
        return ready if self.release.policy == "exact" else self._rounded(max(due, begun), ready)

    def retry(self, *, begun: float, ended: float, failures: int) -> float:
        """When to try again after so many failures in a row, the last from ``begun`` to ``ended``.

        The pause is at least as long as the attempt, so that failures take at most half of a core's time.
        """
        doubled = FIRST_PAUSE_SECONDS * 2.0 ** min(failures - 1, 60)  # a float ends at the 1024th doubling
        pause = min(doubled, MAX_PAUSE_SECONDS, max(self.release.seconds, 1.0))
        return begun + _rounded_up(max(pause, 2 * (ended - begun)), FIRST_PAUSE_SECONDS)

    def _rounded(self, moment: float, ready: float) -> float:
        return moment + _rounded_up(ready - moment, min(MAX_STEP_SECONDS, LEAD_SHARE * self.release.seconds))


def _rounded_up(delay: float, step: float) -> float:
    """The first of 0, 1, 3, 7, … steps that is no less than a delay."""
    rounded, more = 0.0, step
    while rounded < delay:
        rounded, more = rounded + more, 2 * more
    return rounded
