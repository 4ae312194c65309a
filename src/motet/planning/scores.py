"""How good predictions of observations are: error, log score, coverage; and whether they are better than baselines.

Differences to a baseline are paired, and their standard errors take clients, not rows, as independent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy.special import ndtri, stdtrit

from motet.arrays import Array, Index
from motet.text import count

Kind: TypeAlias = Literal["known", "new"]  # of clients
Outcome: TypeAlias = Literal["better", "not better", "cannot tell"]

BAND = 0.9  # of the bands whose coverage is counted
HALF_BAND = float(ndtri(0.5 + BAND / 2))  # half of such a band, in standard deviations
SMALL_GAIN = 0.01  # of the error: if no more can be gained, predictions are not better
SMALL_GAP = 0.05  # between a band's level and its coverage


@dataclass(frozen=True)
class Score:
    """``error`` is the root mean square; ``log_score`` the mean of −log p(y), lower is better; ``coverage`` the share
    of observations inside their 90 % bands."""

    error: float
    log_score: float
    coverage: float

    @classmethod
    def of(cls, y: Array, mean: Array, std: Array) -> Score:
        return cls(
            error=float(np.sqrt(np.mean((y - mean) ** 2))),
            log_score=float(np.mean(log_scores(y, mean, std))),
            coverage=float(np.mean(np.abs((y - mean) / std) <= HALF_BAND)),
        )


def log_scores(y: Array, mean: Array, std: Array) -> Array:
    """−log p(y) of every row."""
    return np.asarray(0.5 * ((y - mean) / std) ** 2 + np.log(std) + 0.5 * math.log(2 * math.pi))


@dataclass(frozen=True, eq=False)
class Scored:
    """Rows of known or of new clients that nobody learned from, and predictions of them.

    ``row`` are their places in the table, ``client`` the numbers of their clients. A baseline has means alone: its
    standard deviation is taken to be its error on just these rows, the best that one number can be.
    """

    kind: Kind
    row: Index
    client: Index
    y: Array
    mean: Array
    std: Array
    baselines: Mapping[str, Array]

    @classmethod
    def joined(cls, parts: Sequence[Scored]) -> Scored:
        """Parts of one kind, with the same baselines."""
        arrays = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("row", "client", "y", "mean", "std")
        }
        names = parts[0].baselines
        baselines = {name: np.concatenate([part.baselines[name] for part in parts]) for name in names}
        return cls(parts[0].kind, **arrays, baselines=baselines)

    @property
    def clients(self) -> int:
        return len(np.unique(self.client))

    @cached_property
    def score(self) -> Score:
        return Score.of(self.y, self.mean, self.std)

    @cached_property
    def baseline_scores(self) -> dict[str, Score]:
        errors = {name: np.sqrt(np.mean((self.y - mean) ** 2)) for name, mean in self.baselines.items()}
        deviations = {name: np.full(len(self.y), max(error, np.finfo(float).tiny)) for name, error in errors.items()}
        return {name: Score.of(self.y, mean, deviations[name]) for name, mean in self.baselines.items()}

    # --- against the best baseline ---

    @property
    def best_baseline(self) -> str:
        """The one with the smallest error."""
        return min(self.baseline_scores, key=lambda name: self.baseline_scores[name].error)

    @property
    def difference(self) -> float:
        """The error less that of the best baseline."""
        return self.score.error - self.baseline_scores[self.best_baseline].error

    @cached_property
    def standard_error(self) -> float:
        """Of the difference; not finite if there is one client alone."""
        best = self.baselines[self.best_baseline]
        squares = (self.y - self.mean) ** 2 - (self.y - best) ** 2  # a² − b² = (a − b)(a + b)
        total = self.score.error + self.baseline_scores[self.best_baseline].error
        return _standard_error(self.client, squares) / max(total, np.finfo(float).tiny)

    @property
    def outcome(self) -> Outcome:
        """By the 95 % interval of the difference: all of it is a gain, none of it is one of 1 % or more, or neither."""
        reach = self._quantile * self.standard_error
        if not math.isfinite(reach):
            return "cannot tell"
        if self.difference + reach < 0:
            return "better"
        little = SMALL_GAIN * self.baseline_scores[self.best_baseline].error
        return "not better" if self.difference - reach > -little else "cannot tell"

    @property
    def bands(self) -> Literal["too narrow", "right", "too wide"]:
        """Whether the 90 % bands hold too few or too many observations, beyond chance."""
        inside = (np.abs(self.y - self.mean) <= HALF_BAND * self.std).astype(float)
        gap, reach = self.score.coverage - BAND, self._quantile * _standard_error(self.client, inside)
        if not math.isfinite(reach) or abs(gap) <= max(reach, SMALL_GAP):
            return "right"
        return "too narrow" if gap < 0 else "too wide"

    @property
    def _quantile(self) -> float:
        return float(stdtrit(self.clients - 1, 0.975)) if self.clients > 1 else math.inf

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "rows": len(self.row),
            "clients": self.clients,
            **vars(self.score),
            "baselines": {name: vars(score) for name, score in self.baseline_scores.items()},
            "best_baseline": self.best_baseline,
            "difference": self.difference,
            "standard_error": self.standard_error if math.isfinite(self.standard_error) else None,
            "outcome": self.outcome,
            "bands": self.bands,
        }


def _standard_error(client: Index, values: Array) -> float:
    """Of the mean over rows, if clients are independent and their rows are not; not finite for one client."""
    _, number = np.unique(client, return_inverse=True)
    sums = np.bincount(number, values - values.mean())
    m = len(sums)
    return float(np.sqrt((sums**2).sum() * m / (m - 1)) / len(values)) if m > 1 else math.inf


def gain(groups: Sequence[Scored], others: Sequence[Scored]) -> tuple[float, float]:
    """By how much the mean log score is better than that of other predictions of the same rows; its standard error."""
    ours, theirs = (np.concatenate([log_scores(one.y, one.mean, one.std) for one in side]) for side in (groups, others))
    client = np.concatenate([one.client for one in groups])
    return float(np.mean(theirs - ours)), _standard_error(client, theirs - ours)


# --- in words ---


def verdict(groups: Sequence[Scored]) -> str:
    """One plain sentence."""
    better = [group.kind for group in groups if group.outcome == "better"]
    parts = [f"better than every baseline for {' and '.join(better)} clients"] if better else []
    parts += [_doubt(group) for group in groups if group.outcome != "better"]
    sentence = "; ".join(parts)
    return f"{sentence[0].upper()}{sentence[1:]}."


def _doubt(group: Scored) -> str:
    best = group.best_baseline
    errors = f"error {group.score.error:#.4g} against {group.baseline_scores[best].error:#.4g}"
    if group.outcome == "not better":
        return f'not better than the baseline "{best}" for {group.kind} clients ({errors})'
    clients = count(group.clients, f"{group.kind} client")
    return f'{clients} are too few to tell whether it is better than the baseline "{best}" ({errors})'


def notes(groups: Sequence[Scored]) -> list[str]:
    """What else should be known of the bands."""
    return [
        f"The 90 % bands of {group.kind} clients are {group.bands}: "
        f"they hold {100 * group.score.coverage:.0f} % of the observations."
        for group in groups
        if group.bands != "right"
    ]
