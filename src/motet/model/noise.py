"""The noise of a row: how an output scatters about its task's function.

The one place that reads λ: covariances (``Shift``), the evidence, deviations of observations and the scale of private
releases ask a model's ``Noise``. Another likelihood is another ``Noise`` of its model. Its rows are pseudo-outputs of
noise w = 1/W with W the curvature of the log likelihood, and σ² is held, so that covariances and the evidence stay as
they are; what it changes is the variance of a new observation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from motet.arrays import Array

Number = TypeVar("Number", float, Array)


@dataclass(frozen=True)
class Noise:
    """Gaussian, of variance σ²λw for a row of relative noise w; all variances here are in units of σ².

    Variances are proportional to w: repeats of an input are folded, and long tasks condensed, by the weights 1/w.
    """

    lam: float
    sigma2: float | None = None  # held; None: estimated

    def variance(self, w: Number) -> Number:
        """λw, of rows: on the diagonal of a task's covariance."""
        return self.lam * w

    def relative(self, variance: Number) -> Number:
        """The w of a variance: its ratio to the noise of a row of w = 1."""
        return variance / self.variance(1.0)

    def repeats(self, count: Number, squares: Number, log_noise: Number) -> tuple[Number, Number]:
        """What folding takes out of the evidence's quadratic form, SS/λ, and out of its log determinant.

        ``count`` rows repeat an input, ``squares`` is SS = Σ(yᵢ−ȳ)²/wᵢ and ``log_noise`` Σ log wᵢ − Σ log w̄.
        """
        return self.relative(squares), log_noise + count * np.log(self.variance(1.0))

    def scale(self, quadratic: float, free: int) -> float:
        """σ²: held, or estimated from the quadratic form Q of ``free`` rows; NaN without rows."""
        if self.sigma2 is not None:
            return self.sigma2
        return quadratic / free if free > 0 else float("nan")

    def observation(self, w: Number) -> Number:
        """The variance of a new observation about the function: in predictions, forecasts and the prior's scale."""
        return self.variance(w)
