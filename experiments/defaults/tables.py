"""All tables of the experiment, and the coin that says of each whether defaults are chosen on it or only reported."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd

from experiments.defaults import real, simulated
from experiments.defaults.rows import Rows
from motet.arrays import Array

Half: TypeAlias = Literal["chosen", "reported"]
MAX_ROWS = 1000


@dataclass(frozen=True)
class Table:
    """A frame for every seed, with the columns ``task`` and ``y``; what it is, or what is wrong with it, in words.

    Rows that are marked in a column ``outlier`` do not count in errors, which they would drown; they do in log scores.
    """

    name: str
    words: str
    frame: Callable[[int], pd.DataFrame]
    is_simulated: bool = False

    @property
    def half(self) -> Half:
        """A coin that falls the same way each time: a bit of a hash of the name."""
        return "reported" if hashlib.sha256(f"toss {self.name}".encode()).digest()[0] % 2 else "chosen"

    def draw(self, seed: int) -> tuple[Rows, Array]:
        """Its numbers, of whole tasks at random if it is large, and which rows count in errors.

        Tasks of two seeds differ if it is simulated.
        """
        frame = self.frame(seed)
        X, levels = _numbers(frame[self.columns])
        _, task = np.unique(frame["task"].astype(str), return_inverse=True)
        rows = Rows(X, frame["y"].to_numpy(float), task, levels)
        order = np.random.default_rng(seed).permutation(np.unique(task))
        sizes = np.cumsum(np.bincount(task)[order])
        drawn = np.isin(task, order[: max(2, int(np.sum(sizes <= MAX_ROWS)))])
        rows = rows.take(drawn)
        counted = ~frame["outlier"].to_numpy()[drawn] if "outlier" in frame else np.ones(len(rows), bool)
        return replace(rows, task=rows.task + (seed * len(order) if self.is_simulated else 0)), counted

    @property
    def columns(self) -> list[str]:
        return [name for name in self.frame(0) if name not in ("task", "y", "outlier")]


def _numbers(inputs: pd.DataFrame) -> tuple[Array, Array]:
    """Numbers as they are, texts as the numbers of their levels."""
    columns, levels = [], []
    for name in inputs:
        is_number = pd.api.types.is_numeric_dtype(inputs[name])
        names, codes = np.unique(inputs[name] if is_number else inputs[name].astype(str), return_inverse=True)
        columns.append(inputs[name].to_numpy(float) if is_number else codes.astype(float))
        levels.append(0 if is_number else len(names))
    return np.column_stack(columns), np.array(levels)


TABLES = {
    table.name: table
    for table in (
        *(Table(name, one.words, one.frame) for name, one in real.TABLES.items()),
        *(Table(name, one.flaw, one.draw, is_simulated=True) for name, one in simulated.TABLES.items()),
    )
}
