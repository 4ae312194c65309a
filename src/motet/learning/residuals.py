"""Residuals: of every row, with it and without it, and without its whole task, in closed form; settings stay.

With P as in ``gradient``, a row that is left out is predicted by yᵢ − (Py)ᵢ/Pᵢᵢ with variance σ²/Pᵢᵢ, and a task by
yʲ − (Pⱼⱼ)⁻¹(Py)ⱼ with covariance σ²(Pⱼⱼ)⁻¹. P of folded rows gives that of raw rows: a row of noise w in a group of
noise w̄ has (Py)ᵢ = (yᵢ − ȳ + λw̄(Py)_g)/(λw) and Pᵢᵢ = (w − w̄)/(λw²) + (w̄/w)² P_gg.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from motet.arrays import Array, Index, match
from motet.learning.batches import Batch
from motet.learning.effects import coefficients
from motet.learning.results import Results
from motet.learning.tables import Table
from motet.linalg import LowRankInverse, blas_limit
from motet.model.tasks import Shift

UNDETERMINED = 1e-10  # of a row's precision alone: what is left if the row alone tells a weight of the bias


class LeaveOut:
    """Predictions of rows that were not learned: of an observation, with its log score.

    ``rows``: each without itself. ``new``: each without its whole task, as if of a new individual. ``tasks``: the joint
    log score of every task without itself. A prediction that the other rows do not determine is NaN.
    """

    def __init__(self, rows: Table, new: Table, tasks: Table) -> None:
        self.rows, self.new, self.tasks = rows, new, tasks

    @property
    def log_score(self) -> float:
        """The sum over rows, each without itself."""
        return float(np.nansum(self.rows["log_score"]))

    @property
    def task_log_score(self) -> float:
        """The sum over tasks, each without itself."""
        return float(np.nansum(self.tasks["log_score"]))

    def __str__(self) -> str:
        lines = ["Leave one out"]
        for what, score, table in (("row", self.log_score, self.rows), ("task", self.task_log_score, self.new)):
            residual = table["residual"][~np.isnan(table["residual"])]
            if len(residual):
                error = np.sqrt(np.mean(residual**2))
                lines.append(f"without each {what}: log score {score:.3f}, root mean square error {error:.4g}")
            else:
                lines.append(f"without each {what}: the other rows do not determine a prediction")
        return "\n".join(lines)

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class Groups:
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


@blas_limit
def groups(results: Results) -> Groups:
    """All groups of rows, from every task's block of P."""
    system, model = results.system, results.engine.model
    F = system.columns.F
    average, W = F @ system.posterior.theta, system.posterior.whitened(F)
    columns: list[tuple[Array, ...]] = []
    score: dict[int, float] = {}
    for batch, a in coefficients(results, 3 * W.shape[1]):
        if isinstance(batch.R, LowRankInverse):
            block = _LongBlock.of(results, batch, W[batch.h])
            residual, variance, log_det = block.without_task(batch.y - average[batch.h], a)
            precision, alone = block.precision, batch.R.diagonal
        else:
            RW = batch.R @ W[batch.h]
            P = batch.R - RW @ RW.swapaxes(-1, -2)
            C, log_det = _inverse(P)
            residual, variance = (C @ a[:, :, None])[:, :, 0], np.einsum("jii->ji", C)
            precision, alone = np.einsum("jii->ji", P), np.einsum("jii->ji", batch.R)
        keys = batch.task[:, None] * len(F) + batch.h
        precision = np.where(precision > UNDETERMINED * alone, precision, np.nan)
        listed = (keys, batch.y, batch.noise, average[batch.h], a, precision, residual, variance)
        columns.append(tuple(values.ravel() for values in listed))
        repeats = batch.rows - batch.h.shape[1]
        quadratic = np.einsum("ji,ji->j", a, residual) + batch.squares / model.lam
        log_det = batch.log_noise + repeats * np.log(model.lam) - log_det
        scores = -0.5 * (batch.rows * np.log(2 * np.pi * results.sigma2) + log_det + quadratic / results.sigma2)
        score |= dict(zip(batch.task.tolist(), scores.tolist()))
    arrays = [np.concatenate(values) for values in zip(*columns)]
    order = np.argsort(arrays[0])
    return Groups(score, *(values[order] for values in arrays))


def _inverse(P: Array) -> tuple[Array, Array]:
    """P⁻¹ and log |P| of a stack; NaN where a task alone tells a weight of the bias, and P is singular."""
    size = np.sqrt(np.maximum(np.einsum("jii->ji", P), np.finfo(float).tiny))
    scale = size[:, :, None] * size[:, None, :]
    values, vectors = np.linalg.eigh(P / scale)
    values = np.where(values[:, :1] > UNDETERMINED, values, np.nan)
    inverse = (vectors / values[:, None, :]) @ vectors.swapaxes(-1, -2) / scale
    return inverse, np.log(values).sum(axis=1) + 2.0 * np.log(size).sum(axis=1)


