"""The inner cross-validation in which peers tune: folds over tasks, with the cells of the experiment in each.

In a fold a third of the tasks is new and a part of the others' rows is held out, so that one fit scores settings for
both known tasks and new ones; settings are chosen for each cell of the experiment separately. Residuals of the folds
are the variance of peers that have none, for each cell its own. Needs numpy alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from experiments.defaults.protocol import KNOWN, Split, split_at
from experiments.defaults.rows import Rows

if TYPE_CHECKING:
    from motet.arrays import Array, Index

FOLDS = 3
Settings: TypeAlias = Any
Mean: TypeAlias = "Callable[[Rows], Array]"


@dataclass(frozen=True, eq=False)
class Gaussian:
    """Normal predictions of observations."""

    mean: Array
    std: Array


class Learner(Protocol):
    """What the experiment asks of everyone."""

    def tune(self, rows: Rows, counts: Sequence[int]) -> None:
        """Choose settings, and learn these rows; new tasks will bring one of these numbers of rows."""

    def predict(self, cell: int, own: Rows | None, new: Rows) -> Gaussian:
        """Observations in a cell, beside the rows that new tasks bring. The outputs of ``new`` are not to be read."""


def folds(rows: Rows, counts: Sequence[int]) -> Iterator[Split]:
    rng = np.random.default_rng(0)
    tasks = rng.permutation(np.unique(rows.task))
    sizes = {int(j): int(count) for j, count in zip(*np.unique(rows.task, return_counts=True))}
    for part in np.array_split(tasks, min(FOLDS, len(tasks))):
        if len(part) == len(tasks):
            raise ValueError("expected two tasks at least, to leave one out")
        brought = [count for count in counts if any(sizes[int(j)] > count for j in part)]
        yield split_at(rows.task, part, rng, brought)


class Refitted(ABC):
    """A peer that has no variance, and cannot condition: it is fitted again with the rows that new tasks bring."""

    candidates: Sequence[Settings]

    @abstractmethod
    def fit(self, rows: Rows, settings: Sequence[Settings]) -> Sequence[Mean]:
        """For each of these settings what predicts the mean; together, for those that share work."""

    def tune(self, rows: Rows, counts: Sequence[int]) -> None:
        self.rows = rows
        residuals: dict[int, list[list[Array]]] = {cell: [[] for _ in self.candidates] for cell in (KNOWN, *counts)}
        for part in folds(rows, counts):
            for learned, its_cells in _fits(part):
                for k, mean in enumerate(self.fit(rows.take(learned), self.candidates)):
                    for cell in its_cells:
                        test = rows.take(part.test(cell))
                        residuals[cell][k].append(test.y - mean(test))
        errors = {cell: [_rms(one) for one in every] for cell, every in residuals.items()}
        self.chosen = {cell: int(np.argmin(every)) for cell, every in errors.items()}
        self.std = {cell: min(every) for cell, every in errors.items()}

    def predict(self, cell: int, own: Rows | None, new: Rows) -> Gaussian:
        (mean,) = self.fit(self.rows.joined(own), [self.candidates[self.chosen[cell]]])
        return Gaussian(mean(new), np.full(len(new), self.std[cell]))


def _fits(part: Split) -> Iterator[tuple[Index, tuple[int, ...]]]:
    """The rows of every fit in a fold, and the cells that it serves."""
    yield part.train, (KNOWN, 0)
    for count, which in part.own.items():
        if count:
            yield np.concatenate([part.train, which]), (count,)


def _rms(errors: Sequence[Array]) -> float:
    return float(np.sqrt(np.mean(np.concatenate(errors) ** 2)))


DAMPING = 4.0  # rows of the overall mean that are added to the mean of a level


def level_means(level: Index, y: Array) -> Callable[[Index], Array]:
    """Damped means of the outputs by level; of one that was not learned, the overall mean."""
    center = float(y.mean())
    names, number, counts = np.unique(level, return_inverse=True, return_counts=True)
    means = center + np.bincount(number, y - center) / (counts + DAMPING)

    def encode(at: Index) -> Array:
        where = np.clip(np.searchsorted(names, at), 0, len(names) - 1)
        return np.where(names[where] == at, means[where], center)

    return encode


def out_of_fold(level: Index, y: Array) -> Array:
    """``level_means`` of every row by the others' parts of the rows, so that no row tells its own output."""
    part = np.random.default_rng(0).permutation(len(y)) % 5
    encoded = np.empty(len(y))
    for k in range(5):
        encoded[part == k] = level_means(level[part != k], y[part != k])(level[part == k])
    return encoded
