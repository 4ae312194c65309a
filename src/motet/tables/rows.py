"""Rows to learn: of each the task, by number, inputs, output and noise; as they are before an engine has them.

Labels of tasks are numbered here, and once. ``number_labels`` is the order of an engine: whole numbers of an array
ascend, other labels have the order of their first rows. ``numbered`` is quick for tables whose rows of a task lie
together, and has their order; if they do not, labels ascend.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from motet.arrays import Array, Index, distinct, numbers, outputs, without_gaps
from motet.errors import EmptyData, InvalidData, WrongDimension
from motet.tables.missing import is_missing
from motet.tables.roles import Roles
from motet.text import count

MIN_TASKS = 400  # before tasks are left out of a sample; with fewer, rows are


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows to learn; ``task`` numbers the ``labels``. A ``single_task`` has no label of its own."""

    task: Index
    labels: Any  # an array or a list
    X: Array
    y: Array
    noise: Array
    single_task: bool = False

    @classmethod
    def of(cls, labels: Any, X: Array, y: Array, noise: Array, *, single_task: bool = False) -> Rows:
        """Of each row's label, from an array or a list."""
        known: dict[Hashable, int] = {}
        task, different = number_labels(labels, known), list(known)
        is_whole = isinstance(labels, np.ndarray) and labels.dtype.kind in "iu"
        return cls(task, np.array(different, labels.dtype) if is_whole else different, X, y, noise, single_task)

    @classmethod
    def of_table(cls, table: Any, roles: Roles) -> Rows:
        """From a table: a mapping of arrays, a pandas or polars frame, a pyarrow table."""
        roles.check("a partition", getattr(table, "column_names", None) or list(getattr(table, "columns", table)))
        columns = {name: column_of(table, name) for name in roles.names}
        task, labels = numbered(columns[roles.task])
        X = np.column_stack([np.asarray(columns[name], dtype=np.float64) for name in roles.inputs])
        noise = None if roles.noise is None else columns[roles.noise]
        return cls(task, labels, X, *outputs(columns[roles.target], noise, len(X)))

    @property
    def tasks(self) -> Any:
        """Every row's label."""
        if isinstance(self.labels, np.ndarray):
            return self.labels[self.task]
        return [self.labels[k] for k in self.task.tolist()]

    @cached_property
    def inputs(self) -> Array:
        """The different inputs."""
        return self.X[distinct(self.X)[0]]

    @cached_property
    def sizes(self) -> Index:
        """How many rows each task has."""
        return np.bincount(self.task, minlength=len(self.labels))

    @property
    def longest(self) -> int:
        """Rows of the longest task."""
        return int(self.sizes.max(initial=0))

    def triples(self, chosen: Index) -> tuple[Array, Array, Array]:
        """Inputs, outputs and noise of these rows."""
        return self.X[chosen], self.y[chosen], self.noise[chosen]

    def only(self, chosen: Index) -> Rows:
        """These rows, their tasks numbered anew in the same way."""
        used, first, task = np.unique(self.task[chosen], return_index=True, return_inverse=True)
        if isinstance(self.labels, np.ndarray):
            labels = self.labels[used]
        else:
            order = np.argsort(first)
            labels, task = [self.labels[k] for k in used[order].tolist()], np.argsort(order)[task]
        return Rows(task, labels, *self.triples(chosen), self.single_task)

    def thinned(self, per_task: int) -> Rows:
        """At most so many rows of each task, at random."""
        shuffled = np.random.default_rng(0).permutation(len(self.y))
        return self.only(np.sort(shuffled[places_in_tasks(self.task[shuffled]) < per_task]))

    def sample(self, limit: int) -> Rows:
        """About ``limit`` rows: of tasks at random all, if they are at least ``MIN_TASKS``; else some of each."""
        if len(self.y) <= limit:
            return self
        order = np.random.default_rng(0).permutation(len(self.sizes))
        whole = int(np.searchsorted(np.cumsum(self.sizes[order]), limit, side="right"))
        chosen = np.zeros(len(order), dtype=bool)
        chosen[order[: max(whole, MIN_TASKS)]] = True
        rows = self.only(np.flatnonzero(chosen[self.task]))
        if len(rows.y) <= limit:
            return rows
        ordered = np.sort(rows.sizes)
        shorter = np.cumsum(ordered) - ordered  # rows of all tasks that are shorter
        each = (limit - shorter) // np.arange(len(ordered), 0, -1)  # left for each of the others
        return rows.thinned(max(1, int(each[np.argmax(each < ordered)])))


