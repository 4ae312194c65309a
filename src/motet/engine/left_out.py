"""Leave-one-out and leave-one-task-out in closed form: a row predicted by all others, a task by all others.

With P as in ``tuning/gradient``, a row that is left out is predicted by yᵢ − (Py)ᵢ/Pᵢᵢ with variance σ²/Pᵢᵢ, and a task
by yʲ − (Pⱼⱼ)⁻¹(Py)ⱼ with covariance σ²(Pⱼⱼ)⁻¹. Settings stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from motet.arrays import Array, Index
from motet.engine.batches import Batch
from motet.engine.system import System
from motet.linalg import LowRankInverse
from motet.model.noise import Noise
from motet.model.tasks import Shift
from motet.threads import blas_limit

UNDETERMINED = 1e-10  # of a row's precision alone: what is left if the row alone tells a weight of the bias


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Rows by task and input, repeats folded: mean ȳ, noise w̄, the average there, and what P says of them."""

    score: dict[int, float]  # of every task without itself, by number
    key: Index  # by task and input, ascending
    mean: Array
    noise: Array
    average: Array
    Py: Array
    precision: Array  # P_gg, in units of 1/σ²
    residual_new: Array  # of a prediction without the task
    variance_new: Array  # of an observation of noise w̄, without the task, in units of σ²

    @classmethod
    def of(cls, system: System, absent: float = np.inf) -> LeftOut:
        """All tasks of a system, from every one's block of P; rows of so much noise were never there."""
        return _left_out(system, absent)

    def of_rows(self, noise: Noise, group: Index, y: Array, w: Array) -> tuple[Array, Array]:
        """(Py)ᵢ and Pᵢᵢ of raw rows with outputs y and noise w, each in a ``group`` of repeats.

        A row in a group of noise w̄ has (Py)ᵢ = (yᵢ − ȳ + λw̄(Py)_g)/(λw) and Pᵢᵢ = (w − w̄)/(λw²) + (w̄/w)² P_gg.
        """
        mean = self.noise[group]
        Py = (y - self.mean[group] + noise.variance(mean) * self.Py[group]) / noise.variance(w)
        return Py, (w - mean) / noise.variance(w**2) + (mean / w) ** 2 * self.precision[group]


@blas_limit
def _left_out(system: System, absent: float) -> LeftOut:
    noise, sigma2 = system.model.noise, system.evidence.sigma2
    F = system.columns.F
    average, W = F @ system.posterior.theta, system.posterior.whitened(F)
    columns: list[tuple[Array, ...]] = []
    score: dict[int, float] = {}
    for batch, a in system.coefficients(3 * W.shape[1]):
        if isinstance(batch.R, LowRankInverse):
            precision, residual, variance, log_det = _long_blocks(system, batch, W[batch.h], average, a)
            alone = batch.R.diagonal
        else:
            RW = batch.R @ W[batch.h]
            P = batch.R - RW @ RW.swapaxes(-1, -2)
            C, log_det = _inverse(P)
            residual, variance = (C @ a[:, :, None])[:, :, 0], np.einsum("jii->ji", C)
            precision, alone = np.einsum("jii->ji", P), np.einsum("jii->ji", batch.R)
        keys = batch.task[:, None] * len(F) + batch.h
        precision = np.where(precision > UNDETERMINED * alone, precision, np.nan)
        stacks = (keys, batch.y, batch.noise, average[batch.h], a, precision, residual, variance)
        columns.append(tuple(values[batch.noise < absent] for values in stacks))
        repeats = batch.rows - batch.h.shape[1]
        squares, log_det_of_repeats = noise.repeats(repeats, batch.squares, batch.log_noise)
        quadratic = np.einsum("ji,ji->j", a, residual) + squares
        log_det = log_det_of_repeats - log_det
        scores = -0.5 * (batch.rows * np.log(2 * np.pi * sigma2) + log_det + quadratic / sigma2)
        score |= dict(zip(batch.task.tolist(), scores.tolist()))
    arrays = [np.concatenate(values) for values in zip(*columns)]
    order = np.argsort(arrays[0])
    return LeftOut(score, *(values[order] for values in arrays))


def _inverse(P: Array) -> tuple[Array, Array]:
    """P⁻¹ and log |P| of a stack; NaN where a task alone tells a weight of the bias, and P is singular."""
    size = np.sqrt(np.maximum(np.einsum("jii->ji", P), np.finfo(float).tiny))
    scale = size[:, :, None] * size[:, None, :]
    values, vectors = np.linalg.eigh(P / scale)
    values = np.where(values[:, :1] > UNDETERMINED, values, np.nan)
    inverse = (vectors / values[:, None, :]) @ vectors.swapaxes(-1, -2) / scale
    return inverse, np.log(values).sum(axis=1) + 2.0 * np.log(size).sum(axis=1)


def _long_blocks(system: System, batch: Batch, W: Array, average: Array, a: Array) -> tuple[Array, Array, Array, Array]:
    """Of long tasks the diagonal of P, P⁻¹a, the diagonal of P⁻¹ and log |P|; NaN as in ``_inverse``.

    P = R − RWWᵀR with WWᵀ = FΣFᵀ is never formed: P⁻¹ = R⁻¹ + WN⁻¹Wᵀ with N = I − WᵀRW.
    """
    assert isinstance(batch.R, LowRankInverse)
    X, basis = system.X[batch.h], None if system.model.basis is None else system.columns.basis
    U, diagonal = Shift.of(system.model, system.model.individual, basis).at(X).low_rank(X, batch.noise)
    RW = batch.R @ W
    precision = batch.R.diagonal - np.einsum("jik,jik->ji", RW, RW)
    N = np.eye(W.shape[-1]) - W.swapaxes(-1, -2) @ RW
    values, vectors = np.linalg.eigh((N + N.swapaxes(-1, -2)) / 2)
    values = np.where(values[:, :1] > UNDETERMINED, values, np.nan)
    WN = W @ (vectors / np.sqrt(values)[:, None, :])
    residual = batch.y - average[batch.h] + (WN @ (WN.swapaxes(-1, -2) @ a[:, :, None]))[:, :, 0]
    variance = diagonal + np.einsum("jik,jik->ji", U, U) + (WN**2).sum(axis=-1)
    return precision, residual, variance, batch.log_det + np.log(values).sum(axis=1)
