"""The Gaussian posterior of the weights θ of the basis, given the sum over all tasks.

``Factor`` is the one factorisation that a release needs; ``Posterior`` is the weights' mean and covariance, with or
without one client's own examples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from motet.arrays import Array
from motet.errors import InvalidRelease, NotPositiveDefinite
from motet.linalg import cholesky, solve_lower


class Factor:
    """B = diag(prior) + αΛ, factored; ``prior`` is 1 on the columns of the basis and 0 on those of the bias, the last.

    The bias is eliminated first: what remains is I plus something positive, whatever the data. Directions of the bias
    that the data do not identify get weight 0.
    """

    def __init__(self, Lambda: Array, prior: Array, share: float) -> None:
        self.share = share  # α
        self.rank = r = int(np.count_nonzero(prior))
        L = share * Lambda[r:, r:]
        self._U = U = _identified(L)
        try:
            self._Lb = np.linalg.cholesky(U.T @ L @ U)
            self._W = solve_lower(self._Lb, U.T @ (share * Lambda[r:, :r]))
            S = share * Lambda[:r, :r]
            if len(self._W):
                S -= self._W.T @ self._W
            S[np.diag_indices_from(S)] += 1.0
            self._Ls = cholesky(S)
        except np.linalg.LinAlgError:
            raise InvalidRelease("expected Λ positive semi-definite, got a negative eigenvalue") from None

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
        vb = solve_lower(self._Lb, self._U.T @ F[:, self.rank :].T)
        return np.vstack([vb, solve_lower(self._Ls, F[:, : self.rank].T - self._W.T @ vb)])

    def other_half(self, V: Array) -> Array:
        """B^-½ᵀV, so that with V = half(F) it is B⁻¹Fᵀ."""
        vb, ve = np.split(V, [len(self._Lb)])
        xe = solve_lower(self._Ls, ve, transposed=True)
        return np.vstack([xe, self._U @ solve_lower(self._Lb, vb - self._W @ xe, transposed=True)])

    def solve(self, M: Array) -> Array:
        """B⁻¹M, for M with a row for each column of the basis."""
        return self.other_half(self.half(M.T))

    def sigma(self, v: Array) -> Array:
        """Σv = αB⁻¹v for a vector v."""
        return self.share * self.solve(v[:, None])[:, 0]


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
    if not null.shape[1]:
        return U
    U[1:, 1:] = np.linalg.qr(null, mode="complete")[0]
    return np.delete(U, range(1, 1 + null.shape[1]), axis=1)


@dataclass(frozen=True, eq=False)
class Posterior:
    """θ = θ̂ + √α B^-½ᵀζ with ζ ~ N(0, σ²I), so that Σ = αB⁻¹.

    ζ are whitened coordinates: in them a row φ(x) is √α B^-½φ(x). Given also one client's examples the covariance of ζ
    is I − gain gainᵀ, in units of σ².
    """

    factor: Factor
    theta: Array
    gain: Array | None = None

    @classmethod
    def of(cls, Lambda: Array, eta: Array, prior: Array, share: float) -> Posterior:
        factor = Factor(Lambda, prior, share)
        return cls(factor, factor.sigma(eta))

    def whitened(self, F: Array) -> Array:
        """√α B^-½φ(x) for every row φ(x)."""
        return np.asarray(np.sqrt(self.factor.share) * self.factor.half(F).T)

    def variance(self, Q: Array) -> Array:
        """qᵀΣq for every row q, or for rows in stacks, in units of σ²."""
        rows = Q.reshape(math.prod(Q.shape[:-1]), Q.shape[-1])
        return whitened_variance(self.whitened(rows), self.gain).reshape(Q.shape[:-1])

    def observed(self, F: Array, covariance: Array, y: Array) -> Posterior:
        """Given also y = Fθ + noise of that covariance, at O(r²ℓ)."""
        zeta, gain = condition(self.whitened(F), covariance, y - F @ self.theta)
        step = np.sqrt(self.factor.share) * self.factor.other_half(zeta[:, None])[:, 0]
        return Posterior(self.factor, self.theta + step, gain)


def condition(V: Array, covariance: Array, residual: Array) -> tuple[Array, Array]:
    """ζ ~ N(0, I) given residual = Vζ + noise of that covariance: its mean, and gain for I − gain gainᵀ.

    Of one task or of a stack. Through a factor rather than an inverse, for three digits more.
    """
    try:
        L = np.linalg.cholesky(covariance + V @ V.swapaxes(-1, -2))
    except np.linalg.LinAlgError:
        raise NotPositiveDefinite(
            "the covariance of these examples is not positive definite: inputs are too large, or too close to each "
            "other for their noise"
        ) from None
    both = solve_lower(L, np.concatenate([V, residual[..., None]], axis=-1))
    gain = both[..., :-1].swapaxes(-1, -2)  # VᵀL⁻ᵀ
    return (gain @ both[..., -1:])[..., 0], gain


def whitened_variance(V: Array, gain: Array | None = None) -> Array:
    """The variance along every row of V, in whitened coordinates and units of σ²; of one task or of a stack."""
    variance = np.einsum("...ij,...ij->...i", V, V)
    if gain is None:
        return variance
    return np.maximum(variance - ((V @ gain) ** 2).sum(axis=-1), 0.0)
