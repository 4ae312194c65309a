"""The best estimate from noisy sums.

The noise is public, so it is modelled: the noisy Λ is drawn towards the shape that clients of the prior have, and the
weights of the average get their posterior given a Λ and an η that are uncertain. The result goes into the slots of Λ
and η, so that a client's own formulas give just this posterior and add the client's data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from motet.arrays import Array
from motet.privacy.clipping import Clip
from motet.privacy.coordinates import Coordinates

AMOUNTS = np.logspace(-4, 8, 61)  # t: how far Λ may be from the prior's shape
ROUNDS = 6


@dataclass(frozen=True, eq=False)
class Shaped:
    """Λ̂ and the variances P of its entries; ``clients`` is κ̂, their number as the noisy matrix tells it."""

    Lambda: Array
    P: Array
    clients: float


def shaped(noisy: Array, shape: Array, deviation: float) -> Shaped:
    """Λ̃ drawn towards κL₀, κ and the amount t by the likelihood of all its entries.

    An entry's prior is N(κL₀, t(L₀_aa L₀_bb + L₀_ab²)); its noise is ``deviation``² on the diagonal, half of it off.
    """
    a, b = np.triu_indices(len(noisy))
    y, x = noisy[a, b], shape[a, b]
    noise = np.where(a == b, 1.0, 0.5) * deviation**2 + np.finfo(float).tiny
    q = np.diag(shape)[a] * np.diag(shape)[b] + x**2
    total = noise + AMOUNTS[:, None] * q
    information = (x * x / total).sum(axis=1)
    kappa = (x * y / total).sum(axis=1) / information
    fit = -0.5 * (np.log(total).sum(axis=1) + ((y - kappa[:, None] * x) ** 2 / total).sum(axis=1))
    best = int(np.argmax(fit - 0.5 * np.log(information)))
    kept = AMOUNTS[best] * q / total[best]
    mean = kappa[best] * x + kept * (y - kappa[best] * x)
    variance = kept * noise + (1 - kept) ** 2 * x**2 / information[best]
    return Shaped(_positive(_whole(mean)), _whole(variance), float(max(kappa[best], 0.0)))


def posterior(
    at: Coordinates, found: Shaped, eta: Array, deviation: float, *, rounds: int = ROUNDS
) -> tuple[Array, Array]:
    """Precision of the weights less the prior's, and precision times mean, in units of σ².

    η̃ ~ N(Λ̂θ, σ²Λ̂ + noise of η + Var(Λ̃)θ²): the last term needs θ², hence a few rounds.
    """
    sigma2, prior = at.sigma2, at.sigma2 * at.prior
    squares, L = prior, found.Lambda
    tiny = 1e-12 * max(float(np.trace(L)) / len(L), np.finfo(float).tiny)
    for _ in range(rounds):
        S = sigma2 * L + np.diag(deviation**2 + found.P @ squares + sigma2 * tiny)
        gain = np.linalg.solve(S, L).T  # Λ̂S⁻¹
        precision = gain @ L
        covariance = np.linalg.inv(np.diag(1 / prior) + precision)
        mean = covariance @ (gain @ eta)
        squares = mean**2 + np.diag(covariance)
    return sigma2 * (precision + precision.T) / 2, sigma2 * (gain @ eta)


def combined(
    vectors: Sequence[Array], clients: Sequence[float], scale: float, spread: float, *, retiring: bool = False
) -> tuple[Array, float]:
    """Successive noisy sums of a study as one, for the last one's size, and its effective noise scale.

    Sums of m_σ and m_τ clients share min(m_σ, m_τ) of them; each has noise of its own. Where clients retire the last
    one may be small and what was known of the others stays true: then for the largest one's size.
    """
    m = np.maximum(np.asarray(clients, dtype=float), 1.0)
    C = spread * np.minimum(m[:, None], m) + scale**2 * np.eye(len(m))
    w = np.linalg.solve(C, m)
    w *= (m.max() if retiring else m[-1]) / (w @ m)
    return np.tensordot(w, np.asarray(vectors, dtype=float), axes=1), float(scale * np.linalg.norm(w))


def forecast(clip: Clip, clients: int, scale: float) -> float:
    """Mean variance of the average over the public points when so many clients of the prior have come, units of σ²."""
    at, shape = clip.at, clip.shape
    allowed = clients * (np.outer(np.diag(shape), np.diag(shape)) + shape**2)
    noise = (scale * clip.C_Lambda) ** 2 * np.where(np.eye(len(shape)) > 0, 1.0, 0.5)
    found = Shaped(clients * shape, allowed * noise / (allowed + noise), float(clients))
    precision, _ = posterior(at, found, np.zeros(len(shape)), scale * clip.C_eta, rounds=1)
    covariance = np.linalg.inv(np.diag(1 / at.prior) + precision)
    missed = at.model.common_share * at.basis.residual(at.points, at.basis.e(at.points))
    return float(np.mean(np.einsum("ij,jk,ik->i", at.F, covariance, at.F) + missed))


def _whole(upper: Array) -> Array:
    k = int(np.sqrt(2 * len(upper)))
    a, b = np.triu_indices(k)
    out = np.empty((k, k))
    out[a, b] = out[b, a] = upper
    return out


def _positive(L: Array) -> Array:
    values, vectors = np.linalg.eigh(L)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
