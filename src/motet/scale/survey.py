"""A first pass over a table that is too large to hold: a cluster sample, of whole tasks, and how many inputs differ.

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
from motet.tables.arrow import ROWS_READ, Batch, joined
from motet.tables.large import Dataset
from motet.tables.roles import Roles
from motet.tables.rows import MIN_TASKS, Rows, numbered
from motet.tuning.defaults import MAX_GROWING_INPUTS, TUNING_ROWS

ROWS_PER_TASK = 500  # of one task in one batch
ODD = np.uint64(0x9E3779B97F4A7C15)  # a multiplicative hash: of consecutive numbers all bits differ


@dataclass
class Survey:
    """What a pass over the table has shown so far; ``tasks_in`` is how many tasks there are for each in the sample."""

    roles: Roles
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
        roles: Roles,
        *,
        limit: int = TUNING_ROWS,
        skip_missing: bool = False,
        advance: Callable[[int], object] = int,
    ) -> Survey:
        survey = cls(roles, limit)
        for batch in dataset.batches(roles, skip_missing=skip_missing):
            survey.add(batch)
            advance(batch[ROWS_READ])
        return survey

    def add(self, batch: Batch) -> None:
        self.rows += len(batch[self.roles.task])
        self.left_out += batch[ROWS_READ] - len(batch[self.roles.task])
        if len(self._inputs) <= MAX_GROWING_INPUTS:
            match(np.column_stack([batch[name] for name in self.roles.inputs]), self._inputs)
        self._batches.append(_thinned(_chosen(batch, self.roles.task, self.tasks_in), self.roles.task))
        while sum(len(one[self.roles.task]) for one in self._batches) > 2 * self.limit:
            self._halve()

    def _halve(self) -> None:
        kept = joined(self._batches)
        if len(numbered(kept[self.roles.task])[1]) >= MIN_TASKS:
            self.tasks_in *= 2
            self._batches = [_chosen(kept, self.roles.task, self.tasks_in)]
        else:
            self._batches = [_only(kept, slice(None, None, 2))]

    @property
    def sample(self) -> Rows:
        """Some tasks' rows; all rows if there are few."""
        return Rows.of_table(joined([_only(one, slice(None)) for one in self._batches]), self.roles)

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
        return np.frombuffer(b"".join(self._inputs), dtype=np.float64).reshape(-1, len(self.roles.inputs))


def _chosen(batch: Batch, task: str, tasks_in: int) -> Batch:
    """The rows of every ``tasks_in``-th task, by a number that its label alone decides."""
    if tasks_in == 1:
        return batch
    number, labels = numbered(batch[task])
    if labels.dtype.kind in "iu":
        marks = (labels.astype(np.uint64) * ODD) >> np.uint64(32)
    else:
        marks = np.array([crc32(str(label).encode()) for label in labels.tolist()], dtype=np.uint64)
    return _only(batch, (marks % np.uint64(tasks_in) == 0)[number])


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


def _only(batch: Batch, which: Any) -> Batch:
    return {name: values[which] for name, values in batch.items() if name != ROWS_READ}
