"""Denoising by shrinkage: the best estimate from noisy sums, formulas 4 to 6 of docs/privacy.md.

The noise is public, so it is modelled: the noisy Λ shrinks towards the mean of simulated clients, the weights of the
average get their posterior given an uncertain Λ and η, and successive releases are combined. All of it is
post-processing of noisy sums and costs no privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from motet.arrays import Array
from motet.privacy.coordinates import Coordinates

SHRINKAGE_GRID = np.logspace(-4, 8, 61)  # values of t
WEIGHT_ROUNDS = 6


@dataclass(frozen=True, eq=False)
class LambdaEstimate:
    """Λ̂, the variances P of its entries, and κ̂, the estimated number of clients."""

    mean: Array
    variance: Array
    clients: float


def estimate_Lambda(noisy: Array, mean_Lambda: Array, deviation: float) -> LambdaEstimate:
    """Formula 4: the noisy Λ̃ shrunk towards κL₀, with κ and t of the largest likelihood of all entries.

    The prior of an entry is N(κL₀, tQ) with Q_ab = L₀_aa L₀_bb + L₀_ab²; ``deviation`` is s·C_Λ.
    """
    L0, diagonal = mean_Lambda, np.diag(mean_Lambda)
    Q = np.outer(diagonal, diagonal) + L0**2
    noise = np.where(np.eye(len(noisy)) > 0, 1.0, 0.5) * deviation**2 + np.finfo(float).tiny  # half, where svec has √2
    upper = np.triu_indices(len(noisy))
    x, y = L0[upper], noisy[upper]
    total = noise[upper] + SHRINKAGE_GRID[:, None] * Q[upper]  # a row for each t
    information = (x * x / total).sum(axis=1)
    kappa = (x * y / total).sum(axis=1) / information
    log_likelihood = -0.5 * (np.log(total).sum(axis=1) + ((y - kappa[:, None] * x) ** 2 / total).sum(axis=1))
    best = int(np.argmax(log_likelihood - 0.5 * np.log(information)))
    gain = SHRINKAGE_GRID[best] * Q / (noise + SHRINKAGE_GRID[best] * Q)
    mean = kappa[best] * L0 + gain * (noisy - kappa[best] * L0)
    variance = gain * noise + (1 - gain) ** 2 * L0**2 / information[best]  # the second term is κ's uncertainty
    values, vectors = np.linalg.eigh(mean)
    nearest = np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)  # positive semidefinite
    return LambdaEstimate(nearest, variance, float(max(kappa[best], 0.0)))


def weights_of_eta(coordinates: Coordinates, Lambda: LambdaEstimate, eta: Array, deviation: float) -> Array:
    """Formula 5: Λ̂S⁻¹, by which η̃ becomes precision times mean.

    The variance of η̃ has a term in θ², hence the rounds; ``deviation`` is s·C_η.
    """
    sigma2, L = coordinates.sigma2, Lambda.mean
    prior_variance = sigma2 * coordinates.prior_variance
    theta_squared = prior_variance
    tiny = 1e-12 * max(float(np.trace(L)) / len(L), np.finfo(float).tiny)  # so that S has an inverse
    for _ in range(WEIGHT_ROUNDS):
        S = sigma2 * L + np.diag(deviation**2 + Lambda.variance @ theta_squared + sigma2 * tiny)
        LS = np.linalg.solve(S, L).T
        covariance = np.linalg.inv(np.diag(1 / prior_variance) + LS @ L)
        theta_squared = (covariance @ (LS @ eta)) ** 2 + np.diag(covariance)
    return np.asarray(LS)


def combine_releases(
    vectors: Sequence[Array], clients: Sequence[float], scale: float, client_variance: float, *, retiring: bool = False
) -> tuple[Array, float]:
    """Formula 6: successive noisy sums of a study as one sum of the last one's size, and its noise scale."""
    w = weights_of_releases(clients, scale, client_variance, retiring=retiring)
    return np.tensordot(w, np.asarray(vectors, dtype=float), axes=1), float(scale * np.linalg.norm(w))


def weights_of_releases(
    clients: Sequence[float], scale: float, client_variance: float, *, retiring: bool = False
) -> Array:
    """Formula 6: sums of m_σ and m_τ clients have min(m_σ, m_τ) of them in common, and independent noise.

    With ``retiring`` clients the last sum may be small while the earlier ones stay true: then the weights are those of
    a sum of the largest one's size.
    """
    m = np.maximum(np.asarray(clients, dtype=float), 1.0)
    C = client_variance * np.minimum(m[:, None], m) + scale**2 * np.eye(len(m))
    w = np.linalg.solve(C, m)
    w *= (m.max() if retiring else m[-1]) / (w @ m)
    return w
