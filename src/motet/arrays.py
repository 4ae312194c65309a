"""Arrays of numbers: their types, how they are read from what a caller gives, and rows matched by exact value."""

from __future__ import annotations

from functools import lru_cache
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


def match(X: Array, known: dict[bytes, int]) -> tuple[Index, Index]:
    """Number every row by its exact value among the ``known`` ones; tell which rows are new, in their order."""
    X = np.ascontiguousarray(X)
    first, same_as = distinct(X) if len(X) > 100 else (np.arange(len(X)), None)
    before = len(known)
    rows: list[Any] = X[first].view(np.dtype((np.void, X.shape[1] * X.itemsize))).ravel().tolist()
    number = np.array([known.setdefault(row, len(known)) for row in rows], dtype=np.intp)
    new, at = np.unique(number, return_index=True)
    return number if same_as is None else number[same_as], first[at[new >= before]]


def distinct(X: Array) -> tuple[Index, Index]:
    """One place of each distinct row, and for every row which of those it equals: sorted by a hash, then verified."""
    words = X.view(np.uint64)
    mixed = (words ^ (words >> np.uint64(32))) * _multipliers(X.shape[1])
    _, same_as = np.unique((mixed ^ (mixed >> np.uint64(29))).sum(axis=1), return_inverse=True)
    first = np.empty(same_as.max(initial=-1) + 1, dtype=np.intp)
    first[same_as] = np.arange(len(X))
    if np.array_equal(X[first[same_as]], X):
        return first, same_as
    return np.arange(len(X)), np.arange(len(X))  # two rows share a hash: let the caller tell all apart


@lru_cache
def _multipliers(p: int) -> NDArray[np.uint64]:
    return np.random.default_rng(p).integers(2**63, size=p, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
