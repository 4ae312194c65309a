"""The kernel of a client's own part.

It is (1−α)K̃; under the policy ``private`` also αK̄_res, the part of the average's kernel that a small public basis
misses: nothing of it is shared then, so each client keeps it as its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from motet.arrays import Array
from motet.model.basis import Basis
from motet.model.gram import gram


@dataclass(frozen=True, eq=False)
class Shift:
    """``share`` · K̃ and, where a basis is given, ``missed_share`` · (K̄ − eᵀe)."""

    kernel: Kernel
    share: float
    basis: Basis | None = None
    missed_share: float = 0.0

    def gram(self, X: Array, Y: Array | None = None) -> Array:
        """Over two sets of inputs, or over stacks of them."""
        K = self.share * gram(self.kernel, X, Y)
        if self.basis is None or self.basis.kernel is None:
            return K
        E = _features(self.basis, X)
        D = E if Y is None else _features(self.basis, Y)
        return K + self.missed_share * (gram(self.basis.kernel, X, Y) - E @ D.swapaxes(-1, -2))

    def diag(self, X: Array) -> Array:
        variance = self.share * self.kernel.diag(X)
        if self.basis is None:
            return np.asarray(variance)
        return np.asarray(variance + self.missed_share * self.basis.residual(X, self.basis.e(X)))


def _features(basis: Basis, X: Array) -> Array:
    if X.ndim == 2:
        return basis.e(X)
    return basis.e(X.reshape(-1, X.shape[-1])).reshape(*X.shape[:-1], basis.rank)
