"""Batched inverses of many tasks: those of equal size and kernel are stacked, so that all their Rʲ are a few calls.

The Rʲ of long tasks whose shift has few features are never formed: the Woodbury identity, as a ``LowRankInverse``,
stands for them in products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from motet.arrays import NUMBERS_PER_PART, Array, Index, slices
from motet.kernels.classes import affine
from motet.kernels.gram import linear_factor
from motet.linalg import LowRankInverse, inverse, inverse_of_low_rank
from motet.model.tasks import MIN_LOW_RANK_ROWS, FoldedTasks, Inverse, Shift, blocks
from motet.threads import on_all_cores

CACHED_NUMBERS, TABLE_NUMBERS = 2**18, 2**22  # of a table that fits the cache, 2 MB, and of one that is small, 32 MB


@dataclass(frozen=True, eq=False)
class Batch:
    """Tasks of one size and kernel, stacked: ``h``, ``y``, ``noise`` (m, ℓ), ``R`` (m, ℓ, ℓ), the rest (m,).

    ``R`` may be a ``LowRankInverse``, which stands for that array in products.
    """

    task: Index
    h: Index
    y: Array
    noise: Array
    R: Inverse
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
        step = NUMBERS_PER_PART // max(1, numbers)
        return [self] if step >= len(self.task) else (self.take(part) for part in slices(len(self.task), step))

    @property
    def is_low_rank(self) -> bool:
        return isinstance(self.R, LowRankInverse)

    def joined(self, other: Batch) -> Batch:
        """Both as one; either has its R by features, or neither."""

        def join(a: Any, b: Any) -> Any:
            return LowRankInverse.joined([a, b]) if isinstance(a, LowRankInverse) else np.concatenate([a, b])

        return Batch(*(join(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)))


def batches(folded: FoldedTasks, X: Array, shift: Shift, E: Array | None = None) -> Iterator[Batch]:
    """The tasks by size, each with its Rʲ on the inputs ``X``; ``log_det`` is not finite if a task has none.

    E are the features e(x) at X, which a shift needs that has the basis's residual.
    """
    sizes = np.diff(folded.start)
    A = linear_factor(shift.kernel, X.shape[1]) if shift.basis is None else None
    for size in np.unique(sizes):
        which = np.flatnonzero(sizes == size)
        rows = folded.start[which, None] + np.arange(size)
        h, noise = folded.input[rows], folded.noise[rows]
        R, log_det = inverses(X, h, noise, shift, A, E)
        rest = (a[which] for a in (folded.rows, folded.squares, folded.log_noise))
        yield Batch(folded.task[which], h, folded.y[rows], noise, R, log_det, *rest)


def inverses(X: Array, h: Index, noise: Array, shift: Shift, A: Array | None, E: Array | None) -> tuple[Inverse, Array]:
    """Rʲ (Algorithm 1, line 3) and log |Rʲ| of a stack of tasks with inputs ``X[h]``; not finite if there is no Rʲ.

    A is the factor of a linear kernel.
    """
    m, size = h.shape
    if size >= MIN_LOW_RANK_ROWS and (rank := (shift := shift.at(X[h])).rank(X[h])) is not None:
        return _by_features(X, h, noise, shift, E, rank)
    invert = _cheapest(X, h, shift, A, E)
    R, log_det = np.empty((m, size, size)), np.empty(m)

    def work(part: slice) -> None:
        R[part], log_det[part] = invert(h[part], noise[part])

    on_all_cores(work, m, NUMBERS_PER_PART // (size * (size + X.shape[1] + (0 if E is None else E.shape[1]))))
    return R, log_det


def _by_features(
    X: Array, h: Index, noise: Array, shift: Shift, E: Array | None, rank: int
) -> tuple[LowRankInverse, Array]:
    """Long tasks: O(mℓq²) for q features, and never an ℓ × ℓ matrix."""
    m, size = h.shape
    parts: dict[int, LowRankInverse] = {}
    log_det = np.empty(m)

    def work(part: slice) -> None:
        at = h[part]
        U, diagonal = shift.low_rank(X[at], noise[part], None if E is None else E[at])
        parts[part.start], log_det[part] = LowRankInverse.of(U, diagonal)

    on_all_cores(work, m, NUMBERS_PER_PART // (size * (2 * rank + X.shape[1])))
    return LowRankInverse.joined([parts[begin] for begin in sorted(parts)]), log_det


# --- three ways to invert a stack of short tasks ---

Invert: TypeAlias = Callable[[Index, Array], tuple[Array, Array]]  # from h and noise of some tasks to R and log |R|


def _cheapest(X: Array, h: Index, shift: Shift, A: Array | None, E: Array | None) -> Invert:
    """The way that costs least for m tasks of size ℓ on n inputs.

    | way | cost | measured by |
    |---|---|---|
    | by low rank | O(mℓ²q) for a linear kernel of rank q < ℓ | `mixed_model`, `large` of 8 columns |
    | by table | n² evaluations of the kernel, mℓ² readings, O(mℓ³) | `music` |
    | by stack | mℓ² evaluations of the kernel, O(mℓ³) | `large` of 19 columns |

    The last column names jobs of ``benchmarks/jobs.py``. Reading a number from a table takes about 10 ns. Evaluating it
    takes, if the kernel is linear, 2 ns for a table that fits the cache and 20 ns in a stack; otherwise 10 ns for a
    table and 70 to 170 ns in a stack. So a table pays up to four times mℓ² numbers, if it fits the cache or, with a
    kernel that is not linear, is small or small beside the blocks.
    """
    pairs, size = h.size * h.shape[1], h.shape[1]
    if A is not None and 0 < len(A) < size:  # the kernel is UUᵀ: the matrix inversion lemma
        U = np.sqrt(shift.share) * affine(X) @ A.T
        return lambda h, noise: inverse_of_low_rank(U[h], shift.noise.variance(noise))
    affordable = max(TABLE_NUMBERS, pairs // 4) if A is None else CACHED_NUMBERS
    if len(X) ** 2 <= min(4 * pairs, affordable):
        K = shift.gram(X, E=E)
        return lambda h, noise: inverse(shift.covariance(blocks(K, h), noise))
    return lambda h, noise: inverse(shift.covariance(shift.gram(X[h], E=None if E is None else E[h]), noise))
