"""As ``worker``, for predictions that know their own bands and densities: ``python densities.py MODULE CLASS FOLDER``.

A normal distribution with the moments of a lognormal one would be another prediction. Runs where the package is.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

sys.path.insert(0, str(Path(__file__).parents[2]))

from experiments.defaults import worker

if TYPE_CHECKING:
    from motet.arrays import Array

ENDS = 0.05, 0.95  # of a 90 % band


class Distribution(Protocol):
    """Of an observation: normal, lognormal."""

    @property
    def mean(self) -> Array: ...

    def quantile(self, p: float) -> Array: ...

    def log_density(self, y: Array) -> Array: ...


def scores(predicted: Distribution, y: Array) -> dict[str, Array]:
    """Means and bands, and the log density of what was observed."""
    low, high = (predicted.quantile(p) for p in ENDS)
    return {"mean": predicted.mean, "low": low, "high": high, "log": predicted.log_density(y)}


if __name__ == "__main__":
    worker.scores = scores  # type: ignore[assignment]
    worker.main()
