"""Which inputs of a pilot are better read by their logarithms: numbers of very different sizes, such as sales of cities.

A few large numbers of such a column decide where a slope lies and how large it may be, and the other rows have nearly
the same number; so the column is read as its logarithm, unless the numbers as they are predict better: what was late
by an hour arrives late by an hour. Both are tried in a linear model beside a level of each client.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from motet.arrays import Array, Index
from motet.model.columns import Column, Columns

MIN_SKEWNESS = 2.0  # of an exponential distribution
MIN_DIFFERENT = 13  # numbers of a column, as fewer are levels
THRESHOLDS = (0.05, 0.25, 0.5)  # quantiles of the numbers' sizes, above which logarithms begin
MIN_GAIN = 0.01  # of the squared error, by which the numbers as they are have to be better
MAX_COMPARED_ROWS = 5000
RIDGE = 1e-6  # as a share of the mean square of a column


def log_scaled(
    columns: Columns, rows: Array, y: Array, client: Index, names: Sequence[str] | None = None
) -> tuple[Columns, Array]:
    """The columns of a pilot and its rows, with those that are ``named`` read by logarithms; by default those of very
    different sizes, if that is no worse."""
    numbers = columns.collapse(rows)
    if names is None:
        chosen = _chosen(columns, rows, y, client)
    else:
        chosen = {k: log_above(numbers[:, k]) for k, name in enumerate(columns.names) if name in names}
    read = Columns(logarithmic(column, chosen[k]) if k in chosen else column for k, column in enumerate(columns))
    for k in chosen:
        numbers[:, k] = list(map(read.columns[k].encoded, numbers[:, k].tolist()))
    return read, read.expand(numbers)


def _chosen(columns: Columns, rows: Array, y: Array, client: Index) -> dict[int, float]:
    """Numbers of columns, with the size above which they are read by logarithms."""
    numbers = columns.collapse(rows)
    chosen = {
        k: log_above(numbers[:, k])
        for k, column in enumerate(columns)
        if column.is_numeric and is_skewed(numbers[:, k])
    }
    which = np.arange(0, len(y), -(-len(y) // MAX_COMPARED_ROWS))
    design = _Design(columns, rows[which], y[which], client[which])
    for k in list(chosen):
        as_it_is = {other: threshold for other, threshold in chosen.items() if other != k}
        if design.error(as_it_is) < (1 - MIN_GAIN) * design.error(chosen):
            chosen = as_it_is
    return chosen


def is_skewed(numbers: Array) -> bool:
    """Whether few of the numbers are far from the others, and their logarithms are not."""
    if len(np.unique(numbers)) < MIN_DIFFERENT or abs(skewness(numbers)) <= MIN_SKEWNESS:
        return False
    return abs(skewness(np.arcsinh(numbers / log_above(numbers)))) <= abs(skewness(numbers)) / 2


def log_above(numbers: Array) -> float:
    """The size above which logarithms make the numbers most even."""
    sizes = np.quantile(np.abs(numbers[numbers != 0.0]), THRESHOLDS)
    thresholds = [float(f"{size:.1g}") for size in sizes]
    return min(thresholds, key=lambda threshold: abs(skewness(np.arcsinh(numbers / threshold))))


def skewness(numbers: Array) -> float:
    """The third moment of the numbers in units of their spread."""
    centered = numbers / np.abs(numbers).max()
    centered = centered - centered.mean()
    return float(np.mean(centered**3) / np.mean(centered**2) ** 1.5)


def logarithmic(column: Column, threshold: float) -> Column:
    """The same column, read by logarithms above a threshold."""
    read = replace(column, log_above=threshold)
    bounds = None if column.bounds is None else (read.encoded(column.bounds[0]), read.encoded(column.bounds[1]))
    return replace(read, bounds=bounds, quantiles=tuple(map(read.encoded, column.quantiles)))


class _Design:
    """A linear model with a level of each client, which varies as much as the noise."""

    def __init__(self, columns: Columns, rows: Array, y: Array, client: Index) -> None:
        self._rows, self._place = rows, columns.first_places
        _, self._client, self._size = np.unique(client, return_inverse=True, return_counts=True)
        self._y = self._levelled(y[:, None])[:, 0]

    def error(self, thresholds: dict[int, float]) -> float:
        """The mean square of errors at rows left out one by one, with some columns read by logarithms."""
        X = self._rows.copy()
        for k, threshold in thresholds.items():
            X[:, self._place[k]] = np.arcsinh(X[:, self._place[k]] / threshold)
        X = (X - X.mean(axis=0)) / np.where((spread := X.std(axis=0)) > 0, spread, 1.0)
        Z = self._levelled(np.column_stack([np.ones(len(X)), X]))
        A = Z.T @ Z
        inverse = np.linalg.pinv(A + RIDGE * np.diag(np.diag(A)))
        residual = self._y - Z @ (inverse @ (Z.T @ self._y))
        leverage = np.einsum("ij,jk,ik->i", Z, inverse, Z)
        return float(np.mean((residual / np.maximum(1 - leverage, RIDGE)) ** 2))

    def _levelled(self, Z: Array) -> Array:
        """Generalised least squares as ordinary ones: rows less a part of their client's mean."""
        means = np.array([np.bincount(self._client, column) for column in Z.T]).T / self._size[:, None]
        part = 1 - 1 / np.sqrt(1 + self._size)
        return np.asarray(Z - (part[:, None] * means)[self._client])
