"""Arrays of numbers: their types, how they are read from what a caller gives, and rows matched by exact value."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from motet.errors import InvalidData

Array: TypeAlias = NDArray[Any]  # of floats
Index: TypeAlias = NDArray[Any]  # of whole numbers


def numbers(values: Any, what: str) -> Array:
    """The values as floats, or a refusal that says what they are."""
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise InvalidData(f"{what} must be numbers in rows of equal length, got {values!r:.60}") from None


def match(X: Array, known: dict[bytes, int]) -> Index:
    """The number of every row among the ``known`` ones, by exact value; new rows are numbered and added."""
    rows: list[Any] = np.ascontiguousarray(X).view(np.dtype((np.void, X.shape[1] * X.itemsize))).ravel().tolist()
    return np.array([known.setdefault(row, len(known)) for row in rows], dtype=np.intp)
