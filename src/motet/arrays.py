"""Arrays of numbers: their types, how a caller's values are read or refused, and rows matched by exact value."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from motet.errors import InvalidData, InvalidNoise, NotFinite, WrongDimension
from motet.text import count

Array: TypeAlias = NDArray[Any]  # of floats
Index: TypeAlias = NDArray[Any]  # of whole numbers

MAX_LOOKUPS = 100  # rows that are looked up one by one
SAMPLE_ROWS = 2**14  # whose values the other rows are expected to repeat
CACHE_NUMBERS = 2**15  # that fit the processor's cache
NUMBERS_PER_PART = 2**20  # in one temporary of work that is done in parts
FAR_DEVIATIONS, MAX_OUTLIERS = 1e4, 10
MAX_COLUMNS = 10_000  # of an input, or of a table
MAX_MAGNITUDE = 1e150  # of a number: squares of larger ones overflow


def numbers(values: Any, what: str) -> Array:
    """The values as floats, or a refusal that shows them; ``what`` is their name in it."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "cmMSU" and not np.ma.is_masked(values):
            return array.astype(float, copy=False)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InvalidData(f"{what} must be real numbers in rows of equal length, got {values!r:.60}")


def finite_number(value: Any) -> float | None:
    """The value as a float if it is a finite real number, else None; text, truth values and 1e150 or more are not."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return None
    value = float(value) if isinstance(value, np.floating) else value  # a short float has no such magnitude
    return float(value) if -MAX_MAGNITUDE < value < MAX_MAGNITUDE else None


def is_finite(values: Array) -> NDArray[np.bool_]:
    """Which numbers of an array are finite, and below 1e150 in size."""
    return np.asarray(np.abs(values) < MAX_MAGNITUDE)


def outliers(values: Array) -> tuple[Index, float]:
    """Which few of some numbers are far from all others, the farthest first, and the others' deviation.

    Far is ``FAR_DEVIATIONS`` standard deviations of the others or more, which no distribution of measurements has: such
    a number is a slip, or a code for a missing one. At most 1 % of the numbers are called few.
    """
    finite = np.flatnonzero(is_finite(values))
    distance = np.abs(values[finite] - np.median(values[finite])) if len(finite) else np.empty(0)
    order = np.argsort(distance, kind="stable")
    for few in range(min(MAX_OUTLIERS, max(1, len(finite) // 100)), 0, -1):
        others = values[finite[order[:-few]]]
        std = float(np.std(others)) if len(others) > MAX_OUTLIERS else 0.0
        if std and distance[order[-few]] >= FAR_DEVIATIONS * std:
            return finite[order[: -few - 1 : -1]], std
    return np.empty(0, dtype=np.intp), 0.0


def far_number(values: Array) -> tuple[int, str] | None:
    """The place of the farthest of a few far numbers, and what to say of it; None if there are none."""
    far, std = outliers(values)
    if not len(far):
        return None
    size = abs(values[far[0]] - np.median(values[is_finite(values)])) / std
    others = f" (and {count(len(far) - 1, 'more row')})" if len(far) > 1 else ""
    return int(far[0]), f"{values[far[0]]:g} is {size:.1g} times the standard deviation of the others{others}"


def is_whole_number(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def outputs(y: Any, noise: Any, n: int) -> tuple[Array, Array]:
    """``n`` outputs and their noise variances (all 1 if None), or a refusal that names the first bad row."""
    y = numbers(y, "outputs")
    noise = np.ones(n) if noise is None else numbers(noise, "noise variances")
    noise = np.full(n, float(noise)) if noise.ndim == 0 else noise
    for name, values in (("outputs", y), ("noise variances", noise)):
        if values.shape != (n,):
            raise WrongDimension(f"expected {n} {name}, one for each input, got an array of shape {values.shape}")
    if not (good := is_finite(y)).all():
        row = int(np.argmin(good))
        raise NotFinite(f"outputs must be finite (below {MAX_MAGNITUDE:g}); row {row} is {y[row]}")
    if not (good := is_finite(noise) & (noise > 1 / MAX_MAGNITUDE)).all():
        row = int(np.argmin(good))
        raise InvalidNoise(f"noise variances must be positive and below {MAX_MAGNITUDE:g}, row {row} is {noise[row]}")
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

    Key and position are sorted as one number, if both fit into its bits; rows that lie together are runs, which a
    stable sort merges.
    """
    bits = len(key).bit_length()
    if int(key.max(initial=0)).bit_length() + bits > 63:
        return np.argsort(key, kind="stable")
    key <<= bits
    key |= np.arange(len(key))
    key.sort(kind="stable")
    key &= (1 << bits) - 1
    return key


