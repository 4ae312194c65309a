"""Which inputs of a pilot are better read by their logarithms: numbers of very different sizes, such as cities' sales.

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
from motet.study.slopes import LinearModel

MIN_SKEWNESS = 2.0  # of an exponential distribution
MIN_DIFFERENT = 13  # numbers of a column, as fewer are levels
THRESHOLDS = (0.05, 0.25, 0.5)  # quantiles of the numbers' sizes, above which logarithms begin
MIN_GAIN = 0.01  # of the squared error, by which the numbers as they are have to be better
MAX_COMPARED_ROWS = 5000


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

    def error(thresholds: dict[int, float]) -> float:
        X = rows[which]
        for k, threshold in thresholds.items():
            place = columns.first_places[k]
            X[:, place] = np.arcsinh(X[:, place] / threshold)
        return LinearModel(X, y[which], client[which]).error

    for k in list(chosen):
        as_it_is = {other: threshold for other, threshold in chosen.items() if other != k}
        if error(as_it_is) < (1 - MIN_GAIN) * error(chosen):
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
