"""Rows to learn, each with its task: as a regressor has read them, before an engine holds them.

Settings are chosen on some of them if they are many: whole tasks, as long as these are not few, so that the sample
tells shifts from noise as the table does.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from motet.arrays import Array, Index, distinct, numbers
from motet.errors import EmptyData, InvalidData, WrongDimension
from motet.learning.survey import MIN_TASKS
from motet.learning.triples import Triples


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows to learn, each with its task."""

    task: Any
    X: Array
    y: Array
    noise: Array
    single_task: bool

    @cached_property
    def inputs(self) -> Array:
        """The different inputs."""
        return self.X[distinct(self.X)[0]]

    @cached_property
    def number(self) -> Index:
        """Of every row's task."""
        return Triples().assign_numbers(self.task)

    @cached_property
    def sizes(self) -> Index:
        """How many rows each task has."""
        return np.bincount(self.number)

    @property
    def longest(self) -> int:
        """Rows of the longest task."""
        return int(self.sizes.max(initial=0))

    def only(self, kept: Index) -> Rows:
        """These rows."""
        task = self.task[kept] if isinstance(self.task, np.ndarray) else [self.task[i] for i in kept]
        return Rows(task, self.X[kept], self.y[kept], self.noise[kept], self.single_task)

    def thinned(self, per_task: int) -> Rows:
        """At most so many rows of each task, at random."""
        shuffled = np.random.default_rng(0).permutation(len(self.y))
        order = shuffled[np.argsort(self.number[shuffled], kind="stable")]
        start = np.cumsum(self.sizes) - self.sizes
        return self.only(np.sort(order[np.arange(len(order)) - np.repeat(start, self.sizes) < per_task]))

    def sample(self, limit: int) -> Rows:
        """About ``limit`` rows: of tasks at random all, if they are at least ``MIN_TASKS``; else some of each."""
        if len(self.y) <= limit:
            return self
        order = np.random.default_rng(0).permutation(len(self.sizes))
        whole = int(np.searchsorted(np.cumsum(self.sizes[order]), limit, side="right"))
        chosen = np.zeros(len(order), dtype=bool)
        chosen[order[: max(whole, MIN_TASKS)]] = True
        rows = self.only(np.flatnonzero(chosen[self.number]))
        if len(rows.y) <= limit:
            return rows
        ordered = np.sort(rows.sizes)
        shorter = np.cumsum(ordered) - ordered  # rows of all tasks that are shorter
        each = (limit - shorter) // np.arange(len(ordered), 0, -1)  # left for each of the others
        return rows.thinned(max(1, int(each[np.argmax(each < ordered)])))


def noise_of(sample_weight: Any, n: int) -> tuple[Array, Index]:
    """Noise variances 1/weight, and which rows have a positive weight."""
    if sample_weight is None:
        return np.ones(n), np.ones(n, dtype=bool)
    weight = numbers(sample_weight, "sample_weight")
    weight = np.full(n, float(weight)) if weight.ndim == 0 else weight
    if weight.shape != (n,):
        raise WrongDimension(f"sample_weight must hold {n} numbers, one for each row, got shape {weight.shape}")
    if not (good := np.isfinite(weight) & (weight >= 0)).all():
        row = int(np.argmin(good))
        raise InvalidData(f"sample_weight must be finite and not negative; row {row} is {weight[row]}")
    if not weight.any():
        raise EmptyData("every sample_weight is zero: nothing to learn")
    with np.errstate(divide="ignore"):
        return 1.0 / weight, weight > 0
