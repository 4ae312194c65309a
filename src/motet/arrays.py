"""Arrays of numbers: their types, how they are read from what a caller gives, and rows matched by exact value."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from motet.errors import InvalidData, InvalidNoise, NotFinite, WrongDimension

Array: TypeAlias = NDArray[Any]  # of floats
Index: TypeAlias = NDArray[Any]  # of whole numbers

FEW = 100  # rows that are looked up one by one
SAMPLE = 2**14  # rows whose values are expected of the others
BOUND = 1e150  # beyond it squares overflow


def numbers(values: Any, what: str) -> Array:
    """The values as floats, or a refusal that says what they are."""
    try:
        found = np.asarray(values)
        if found.dtype.kind not in "cmMSU" and not np.ma.is_masked(values):
            return found.astype(float, copy=False)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InvalidData(f"{what} must be real numbers in rows of equal length, got {values!r:.60}")


def finite_number(value: Any) -> float | None:
    """The value as a float, if it is a finite real number; text, truth values and numbers from 1e150 on are not."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return None
    return float(value) if -BOUND < value < BOUND else None


def outputs(y: Any, noise: Any, n: int) -> tuple[Array, Array]:
    """``n`` outputs and their noise variances (all 1 where None), or a refusal that names the first bad row."""
    y = numbers(y, "outputs")
    noise = np.ones(n) if noise is None else numbers(noise, "noise variances")
    noise = np.full(n, float(noise)) if noise.ndim == 0 else noise
    for name, values in (("outputs", y), ("noise variances", noise)):
        if values.shape != (n,):
            raise WrongDimension(f"expected {n} {name}, one for each input, got an array of shape {values.shape}")
    if not (good := np.abs(y) < BOUND).all():
        raise NotFinite(f"outputs must be finite (below {BOUND:g}); row {int(np.argmin(good))} is {y[~good][0]}")
    if not (good := (noise > 1 / BOUND) & (noise < BOUND)).all():
        raise InvalidNoise(
            f"noise variances must be positive and below {BOUND:g}, row {int(np.argmin(good))} is {noise[~good][0]}"
        )
    return y, noise


def frozen(a: Array) -> Array:
    """A view of an array that cannot be written to."""
    view = a.view()
    view.flags.writeable = False
    return view


def slices(n: int, step: int) -> list[slice]:
    """The numbers below ``n`` in slices of ``step``."""
    step = max(1, step)
    return [slice(begin, begin + step) for begin in range(0, n, step)]


def stable_order(key: Index) -> Index:
    """``np.argsort(key, kind="stable")`` of whole numbers from 0, faster; ``key`` is overwritten.

    Key and position are sorted as one number, if both fit into its bits.
    """
    bits = len(key).bit_length()
    if int(key.max(initial=0)).bit_length() + bits > 63:
        return np.argsort(key, kind="stable")
    key <<= bits
    key |= np.arange(len(key))
    key.sort()
    key &= (1 << bits) - 1
    return key


def match(X: Array, known: dict[bytes, int]) -> tuple[Index, Index]:
    """Number every row by its exact value among the ``known`` ones; tell which rows are new, in their order."""
    if len(X) > FEW:
        first, same_as = distinct(X)
        number, new = _look_up(X[first], known)
        return number[same_as], first[new]
    return _look_up(X, known)


def _look_up(X: Array, known: dict[bytes, int]) -> tuple[Index, Index]:
    before = len(known)
    number = np.array([known.setdefault(row, len(known)) for row in as_bytes(X)], dtype=np.intp)
    new, at = np.unique(number, return_index=True)
    return number, at[new >= before]


def as_bytes(X: Array) -> list[bytes]:
    """Every row as bytes: equal where the numbers are (so −0.0 is 0.0)."""
    rows: list[Any] = (X + 0.0).view(np.dtype((np.void, X.shape[1] * X.itemsize))).ravel().tolist()
    return rows


def distinct(X: Array) -> tuple[Index, Index]:
    """One place of each distinct row, and for every row which of those it equals: sorted by a hash, then verified."""
    if not len(X):
        return np.arange(0), np.arange(0)
    parts = slices(len(X), 2**15 // X.shape[1])  # they fit the cache
    number, same_as = _numbered(np.concatenate([_hash(X[part]) for part in parts]))
    if number == len(X):
        return np.arange(number), np.arange(number)
    first = np.empty(number, dtype=np.intp)
    first[same_as] = np.arange(len(X))
    if all(np.array_equal(X[first[same_as[part]]], X[part]) for part in parts):
        return first, same_as
    same_as, first = _look_up(X, {})  # two different rows share a hash
    return first, same_as


def _numbered(hashes: NDArray[np.uint64]) -> tuple[int, Index]:
    """How many different hashes there are, and for each which of them it is."""
    seen = np.unique(hashes[:SAMPLE])
    table = np.zeros(2**20, dtype=np.intp)  # by a hash's leading bits
    table[seen >> np.uint64(44)] = np.arange(len(seen))
    at = table[hashes >> np.uint64(44)]
    missed = np.flatnonzero(seen[at] != hashes)
    if 10 * len(missed) > len(hashes):  # few repeat: sort them all
        seen, at = np.unique(hashes, return_inverse=True)
        return len(seen), at
    others, which = np.unique(hashes[missed], return_inverse=True)
    where = np.searchsorted(seen, others)
    new = seen[np.minimum(where, len(seen) - 1)] != others
    where[new] = len(seen) + np.arange(np.count_nonzero(new))
    at[missed] = where[which]
    return len(seen) + int(np.count_nonzero(new)), at


def _hash(X: Array) -> NDArray[np.uint64]:
    words = (X + 0.0).view(np.uint64)
    words ^= words >> np.uint64(32)  # the low bits of round numbers are zeros
    words *= _multipliers(X.shape[1])
    words ^= words >> np.uint64(29)
    return words.sum(axis=1)


@lru_cache
def _multipliers(p: int) -> NDArray[np.uint64]:
    return np.random.default_rng(p).integers(2**63, size=p, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
