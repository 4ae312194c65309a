"""BLUPs of the tasks of an engine, many at once: the formula of ``release.estimates`` over stacks of tasks.

Tasks of one size and kernel that are asked for equally many rows are predicted together, so there is no loop over tasks
and each task's R is read once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from motet.arrays import NUMBERS_PER_PART, Array, Index, slices
from motet.engine.batches import Batch
from motet.linalg import LowRankInverse
from motet.model.tasks import Shift
from motet.release.disclosed import Disclosed
from motet.release.estimates import kernel_mean, task_coefficients, task_mean, task_variance

NEW = -1  # the number of a task that has no examples


def predict(
    release: Disclosed, parts: Iterable[tuple[Batch, Kernel]], inputs: Array, task: Index, X: Array, return_std: bool
) -> tuple[Array, Array]:
    """f̂ of task ``task[i]`` at ``X[i]``, and its variance in units of σ² (zeros unless ``return_std``).

    ``parts`` are all tasks of the engine, whose ``h`` number the rows of ``inputs``.
    """
    model, basis = release.model, release.basis
    needs_columns = return_std or release.shift(model.individual).basis is not None
    F = basis.columns(X) if needs_columns else np.empty((len(X), 0))
    mean, variance = F @ release.theta if needs_columns else basis.average(X, release.theta), np.zeros(len(X))
    residual = release.residual_variance(X, F) if return_std else np.zeros(len(X))
    new, average = np.ones(len(X), dtype=bool), np.full(len(inputs), np.nan)  # f̄ at inputs, each evaluated once
    for batch, kernel in parts:
        shift = release.shift(kernel)
        for tasks, rows in _rows_by_task(batch, task, len(release.theta)):
            stack = batch.take(tasks)
            used, at = np.unique(stack.h, return_inverse=True)
            at = at.reshape(stack.h.shape)
            if needs_columns:
                columns = basis.columns(inputs[used])
                average[used] = columns @ release.theta
            else:
                unknown = used[np.isnan(average[used])]
                average[unknown] = basis.average(inputs[unknown], release.theta)
            new[rows] = False
            if stack.is_low_rank:
                k = shift.at(inputs[stack.h]).features(X[rows], inputs[stack.h])
            else:
                D = None if shift.basis is None else columns[at][..., : basis.rank]
                k = shift.gram(X[rows], inputs[stack.h], E=F[rows][..., : basis.rank], D=D)
            mean[rows] = task_mean(mean[rows], k, stack.R, stack.y, average[stack.h])
            if return_std:
                average_variance, unshared = release.posterior.variance, shift.variance(X[rows], residual[rows])
                variance[rows] = task_variance(average_variance, F[rows], columns[at], k, stack.R, unshared)
    if return_std and new.any():
        prior = Shift.of(model, model.individual).variance(X[new], residual[new])
        variance[new] = release.posterior.variance(F[new]) + prior
    return mean, variance


def _rows_by_task(batch: Batch, task: Index, width: int) -> Iterator[tuple[Index, Index]]:
    """Places of tasks in a batch (m,) and the rows that ask for each (m, s), in parts whose temporaries stay small.

    ``width`` is the number of columns of the basis.
    """
    place = np.full(max(task.max(initial=NEW), batch.task.max(initial=NEW)) + 2, NEW)
    place[batch.task] = np.arange(len(batch.task))
    order = np.argsort(place[task], kind="stable")
    order = order[np.searchsorted(place[task[order]], 0) :]  # those of tasks in this batch
    places, start, count = np.unique(place[task[order]], return_index=True, return_counts=True)
    size = batch.h.shape[1]
    rank = batch.R.H.shape[-1] if isinstance(batch.R, LowRankInverse) else size
    for s in np.unique(count):
        which = np.flatnonzero(count == s)
        for part in slices(len(which), NUMBERS_PER_PART // ((size + s) * (rank + width))):
            yield places[which[part]], order[start[which[part], None] + np.arange(s)]


def predict_all(
    release: Disclosed, parts: Iterable[tuple[Batch, Kernel]], inputs: Array, tasks: int, X: Array
) -> Array:
    """f̂ of each of ``tasks`` tasks, by number, at all of X."""
    means = np.tile(release.average(X), (tasks, 1))
    average = release.average(inputs)
    for batch, kernel in parts:
        shift = release.shift(kernel)
        if batch.is_low_rank:
            for part in batch.parts(batch.h.shape[1] * X.shape[1]):
                own = inputs[part.h]
                u = shift.at(own).features(np.broadcast_to(X, (len(own), *X.shape)), own)
                means[part.task] = task_mean(means[part.task], u, part.R, part.y, average[part.h])
            continue
        k = shift.gram(X, inputs)
        for part in batch.parts(len(inputs) + 1):
            a = np.zeros((len(part.task), len(inputs)))
            a[np.arange(len(part.task))[:, None], part.h] = task_coefficients(part.R, part.y, average[part.h])
            means[part.task] = kernel_mean(means[part.task], k, a)
    return means
