"""The weights θ of the basis, given the sum over all tasks.

``Factor`` is the one factorisation that a release needs; ``Posterior`` is the weights' mean and covariance, with or
without one client's own examples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from motet.arrays import Array
from motet.errors import InvalidRelease
from motet.linalg import cholesky, solve_lower


class Factor:
    """B = diag(prior) + αΛ, factored; ``prior`` is 1 on the basis and 0 on the bias.

    The bias is eliminated first: what is left is then I plus something positive, whatever the data. Directions of the
    bias that the data do not identify get weight 0. Columns beyond those of Λ have their prior alone.
    """

    def __init__(self, Lambda: Array, prior: Array, share: float) -> None:
        self.share = share  # α
        self._size = len(prior)
        bias = np.flatnonzero(prior == 0)
        d = slice(bias[0], bias[-1] + 1) if len(bias) else slice(0, 0)
        whole = not len(bias) or d.stop == len(prior)  # no columns behind the bias
        self._bias, self._rest = d, slice(0, len(prior) - len(bias)) if whole else np.flatnonzero(prior)
        self._U = _identified(share * Lambda[d, d])
        e, U = self._rest, self._U
        try:
            self._Lb = np.linalg.cholesky(U.T @ (share * Lambda[d, d]) @ U)
            self._W = solve_lower(self._Lb, U.T @ (share * Lambda[d][:, e]))
            S = share * Lambda[e][:, e]
            if len(self._W):
                S -= self._W.T @ self._W
            S[np.diag_indices_from(S)] += 1.0
            self._Ls = cholesky(S)
        except np.linalg.LinAlgError:
            raise InvalidRelease("the sums are not those of any data: Λ has a negative direction") from None

    @property
    def bias_rank(self) -> int:
        return int(self._U.shape[1])

    @property
    def identifies_bias(self) -> bool:
        return not self.share or self._U.shape[0] == self._U.shape[1]

    @property
    def log_det(self) -> float:
        """log |B| over the identified directions."""
        return float(2 * np.log(np.diag(self._Lb)).sum() + 2 * np.log(np.diag(self._Ls)).sum())

    def half(self, F: Array) -> Array:
        """V = B^-½Fᵀ, so that VᵀV = FB⁻¹Fᵀ."""
        vb = solve_lower(self._Lb, self._U.T @ F[:, self._bias].T)
        ve = solve_lower(self._Ls, F[:, : self._size][:, self._rest].T - self._W.T @ vb)
        return np.vstack([vb, ve, F[:, self._size :].T])

    def other_half(self, V: Array) -> Array:
        """B^-½ᵀV, so that with V = half(F) it is B⁻¹Fᵀ."""
        vb, ve, extra = np.split(V, [len(self._Lb), len(self._Lb) + len(self._Ls)])
        out = np.empty((self._size + len(extra), V.shape[1]))
        xe = solve_lower(self._Ls, ve, transposed=True)
        out[: self._size][self._rest] = xe
        out[self._bias] = self._U @ solve_lower(self._Lb, vb - self._W @ xe, transposed=True)
        out[self._size :] = extra
        return out

    def solve(self, M: Array) -> Array:
        """B⁻¹M, for M with a row for each column of the basis."""
        return self.other_half(self.half(M.T))


def _identified(L: Array) -> Array:
    """The bias with slopes that the data do not identify left out; L is its block of αΛ, the constant first.

    Only slopes are left out, so the choice does not depend on where inputs are counted from.
    """
    size = np.sqrt(np.maximum(np.diag(L), 0.0))
    if not size.any():
        return np.empty((len(L), 0))
    scale = np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(L / np.outer(scale, scale))
    null = (vectors[:, values <= 1e-12] / scale[:, None])[1:]
    U = np.eye(len(L))
    U[1:, 1:] = np.linalg.qr(null, mode="complete")[0]
    return np.delete(U, range(1, 1 + null.shape[1]), axis=1) if null.shape[1] else np.eye(len(L))


@dataclass(frozen=True, eq=False)
class Posterior:
    """θ ~ N(θ̂, σ²Σ) with Σ = αB⁻¹, less what one client's own examples tell: Σ − gain gainᵀ."""

    factor: Factor
    theta: Array
    gain: Array | None = None

    @classmethod
    def of(cls, Lambda: Array, eta: Array, prior: Array, share: float) -> Posterior:
        factor = Factor(Lambda, prior, share)
        return cls(factor, share * factor.solve(eta[:, None])[:, 0])

    def variance(self, Q: Array) -> Array:
        """qᵀΣq for every row q, in units of σ²."""
        V = self.factor.half(Q)
        variance = self.factor.share * np.einsum("ij,ij->j", V, V)
        if self.gain is None:
            return variance
        return np.maximum(variance - ((Q @ self.gain) ** 2).sum(axis=1), 0.0)

    def observed(self, F: Array, covariance: Array, y: Array) -> Posterior:
        """Given also y = Fθ + noise of that covariance, at O(r²ℓ); F may have columns beyond those of the basis."""
        theta = np.concatenate([self.theta, np.zeros(F.shape[1] - len(self.theta))])
        V = self.factor.half(F)
        L = np.linalg.cholesky(covariance + self.factor.share * (V.T @ V))
        gain = solve_lower(L, self.factor.share * self.factor.other_half(V).T).T  # ΣFᵀL⁻ᵀ
        return Posterior(self.factor, theta + gain @ solve_lower(L, (y - F @ theta)[:, None])[:, 0], gain)