def places_in_tasks(task: Index) -> Index:
    """How many rows of its task are before each row."""
    order = np.argsort(task, kind="stable")
    places = np.empty(len(task), dtype=np.intp)
    places[order] = np.arange(len(task)) - np.searchsorted(task[order], task[order])
    return places


@dataclass(frozen=True, eq=False)
class Sample:
    """Some rows of a large table, for what takes long on all of them: their places, and in words how many they are.

    They are a function of the rows alone: those of random clients, and, if inputs are items, on random items, as often
    chosen as they are in rows.
    """

    rows: Index
    about: str = ""

    @classmethod
    def of(cls, clients: Sequence[str], X: Array, *, max_rows: int, max_items: int | None = None) -> Sample:
        """At most about ``max_rows``, on at most ``max_items`` different inputs if these are items; all, if few."""
        item = None if max_items is None else distinct(X)[1]
        items = 0 if item is None else int(item.max(initial=-1)) + 1
        if len(X) <= max_rows and (max_items is None or items <= max_items):
            return cls(np.arange(len(X)))
        rng = np.random.default_rng(0)
        labels, client = np.unique(np.array(clients, dtype=object).astype(str), return_inverse=True)
        order, is_chosen = rng.permutation(len(labels)), np.full(len(X), True)
        if item is not None and max_items is not None:
            at_random = item[rng.permutation(len(item))]
            firsts = np.sort(np.unique(at_random, return_index=True)[1])
            is_chosen = np.isin(item, at_random[firsts[:max_items]])
        total = np.cumsum(np.bincount(client[is_chosen], minlength=len(labels))[order])
        some = order[: max(1, int(np.searchsorted(total, max_rows)))]
        rows = np.flatnonzero(is_chosen & np.isin(client, some))
        parts = [f"{count(len(rows), 'row')} of {count(len(np.unique(client[rows])), 'client')}"]
        if item is not None:
            parts.append(f"{len(np.unique(item[rows])):,} of {count(items, 'item')}")
        return cls(rows, " and ".join(parts))


def column_of(table: Any, name: str) -> Any:
    """A column; pyarrow's chunks are joined."""
    column = table[name]
    return column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)


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


# --- labels of tasks ---


def number_labels(labels: Iterable[Hashable] | Array, known: dict[Hashable, int]) -> Index:
    """The number of every row's label; labels that are not ``known`` get the next ones."""
    different, same_as = different_labels(labels)
    try:
        if isinstance(same_as, slice) and any(is_missing(label) for label in different if not isinstance(label, str)):
            raise InvalidData("every example needs a task label, got a missing one (None or NaN)")
        task = np.array([known.setdefault(label, len(known)) for label in different], dtype=np.intp)
    except TypeError:
        raise InvalidData("task labels must be hashable: strings, numbers or tuples") from None
    return task[same_as]


def different_labels(labels: Iterable[Hashable] | Array) -> tuple[list[Hashable], Index | slice]:
    """Labels as a list, and which of them each row has."""
    if not isinstance(labels, np.ndarray):
        return list(labels), slice(None)
    if labels.dtype.kind in "iu" and len(labels):  # numbering or sorting whole numbers beats looking each one up
        low, high = int(labels.min()), int(labels.max())
        if max(-low, high) < 2**62 and high - low <= 2 * len(labels):
            above = labels.astype(np.int64) - low
            place = without_gaps(above, high - low + 1)
            return [*(np.flatnonzero(place >= 0) + low).tolist()], place[above]
        labels, same_as = np.unique(labels, return_inverse=True)
        return labels.tolist(), same_as
    return list(labels) if labels.dtype.kind in "mM" else labels.tolist(), slice(None)


def numbered(labels: Any) -> tuple[Index, Any]:
    """The number of every row's label, and the labels; quick if equal ones lie together."""
    if not len(labels):
        return np.empty(0, dtype=np.intp), labels
    new = np.append(True, np.asarray(labels[1:] != labels[:-1], dtype=bool))
    run, first = np.cumsum(new) - 1, labels[new]
    every, number = np.unique(first, return_inverse=True)
    return (run, first) if len(every) == len(first) else (number[run], every)
