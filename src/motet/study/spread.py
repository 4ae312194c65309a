"""Public inputs spread evenly between the bounds of a study: points of a basis, and inputs of simulated clients.

They are the same on every machine and follow from the study file alone, so they say nothing of anyone's data.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from motet.arrays import Array
from motet.model.columns import QUANTILES, Columns

PRIMES_LIMIT = 8000  # enough primes for a thousand columns
DIGITS = 6  # of a coordinate, as a share of its range


def spread_points(bounds: Sequence[tuple[float, float]], columns: Columns | None, count: int) -> Array:
    """``count`` points of Halton's sequence, as rows; a category takes all its values in turn."""
    if columns is None:
        low, high = np.array(bounds).T
        return np.asarray(low + (high - low) * _halton(len(bounds), count))
    unit = _halton(len(columns), count)
    numbers = np.empty(unit.shape)
    for k, column in enumerate(columns):
        low, high = column.bounds or (0.0, 1.0)
        if column.values:
            numbers[:, k] = np.floor(unit[:, k] * len(column.values))
        elif column.quantiles:
            numbers[:, k] = np.interp(unit[:, k], [0.0, *QUANTILES, 1.0], [low, *column.quantiles, high])
        else:
            numbers[:, k] = low + (high - low) * unit[:, k]
    return columns.expand(numbers)


def _halton(dimension: int, count: int) -> Array:
    """Rows in the unit cube: the digits of 1, 2, 3, … in base 2, 3, 5, …, mirrored at the point."""
    unit = np.zeros((count, dimension))
    for k, base in enumerate(_primes()[:dimension].tolist()):
        rest, place = np.arange(1, count + 1), 1.0
        while rest.any():
            rest, digit = np.divmod(rest, base)
            place /= base
            unit[:, k] += digit * place
    return unit.round(DIGITS)


def _primes() -> Array:
    sieve = np.ones(PRIMES_LIMIT, dtype=bool)
    for n in range(2, int(PRIMES_LIMIT**0.5) + 1):
        sieve[n * n :: n] = False
    return np.flatnonzero(sieve)[2:]
