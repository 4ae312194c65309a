"""From triples to Rʲ, for many tasks at once.

A task's triples (input, y, noise) are folded so that no input repeats, and tasks of equal size are stacked:
Rʲ = [(1−α)K̃ʲ(hʲ,hʲ) + λ diag w̄ʲ]⁻¹ is then one batched inverse. Nothing here knows of other tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

from motet.arrays import Array, Index, match, slices, stable_order
from motet.errors import NotPositiveDefinite
from motet.kernels import affine
from motet.linalg import inverse, inverse_of_low_rank, on_all_cores
from motet.model.gram import linear_factor
from motet.model.shift import Shift

CHUNK = 2**20  # numbers in one temporary of a stack


@dataclass(frozen=True, eq=False)
class Folded:
    """Tasks without repeated inputs: those of ``task[k]`` are at ``start[k]:start[k + 1]``, in order of input.

    A group of repeats becomes w̄ = (Σ 1/wᵢ)⁻¹, ȳ = w̄ Σ yᵢ/wᵢ. What that leaves out of the evidence is kept per task:
    the number of raw ``rows``, ``squares`` Σ(yᵢ−ȳ)²/wᵢ and ``log_noise`` Σ log wᵢ − Σ log w̄.
    """

    task: Index
    start: Index
    input: Index
    y: Array
    noise: Array
    rows: Index
    squares: Array
    log_noise: Array


def fold(task: Index, input: Index, y: Array, noise: Array) -> Folded:
    """Fold repeats of an input within a task (the article's section 4.1, case 1, all at once)."""
    key = task * (input.max(initial=0) + 1)
    key += input
    order = stable_order(key)
    task, input, y, noise = task[order], input[order], y[order], noise[order]
    first = np.flatnonzero(_changes(task) | _changes(input))
    start = np.flatnonzero(_changes(task[first]))
    raw = first[start]
    folded = Folded(
        task=task[raw],
        start=np.append(start, len(first)),
        input=input[first],
        y=y[first],
        noise=noise[first],
        rows=np.diff(raw, append=len(task)),
        squares=np.zeros(len(start)),
        log_noise=np.zeros(len(start)),
    )
    if len(first) < len(task):
        _fold_repeats(folded, raw, np.diff(first, append=len(task)), y, noise)
    return folded


def _fold_repeats(folded: Folded, raw: Index, count: Index, y: Array, noise: Array) -> None:
    """Put the groups that have several rows right.

    ``raw`` is where tasks start among the sorted rows, ``count`` how many rows each group has.
    """
    several = np.flatnonzero(count > 1)
    rows = np.flatnonzero(np.repeat(count > 1, count))
    y, noise, group = y[rows], noise[rows], np.repeat(np.arange(len(several)), count[several])
    precision = np.bincount(group, 1.0 / noise)
    mean = np.bincount(group, y / noise) / precision
    folded.y[several], folded.noise[several] = mean, 1.0 / precision
    owner = np.searchsorted(raw, rows, side="right") - 1
    np.add.at(folded.squares, owner, (y - mean[group]) ** 2 / noise)
    np.add.at(folded.log_noise, owner, np.log(noise))
    np.add.at(folded.log_noise, np.searchsorted(folded.start, several, side="right") - 1, np.log(precision))


def _changes(a: Index) -> NDArray[np.bool_]:
    return np.append(True, a[1:] != a[:-1])[: len(a)]


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
        return [self] if step >= len(self.task) else (self.take(run) for run in slices(len(self.task), step))

    def joined(self, other: Batch) -> Batch:
        return Batch(*(np.concatenate([getattr(self, f.name), getattr(other, f.name)]) for f in fields(self)))


def batches(folded: Folded, X: Array, shift: Shift, lam: float) -> Iterator[Batch]:
    """The folded tasks by size, each with its Rʲ on the inputs ``X``."""
    sizes = np.diff(folded.start)
    for size in np.unique(sizes):
        which = np.flatnonzero(sizes == size)
        at = folded.start[which, None] + np.arange(size)
        h, noise = folded.input[at], folded.noise[at]
        R, log_det = inverses(X, h, noise, shift, lam)
        rest = (a[which] for a in (folded.rows, folded.squares, folded.log_noise))
        yield Batch(folded.task[which], h, folded.y[at], noise, R, log_det, *rest)


def inverses(X: Array, h: Index, noise: Array, shift: Shift, lam: float) -> tuple[Array, Array]:
    """Rʲ (Algorithm 1, line 3) and log |Rʲ| of a stack of tasks with inputs ``X[h]``."""
    m, size = h.shape
    A = linear_factor(shift.kernel, X.shape[1]) if shift.basis is None else None
    U = K = None
    if A is not None and len(A) < size:  # a linear kernel of lower rank than the tasks' size
        U = np.sqrt(shift.share) * affine(X) @ A.T
    elif len(X) ** 2 <= (min(2**18, 4 * h.size * size) if A is not None else h.size * size // 4):  # few pairs in all
        K = shift.gram(X).ravel()
    R, log_det = np.empty((m, size, size)), np.empty(m)

    def invert(part: slice) -> None:
        at, scaled = h[part], lam * noise[part]
        if U is not None:
            R[part], log_det[part] = inverse_of_low_rank(U[at], scaled)
            return
        V = shift.gram(X[at]) if K is None else K.take(at[:, :, None] * len(X) + at[:, None, :])
        R[part], log_det[part] = inverse(with_diagonal(V, scaled))

    on_all_cores(invert, m, CHUNK // (size * (size + X.shape[1])))
    return checked(R, log_det, shift.kernel)


def with_diagonal(V: Array, more: Array) -> Array:
    """V with ``more`` added to its diagonal, in place."""
    diagonal = np.einsum("...ii->...i", V)
    diagonal += more
    return V


def checked(V: Array, log_det: Array, kernel: Kernel) -> tuple[Array, Array]:
    """Refuse what has no inverse, and say whose fault it is."""
    if not np.isfinite(log_det).all():
        raise NotPositiveDefinite(
            f"{kernel} is not positive definite on a task's inputs; check its numbers, raise lam or the noise, "
            "or give that task another kernel"
        )
    return V, log_det


@dataclass(frozen=True, eq=False)
class Own:
    """One task's folded examples, with the inputs themselves."""

    X: Array
    y: Array
    noise: Array

    @property
    def nothing(self) -> Own:
        """The same task without any example."""
        return Own(self.X[:0], self.y[:0], self.noise[:0])

    def covariance(self, shift: Shift, lam: float) -> Array:
        """(Rʲ)⁻¹ = (1−α)K̃ʲ + λ diag w̄ʲ."""
        return with_diagonal(shift.gram(self.X), lam * self.noise)

    @staticmethod
    def inverse(V: Array, kernel: Kernel) -> Array:
        """Rʲ from its inverse V."""
        return checked(*inverse(V[None]), kernel)[0][0]

    @classmethod
    def of(cls, X: Array, y: Array, noise: Array) -> Own:
        known: dict[bytes, int] = {}
        input, first = match(X, known)
        folded = fold(np.zeros(len(X), dtype=np.intp), input, y, noise)
        return cls(X[first] + 0.0, folded.y, folded.noise)
