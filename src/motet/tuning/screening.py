"""Cheap scores of columns, beside a structure that has been solved: which of many deserve a search of their own.

With P as in ``gradient``, functions z of a column would gain from what the structure does not explain. For the average
it is known in closed form how much a variance for one z could add to the log evidence; for shifts, whether the tasks'
own z'Py are larger than they would be without (a score test of their variance).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from motet.arrays import Array, Index
from motet.engine.system import System

WAVES = 6  # of each column, of which smooth functions are made


def average_gains(system: System, Z: Array) -> Array:
    """Of every column of Z what its own variance adds to the log evidence: ½(r − 1 − log r), r = (z'Py)²/σ²z'Pz."""
    told, precision = _told(system, Z)
    ratio = np.maximum(told**2 / np.maximum(precision, np.finfo(float).tiny) / system.evidence.sigma2, 1.0)
    return np.asarray(np.where(precision > 0.0, 0.5 * (ratio - 1.0 - np.log(ratio)), 0.0))


def shift_scores(system: System, Z: Array) -> Array:
    """Of every column of Z, Σ((zʲ'Py)²/σ² − zʲ'Pzʲ) over the tasks, in standard deviations; P nearly as if the average
    were known."""
    above, squares = np.zeros(Z.shape[1]), np.zeros(Z.shape[1])
    for batch, a in system.coefficients(2 * Z.shape[1]):
        own = Z[batch.h]
        expected = np.einsum("jip,jip->jp", own, batch.R @ own)
        above += (np.einsum("ji,jip->jp", a, own) ** 2 / system.evidence.sigma2 - expected).sum(axis=0)
        squares += 2.0 * (expected**2).sum(axis=0)
    return np.asarray(above / np.sqrt(np.maximum(squares, np.finfo(float).tiny)))


def smooth_scores(score: Callable[[System, Array], Array], system: System, X: Array) -> Array:
    """Of every column of X, the sum over waves of its ranks."""
    waves = [np.cos(np.pi * k * _ranks(X)) for k in range(1, WAVES + 1)]
    return np.asarray(
        np.maximum(np.stack([score(system, wave - wave.mean(axis=0)) for wave in waves]), 0.0).sum(axis=0)
    )


def largest(scores: Array, count: int) -> Index:
    """The places of the largest, those first."""
    return np.argsort(-scores, kind="stable")[:count]


def _told(system: System, Z: Array) -> tuple[Array, Array]:
    """Of every column z'Py, and z'Pz in units of 1/σ²."""
    W = system.posterior.whitened(system.columns.F)
    told, alone = np.zeros(Z.shape[1]), np.zeros(Z.shape[1])
    shared = np.zeros((W.shape[1], Z.shape[1]))
    for batch, a in system.coefficients(2 * Z.shape[1]):
        own = Z[batch.h]
        RZ = batch.R @ own
        told += np.einsum("ji,jip->p", a, own)
        alone += np.einsum("jip,jip->p", own, RZ)
        shared += np.einsum("jir,jip->rp", W[batch.h], RZ, optimize=True)
    return told, alone - (shared**2).sum(axis=0)


def _ranks(X: Array) -> Array:
    """From 0 to 1, of equal numbers their mean one."""
    columns = []
    for x in X.T:
        _, place, counts = np.unique(x, return_inverse=True, return_counts=True)
        middle = np.cumsum(counts) - (counts + 1) / 2.0
        columns.append(middle[place] / max(len(x) - 1, 1))
    return np.stack(columns, axis=1)
