"""The numbers of a table: inputs of which some are categories, outputs, and the task of each row.

Peers use it in environments of their own, so it needs numpy alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from motet.arrays import Array, Index

MAX_INDICATORS = 8  # of a category; one with more levels is like a second grouping


@dataclass(frozen=True, eq=False)
class Rows:
    """Inputs (n, columns), outputs (n,), tasks (n,); a column with levels holds their numbers, from 0 on."""

    X: Array
    y: Array
    task: Index
    levels: Index  # of each column, 0 for a number

    def __len__(self) -> int:
        return len(self.y)

    def take(self, which: Any) -> Rows:
        return replace(self, X=self.X[which], y=self.y[which], task=self.task[which])

    def joined(self, other: Rows | None) -> Rows:
        if other is None:
            return self
        X, y, task = (np.concatenate(pair) for pair in ((self.X, other.X), (self.y, other.y), (self.task, other.task)))
        return replace(self, X=X, y=y, task=task)

    @property
    def large_categories(self) -> Index:
        """Columns with more levels than get an indicator each."""
        return np.flatnonzero(self.levels > MAX_INDICATORS)

    def dense(self, *, every_level: bool = False) -> Array:
        """Numbers as they are, and an indicator for each level but the first: of large categories only if asked."""
        parts = []
        for column, levels in zip(self.X.T, self.levels):
            if not levels:
                parts.append(column[:, None])
            elif every_level or levels <= MAX_INDICATORS:
                parts.append((column[:, None] == np.arange(1, levels)).astype(float))
        return np.concatenate(parts, axis=1) if parts else np.empty((len(self), 0))
