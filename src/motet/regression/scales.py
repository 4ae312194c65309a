"""Scales on which outputs are learned: as they are, or by their logarithms; predictions are of the outputs themselves.

The model is Gaussian on the scale that it learns, so a prediction of an output is a normal or a lognormal distribution.
A function is the mean of the observations that it would give: of logarithms f with noise variance n it is exp(f + n/2),
so that the mean of a prediction is that of an observation as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from scipy.special import ndtri

from motet.arrays import Array
from motet.errors import InvalidData

Name: TypeAlias = Literal["identity", "log"]
MAX_EXPONENT = 700.0  # of what a float holds


@dataclass(frozen=True, eq=False)
class Normal:
    """N(mean, std²)."""

    mean: Array
    std: Array

    def quantile(self, p: float) -> Array:
        return self.mean + ndtri(p) * self.std

    def log_density(self, y: Array) -> Array:
        return np.asarray(-0.5 * (np.log(2 * np.pi * self.std**2) + ((y - self.mean) / self.std) ** 2))


@dataclass(frozen=True, eq=False)
class LogNormal:
    """exp(z) with z ~ N(location, scale²): mean exp(location + scale²/2), variance mean² (exp(scale²) − 1)."""

    location: Array
    scale: Array

    @property
    def mean(self) -> Array:
        return _exp(self._log_mean)

    @property
    def std(self) -> Array:
        with np.errstate(divide="ignore"):
            log_ratio = 0.5 * (self.scale**2 + np.log(-np.expm1(-(self.scale**2))))
        return _exp(self._log_mean + log_ratio)

    def quantile(self, p: float) -> Array:
        return _exp(self.location + ndtri(p) * self.scale)

    def log_density(self, y: Array) -> Array:
        return Normal(self.location, self.scale).log_density(np.log(y)) - np.log(y)

    @property
    def _log_mean(self) -> Array:
        return self.location + self.scale**2 / 2


Distribution: TypeAlias = Normal | LogNormal
Moments: TypeAlias = Callable[[bool], tuple[Array, Array]]  # mean and deviation: of an observation, or of the function


class Scale:
    """Outputs as they are."""

    name: Name = "identity"
    of_output = ""  # what was learned, in words

    def titled(self, title: str) -> str:
        """A table's title, if its numbers are of what is learned."""
        return f"{title} ({self.of_output})" if self.of_output else title

    def learned(self, y: Array) -> Array:
        """What is learned of outputs."""
        return y

    def outputs(self, z: Array) -> Array:
        """The outputs of which that is learned."""
        return z

    def log_jacobian(self, y: Array) -> Array:
        """The logarithm of the derivative of what is learned: a density of it becomes one of outputs."""
        return np.zeros_like(y)

    def observed(self, mean: Array, std: Array) -> Distribution:
        """Observations, of which these are the moments on the scale that is learned."""
        return Normal(mean, std)

    def predicted(self, moments: Moments, *, observation: bool) -> Distribution:
        """Observations or the function, of which ``moments`` has both, on the scale that is learned."""
        return Normal(*moments(observation))


class Log(Scale):
    """Logarithms of outputs, all above 0: effects multiply."""

    name: Name = "log"
    of_output = "of the logarithm of the output"

    def learned(self, y: Array) -> Array:
        if not (y > 0).all():
            at = int(np.argmax(~(y > 0)))
            raise InvalidData(
                f'expected outputs above 0, whose logarithm is learned (target="log"), got y = {y[at]:.6g}: leave such '
                'rows out, or fit all with target="identity"'
            )
        return np.log(y)

    def outputs(self, z: Array) -> Array:
        return _exp(z)

    def log_jacobian(self, y: Array) -> Array:
        return -np.log(y)

    def observed(self, mean: Array, std: Array) -> Distribution:
        return LogNormal(mean, std)

    def predicted(self, moments: Moments, *, observation: bool) -> Distribution:
        mean, std_observed = moments(True)
        if observation:
            return LogNormal(mean, std_observed)
        _, std = moments(False)
        return LogNormal(mean + (std_observed**2 - std**2) / 2, std)


def _exp(z: Array) -> Array:
    """What would overflow is as large as floats are."""
    return np.asarray(np.exp(np.minimum(z, MAX_EXPONENT)))


IDENTITY, LOG = Scale(), Log()
SCALES: dict[str, Scale] = {scale.name: scale for scale in (IDENTITY, LOG)}


def quantiles(distribution: Distribution, q: float | Sequence[float]) -> Array:
    """A column for each of ``q``; of a single number, one for each row alone."""
    levels = np.asarray(q, dtype=float)
    if levels.ndim > 1 or not ((levels > 0) & (levels < 1)).all():
        raise InvalidData(
            f"q must be numbers between 0 and 1, got {q!r:.60}: 0.05 and 0.95 are the ends of a 90 % band"
        )
    if levels.ndim == 0:
        return distribution.quantile(float(levels))
    return np.stack([distribution.quantile(p) for p in levels.tolist()], axis=-1)
