"""Missing values: which cells are missing, and what becomes of rows that lack one; and missing columns.

There is one policy: such rows are refused, by the first of them, or left out and counted. Who learns from a table
leaves them out and says so; who sends rows for somebody, or predicts for them, refuses, unless told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motet.arrays import Index
from motet.errors import InvalidData
from motet.text import shortened, suggestion

MAX_LISTED_LETTERS = 80  # of the columns that a table has

MISSING_VALUE = "expected a value, got nothing: fill it in, or leave such rows out with skip_missing=True"
WORDS = ("", "na", "n/a", "nan", "null", "<na>")  # for a missing value


def is_missing(cell: Any) -> bool:
    """Whether a cell is empty, not a number, or a word for a missing value."""
    if cell is None or isinstance(cell, str):
        return cell is None or cell.strip().lower() in WORDS
    try:
        return bool(cell != cell)
    except TypeError:  # pandas' NA has no truth value
        return True


@dataclass(frozen=True, eq=False)
class Missing:
    """Which cells are missing: ``absent`` has a row for each of the table's, and a column for each of ``names``."""

    names: Sequence[str]
    absent: NDArray[np.bool_]

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> Missing:
        """Of what is missing in each column."""
        return cls(list(columns), np.column_stack([np.asarray(absent, dtype=bool) for absent in columns.values()]))

    @cached_property
    def rows(self) -> NDArray[np.bool_]:
        """Which rows lack a value."""
        return np.asarray(self.absent.any(axis=1))

    @property
    def left_out(self) -> int:
        return int(np.count_nonzero(self.rows))

    @property
    def complete(self) -> Index:
        """The other rows."""
        return np.flatnonzero(~self.rows)

    @property
    def words(self) -> str:
        """ "3 in dose, 1 in y"."""
        counts = zip(self.names, self.absent.sum(axis=0).tolist())
        return ", ".join(f"{count} in {name}" for name, count in counts if count)

    def check(self, refusal: Callable[[int, str], Exception]) -> None:
        """Raises the refusal of the first row that lacks a value, and of its first column that does, if any does."""
        if self.left_out:
            k = int(np.argmax(self.rows))
            raise refusal(k, self.names[int(np.argmax(self.absent[k]))])


def missing_column(file: str | None, column: str, columns: Iterable[str], role: str | None = None) -> InvalidData:
    """The refusal of a table, of a file if any, without a column; a ``role`` is a setting that may name another."""
    names = list(columns)
    alike = suggestion(column, names)
    advice = [f"rename it to {column!r}"] * bool(alike) + ([] if role is None else [f"name another with {role}="])
    hint = f"{alike or ';'} {', or '.join(advice)}" if advice else ""
    got = shortened(", ".join(names), MAX_LISTED_LETTERS)
    where = "" if file is None else f"{file}: "
    return InvalidData(f"{where}no column {column!r}; got {got}{hint}", where=role)
