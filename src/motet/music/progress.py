"""How far a demo is, and what it has found: written by its threads, read by whoever shows it."""

from __future__ import annotations

import time
from bisect import bisect
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from motet.music.crowd import Errors

RECENT = 2.0  # seconds


@dataclass(frozen=True)
class Measured:
    """A release: how many ratings had come when it was seen, ε spent until then, and the errors with it."""

    version: int
    sent: int
    spent: float | None
    errors: Errors


@dataclass(frozen=True)
class Reference:
    """What releases are held against: everybody alone, and all ratings shared without noise."""

    separate: Errors
    exact: Errors


@dataclass
class State:
    clients: int
    ratings: int
    exact: bool
    doing: str = "simulating the listeners"
    url: str | None = None
    folder: Path | None = None
    epsilon: float | None = None
    due: float | None = None  # the next release, in seconds since 1970
    arrivals: list[float] = field(default_factory=list)  # when each rating was acknowledged, by the monotonic clock
    releases: list[Measured] = field(default_factory=list)
    reference: Reference | None = None  # there before the first release
    done: bool = False

    @property
    def sent(self) -> int:
        return len(self.arrivals)

    @property
    def rate(self) -> float:
        """Ratings a second: of late, or of all that time when all have come."""
        if self.sent < self.ratings:
            return (self.sent - bisect(self.arrivals, time.monotonic() - RECENT)) / RECENT
        return self.sent / max(self.arrivals[-1] - self.arrivals[0], 1e-9)

    @property
    def spent(self) -> float | None:
        return self.releases[-1].spent if self.releases else None

    @property
    def kept(self) -> float | None:
        """The share of what sharing gains without noise that the last release has; None before all is in it."""
        if not self.done or not self.releases or self.reference is None:
            return None
        alone, exact = self.reference.separate.both, self.reference.exact.both
        return (alone - self.releases[-1].errors.both) / (alone - exact)

    def to_dict(self) -> dict[str, Any]:
        """The figures, for programs."""
        return {
            "policy": "exact" if self.exact else "private",
            "clients": self.clients,
            "ratings": self.ratings,
            "sent": self.sent,
            "per_second": self.rate,
            "epsilon": self.epsilon,
            "spent": self.spent,
            "done": self.done,
            "separate": None if self.reference is None else asdict(self.reference.separate),
            "exact": None if self.reference is None else asdict(self.reference.exact),
            "errors": asdict(self.releases[-1].errors) if self.releases else None,
            "kept": self.kept,
            "releases": [asdict(release) for release in self.releases],
        }