def without_gaps(used: Index, n: int) -> Index:
    """New numbers for 0…n−1 without gaps; −1 for those not used."""
    is_used = np.bincount(used, minlength=n) > 0
    return np.where(is_used, np.cumsum(is_used) - 1, -1)


def match(X: Array, index: dict[bytes, int]) -> tuple[Index, Index]:
    """The number of every row in an ``index`` by exact value, to which new rows are added; and which rows are new."""
    if len(X) > MAX_LOOKUPS:
        first, same_as = distinct(X)
        number, new = _look_up(X[first], index)
        return number[same_as], first[new]
    return _look_up(X, index)


def _look_up(X: Array, index: dict[bytes, int]) -> tuple[Index, Index]:
    before = len(index)
    number = np.array([index.setdefault(row, len(index)) for row in as_bytes(X)], dtype=np.intp)
    new, first = np.unique(number, return_index=True)
    return number, first[new >= before]


def as_bytes(X: Array) -> list[bytes]:
    """Every row as bytes, which are equal if the numbers are (so −0.0 is 0.0)."""
    rows: list[Any] = (X + 0.0).view(np.dtype((np.void, X.shape[1] * X.itemsize))).ravel().tolist()
    return rows


def evenly_spaced(n: int, size: int) -> Index:
    """At most ``size`` of n places, in order."""
    return np.arange(n) if n <= size else np.linspace(0, n - 1, size).round().astype(np.intp)


def distinct(X: Array) -> tuple[Index, Index]:
    """One place of each distinct row, and for every row which of those it equals: sorted by a hash, then verified."""
    if not len(X):
        return np.arange(0), np.arange(0)
    parts = slices(len(X), CACHE_NUMBERS // X.shape[1])
    count, same_as = _number_hashes(np.concatenate([_hash(X[part]) for part in parts]))
    if count == len(X):
        return np.arange(count), np.arange(count)
    place = np.empty(count, dtype=np.intp)
    place[same_as] = np.arange(len(X))
    if all(np.array_equal(X[place[same_as[part]]], X[part]) for part in parts):
        return place, same_as
    same_as, place = _look_up(X, {})  # two different rows share a hash
    return place, same_as


def _number_hashes(hashes: NDArray[np.uint64]) -> tuple[int, Index]:
    """How many different hashes there are, and the number of each; quick if most are among the first rows'."""
    sample = np.unique(hashes[:SAMPLE_ROWS])
    table = np.zeros(2**20, dtype=np.intp)  # by a hash's leading bits
    table[sample >> np.uint64(44)] = np.arange(len(sample))
    number = table[hashes >> np.uint64(44)]
    misses = np.flatnonzero(sample[number] != hashes)
    if 10 * len(misses) > len(hashes):  # few repeat: sort them all
        every, number = np.unique(hashes, return_inverse=True)
        return len(every), number
    others, which = np.unique(hashes[misses], return_inverse=True)
    place = np.searchsorted(sample, others)
    new = sample[np.minimum(place, len(sample) - 1)] != others
    place[new] = len(sample) + np.arange(np.count_nonzero(new))
    number[misses] = place[which]
    return len(sample) + int(np.count_nonzero(new)), number


def _hash(X: Array) -> NDArray[np.uint64]:
    words = (X + 0.0).view(np.uint64)
    words ^= words >> np.uint64(32)  # the low bits of round numbers are zeros
    words *= _multipliers(X.shape[1])
    words ^= words >> np.uint64(29)
    return words.sum(axis=1)


@lru_cache
def _multipliers(p: int) -> NDArray[np.uint64]:
    return np.random.default_rng(p).integers(2**63, size=p, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
