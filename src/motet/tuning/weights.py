"""Noise that differs by row: Student's t as weights of rows, or a scale for each task; multipliers of rows' noise.

A row of relative noise w is learned with the noise mw, so covariances, evidence, releases and forgetting are what they
always are. A multiplier of 1 is the noise of an observation of a new task: σ²λ is the variance of the normal
distribution whose 90 % band is that of such an observation. ``robust`` chooses among these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln
from scipy.stats import norm, t

from motet.arrays import Array, Index, match
from motet.engine.left_out import LeftOut
from motet.engine.system import System
from motet.tables.rows import Rows

NoiseKind: TypeAlias = Literal["gaussian", "tasks", "student"]
UPPER_LEVEL = 0.95  # the upper end of the band that a normal distribution of σ²λ shares with an observation


@dataclass(frozen=True, eq=False)
class Residuals:
    """Of every row: its task, and y without itself less its prediction, in closed form.

    ``residual`` is (Py)ᵢ/Pᵢᵢ; ``function`` and ``noise`` are the variances of the function there, and of an observation
    of multiplier 1. ``squares`` is (λmw)(Py)ᵢ²/σ² and ``free`` its expectation (λmw)Pᵢᵢ: summed over a task, half of
    their difference is the slope of the log evidence by the logarithm of the task's noise.
    """

    task: Index
    residual: Array
    function: Array
    noise: Array
    squares: Array
    free: Array

    @classmethod
    def of(cls, system: System, rows: Rows, multiplier: Array) -> Residuals:
        """Of rows that the ``system`` has with their noise multiplied."""
        left, noise, sigma2 = LeftOut.of(system), system.model.noise, system.evidence.sigma2
        inputs: dict[bytes, int] = {}
        match(system.X, inputs)
        key = rows.task * len(system.X) + match(system.model.rows(rows.X), inputs)[0]
        w = multiplier * rows.noise
        Py, precision = left.of_rows(noise, np.searchsorted(left.key, key), rows.y, w)
        is_told = precision > 0  # a row that alone tells a weight of the bias is not told by others: NaN
        Py, precision = np.where(is_told, Py, 0.0), np.where(is_told, precision, 1.0 / noise.variance(w))
        function = np.maximum(sigma2 * (1.0 / precision - noise.variance(w)), 0.0)
        own, base = noise.variance(w), sigma2 * noise.variance(rows.noise)
        return cls(rows.task, Py / precision, function, base, own * Py**2 / sigma2, own * precision)

    def sums(self, multiplier: Array) -> tuple[Array, Array]:
        """Of every task the squares in units of a multiplier of 1, and their degrees of freedom."""
        return np.bincount(self.task, multiplier * self.squares), np.bincount(self.task, self.free)

    def standardised(self, noise: Array | float) -> tuple[Array, Array]:
        """Residuals in units of their deviation if an observation's noise is multiplied so, and that deviation."""
        std = np.sqrt(self.function + noise * self.noise)
        return self.residual / std, std


class RowNoise(Protocol):
    """How the noise of rows differs: from residuals with some multipliers to those of the next round."""

    @property
    def kind(self) -> NoiseKind: ...

    @property
    def words(self) -> str: ...

    def multipliers(self, rows: Residuals, multiplier: Array) -> Array: ...

    def log_scores(self, rows: Residuals, multiplier: Array) -> Array:
        """Of every row without itself."""


@dataclass(frozen=True)
class Equal:
    """Normal noise, of one scale."""

    kind: NoiseKind = "gaussian"
    words: str = "normal noise of one scale"

    def multipliers(self, rows: Residuals, multiplier: Array) -> Array:  # noqa: ARG002
        return np.ones(len(rows.task))

    def log_scores(self, rows: Residuals, multiplier: Array) -> Array:  # noqa: ARG002
        return log_density(*rows.standardised(1.0))


