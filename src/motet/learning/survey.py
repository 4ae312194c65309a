"""A first look at a table that is too large to hold: how many different inputs it has, and a sample of its tasks.

Settings are chosen on the sample. It has all rows of its tasks, so that it tells shifts from noise as the table does;
of a task with very many rows, some of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np

from motet.arrays import Array, match
from motet.datasets import ROWS_READ, Batch, Dataset, Fields, joined
from motet.learning.defaults import MAX_GROWING_INPUTS
from motet.learning.partitions import Rows, numbered

TUNING_ROWS = 20_000  # that settings are chosen on
ROWS_PER_TASK = 500  # of one task in one batch
MIN_TASKS = 400  # before tasks are left out; with fewer, rows are
ODD = np.uint64(0x9E3779B97F4A7C15)  # spreads consecutive numbers over all bits


@dataclass
class Survey:
    """What a pass over the table has shown so far; ``tasks_in`` is how many tasks there are for each in the sample."""

    fields: Fields
    limit: int = TUNING_ROWS
    rows: int = 0
    left_out: int = 0
    tasks_in: int = 1
    _batches: list[Batch] = field(default_factory=list)
    _inputs: dict[bytes, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        dataset: Dataset,
        fields: Fields,
        *,
        limit: int = TUNING_ROWS,
        skip_missing: bool = False,
        advance: Callable[[int], object] = int,
    ) -> Survey:
        survey = cls(fields, limit)
        for batch in dataset.batches(fields, skip_missing=skip_missing):
            survey.add(batch)
            advance(batch[ROWS_READ])
        return survey

    def add(self, batch: Batch) -> None:
        self.rows += len(batch[self.fields.task])
        self.left_out += batch[ROWS_READ] - len(batch[self.fields.task])
        if len(self._inputs) <= MAX_GROWING_INPUTS:
            match(np.column_stack([batch[name] for name in self.fields.inputs]), self._inputs)
        self._batches.append(_thinned(_chosen(batch, self.fields.task, self.tasks_in), self.fields.task))
        while sum(len(one[self.fields.task]) for one in self._batches) > 2 * self.limit:
            self._halve()

    def _halve(self) -> None:
        kept = joined(self._batches)
        if len(numbered(kept[self.fields.task])[1]) >= MIN_TASKS:
            self.tasks_in *= 2
            self._batches = [_chosen(kept, self.fields.task, self.tasks_in)]
        else:
            self._batches = [{name: values[::2] for name, values in kept.items() if name != ROWS_READ}]

    @property
    def sample(self) -> Rows:
        """Some tasks' rows; all rows if there are few."""
        return Rows.of(joined([{k: v for k, v in one.items() if k != ROWS_READ} for one in self._batches]), self.fields)

    @property
    def is_complete(self) -> bool:
        """Whether the sample is the whole table."""
        return len(self.sample.y) == self.rows

    @property
    def has_many_inputs(self) -> bool:
        """Whether the different inputs are too many for a basis that grows."""
        return len(self._inputs) > MAX_GROWING_INPUTS

    @property
    def inputs(self) -> Array:
        """The different inputs; of many, those of the sample."""
        if self.has_many_inputs:
            sample = self.sample.X
            return sample[match(sample, {})[1]]
        return np.frombuffer(b"".join(self._inputs), dtype=np.float64).reshape(-1, len(self.fields.inputs))


def _chosen(batch: Batch, task: str, tasks_in: int) -> Batch:
    """The rows of every ``tasks_in``-th task, by a number that its label alone decides."""
    if tasks_in == 1:
        return batch
    number, labels = numbered(batch[task])
    return _only(batch, (_marks(labels) % np.uint64(tasks_in) == 0)[number])


def _marks(labels: Any) -> Array:
    if labels.dtype.kind in "iu":
        return (labels.astype(np.uint64) * ODD) >> np.uint64(32)
    return np.fromiter((crc32(str(label).encode()) for label in labels.tolist()), dtype=np.uint64, count=len(labels))


def _thinned(batch: Batch, task: str) -> Batch:
    """Without some of the rows of tasks that have very many, evenly."""
    if not len(batch[task]):
        return batch
    number, labels = numbered(batch[task])
    count = np.bincount(number, minlength=len(labels))
    if count.max(initial=0) <= ROWS_PER_TASK:
        return batch
    order = np.argsort(number, kind="stable")
    place = np.empty(len(number), dtype=np.intp)
    place[order] = np.arange(len(number)) - np.repeat(np.cumsum(count) - count, count)
    step = -(-count // ROWS_PER_TASK)
    return _only(batch, place % step[number] == 0)


def _only(batch: Batch, which: Array) -> Batch:
    return {name: values[which] for name, values in batch.items() if name != ROWS_READ}
