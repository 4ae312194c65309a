"""Settings by evidence: what a search found, how sure it is, and which parts the data do not ask for.

Components that add nothing to the evidence are left out, and said to be zero.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from motet.arrays import Array
from motet.errors import EmptyData, InvalidData
from motet.learning.components import MAX_VARIANCE, MIN_VARIANCE, Component, Components
from motet.learning.condensation import condensed, is_linear
from motet.learning.engine import Engine
from motet.learning.evidence import Method
from motet.learning.search import ROUGH_PRECISION, Search, Step, Summit
from motet.linalg import blas_limit
from motet.model.model import Model
from motet.model.tasks import FoldedTasks

ZERO_GAIN, LITTLE_GAIN = 0.05, 30.0  # nats: a component that gains less is called zero, or looked at more closely
SAMPLED_INPUTS = 20_000  # of which the inputs' spread, for lengths and variances to start from, is measured
FLAT, VAGUE = 1e-7, 0.1  # of the largest curvature; of a flat direction, along which data tell nothing apart


@dataclass(frozen=True, eq=False)
class Tuning:
    """What a search found: the ``model``, its components and how sure they are.

    ``theta`` are the parameters of ``components``; ``gains`` is the log evidence that each component adds over leaving
    it out, ``zero`` are those that were left out. ``noise_variance`` is σ²λ.
    """

    model: Model
    components: Components
    method: Method
    log_evidence: float
    noise_variance: float
    theta: Array
    gradient: Array
    information: Array
    cross: Array  # the information between the logarithm of the noise's variance and the parameters
    gains: dict[Component, float]
    zero: tuple[Component, ...]
    at_bounds: NDArray[np.bool_]
    log: tuple[Step, ...]
    converged: bool
    seconds: float
    rows: int
    free: int  # rows less the weights of the bias that the evidence integrates out
    table_rows: int = 0  # of the table of which the rows are a sample; 0 if they are all of it

    @property
    def covariance(self) -> Array:
        """Of the parameters; infinite for those that the data do not tell apart, or that are at a bound."""
        free = ~self.at_bounds
        size, values, vectors = self._curvature
        flat = values <= FLAT * values.max(initial=0.0)
        inverse = (vectors[:, ~flat] / values[~flat]) @ vectors[:, ~flat].T / np.outer(size, size)
        vague = (np.abs(vectors[:, flat]) > VAGUE).any(axis=1)
        inverse[vague] = inverse[:, vague] = np.inf
        out = np.full(self.information.shape, np.inf)
        out[np.ix_(free, free)] = inverse
        return out

    @property
    def joint_covariance(self) -> Array:
        """Of the logarithm of the noise's variance, which comes first, and of the parameters."""
        S = self.covariance
        known = np.isfinite(np.diag(S))
        variance = 2.0 / self.free  # of the first, θ known
        b = variance * self.cross[known]
        Sb = S[np.ix_(known, known)] @ b
        out = np.full((len(S) + 1, len(S) + 1), np.inf)
        out[1:, 1:] = S
        out[0, 0] = variance + b @ Sb
        out[0, 1:][known] = out[1:, 0][known] = -Sb
        return out

    @property
    def flat(self) -> list[list[str]]:
        """Names of parameters that the data do not tell apart, by direction."""
        _, values, vectors = self._curvature
        names = np.array(self.components.names)[~self.at_bounds]
        return [
            names[np.abs(vectors[:, k]) > VAGUE].tolist()
            for k in np.flatnonzero(values <= FLAT * values.max(initial=0.0))
        ]

    @property
    def _curvature(self) -> tuple[Array, Array, Array]:
        """Of the parameters that are not at a bound: sizes that make them comparable, eigenvalues and eigenvectors."""
        free = ~self.at_bounds
        A = self.information[np.ix_(free, free)]
        size = np.sqrt(np.maximum(np.diag(A), 1e-300))
        return size, *np.linalg.eigh(A / np.outer(size, size))

    @property
    def notes(self) -> list[str]:
        """What the data did not tell, in sentences."""
        return list(_notes(self))


@blas_limit
def tune_model(
    engine: Engine,
    *,
    method: Method = "REML",
    starts: int | None = None,
    report: Callable[[Step], None] | None = None,
    most: int | None = None,
) -> Tuning:
    """The settings of an engine's model that make its examples likeliest; its bias, basis and fixed numbers stay.

    ``starts`` is how many of the best starting values are followed; ``report`` gets every evaluation, of which there
    are at most ``most``.
    """
    return tune_tasks(engine.model, *examples_of(engine), method=method, starts=starts, report=report, most=most)