@dataclass(frozen=True)
class Student:
    """Noise of Student's t with ν ``degrees`` of freedom: the fewer, the heavier its tails.

    It is normal noise whose precision has a gamma distribution. With the expectation of that precision given the
    residual r of a prediction without the row, the row weighs (ν + 1)/(ν + r²/s²), s² the scale of such residuals.
    """

    degrees: float
    kind: NoiseKind = "student"

    @property
    def words(self) -> str:
        return f"noise of Student's t with {self.degrees:g} degrees of freedom"

    @property
    def band_ratio(self) -> float:
        """The variance of the normal distribution that has the 90 % band of t of scale 1."""
        return float((t.ppf(UPPER_LEVEL, self.degrees) / norm.ppf(UPPER_LEVEL)) ** 2)

    def weights(self, rows: Residuals) -> Array:
        z, _ = rows.standardised(1.0 / self.band_ratio)
        return (self.degrees + 1.0) / (self.degrees + z**2)

    def multipliers(self, rows: Residuals, multiplier: Array) -> Array:  # noqa: ARG002
        return 1.0 / (self.band_ratio * self.weights(rows))

    def log_scores(self, rows: Residuals, multiplier: Array) -> Array:  # noqa: ARG002
        return log_density(*rows.standardised(1.0 / self.band_ratio), self.degrees)


@dataclass(frozen=True)
class OfTasks:
    """A scale of the noise for each task, of an inverse gamma distribution with ν ``degrees`` of freedom.

    With the sums of ``Residuals`` in a task, Q of squares and n of their expectation, and τ the usual scale at its
    likeliest, that of a task is (ντ + Q)/(ν + n): there the evidence times this distribution has its summit.
    """

    degrees: float
    kind: NoiseKind = "tasks"
    words: str = "a scale of the noise for each task"

    def scales(self, rows: Residuals, multiplier: Array) -> tuple[Array, Array, float]:
        """Of every task the scale, its degrees of freedom, and the scale of an observation of a new task."""
        Q, n = rows.sums(multiplier)
        tau = usual_scale(Q, n, self.degrees)
        scale, degrees = (self.degrees * tau + Q) / (self.degrees + n), self.degrees + n
        return scale, degrees, mixture_variance(scale, degrees)

    def multipliers(self, rows: Residuals, multiplier: Array) -> Array:
        scale, _, new = self.scales(rows, multiplier)
        return np.asarray(scale / new)[rows.task]

    def observations(self, rows: Residuals, multiplier: Array) -> Array:
        """Of every task the multiplier of an observation's noise, with what is not known of its scale."""
        scale, degrees, new = self.scales(rows, multiplier)
        return np.asarray(scale / new * (t.ppf(UPPER_LEVEL, degrees) / norm.ppf(UPPER_LEVEL)) ** 2)

    def log_scores(self, rows: Residuals, multiplier: Array) -> Array:
        """The scale of a row's task is that without the row."""
        Q, n = rows.sums(multiplier)
        degrees = self.degrees + np.maximum(n[rows.task] - rows.free, 0.0)
        rest = np.maximum(Q[rows.task] - multiplier * rows.squares, 0.0)
        scale = (self.degrees * usual_scale(Q, n, self.degrees) + rest) / degrees
        return log_density(*rows.standardised(scale), degrees)


def usual_scale(Q: Array, n: Array, degrees: float) -> float:
    """The likeliest τ: where the mean of τ/s over tasks is 1."""

    def above(log_tau: float) -> float:
        tau = np.exp(log_tau)
        return float(np.mean(tau * (degrees + n) / (degrees * tau + Q))) - 1.0

    middle = float(np.log(Q.sum() / n.sum()))
    return float(np.exp(brentq(above, middle - 60.0, middle + 60.0, xtol=1e-12)))


def evidence_of_degrees(Q: Array, n: Array, degrees: float) -> float:
    """The log evidence of ν, less that of equal noise: Q/s is χ² with n degrees of freedom."""
    a, b, nu, tau = 0.5 * n, 0.5 * Q, 0.5 * degrees, usual_scale(Q, n, degrees)
    prior = nu * np.log(nu * tau) - gammaln(nu)
    differing = prior + gammaln(nu + a) - (nu + a) * np.log(nu * tau + b)
    one = Q.sum() / n.sum()
    return float((differing + a * np.log(one) + b / one).sum())


def mixture_variance(scale: Array, degrees: Array) -> float:
    """Of the normal distribution with the 90 % band of an observation of any of the tasks."""

    def above(log_end: float) -> float:
        return float(np.mean(t.sf(np.exp(log_end) / np.sqrt(scale), degrees))) - (1.0 - UPPER_LEVEL)

    middle = 0.5 * float(np.log(np.median(scale)))
    end = np.exp(brentq(above, middle - 60.0, middle + 60.0, xtol=1e-12))
    return float((end / norm.ppf(UPPER_LEVEL)) ** 2)


def log_density(z: Array, std: Array | float, degrees: Array | float = np.inf) -> Array:
    """Of standardised residuals of Student's t, or of a normal distribution."""
    return np.asarray(t.logpdf(z, degrees) - np.log(std))
