"""The evidence of a model: how probable it makes the outputs, from the sums over tasks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from motet.arrays import Array
from motet.learning.batches import Batch
from motet.learning.information import Information
from motet.release.posterior import Factor, Posterior

Method: TypeAlias = Literal["REML", "ML"]  # restricted: with the bias integrated out; or at the bias's best weights


@dataclass(frozen=True)
class Evidence:
    """The ``log_evidence`` of the outputs, ``sigma2`` estimated or given, ``quadratic`` the form Q."""

    log_evidence: float
    sigma2: float
    quadratic: float

    @classmethod
    def of(
        cls,
        total: Information,
        posterior: Posterior,
        residual: float,
        lam: float,
        sigma2: float | None = None,
        method: Method = "REML",
    ) -> Evidence:
        """From the sums over all tasks; σ² is profiled unless given. ``residual`` is Σ rʲᵀRʲrʲ with rʲ = yʲ − Fⱼθ̂."""
        factor, weights = posterior.factor, posterior.theta[: posterior.factor.rank]
        share, d = factor.share, factor.bias_rank if method == "REML" else 0
        prior = float(weights @ weights) / share if share else 0.0
        Q = prior + residual + total.squares / lam
        free = total.rows - d
        factor = factor if method == "REML" else without_bias(total, factor)
        log_det = factor.log_det - total.log_det - (d * np.log(share) if d else 0.0)
        log_det += total.log_noise + (total.rows - total.folded) * np.log(lam)
        if sigma2 is None:
            sigma2 = Q / free if free > 0 else float("nan")
        if free <= 0 or not sigma2 > 0:  # too few rows, or a fit without any error
            return cls(float("nan") if free <= 0 else float("inf"), sigma2, Q)
        return cls(-0.5 * float(free * np.log(2 * np.pi * sigma2) + log_det + Q / sigma2), sigma2, Q)


def without_bias(total: Information, factor: Factor) -> Factor:
    """The factor of the basis's own columns alone, as if the bias were known."""
    r = factor.rank
    return Factor(total.G[:r, :r], np.ones(r), factor.share)


def residual_quadratic(batches: Iterable[Batch], F: Array, theta: Array) -> float:
    """Σ rʲᵀRʲrʲ; the form that keeps its digits under an offset in y."""
    fitted = F @ theta
    parts = (part for batch in batches for part in batch.parts(2 * batch.h.shape[1]))
    residuals = ((part.R, part.y - fitted[part.h]) for part in parts)
    return sum(float(np.vdot(r, R @ r[:, :, None])) for R, r in residuals)