@blas_limit
def tune_tasks(
    model: Model,
    folded: FoldedTasks,
    X: Array,
    *,
    method: Method = "REML",
    starts: int | None = None,
    report: Callable[[Step], None] | None = None,
    most: int | None = None,
) -> Tuning:
    """The same for folded tasks on the inputs X, all of which have the model's own kernel."""
    search = Search(*searched(model, folded, X), method, report, most=most)
    sample = X[:: -(-len(X) // SAMPLED_INPUTS)] if len(X) else X
    return tuning_by(search, Components.of(model, sample), model.sigma2, starts)


def tuning_by(search: Search, components: Components, sigma2: float | None, starts: int | None = None) -> Tuning:
    """What a search finds from these components; ``sigma2`` is the unit of variances, if one is given."""
    begin = time.monotonic()
    summit, gains, zero = _needed(search, search.best(components, starts))
    best, at = summit.components, summit.slope
    noise_variance = at.sigma2 * best.searched.lam
    low, high = best.bounds.T
    return Tuning(
        model=best.model(sigma2, noise_variance),
        components=best,
        method=search.method,
        log_evidence=at.log_evidence,
        noise_variance=noise_variance,
        theta=best.theta,
        gradient=at.gradient,
        information=at.information,
        cross=at.cross,
        gains=gains,
        zero=zero,
        at_bounds=(best.theta <= low + 1e-6) | (best.theta >= high - 1e-6),
        log=tuple(search.log),
        converged=summit.reached,
        seconds=time.monotonic() - begin,
        rows=search.rows,
        free=at.free,
    )


def examples_of(engine: Engine) -> tuple[FoldedTasks, Array]:
    """All tasks, folded, on the inputs in use; they must have the model's own kernel."""
    groups = list(engine.tasks_by_kernel())
    if not groups:
        raise EmptyData("nothing to tune on: learn examples first")
    if len(groups) > 1 or groups[0][0] is not engine.kernels[0]:
        raise InvalidData("settings are tuned for tasks that share one kernel: leave kernels of single tasks out")
    _, folded, X = groups[0]
    used, input = np.unique(folded.input, return_inverse=True)
    return replace(folded, input=input.reshape(folded.input.shape)), X[used]


def searched(model: Model, folded: FoldedTasks, X: Array) -> tuple[FoldedTasks, Array]:
    """The tasks to search settings on: as they are, or short ones that say the same to a linear model."""
    return condensed(folded, X) if is_linear(model, X.shape[1]) else (folded, X)


# --- which components are needed ---


def _needed(search: Search, summit: Summit) -> tuple[Summit, dict[Component, float], tuple[Component, ...]]:
    """The summit of the components that gain something, with their gains, and those that were left out."""
    zero: list[Component] = []
    while True:
        gains = {component: _gain(search, summit, component) for component in summit.components.listed}
        weakest = min(gains, key=lambda component: gains[component].nats)
        rest = gains[weakest].rest
        if gains[weakest].nats < ZERO_GAIN:
            zero.append(weakest)
        if gains[weakest].nats >= ZERO_GAIN or rest is None:  # the last of the shifts stays, with the smallest variance
            return summit, {component: gain.nats for component, gain in gains.items()}, tuple(zero)
        summit = search.climb(rest)


@dataclass(frozen=True, eq=False)
class _Gain:
    """What a component adds to the log evidence, and the best that was found without it."""

    nats: float
    rest: Components | None


def _gain(search: Search, summit: Summit, component: Component) -> _Gain:
    """Over leaving it out: with all others as they are, and, if that is little, with all others at their best."""
    components, log_evidence = summit.components, summit.log_evidence
    rest = components.drop(component)
    if rest is None:  # the last of the shifts: all but nothing of it
        nothing = component.started(components.X, MIN_VARIANCE, 1.0)
        listed = tuple(nothing if one is component else one for one in components.listed)
        return _Gain(log_evidence - search.value(replace(components, listed=listed)), None)
    nats = log_evidence - search.value(rest)
    if ZERO_GAIN <= nats < LITTLE_GAIN and not search.is_spent:
        without = search.climb(rest, ROUGH_PRECISION)
        rest, nats = without.components, log_evidence - without.log_evidence
    return _Gain(nats, rest)


def _notes(tuning: Tuning) -> Iterator[str]:
    if tuning.table_rows:
        yield f"settings were chosen on a sample, {tuning.rows:,} of {tuning.table_rows:,} rows"
    for component in tuning.zero:
        yield f"{component.label} is zero: +0.0 log evidence over leaving it out"
    for names in tuning.flat:
        alone = f"the data do not show the {names[0]}: it has no interval" if len(names) == 1 else ""
        yield alone or f"the data do not tell the {' from the '.join(names)}: they have no interval"
    if any(np.isclose(c.size(tuning.components.X), MAX_VARIANCE, rtol=0.5) for c in tuning.components.listed):
        yield "the noise is at its lower bound, 0: repeated inputs would show it"
    if not tuning.converged:
        yield "the search stopped before it arrived: more starts, or fewer parameters, may help"
