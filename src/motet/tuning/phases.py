"""Progress of a fit, in lines for whoever waits: each phase, and within a search one line every few seconds.

How many steps a search takes is not known before; ``USUAL_STEPS`` is what most take.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from motet.tuning.search import Step

PAUSE_SECONDS = 2.0  # before the first line of a phase, and between lines
USUAL_STEPS = 50  # of a search


@dataclass
class Phases:
    """Lines to ``write``: at once when a phase begins, and then at most one in ``pause`` seconds."""

    write: Callable[[str], object]
    pause: float = field(default_factory=lambda: PAUSE_SECONDS)
    clock: Callable[[], float] = time.monotonic
    _begin: float = field(init=False)
    _last: float = field(init=False)
    _announced: bool = False  # that a search begins

    def __post_init__(self) -> None:
        self._begin = self._last = self.clock()

    @classmethod
    def of(cls, verbose: int) -> Phases:
        """On standard error: nothing if ``verbose`` is 0, every step of a search if it is 2."""
        return cls(_to_standard_error if verbose else len, 0.0 if verbose > 1 else PAUSE_SECONDS)

    def begin(self, phase: str) -> None:
        self._begin = self._last = self.clock()
        self._announced = True
        self.write(phase)

    def tell(self, line: str) -> None:
        """A line, unless the last one was a moment ago."""
        if (now := self.clock()) - self._last >= self.pause:
            self._last = now
            self.write(line)

    def step(self, step: Step) -> None:
        """Of a search: how far it is, how long it has taken, and about how long it will go on."""
        if not step.evaluation and not self._announced:
            self._begin = self.clock()
        self._announced = False
        seconds, done = self.clock() - self._begin, step.evaluation + 1
        more = seconds / done * (USUAL_STEPS - done)
        rest = f"about {duration(more)} more" if more > 0 else "more than most searches take"
        self.tell(f"settings, step {done}: log evidence {step.log_evidence:.2f}, {duration(seconds)} so far, {rest}")


def duration(seconds: float) -> str:
    """To a digit or two: 40 s, 3 min, 1.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _to_standard_error(line: str) -> None:
    sys.stderr.write(f"[MixedEffectRegressor] {line}\n")
    sys.stderr.flush()
