"""One task: its examples without repeats, the kernel of its shift, and its covariance (dense, Woodbury or FITC).

``fold`` merges repeats of an input: their mean, weight and sum of squares are sufficient. ``Shift`` is all that a task
has of its own, kernel and noise. Its R is a dense inverse or, for a long task of few features, by the Woodbury
identity; a long task of any other kernel gets features by its own Nyström approximation (FITC), whose residual variance
is noise. Nothing here knows of other tasks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

from motet.arrays import Array, Index, as_bytes, distinct, match, stable_order
from motet.errors import NotPositiveDefinite
from motet.kernels.finite_rank import feature_count, features
from motet.kernels.gram import gram
from motet.kernels.nystrom import OwnLandmarks
from motet.linalg import LowRankInverse, inverse, triangle
from motet.model.basis import Basis
from motet.model.model import Model
from motet.model.noise import Noise

Inverse: TypeAlias = Array | LowRankInverse  # Rʲ of a task, or of a stack of tasks
MIN_LOW_RANK_ROWS, ROWS_PER_FEATURE = 64, 4  # of a task, from which on its R is kept by features
SHOWN_TASKS = 10  # whose own Nyström residual is measured
MAX_DENSE_ROWS = 2000  # of a task whose R may be formed: above, the residual of a basis and of landmarks is noise

# --- examples ---


@dataclass(frozen=True, eq=False)
class FoldedTasks:
    """Tasks without repeated inputs: the rows of ``task[k]`` are at ``start[k]:start[k + 1]``, in order of input.

    A group of repeats becomes w̄ = (Σ 1/wᵢ)⁻¹, ȳ = w̄ Σ yᵢ/wᵢ. The evidence needs three more numbers of each task:
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


