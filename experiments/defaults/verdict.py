"""Ours against the best of the others in every cell, by error and by log score, and the coverage of bands.

Losses of all seeds are pooled; the standard error of a difference is clustered by task, as rows of one task are wrong
together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from experiments.defaults.methods import OURS
from experiments.defaults.outcomes import Trial
from experiments.defaults.tables import Table
from motet.arrays import Array, Index

Measure: TypeAlias = Literal["error", "log score"]
MEASURES: tuple[Measure, ...] = ("error", "log score")
BAND = 0.85, 0.95  # within which the coverage of a 90 % band is right
THIRDS = 3


@dataclass(frozen=True, eq=False)
class Scores:
    """Of one method in one cell: squared errors, of rows that count; −log densities, and whether the band holds y."""

    squared: Array
    log_loss: Array
    held: Array

    def by(self, measure: Measure) -> Array:
        return self.squared if measure == "error" else self.log_loss

    def shown(self, measure: Measure) -> float:
        """The root of the mean squared error, or the mean log loss."""
        return float(np.sqrt(self.squared.mean()) if measure == "error" else self.log_loss.mean())


@dataclass(frozen=True, eq=False)
class Cell:
    """All seeds of a table in one situation: the rows predicted, and everybody's scores who has all of them."""

    table: Table
    own: int
    X: Array
    task: Index
    counted: Array  # in errors
    scores: dict[str, Scores]

    def tasks(self, measure: Measure) -> Index:
        return self.task[self.counted] if measure == "error" else self.task

    @property
    def peers(self) -> list[str]:
        return [name for name in self.scores if name != OURS.name]

    def best(self, measure: Measure, but: str = OURS.name) -> str:
        """Whose mean loss is least, of all others."""
        others = [name for name in self.scores if name != but]
        return min(others, key=lambda name: float(self.scores[name].by(measure).mean()))


@dataclass(frozen=True)
class Comparison:
    """How much larger our mean loss is than a peer's, in clustered standard errors; infinite if we have none."""

    cell: Cell
    measure: Measure
    peer: str
    distance: float

    @property
    def verdict(self) -> Literal["won", "tied", "lost"]:
        return "won" if self.distance < -1 else "lost" if self.distance > 1 else "tied"


def cells(table: Table, trials: Sequence[Trial]) -> list[Cell]:
    """The situations that all seeds have."""
    shared = [own for own in trials[0].split.cells if all(own in trial.split.cells for trial in trials)]
    names = [name for name in trials[0].outcomes if not any(trial.outcomes[name].reason for trial in trials)]
    return [_cell(table, own, trials, names) for own in shared]


def _cell(table: Table, own: int, trials: Sequence[Trial], names: Sequence[str]) -> Cell:
    tests = [trial.rows.take(trial.split.test(own)) for trial in trials]
    X, y, task = (np.concatenate(part) for part in zip(*((one.X, one.y, one.task) for one in tests)))
    counted = np.concatenate([trial.counted[trial.split.test(own)] for trial in trials])

    def scores(name: str) -> Scores:
        told = [trial.outcomes[name].cells[own] for trial in trials]
        mean, low, high, log = (np.concatenate([one[key] for one in told]) for key in ("mean", "low", "high", "log"))
        return Scores((y - mean)[counted] ** 2, -log, (low <= y) & (y <= high))

    return Cell(table, own, X, task, counted, {name: scores(name) for name in names})


def clustered(values: Array, task: Index) -> tuple[float, float]:
    """The mean, and its standard error if tasks are independent and rows of one are not."""
    _, number = np.unique(task, return_inverse=True)
    mean = float(values.mean())
    sums = np.bincount(number, values - mean)
    correction = len(sums) / max(len(sums) - 1, 1)
    return mean, float(np.sqrt(correction * np.sum(sums**2)) / len(values))


def compare(cell: Cell, measure: Measure, peer: str | None = None, *, ours: str = OURS.name) -> Comparison:
    """With a peer, or with the one whose mean loss is least; ``ours`` may be another, to see how it would stand."""
    peer = peer or cell.best(measure, but=ours)
    if ours not in cell.scores:
        return Comparison(cell, measure, peer, np.inf)
    gap, error = clustered(cell.scores[ours].by(measure) - cell.scores[peer].by(measure), cell.tasks(measure))
    return Comparison(cell, measure, peer, gap / error if error > 0 else np.copysign(np.inf, gap) if gap else 0.0)


@dataclass(frozen=True)
class Coverage:
    """The share of outputs in their bands, its standard error, and where that is."""

    share: float
    error: float
    where: str = ""

    @classmethod
    def of(cls, held: Array, task: Index, where: str = "") -> Coverage:
        """With an error clustered by task, and no smaller than that of independent rows, as all may be inside."""
        share, error = clustered(held.astype(float), task)
        return cls(share, max(error, float(np.sqrt(0.9 * 0.1 / len(held)))), where)

    @property
    def is_wrong(self) -> bool:
        """Outside what is right by more than a standard error, as 3 % of right bands over 25 rows are by chance."""
        return self.share + self.error < BAND[0] or self.share - self.error > BAND[1]

    def __str__(self) -> str:
        text = f"{100 * self.share:.0f}" + (f" ({self.where})" if self.where else "")
        return f"**{text}**" if self.is_wrong else text


def coverage(cell: Cell, name: str = OURS.name) -> Coverage:
    return Coverage.of(cell.scores[name].held, cell.task)


def thirds(cell: Cell, name: str = OURS.name) -> Iterator[Coverage]:
    """The coverage in the thirds of every input, or at each of its values if there are no more than three."""
    held = cell.scores[name].held
    for column, x in zip(cell.table.columns, cell.X.T):
        values = np.unique(x)
        if 1 < len(values) <= THIRDS:
            parts = [(f"{column} = {value:.3g}", x == value) for value in values]
        else:
            which = np.searchsorted(np.quantile(x, [1 / 3, 2 / 3]), x)
            parts = [(f"{column}, {k + 1}", which == k) for k in range(THIRDS)]
        for words, at in parts:
            if len(np.unique(cell.task[at])) > 1:
                yield Coverage.of(held[at], cell.task[at], words)
