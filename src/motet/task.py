"""From triples to Rʲ, for many tasks at once.

A task's triples (input, y, noise) are folded so that no input repeats, and tasks of equal size are stacked:
Rʲ = [(1−α)K̃ʲ(hʲ,hʲ) + λ diag w̄ʲ]⁻¹ is then one batched inverse. Nothing here knows of other tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

from motet.arrays import LARGEST, Array, Index, match, numbers
from motet.errors import InvalidNoise, NotFinite, NotPositiveDefinite, WrongDimension
from motet.gram import gram, linear_factor
from motet.kernels import affine

CHUNK = 2**18  # numbers in one temporary of a stack: it stays in the cache


def outputs(y: Any, noise: Any, n: int) -> tuple[Array, Array]:
    """``n`` outputs and their noise variances (all 1 where None), or a refusal that names the first bad row."""
    y = numbers(y, "outputs")
    noise = np.ones(n) if noise is None else numbers(noise, "noise variances")
    noise = np.full(n, float(noise)) if noise.ndim == 0 else noise
    for name, values in (("outputs", y), ("noise variances", noise)):
        if values.shape != (n,):
            raise WrongDimension(f"expected {n} {name}, one for each input, got an array of shape {values.shape}")
    if not (good := np.abs(y) < LARGEST).all():
        raise NotFinite(f"outputs must be finite (below {LARGEST:g}); row {int(np.argmin(good))} is {y[~good][0]}")
    if not (good := (noise > 1 / LARGEST) & (noise < LARGEST)).all():
        raise InvalidNoise(f"noise variances must be positive, row {int(np.argmin(good))} is {noise[~good][0]}")
    return y, noise


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
    order = np.argsort(task * (input.max(initial=0) + 1) + input, kind="stable")
    task, input, y, noise = task[order], input[order], y[order], noise[order]
    first = np.flatnonzero(_changes(task) | _changes(input))
    count = np.diff(first, append=len(task))
    once = count == 1
    precision = np.add.reduceat(1.0 / noise, first) if len(first) else np.empty(0)
    mean = np.add.reduceat(y / noise, first) / precision if len(first) else np.empty(0)
    folded_y, folded_noise = np.where(once, y[first], mean), np.where(once, noise[first], 1.0 / precision)
    squares = (y - np.repeat(folded_y, count)) ** 2 / noise
    start = np.flatnonzero(_changes(task[first]))
    raw = first[start]
    return Folded(
        task=task[raw],
        start=np.append(start, len(first)),
        input=input[first],
        y=folded_y,
        noise=folded_noise,
        rows=np.diff(raw, append=len(task)),
        squares=_sums(squares, raw),
        log_noise=_sums(np.log(noise), raw) - _sums(np.log(folded_noise), start),
    )


def _changes(a: Index) -> NDArray[np.bool_]:
    return np.append(True, a[1:] != a[:-1])[: len(a)]


def _sums(a: Array, start: Index) -> Array:
    return np.add.reduceat(a, start) if len(start) else np.empty(0)


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

    def joined(self, other: Batch) -> Batch:
        return Batch(*(np.concatenate([getattr(self, f.name), getattr(other, f.name)]) for f in fields(self)))


def batches(folded: Folded, X: Array, kernel: Kernel, share: float, lam: float) -> Iterator[Batch]:
    """The folded tasks by size, each with its Rʲ for the kernel ``share`` · K̃ on the inputs ``X``."""
    sizes = np.diff(folded.start)
    for size in np.unique(sizes):
        which = np.flatnonzero(sizes == size)
        at = folded.start[which, None] + np.arange(size)
        h, noise = folded.input[at], folded.noise[at]
        R, log_det = inverses(X, h, noise, kernel, share, lam)
        rest = (a[which] for a in (folded.rows, folded.squares, folded.log_noise))
        yield Batch(folded.task[which], h, folded.y[at], noise, R, log_det, *rest)


def inverses(X: Array, h: Index, noise: Array, kernel: Kernel, share: float, lam: float) -> tuple[Array, Array]:
    """Rʲ (Algorithm 1, line 3) and log |Rʲ| of a stack of tasks with inputs ``X[h]``."""
    m, size = h.shape
    A = linear_factor(kernel, X.shape[1])
    small = A is not None and len(A) < size  # a linear kernel of lower rank than the tasks' size
    U = np.sqrt(share) * affine(X) @ A.T if A is not None and small else None
    K = share * gram(kernel, X) if not small and len(X) ** 2 <= 4 * h.size * size else None  # cheaper than task by task
    R, log_det = np.empty((m, size, size)), np.empty(m)
    step = max(1, CHUNK // (size * (size + X.shape[1])))
    for begin in range(0, m, step):
        part = slice(begin, begin + step)
        at, scaled = h[part], lam * noise[part]
        if U is not None:
            R[part], log_det[part] = inverse_of_low_rank(U[at], scaled)
            continue
        V = share * gram(kernel, X[at]) if K is None else K[at[:, :, None], at[:, None, :]]
        R[part], log_det[part] = inverse(with_diagonal(V, scaled), kernel)
    return R, log_det


def inverse_of_low_rank(U: Array, diagonal: Array) -> tuple[Array, Array]:
    """(UUᵀ + diag)⁻¹ and its log determinant, for stacks, by the matrix inversion lemma."""
    D = 1.0 / diagonal
    DU = D[..., None] * U
    L = np.linalg.cholesky(np.eye(U.shape[-1]) + U.swapaxes(-1, -2) @ DU)
    H = inverse_of_lower(L) @ DU.swapaxes(-1, -2)
    log_det = np.log(D).sum(axis=-1) - 2.0 * np.log(np.diagonal(L, axis1=-2, axis2=-1)).sum(axis=-1)
    return with_diagonal(-H.swapaxes(-1, -2) @ H, D), log_det


def covariance(X: Array, noise: Array, kernel: Kernel, share: float, lam: float) -> Array:
    """(Rʲ)⁻¹ = (1−α)K̃ʲ + λ diag w̄ʲ of one task, or of a stack of them."""
    return with_diagonal(share * gram(kernel, X), lam * noise)


def with_diagonal(V: Array, more: Array) -> Array:
    """V with ``more`` added to its diagonal, in place."""
    diagonal = np.arange(V.shape[-1])
    V[..., diagonal, diagonal] += more
    return V


def inverse(V: Array, kernel: Kernel) -> tuple[Array, Array]:
    """V⁻¹ and log |V⁻¹| of a positive definite matrix, or of a stack of them."""
    try:
        L = np.linalg.cholesky(V)
        log_det = -2.0 * np.log(np.diagonal(L, axis1=-2, axis2=-1)).sum(axis=-1)
    except np.linalg.LinAlgError:
        log_det = np.nan
    if not np.isfinite(log_det).all():
        raise NotPositiveDefinite(
            f"{kernel} is not positive definite on a task's inputs; check its numbers, raise lam or the noise, "
            "or give that task another kernel"
        )
    half = inverse_of_lower(L)
    return half.swapaxes(-1, -2) @ half, log_det


def inverse_of_lower(L: Array) -> Array:
    """L⁻¹ of a lower triangular matrix or a stack of them; small ones row by row over the whole stack."""
    size = L.shape[-1]
    if size > 16:
        return np.linalg.inv(L)
    half = np.zeros_like(L)
    for i in range(size):
        half[..., i, i] = 1.0 / L[..., i, i]
        half[..., i, :i] = np.einsum("...k,...kj->...j", L[..., i, :i], half[..., :i, :i])
        half[..., i, :i] *= -half[..., i, i, None]
    return half


@dataclass(frozen=True, eq=False)
class Own:
    """One task's folded examples, with the inputs themselves."""

    X: Array
    y: Array
    noise: Array

    @classmethod
    def of(cls, X: Array, y: Array, noise: Array) -> Own:
        known: dict[bytes, int] = {}
        input, first = match(X, known)
        folded = fold(np.zeros(len(X), dtype=np.intp), input, y, noise)
        return cls(X[first] + 0.0, folded.y, folded.noise)
