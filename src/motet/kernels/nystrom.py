"""Per-task Nyström approximation (FITC): inducing inputs are chosen among a long task's own; the residual variance is
added as noise.

With Z the inducing inputs, here landmarks, k(x, x′) is taken for k(x, Z) K(Z, Z)⁻¹ k(Z, x′) between the inputs of a
task; the residual, what that leaves of k(x, x), is of each input alone: noise to the other rows, and a part of the
function. So a long task costs no more than its rows, whatever its kernel, and its variance is not understated. Z
depends on the inputs and on nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from motet.arrays import Array
from motet.kernels.classes import Kernel, Matern, Reading, Scaled
from motet.kernels.derivatives import derivatives
from motet.kernels.gram import gram
from motet.linalg import pivoted_cholesky, solve_lower

LANDMARKS, CANDIDATES_OF_TASK = 200, 800  # of a task, chosen among so many of its inputs
JITTER = 1e-8  # of a kernel's variance, on the diagonal of K(Z, Z), which may be singular


class OwnLandmarks(Reading):
    """A kernel's Nyström approximation in the landmarks of the task that it is evaluated for."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def read(self, X: Array) -> Array:
        return X

    def __repr__(self) -> str:
        return f"OwnLandmarks({self.kernel})"

    def features(self, X: Array, own: Array) -> Array:
        """u(x) = L⁻¹k(Z, x) with LLᵀ = K(Z, Z), Z of the task's inputs ``own``; NaN if K is not positive definite."""
        Z = landmarks(own)
        try:
            L = np.linalg.cholesky(self._over(Z))
        except np.linalg.LinAlgError:
            return np.full((*X.shape[:-1], Z.shape[-2]), np.nan)
        return solve_lower(L, gram(self.kernel, Z, X)).swapaxes(-1, -2)

    def residual(self, X: Array, u: Array) -> Array:
        """The residual variance k(x, x) − u(x)ᵀu(x) at the inputs of a task, or of a stack, with their features."""
        variance = self.diag(X.reshape(-1, X.shape[-1])).reshape(X.shape[:-1])
        return np.maximum(variance - np.einsum("...ij,...ij->...i", u, u), 0.0)

    def derivatives(self, X: Array) -> tuple[Array, Iterator[tuple[Array, Array]]]:
        """Bᵀ = k(X, Z) K(Z, Z)⁻¹, and for every parameter C and its change of ``residual``: K changes by CB + (CB)ᵀ.

        C = ∂K(X, Z) − ½Bᵀ∂K(Z, Z).
        """
        Z = landmarks(X)
        BT = np.linalg.solve(self._over(Z), gram(self.kernel, Z, X)).swapaxes(-1, -2)

        def changes() -> Iterator[tuple[Array, Array]]:
            alone = X.reshape(-1, 1, X.shape[-1])
            for D_XZ, D_ZZ, D in zip(*(derivatives(self.kernel, *inputs) for inputs in ((X, Z), (Z,), (alone,)))):
                C = D_XZ - 0.5 * BT @ _jittered(D_ZZ)
                yield C, D.reshape(X.shape[:-1]) - 2.0 * np.einsum("...ij,...ij->...i", C, BT)

        return BT, changes()

    def _over(self, Z: Array) -> Array:
        return _jittered(gram(self.kernel, Z))


def landmarks(X: Array, count: int = LANDMARKS) -> Array:
    """Inducing inputs of a task, or of each task of a stack: pivots of a rough kernel over a sample of the task's own.

    In whichever order inputs come, these are the same.
    """
    if X.ndim > 2:
        return np.array([landmarks(table, count) for table in X])
    X, scale = X[np.lexsort(X.T)], X.std(axis=0)
    units = np.where(scale > 0, scale, 1.0).tolist()
    rough = Scaled(Matern(np.sqrt(X.shape[1]), nu=0.5), [0.0] * len(units), units)
    return pivots(X, count, rough, CANDIDATES_OF_TASK)


def pivots(X: Array, count: int, kernel: Kernel, sampled: int) -> Array:
    """So many of the inputs: the pivots of a kernel's Cholesky decomposition over a sample of them."""
    chosen = np.random.default_rng(0).choice(len(X), min(len(X), sampled), replace=False)
    sample = X[np.sort(chosen)]
    _, order = pivoted_cholesky(kernel(sample), kernel)
    return np.asarray(sample[order[:count]])


def _jittered(K: Array) -> Array:
    return K + JITTER * np.einsum("...ii->...", K)[..., None, None] / K.shape[-1] * np.eye(K.shape[-1])