@dataclass(frozen=True, eq=False)
class _LongBlock:
    """P of long tasks, R − RWWᵀR with WWᵀ = FΣFᵀ, which is never formed: P⁻¹ = R⁻¹ + WN⁻¹Wᵀ with N = I − WᵀRW."""

    W: Array
    precision: Array  # the diagonal of P
    variance: Array  # the diagonal of R⁻¹
    N: Array
    log_det: Array  # log |R|

    @classmethod
    def of(cls, results: Results, batch: Batch, W: Array) -> _LongBlock:
        assert isinstance(batch.R, LowRankInverse)
        system = results.system
        X, basis = system.X[batch.h], None if system.model.basis is None else system.columns.basis
        U, diagonal = Shift.of(system.model, system.model.individual, basis).at(X).low_rank(X, batch.noise)
        RW = batch.R @ W
        precision = batch.R.diagonal - np.einsum("jik,jik->ji", RW, RW)
        N = np.eye(W.shape[-1]) - W.swapaxes(-1, -2) @ RW
        return cls(W, precision, diagonal + np.einsum("jik,jik->ji", U, U), N, batch.log_det)

    def without_task(self, residual: Array, a: Array) -> tuple[Array, Array, Array]:
        """P⁻¹a, the diagonal of P⁻¹ and log |P|, from R⁻¹a; NaN where a task alone tells a weight of the bias."""
        values, vectors = np.linalg.eigh((self.N + self.N.swapaxes(-1, -2)) / 2)
        values = np.where(values[:, :1] > UNDETERMINED, values, np.nan)
        WN = self.W @ (vectors / np.sqrt(values)[:, None, :])
        residual = residual + (WN @ (WN.swapaxes(-1, -2) @ a[:, :, None]))[:, :, 0]
        return residual, self.variance + (WN**2).sum(axis=-1), self.log_det + np.log(values).sum(axis=1)


def _group_of_rows(results: Results, by: Groups) -> Index:
    """The group of every row, in the order in which rows came."""
    inputs: dict[bytes, int] = {}
    match(results.system.X, inputs)
    task, X, _, _ = results.rows
    return np.searchsorted(by.key, task * len(inputs) + match(X, inputs)[0])


def _without_row(results: Results, by: Groups, group: Index) -> tuple[Array, Array]:
    """(Py)ᵢ and Pᵢᵢ of every raw row."""
    _, _, y, w = results.rows
    lam, mean = results.engine.model.lam, by.noise[group]
    Py = (y - by.mean[group] + lam * mean * by.Py[group]) / (lam * w)
    return Py, (w - mean) / (lam * w**2) + (mean / w) ** 2 * by.precision[group]


def leave_out(results: Results) -> LeaveOut:
    """Every row without itself, and every task without itself."""
    by = groups(results)
    group = _group_of_rows(results, by)
    _, _, y, noise = results.rows
    Py, precision = _without_row(results, by, group)
    rows = _predictions(results, Py / precision, 1.0 / precision, "Each row without itself")
    residual = y - by.mean[group] + by.residual_new[group]
    variance = by.variance_new[group] + results.engine.model.lam * (noise - by.noise[group])
    new = _predictions(results, residual, variance, "Each row without its task")
    count = Counter(results.rows[0].tolist())
    tasks: dict[str, Any] = {
        "task": list(results.labels.values()),
        "rows": [count[number] for number in results.labels],
        "log_score": [by.score[number] for number in results.labels],
    }
    return LeaveOut(rows, new, Table(tasks, "Each task without itself"))


def _predictions(results: Results, residual: Array, variance: Array, title: str) -> Table:
    """Of all rows, from their residuals and from the variances of their predictions, in units of σ²."""
    y = results.rows[2]
    std = np.sqrt(results.sigma2 * variance)
    columns: dict[str, Any] = {
        "task": results.task_labels,
        "observed": y,
        "mean": y - residual,
        "std": std,
        "residual": residual,
        "log_score": -0.5 * (np.log(2 * np.pi * std**2) + (residual / std) ** 2),
    }
    return Table(columns, title)


def diagnostics(results: Results) -> Table:
    """A row for each observation, as they came.

    ``population`` is the average's prediction, ``individual`` the task's, from which ``residual`` is. ``standardised``
    is in units of the noise's standard deviation; ``studentised`` is the residual of a prediction without this row, in
    units of its standard deviation.
    """
    by = groups(results)
    group = _group_of_rows(results, by)
    _, X, y, noise = results.rows
    Py, precision = _without_row(results, by, group)
    residual = results.engine.model.lam * noise * Py
    columns: dict[str, Any] = {
        "task": results.task_labels,
        **{name: X[:, k] for k, name in enumerate(results.names)},
        "observed": y,
        "population": by.average[group],
        "individual": y - residual,
        "residual": residual,
        "standardised": residual / np.sqrt(results.noise_variance * noise),
        "studentised": Py / np.sqrt(precision * results.sigma2),
    }
    return Table(columns, "Diagnostics")
