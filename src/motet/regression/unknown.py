"""Predictions at inputs of which something is not known: a level that was not learned, or a cell that is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import norm, t

from motet.arrays import NUMBERS_PER_PART, Array, Index, distinct, evenly_spaced, slices
from motet.tables.encoding import Encoding

MAX_STANDINS = 100  # for what is not known, of each row


def predict_encoded(
    predict: Callable[[Array, Index], Any], cells: Array, encoding: Encoding, learned: Array, *, missing_is_nan: bool
) -> tuple[Array, Array]:
    """Means and standard deviations at rows with a number for each cell; with ``missing_is_nan`` also of rows that lack
    one that nothing else stands for.

    ``predict`` gets inputs as kernels read them and the row that each is of, and returns m and s, or m alone. For what
    is not known in a row stand the L different values v that were ``learned``, all equally likely: the mean is that of
    m(v), and the variance is the mean of s²(v) and, of ``one_more`` value, the variance of m(v).
    """
    unknown, X = encoding.unknown(cells, learned), encoding.expand(cells)
    is_lost = encoding.absent(cells).any(axis=1) & missing_is_nan
    mean, std = np.full((2, len(X)), np.nan)
    kept = np.flatnonzero(~is_lost)
    patterns, which = np.unique(unknown[kept], axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        rows = kept[which.ravel() == number]
        if not pattern.any():
            mean[rows], std[rows] = _both(predict(X[rows], rows))
            continue
        values = learned[:, pattern]
        values = values[distinct(values)[0]]
        values = values[evenly_spaced(len(values), MAX_STANDINS)]
        for part in (rows[one] for one in slices(len(rows), NUMBERS_PER_PART // values.size)):
            inputs = np.repeat(X[part], len(values), axis=0)
            inputs[:, pattern] = np.tile(values, (len(part), 1))
            m, s = (one.reshape(len(part), -1) for one in _both(predict(inputs, np.repeat(part, len(values)))))
            between = one_more(len(values)) * m.var(axis=1, ddof=1) if len(values) > 1 else 0.0
            mean[part], std[part] = m.mean(axis=1), np.sqrt((s**2).mean(axis=1) + between)
    return mean, std


def one_more(number: int) -> float:
    """(1 + 1/L) t²: what the variance of L values is multiplied with to have that of the next one.

    t is how much farther out the 90 % band of Student's t with L − 1 degrees of freedom ends than a normal
    distribution's, because few values tell little of their variance.
    """
    return float((1 + 1 / number) * (t.ppf(0.95, number - 1) / norm.ppf(0.95)) ** 2)


def _both(predicted: Any) -> tuple[Array, Array]:
    return predicted if isinstance(predicted, tuple) else (predicted, np.zeros_like(predicted))
