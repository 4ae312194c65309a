"""One task: its examples without repeats, the kernel of its shift, and the covariance of its examples.

``fold`` merges repeats of an input within a task. ``Shift`` is all that a task has of its own, kernel and noise; its
``covariance`` is the one place that puts λw on a diagonal; CONTRIBUTING.md says what else another noise would change.
Nothing here knows of other tasks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import Kernel

from motet.arrays import Array, Index, as_bytes, match, stable_order
from motet.errors import NotPositiveDefinite
from motet.linalg import inverse
from motet.model.basis import Basis
from motet.model.gram import gram
from motet.model.model import Model

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

    def covariance(self, shift: Shift) -> Array:
        """(Rʲ)⁻¹ = (1−α)K̃ʲ + λ diag w̄ʲ."""
        return shift.covariance(shift.gram(self.X), self.noise)

    def inverse(self, shift: Shift) -> Array:
        """Rʲ (Algorithm 1, line 3)."""
        return inverse_covariance(self.covariance(shift)[None], shift.kernel)[0]

    def information(self, F: Array, R: Array) -> tuple[Array, Array]:
        """Λʲ = FᵀRF and ηʲ = FᵀRy: what the task adds to the sums, with the basis's columns F at its inputs."""
        return F.T @ R @ F, F.T @ (R @ self.y)


# --- covariance ---


@dataclass(frozen=True, eq=False)
class Shift:
    """The part of a task's function that is its own, with kernel ``share`` · K̃, and its noise, of variance λw.

    With a ``basis`` the kernel is ``share`` · K̃ + ``missed_share`` · (K̄ − eᵀe): the part of the average's kernel that
    the basis misses is not shared, so each task has it as its own. At ``spanned`` inputs a basis misses nothing.
    """

    kernel: Kernel
    share: float
    lam: float
    basis: Basis | None = None
    missed_share: float = 0.0
    spanned: frozenset[bytes] = frozenset()

    @classmethod
    def of(
        cls, model: Model, kernel: Kernel, basis: Basis | None = None, spanned: frozenset[bytes] = frozenset()
    ) -> Shift:
        basis = basis if basis is not None and basis.misses else None
        return cls(kernel, model.individual_share, model.lam, basis, model.common_share, spanned)

    def gram(self, X: Array, Y: Array | None = None, *, E: Array | None = None, D: Array | None = None) -> Array:
        """Over two sets of inputs, or over stacks of them; E and D are their features e(x), if known already."""
        K = self.share * gram(self.kernel, X, Y)
        new = self._unspanned(X if Y is None else Y)
        if self.basis is None or not new.any():
            return K
        E = _features(self.basis, X) if E is None else E
        D = E if Y is None else _features(self.basis, Y) if D is None else D
        missed = gram(self.basis.kernel, X, Y) - E @ D.swapaxes(-1, -2)
        missed *= new[..., None, :] & new[..., :, None] if Y is None else new[..., None, :]
        return K + self.missed_share * missed

    def _unspanned(self, X: Array) -> NDArray[np.bool_]:
        """At which inputs the basis may miss something."""
        if self.basis is None or not self.spanned:
            return np.full(X.shape[:-1], self.basis is not None)
        rows = as_bytes(X.reshape(-1, X.shape[-1]))
        return np.array([row not in self.spanned for row in rows], dtype=bool).reshape(X.shape[:-1])

    def variance(self, X: Array, missed: Array) -> Array:
        """``share`` · k̃(x, x) + ``missed``, the variance that the basis misses, at inputs or at stacks of them."""
        variance = self.kernel.diag(X.reshape(-1, X.shape[-1])).reshape(X.shape[:-1])
        return np.asarray(self.share * variance + missed)

    def noise_variance(self, noise: Array) -> Array:
        """λw, in units of σ²."""
        return self.lam * noise

    def covariance(self, K: Array, noise: Array) -> Array:
        """(Rʲ)⁻¹ = K + λ diag w̄ʲ of one task or of a stack; K, its function's covariance, is overwritten."""
        diagonal = np.einsum("...ii->...i", K)
        diagonal += self.noise_variance(noise)
        return K


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
