"""Many tasks at once: tasks of equal size and kernel are stacked, so that all their Rʲ are a few batched inverses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from motet.arrays import Array, Index, slices
from motet.kernels import affine
from motet.linalg import inverse, inverse_of_low_rank, on_all_cores
from motet.model.gram import linear_factor
from motet.model.tasks import FoldedTasks, Shift, blocks, check_positive_definite

CHUNK = 2**20  # numbers in one temporary of a stack


@dataclass(frozen=True, eq=False)
class Batch:
    """Tasks of one size and kernel, stacked: ``h``, ``y``, ``noise`` (m, ℓ), ``R`` (m, ℓ, ℓ), the rest (m,)."""

    task: Index
    h: Index
    y: Array
    noise: Array
    R: Array
    log_det: Array  # log |Rʲ|
    rows: Index
    squares: Array
    log_noise: Array

    @cached_property
    def Ry(self) -> Array:
        return np.asarray((self.R @ self.y[:, :, None])[:, :, 0])

    def take(self, which: Any) -> Batch:
        return Batch(*(getattr(self, field.name)[which] for field in fields(self)))

    def parts(self, numbers: int) -> Iterable[Batch]:
        """In pieces whose temporaries, of so many ``numbers`` a task, stay small."""
        step = CHUNK // max(1, numbers)
        return [self] if step >= len(self.task) else (self.take(part) for part in slices(len(self.task), step))

    def joined(self, other: Batch) -> Batch:
        return Batch(*(np.concatenate([getattr(self, f.name), getattr(other, f.name)]) for f in fields(self)))


def batches(folded: FoldedTasks, X: Array, shift: Shift) -> Iterator[Batch]:
    """The tasks by size, each with its Rʲ on the inputs ``X``."""
    sizes = np.diff(folded.start)
    for size in np.unique(sizes):
        which = np.flatnonzero(sizes == size)
        rows = folded.start[which, None] + np.arange(size)
        h, noise = folded.input[rows], folded.noise[rows]
        R, log_det = inverses(X, h, noise, shift)
        rest = (a[which] for a in (folded.rows, folded.squares, folded.log_noise))
        yield Batch(folded.task[which], h, folded.y[rows], noise, R, log_det, *rest)


def inverses(X: Array, h: Index, noise: Array, shift: Shift) -> tuple[Array, Array]:
    """Rʲ (Algorithm 1, line 3) and log |Rʲ| of a stack of tasks with inputs ``X[h]``."""
    m, size = h.shape
    A = linear_factor(shift.kernel, X.shape[1]) if shift.basis is None else None
    U = K = None
    if A is not None and len(A) < size:  # a linear kernel of lower rank than the tasks' size
        U = np.sqrt(shift.share) * affine(X) @ A.T
    elif len(X) ** 2 <= (min(2**18, 4 * h.size * size) if A is not None else h.size * size // 4):  # few pairs in all
        K = shift.gram(X)
    R, log_det = np.empty((m, size, size)), np.empty(m)

    def invert(part: slice) -> None:
        if U is not None:
            R[part], log_det[part] = inverse_of_low_rank(U[h[part]], shift.noise_variance(noise[part]))
            return
        V = shift.gram(X[h[part]]) if K is None else blocks(K, h[part])
        R[part], log_det[part] = inverse(shift.covariance(V, noise[part]))

    on_all_cores(invert, m, CHUNK // (size * (size + X.shape[1])))
    check_positive_definite(log_det, shift.kernel)
    return R, log_det
