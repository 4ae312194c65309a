"""A column store of the raw triples (input, output, noise) that an engine holds.

Labels and inputs are numbered by value. Rows are appended, marked dead when taken back, and dropped when most are dead.
A task's rows are found by an index of the older rows and a scan of the newer ones.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motet.arrays import MAX_MAGNITUDE, Array, Index, as_bytes, distinct, match, without_gaps
from motet.errors import InvalidData
from motet.tables.rows import different_labels, number_labels

PLAIN_LABELS = (int, str)  # never missing and always hashable


class Column:
    """An array that grows at its end, at amortised constant cost."""

    def __init__(self, empty: Array) -> None:
        self._store = empty
        self._n = len(empty)

    @property
    def values(self) -> Array:
        return self._store[: self._n]

    def extend(self, more: Any) -> None:
        self._reserve(n := self._n + len(more))
        self._store[self._n : n] = more
        self._n = n

    def append(self, value: Any) -> None:
        self._reserve(self._n + 1)
        self._store[self._n] = value
        self._n += 1

    def _reserve(self, n: int) -> None:
        if n > len(self._store):
            grown = np.empty((max(n, 2 * len(self._store)), *self._store.shape[1:]), dtype=self._store.dtype)
            grown[: self._n] = self.values
            self._store = grown


class Triples:
    """Triples of many tasks. ``dimension`` is None until the first input fixes it."""

    def __init__(self) -> None:
        self.dimension: int | None = None
        self._numbers: dict[Hashable, int] = {}
        self._number_of_input: dict[bytes, int] | None = {}  # by value; None until an input is looked up
        self._inputs: Column
        self._task, self._input = Column(np.empty(0, dtype=np.intp)), Column(np.empty(0, dtype=np.intp))
        self._y, self._noise = Column(np.empty(0)), Column(np.empty(0))
        self._alive = Column(np.empty(0, dtype=bool))
        self._count = Column(np.empty(0, dtype=np.intp))  # rows alive, by task
        self._changed = Column(np.empty(0, dtype=bool))  # since the last ``compact``, by task
        self._indexed = 0
        self._order, self._start = np.empty(0, dtype=np.intp), np.zeros(1, dtype=np.intp)

    def open(self, dimension: int) -> None:
        self.dimension = dimension
        self._inputs = Column(np.empty((0, dimension)))

    def __len__(self) -> int:
        return int(self._count.values.sum())

    def __contains__(self, label: Hashable) -> bool:
        try:
            number = self._numbers.get(label)
        except TypeError:
            raise InvalidData(f"task labels must be hashable: strings, numbers or tuples, got {label!r:.60}") from None
        return number is not None and bool(self._count.values[number])

    @property
    def inputs(self) -> Array:
        return self._inputs.values

    @property
    def changes(self) -> NDArray[np.bool_]:
        """Which tasks, by number, have changed since the last ``compact``."""
        return self._changed.values

    def labels(self, numbers: Collection[int] | None = None) -> list[Hashable]:
        """Of all tasks that have rows, or of those with these numbers."""
        held = self._count.values
        return [label for label, k in self._numbers.items() if held[k] and (numbers is None or k in numbers)]

    def number(self, label: Hashable) -> int:
        return self._numbers[label]

    def numbers(self, labels: Iterable[Hashable] | Array) -> Index:
        """The numbers of many labels; −1 for one that is not held."""
        levels, place = different_labels(labels)
        try:
            number = np.array([self._numbers.get(label, -1) for label in levels], dtype=np.intp)
        except TypeError:
            raise InvalidData("task labels must be hashable: strings, numbers or tuples") from None
        if len(self._numbers):
            number[self._count.values[number] == 0] = -1
        return number[place]

    @property
    def used(self) -> Index:
        """The numbers of the inputs that some task has."""
        used = np.zeros(len(self.inputs), dtype=bool)
        used[self._input.values[self._alive.values]] = True
        return np.flatnonzero(used)

    # --- changes ---

    def append_plain(self, label: Hashable, x: Any, y: Any, noise: Any) -> bool:
        """Append one row if it is plainly valid; else return False and do nothing: the row needs a closer look."""
        row = np.asarray(x) if isinstance(x, (np.ndarray, list, tuple)) else None
        if (
            row is None
            or row.dtype != np.float64
            or row.shape != (self.dimension,)
            or label.__class__ not in PLAIN_LABELS
        ):
            return False
        small = all(-MAX_MAGNITUDE < value < MAX_MAGNITUDE for value in row.tolist())
        if not (small and isinstance(y, float) and isinstance(noise, float)):
            return False
        if not (-MAX_MAGNITUDE < y < MAX_MAGNITUDE and 1 / MAX_MAGNITUDE < noise < MAX_MAGNITUDE):
            return False
        row = row + 0.0
        task = self._numbers.setdefault(label, len(self._numbers))
        numbers = self._input_numbers
        input = numbers.setdefault(row.tobytes(), len(numbers))
        if task == len(self._count.values):
            self._count.append(0)
            self._changed.append(False)
        if input == len(self.inputs):
            self._inputs.append(row)
        self._task.append(task)
        self._input.append(input)
        self._y.append(y)
        self._noise.append(noise)
        self._alive.append(True)
        self._count.values[task] += 1
        self._changed.values[task] = True
        return True

    def append(self, task: Index, X: Array, y: Array, noise: Array) -> None:
        """Append rows of tasks that ``assign_numbers`` has numbered."""
        if len(self.inputs):
            input, new = match(X, self._input_numbers)
        else:
            new, input = distinct(X)
            self._number_of_input = None
        self._inputs.extend(X[new] + 0.0)
        for column, values in ((self._task, task), (self._input, input), (self._y, y), (self._noise, noise)):
            column.extend(values)
        self._alive.extend(np.ones(len(y), dtype=bool))
        self._count.values[:] += np.bincount(task, minlength=len(self._count.values))
        self._changed.values[task] = True

    @property
    def _input_numbers(self) -> dict[bytes, int]:
        if self._number_of_input is None:
            self._number_of_input = {row: number for number, row in enumerate(as_bytes(self.inputs))}
        return self._number_of_input

    def assign_numbers(self, labels: Iterable[Hashable] | Array) -> Index:
        """The numbers of many labels, new ones included; a label counts as a task only when it has rows."""
        try:
            return number_labels(labels, self._numbers)
        finally:
            new = len(self._numbers) - len(self._count.values)
            self._count.extend(np.zeros(new, dtype=np.intp))
            self._changed.extend(np.zeros(new, dtype=bool))

    def remove(self, label: Hashable, x: Array, y: float, noise: float) -> bool:
        """Take back one row equal to this triple; False if there is none."""
        rows = self._rows_of(self._numbers[label])
        input = self._input_numbers.get(as_bytes(x[None])[0], -1)
        same = (self._input.values[rows] == input) & (self._y.values[rows] == y) & (self._noise.values[rows] == noise)
        if not same.any():
            return False
        self._remove_rows(self._numbers[label], rows[np.flatnonzero(same)[:1]])
        return True

    def remove_task(self, label: Hashable) -> None:
        self._remove_rows(self._numbers[label], self._rows_of(self._numbers[label]))

    def _remove_rows(self, number: int, rows: Index) -> None:
        self._alive.values[rows] = False
        self._y.values[rows] = 0.0  # nothing that was taken back stays in memory
        self._noise.values[rows] = 1.0
        self._count.values[number] -= len(rows)
        self._changed.values[number] = True

    # --- reading ---

    def of_task(self, label: Hashable) -> tuple[Array, Array, Array]:
        """A task's inputs, outputs and noise."""
        rows = self._rows_of(self._numbers[label])
        return self.inputs[self._input.values[rows]], self._y.values[rows], self._noise.values[rows]

    def of_tasks(self, which: NDArray[np.bool_]) -> tuple[Index, Index, Array, Array]:
        """Task and input numbers, outputs and noise of all rows of the chosen tasks."""
        chosen = self._alive.values & which[self._task.values]
        rows = slice(None) if chosen.all() else np.flatnonzero(chosen)
        return self._task.values[rows], self._input.values[rows], self._y.values[rows], self._noise.values[rows]

    def _rows_of(self, number: int) -> Index:
        task = self._task.values
        if len(task) - self._indexed > max(4096, self._indexed // 4):
            self._order = np.argsort(task, kind="stable")
            self._start = np.searchsorted(task, np.arange(len(self._numbers) + 1), sorter=self._order)
            self._indexed = len(task)
        old = self._order[self._start[number] : self._start[number + 1]] if number + 1 < len(self._start) else ()
        new = self._indexed + np.flatnonzero(task[self._indexed :] == number)
        rows = np.concatenate([old, new]).astype(np.intp)
        return np.asarray(rows[self._alive.values[rows]])

    # --- housekeeping ---

    def compact(self) -> tuple[Index, Index] | None:
        """Mark all tasks as unchanged; if most rows are dead drop them, and return new numbers of tasks and inputs."""
        self._changed.values[:] = False
        alive = np.flatnonzero(self._alive.values)
        if 2 * len(alive) >= len(self._alive.values):
            return None
        task, input = self._task.values[alive], self._input.values[alive]
        task_to, input_to = without_gaps(task, len(self._numbers)), without_gaps(input, len(self.inputs))
        self._numbers = {label: int(task_to[k]) for label, k in self._numbers.items() if task_to[k] >= 0}
        self._number_of_input = None
        self._inputs = Column(self.inputs[input_to >= 0])
        self._task, self._input = Column(task_to[task]), Column(input_to[input])
        self._y, self._noise = Column(self._y.values[alive]), Column(self._noise.values[alive])
        self._alive = Column(np.ones(len(alive), dtype=bool))
        self._count = Column(self._count.values[task_to >= 0])
        self._changed = Column(self._changed.values[task_to >= 0])
        self._indexed, self._order, self._start = 0, self._order[:0], self._start[:1]
        return task_to, input_to
