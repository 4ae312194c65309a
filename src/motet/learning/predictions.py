"""Predictions for the tasks of an engine, many at once: the same formulas as ``Estimate``, over stacks of tasks.

Tasks of one size and kernel are predicted together, so there is no loop over tasks.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from motet.arrays import Array, Index, slices
from motet.learning.batches import CHUNK, Batch
from motet.model.gram import gram
from motet.release.disclosed import Disclosed

NEW = -1  # the number of a task that has no examples


def predict(
    release: Disclosed, parts: Iterable[tuple[Batch, Kernel]], inputs: Array, task: Index, X: Array, return_std: bool
) -> tuple[Array, Array]:
    """f̂ of task ``task[i]`` at ``X[i]``, and its variance in units of σ² (zeros where it is not wanted).

    ``parts`` are all tasks of the engine, whose ``h`` number the rows of ``inputs``.
    """
    model, basis = release.model, release.basis
    F = basis.columns(X)
    mean, shift = F @ release.theta, model.individual_share * model.individual.diag(X)
    residual = basis.residual(X, F[:, : basis.rank]) if return_std else 0.0
    for batch, kernel in parts:
        slot = np.full(max(task.max(initial=NEW), batch.task.max(initial=NEW)) + 2, NEW)
        slot[batch.task] = np.arange(len(batch.task))
        known = np.flatnonzero(slot[task] != NEW)
        for run in slices(len(known), CHUNK // (batch.h.shape[1] * F.shape[1] + 1)):
            rows = known[run]
            own = batch.take(slot[task[rows]])
            k = model.individual_share * gram(kernel, X[rows][:, None, :], inputs[own.h])[:, 0, :]
            kR = np.einsum("ri,rij->rj", k, own.R)
            Fj = _columns(release, inputs, own.h)
            mean[rows] += np.einsum("rj,rj->r", kR, own.y - Fj @ release.theta)
            if return_std:
                F[rows] -= np.einsum("rj,rjk->rk", kR, Fj)  # q = φ(x) − (1−α)FⱼᵀRʲk̃
                shift[rows] = model.individual_share * kernel.diag(X[rows]) - np.einsum("rj,rj->r", kR, k)
    if not return_std:
        return mean, np.zeros(len(mean))
    spread = np.zeros(len(F))
    for run in slices(len(F), CHUNK // (F.shape[1] + 1)):
        spread[run] = release.posterior.variance(F[run])
    return mean, spread + np.maximum(shift, 0.0) + model.common_share * residual


def predict_all(
    release: Disclosed, parts: Iterable[tuple[Batch, Kernel]], inputs: Array, tasks: int, X: Array
) -> Array:
    """f̂ of each of ``tasks`` tasks, by number, at all of X."""
    out = np.tile(release.average(X), (tasks, 1))
    fitted = release.average(inputs)
    for batch, kernel in parts:
        k = release.model.individual_share * gram(kernel, inputs, X)
        for run in slices(len(batch.task), CHUNK // (len(inputs) + 1)):
            own = batch.take(run)
            a = np.zeros((len(own.task), len(inputs)))
            a[np.arange(len(own.task))[:, None], own.h] = (own.R @ (own.y - fitted[own.h])[:, :, None])[:, :, 0]
            out[own.task] += a @ k
    return out


def _columns(release: Disclosed, inputs: Array, h: Index) -> Array:
    """φ at stacked inputs, each evaluated once."""
    used, at = np.unique(h, return_inverse=True)
    return release.basis.columns(inputs[used])[at.reshape(h.shape)]