def fold(task: Index, input: Index, y: Array, noise: Array) -> FoldedTasks:
    """Fold repeats of an input within a task (the article's section 4.1, case 1, all at once)."""
    key = task * (input.max(initial=0) + 1)
    key += input
    order = stable_order(key)
    task, input, y, noise = task[order], input[order], y[order], noise[order]
    first = np.flatnonzero(_changes(task) | _changes(input))
    start = np.flatnonzero(_changes(task[first]))
    raw = first[start]
    folded = FoldedTasks(
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


def _fold_repeats(folded: FoldedTasks, raw: Index, count: Index, y: Array, noise: Array) -> None:
    """Correct the groups that have several rows, in place.

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
    """Where an entry differs from the one before it."""
    return np.append(True, a[1:] != a[:-1])[: len(a)]


@dataclass(frozen=True, eq=False)
class Task:
    """One task's folded examples, with the inputs themselves."""

    X: Array
    y: Array
    noise: Array

    @classmethod
    def of(cls, X: Array, y: Array, noise: Array) -> Task:
        """From raw examples, which may repeat inputs."""
        input, first = match(X, {})
        folded = fold(np.zeros(len(X), dtype=np.intp), input, y, noise)
        return cls(X[first] + 0.0, folded.y, folded.noise)

    @classmethod
    def empty(cls, dimension: int) -> Task:
        """A task without examples."""
        return cls(np.empty((0, dimension)), np.empty(0), np.empty(0))

    def inverse(self, shift: Shift) -> Inverse:
        """Rʲ (Algorithm 1, line 3)."""
        R, log_det = shift.inverse(self.X[None], self.noise[None])
        if not np.isfinite(log_det).all():
            raise without_inverse(shift.kernel)
        return R[0]

    def information(self, F: Array, R: Inverse) -> tuple[Array, Array]:
        """Λʲ = FᵀRF and ηʲ = FᵀRy: what the task adds to the sums, with the basis's columns F at its inputs."""
        return F.T @ R @ F, F.T @ (R @ self.y)


# --- covariance ---


@dataclass(frozen=True, eq=False)
class Shift:
    """The part of a task's function that is its own, with kernel ``share`` · K̃, and its noise, of variance λw.

    With a ``basis`` the kernel is ``share`` · K̃ + ``residual_share`` · (K̄ − eᵀe): the residual of the average's basis
    is not shared, so each task has it as its own (PITC). At ``spanned`` inputs a basis has none. With
    ``residual_is_noise`` it is of every input alone, and adds to the variance of its noise (FITC); so does the residual
    of the task's ``OwnLandmarks``.
    """

    kernel: Kernel
    share: float
    noise: Noise
    basis: Basis | None = None
    residual_share: float = 0.0
    spanned: frozenset[bytes] = frozenset()
    residual_is_noise: bool = False

    @classmethod
    def of(
        cls, model: Model, kernel: Kernel, basis: Basis | None = None, spanned: frozenset[bytes] = frozenset()
    ) -> Shift:
        basis = basis if basis is not None and basis.has_residual else None
        return cls(kernel, model.individual_share, model.noise, basis, model.common_share, spanned)

    def gram(self, X: Array, Y: Array | None = None, *, E: Array | None = None, D: Array | None = None) -> Array:
        """Over two sets of inputs, or over stacks of them; E and D are their features e(x), if known already."""
        K = self.share * gram(self.kernel, X, Y)
        new = self._unspanned(X if Y is None else Y)
        if self.basis is None or self.residual_is_noise or not new.any():
            return K
        E = _features(self.basis, X) if E is None else E
        D = E if Y is None else _features(self.basis, Y) if D is None else D
        residual = gram(self.basis.kernel, X, Y) - E @ D.swapaxes(-1, -2)
        residual *= new[..., None, :] & new[..., :, None] if Y is None else new[..., None, :]
        return K + self.residual_share * residual

    def _unspanned(self, X: Array) -> NDArray[np.bool_]:
        """At which inputs the basis may have a residual."""
        if self.basis is None or not self.spanned:
            return np.full(X.shape[:-1], self.basis is not None)
        rows = as_bytes(X.reshape(-1, X.shape[-1]))
        return np.array([row not in self.spanned for row in rows], dtype=bool).reshape(X.shape[:-1])

    def variance(self, X: Array, residual: Array) -> Array:
        """``share`` · k̃(x, x) + the basis's ``residual`` variance, at inputs or at stacks of them."""
        variance = self.kernel.diag(X.reshape(-1, X.shape[-1])).reshape(X.shape[:-1])
        return np.asarray(self.share * variance + residual)

    def covariance(self, K: Array, noise: Array) -> Array:
        """(Rʲ)⁻¹ = K + λ diag w̄ʲ of one task or of a stack; K, its function's covariance, is overwritten."""
        diagonal = np.einsum("...ii->...i", K)
        diagonal += self.noise.variance(noise)
        return K

    # --- long tasks, whose shift has few features ---

    def at(self, X: Array) -> Shift:
        """The shift of a task with these inputs, or of a stack: if it is long, with few features, whatever the kernel.

        The residual of a basis has as many features as there are inputs, and would cost the cube of their number; so
        have levels of which few repeat, which stay as they are.
        """
        if X.shape[-2] <= MAX_DENSE_ROWS:
            return self
        long = replace(self, kernel=long_kernel(self.kernel, X), residual_is_noise=self.basis is not None)
        return self if long.rank(X) is None else long

    def rank(self, X: Array) -> int | None:
        """The number of features at the inputs of a task or of a stack, if R is cheaper by them: few beside the rows.

        Measured by ``benchmarks.jobs.long_tasks``: from some hundred rows on, and four rows a feature, products by
        features are faster than products with R.
        """
        if X.shape[-2] < MIN_LOW_RANK_ROWS or (self.basis is not None and not self.residual_is_noise):
            return None
        count = feature_count(self.kernel, X)
        return count if count is not None and ROWS_PER_FEATURE * count <= X.shape[-2] else None

    def low_rank(self, X: Array, noise: Array, E: Array | None = None) -> tuple[Array, Array]:
        """U and a diagonal with (Rʲ)⁻¹ = UUᵀ + diag, of a task or of a stack; E are the features e(x) of the basis."""
        diagonal = self.noise.variance(noise)
        if self.residual_is_noise and self.basis is not None:
            rows = X.reshape(-1, X.shape[-1])
            flat = _features(self.basis, rows) if E is None else E.reshape(len(rows), -1)
            residual = self.basis.residual(rows, flat).reshape(noise.shape)
            diagonal = diagonal + self.residual_share * residual * self._unspanned(X)
        u = features(self.kernel, X)
        if isinstance(self.kernel, OwnLandmarks):
            diagonal = diagonal + self.share * self.kernel.residual(X, u)
        return np.sqrt(self.share) * u, diagonal

    def features(self, X: Array, own: Array | None = None) -> Array:
        """u(x) with ``share`` · k̃(x, x′) = u(x)ᵀu(x′); levels are those of the task's ``own`` inputs, by default X."""
        return np.asarray(np.sqrt(self.share) * features(self.kernel, X, own))

    def inverse(self, X: Array, noise: Array, E: Array | None = None) -> tuple[Inverse, Array]:
        """Rʲ and log |Rʲ| of a stack of tasks, not finite if there is none; by features if that is cheaper."""
        shift = self.at(X)
        if shift.rank(X) is not None:
            return LowRankInverse.of(*shift.low_rank(X, noise, E))
        return inverse(shift.covariance(shift.gram(X, E=E), noise))

    def observation(self, X: Array, noise: Array, columns: Array, E: Array | None = None) -> tuple[Array, Array]:
        """The covariance (Rʲ)⁻¹ of a task's rows, or of a stack, and columns of numbers at these rows.

        Of a long task they are of fewer rows that say the same: with [U columns] = diag^½QT, Q orthogonal, those of T.
        """
        shift = self.at(X)
        if shift.rank(X) is None:
            return shift.covariance(shift.gram(X, E=E), noise), columns
        U, diagonal = shift.low_rank(X, noise, E)
        T = triangle(np.concatenate([U, columns], axis=-1) / np.sqrt(diagonal)[..., None])
        U, columns = np.split(T, [U.shape[-1]], axis=-1)
        return np.eye(T.shape[-2]) + U @ U.swapaxes(-1, -2), columns


def long_kernel(kernel: Kernel, X: Array) -> Kernel:
    """A kernel, for a long task with these inputs: itself if it has few features, or through landmarks among them."""
    return kernel if feature_count(kernel, X) is not None else OwnLandmarks(kernel)


def nystrom_residual(kernel: Kernel, task: Index, X: Array) -> float:
    """The residual variance of long tasks' own landmarks, as a share of the kernel's there; in some of these tasks."""
    residual = variance = 0.0
    for long in np.flatnonzero(np.bincount(task) > MAX_DENSE_ROWS)[:SHOWN_TASKS]:
        own = X[task == long]
        own = own[distinct(own)[0]]
        if len(own) > MAX_DENSE_ROWS and isinstance(approximate := long_kernel(kernel, own), OwnLandmarks):
            residual += float(approximate.residual(own, approximate.features(own, own)).sum())
            variance += float(kernel.diag(own).sum())
    return residual / variance if variance else 0.0


def _features(basis: Basis, X: Array) -> Array:
    if X.ndim == 2:
        return basis.e(X)
    return basis.e(X.reshape(-1, X.shape[-1])).reshape(*X.shape[:-1], basis.rank)


def blocks(K: Array, h: Index) -> Array:
    """K[hʲ, hʲ] for a stack of tasks with inputs ``h`` (m, ℓ)."""
    return np.ravel(K).take(h[:, :, None] * len(K) + h[:, None, :])


def inverse_covariance(V: Array, kernel: Kernel) -> Array:
    """Rʲ from V = (Rʲ)⁻¹ of a stack of tasks."""
    R, log_det = inverse(V)
    if not np.isfinite(log_det).all():
        raise without_inverse(kernel)
    return R


def without_inverse(kernel: Kernel) -> NotPositiveDefinite:
    """The refusal of tasks whose covariance has no inverse, which names their kernel."""
    return NotPositiveDefinite(
        f"{kernel} is not positive definite on a task's inputs; check its numbers, raise lam or the noise, "
        "or give that task another kernel"
    )
