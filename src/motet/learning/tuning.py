"""Settings by evidence: the variance of every component, length scales and covariances that make the outputs likeliest.

The search goes over ``Components``, ratios to the noise's variance, and profiles σ². Its steps are Newton's with the
average information as curvature (AI-REML), damped until they climb; L-BFGS-B goes on if they stop short. Components
that gain nothing are left out, and said to be zero.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from motet.arrays import Array
from motet.errors import EmptyData, InvalidData, MotetError, NoEvidence
from motet.learning.components import MAX_VARIANCE, MIN_VARIANCE, Component, Components, innermost
from motet.learning.engine import Engine
from motet.learning.evidence import Method
from motet.learning.gradient import Slope, slope
from motet.learning.system import System
from motet.linalg import blas_limit
from motet.model.model import Model
from motet.model.tasks import FoldedTasks

ZERO_GAIN, LITTLE_GAIN = 0.05, 30.0  # nats: a component that gains less is called zero, or looked at more closely
PRECISION, PRECISION_PER_ROW = 1e-6, 1e-9  # nats that a step must promise, or the search has arrived
ROUGH_PRECISION = 1e-2  # of the searches from several starts, of which one is finished
MAX_STEPS, MAX_TRIES = 60, 12
ROUNDING = 1e-10  # of the outputs
MAX_STEP, MAX_STEP_TO_ZERO = 2.0, 8.0  # of a logarithm, and of that of a small variance that becomes smaller
TOWARDS_ZERO = 0.9  # of a covariance's root in one step: at 0 itself its gradient is 0, and the search would stay there
SMALL_VARIANCE = 0.05  # of a component, in units of the noise's
FLAT, VAGUE = 1e-7, 0.1  # of the largest curvature; of a flat direction, along which data tell nothing apart
STARTS = (  # the noise's share of the variance, and length scales in units of the inputs' spread
    (0.3, 1.0),
    (0.1, 0.3),
    (0.6, 1.0),
    (0.05, 1.0),
    (0.3, 3.0),
    (0.3, 0.1),
)
MIN_STARTS, MAX_STARTS = 3, 1 + len(STARTS)  # whose evidence is compared
SMALL_ROWS, MEDIUM_ROWS = 2_000, 10_000  # below which four and two starts are followed, not one


@dataclass(frozen=True)
class Step:
    """A line of the log: from which start, the log evidence there, and the parameters."""

    start: int
    evaluation: int
    log_evidence: float
    theta: tuple[float, ...]


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
    bias_rank: int

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
        variance = 2.0 / (self.rows - (self.bias_rank if self.method == "REML" else 0))  # of the first, θ known
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


class Search:
    """The evidence of one set of examples under many models, with a log of what was tried."""

    def __init__(self, folded: FoldedTasks, X: Array, method: Method, report: Callable[[Step], None] | None) -> None:
        self.folded, self.X, self.method = folded, X, method
        self.log: list[Step] = []
        self.start = 0
        self._report = report

    def value(self, components: Components) -> float:
        """The log evidence; −∞ if there is none."""
        system = self._system(components)
        return -np.inf if system is None else system.evidence.log_evidence

    def slope(self, components: Components, theta: Array) -> Slope | None:
        """The evidence, its gradient and its curvature; None if there is none at these parameters."""
        system = self._system(components.at(theta))
        found = None if system is None else slope(system)
        if found is None or not np.isfinite(found.gradient).all():
            return None
        self.log.append(Step(self.start, len(self.log), found.log_evidence, tuple(theta.tolist())))
        if self._report is not None:
            self._report(self.log[-1])
        return found

    def _system(self, components: Components) -> System | None:
        """The tasks solved; None if they cannot be, or if nothing but rounding is left of the outputs."""
        try:
            system = System.of_tasks(components.searched, self.folded, self.X, self.method)
        except (MotetError, np.linalg.LinAlgError):
            return None
        left = system.evidence.sigma2 > (ROUNDING * np.abs(self.folded.y).max(initial=0.0)) ** 2
        return system if left and np.isfinite(system.evidence.log_evidence) else None

    # --- climbing ---

    def climb(self, components: Components, precision: float) -> tuple[Components, Slope, bool]:
        """The optimum near these components, what is known there, and whether it was reached."""
        bounds = components.bounds
        theta = np.clip(components.theta, *bounds.T)
        current = self.slope(components, theta)
        if current is None:
            raise NoEvidence("the rows are too few, or too alike, to choose settings by")
        damping = 1e-3
        for _ in range(MAX_STEPS):
            free = ~_held(theta, current.gradient, bounds)
            direction, gain = _newton(current, free, damping)
            if gain < precision:  # one step more costs little and gives the numbers two digits more
                there = np.clip(theta + direction, *bounds.T)
                last = self.slope(components, there)
                if last is not None and last.log_evidence > current.log_evidence:
                    theta, current = there, last
                return components.at(theta), current, True
            limits, better = _step_limits(components.at(theta)), None
            for _ in range(MAX_TRIES):
                direction, gain = _newton(current, free, damping)
                there = np.clip(theta + np.clip(direction, *limits), *bounds.T)
                trial = self.slope(components, there)
                if trial is not None and trial.log_evidence > current.log_evidence:
                    better, theta = trial, there
                    break
                damping = max(10.0 * damping, 1e-2)
            if better is None:
                break
            flat = better.log_evidence - current.log_evidence < precision
            current, damping = better, damping / 10.0
            if flat:
                return components.at(theta), current, True
        return self._climb_on(components, theta, current, precision)

    def _climb_on(
        self, components: Components, theta: Array, before: Slope, precision: float
    ) -> tuple[Components, Slope, bool]:
        """L-BFGS-B, which needs no curvature, on the evidence per row: else its first step goes to the bounds."""
        rows, bounds = float(self.folded.rows.sum()), components.bounds

        def objective(at: Array) -> tuple[float, Array]:
            found = self.slope(components, at)
            if found is None:
                return -before.log_evidence / rows + 1e3, np.zeros(len(at))
            return -found.log_evidence / rows, -found.gradient / rows

        limits = [(float(low), float(high)) for low, high in bounds]
        result = minimize(objective, theta, jac=True, method="L-BFGS-B", bounds=limits, options={"ftol": 1e-12})
        after = self.slope(components, result.x)
        if after is None or after.log_evidence < before.log_evidence:
            after, result.x = before, theta
        free = ~_held(result.x, after.gradient, bounds)
        _, gain = _newton(after, free, 1e-3)
        return components.at(result.x), after, bool(gain < max(1e3 * precision, 1e-3))


def _held(theta: Array, gradient: Array, bounds: Array) -> NDArray[np.bool_]:
    """Parameters at a bound that the evidence would cross."""
    low, high = bounds.T
    reach = 1e-9 * np.maximum(1.0, np.abs(theta))
    return ((theta <= low + reach) & (gradient < 0)) | ((theta >= high - reach) & (gradient > 0))


def _newton(at: Slope, free: NDArray[np.bool_], damping: float) -> tuple[Array, float]:
    """The damped Newton step over the free parameters, and the gain that it promises."""
    A, g = at.information[np.ix_(free, free)], at.gradient[free]
    size = np.maximum(np.diag(A), 1e-8)
    direction = np.zeros(len(at.gradient))
    try:
        direction[free] = np.linalg.solve(A + np.diag((damping + 1e-9) * size), g)
    except np.linalg.LinAlgError:
        direction[free] = g / size
    return direction, 0.5 * float(at.gradient @ direction)


def _step_limits(components: Components) -> tuple[Array, Array]:
    """How far one step may go, down and up: in logarithms, or in units of a covariance's own numbers."""
    down: list[float] = []
    up: list[float] = []
    for component in components.listed:
        if component.has_own_scale:
            size = np.sqrt(np.maximum(np.diag(innermost(component.kernel).C), 1e-12))
            sizes = [MAX_STEP * float(size[a]) for a, _ in zip(*np.tril_indices(len(size)))]
            is_diagonal = np.equal(*np.tril_indices(len(size)))
            down += np.where(is_diagonal, TOWARDS_ZERO * component.kernel.theta, sizes).tolist()
            up += sizes
        else:
            count = len(component.scaled.theta)
            is_small = component.size(components.X) < SMALL_VARIANCE
            down += [MAX_STEP_TO_ZERO if is_small else MAX_STEP, *[MAX_STEP] * (count - 1)]
            up += [MAX_STEP] * count
    return -np.array(down), np.array(up)


# --- where to start ---


def _starts(components: Components) -> Iterator[Components]:
    """As given, and with the variance and the lengths divided otherwise."""
    yield components
    for noise_share, length in STARTS:
        ratio = (1.0 - noise_share) / noise_share / len(components.listed)
        started = (component.started(components.X, ratio, length) for component in components.listed)
        yield replace(components, listed=tuple(started))


# --- the whole search ---


@blas_limit
def tune_model(
    engine: Engine, *, method: Method = "REML", starts: int | None = None, report: Callable[[Step], None] | None = None
) -> Tuning:
    """The settings of an engine's model that make its examples likeliest; its bias, basis and fixed numbers stay.

    ``starts`` is how many of the best starting values are followed; ``report`` gets every evaluation.
    """
    begin = time.monotonic()
    folded, X = examples_of(engine)
    search = Search(folded, X, method, report)
    components = Components.of(engine.model, X)
    rows = int(folded.rows.sum())
    precision = max(PRECISION, PRECISION_PER_ROW * rows)  # the evidence of many rows is rounded
    count = starts or (4 if rows < SMALL_ROWS else 2 if rows < MEDIUM_ROWS else 1)
    candidates = islice(_starts(components), MAX_STARTS if count > 1 else MIN_STARTS)
    ranked = sorted(candidates, key=search.value, reverse=True)[:count]
    climbs = []
    for search.start, start in enumerate(ranked):
        climbs.append(search.climb(start, precision if count == 1 else ROUGH_PRECISION))
    best, at, converged = max(climbs, key=lambda climb: climb[1].log_evidence)
    if count > 1:
        best, at, converged = search.climb(best, precision)
    zero: list[Component] = []
    while True:
        gains = {component: _gain(search, best, component, at.log_evidence) for component in best.listed}
        weakest = min(gains, key=lambda component: gains[component].nats)
        if gains[weakest].nats >= ZERO_GAIN:
            break
        zero.append(weakest)
        rest = gains[weakest].rest
        if rest is None:  # the last of the shifts stays, with the smallest variance
            break
        best, at, converged = search.climb(rest, precision)
    system = System.of_tasks(best.searched, folded, X, method)
    theta = best.theta
    low, high = best.bounds.T
    noise_variance = at.sigma2 * best.searched.lam
    return Tuning(
        model=best.model(engine.model.sigma2, noise_variance),
        components=best,
        method=method,
        log_evidence=at.log_evidence,
        noise_variance=noise_variance,
        theta=theta,
        gradient=at.gradient,
        information=at.information,
        cross=at.cross,
        gains={component: gain.nats for component, gain in gains.items()},
        zero=tuple(zero),
        at_bounds=(theta <= low + 1e-6) | (theta >= high - 1e-6),
        log=tuple(search.log),
        converged=converged,
        seconds=time.monotonic() - begin,
        rows=rows,
        bias_rank=system.posterior.factor.bias_rank,
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


@dataclass(frozen=True, eq=False)
class _Gain:
    """What a component adds to the log evidence, and the best that was found without it."""

    nats: float
    rest: Components | None


def _gain(search: Search, components: Components, component: Component, log_evidence: float) -> _Gain:
    """Over leaving it out: with all others as they are, and, if that is little, with all others at their best."""
    rest = components.drop(component)
    if rest is None:  # the last of the shifts: all but nothing of it
        nothing = component.started(components.X, MIN_VARIANCE, 1.0)
        listed = tuple(nothing if one is component else one for one in components.listed)
        return _Gain(log_evidence - search.value(replace(components, listed=listed)), None)
    nats = log_evidence - search.value(rest)
    if ZERO_GAIN <= nats < LITTLE_GAIN:
        rest, at, _ = search.climb(rest, ROUGH_PRECISION)
        nats = log_evidence - at.log_evidence
    return _Gain(nats, rest)


def _notes(tuning: Tuning) -> Iterator[str]:
    for component in tuning.zero:
        yield f"{component.label} is zero: +0.0 log evidence over leaving it out"
    for names in tuning.flat:
        alone = f"the data do not show the {names[0]}: it has no interval" if len(names) == 1 else ""
        yield alone or f"the data do not tell the {' from the '.join(names)}: they have no interval"
    if any(np.isclose(c.size(tuning.components.X), MAX_VARIANCE, rtol=0.5) for c in tuning.components.listed):
        yield "the noise is at its lower bound, 0: repeated inputs would show it"
    if not tuning.converged:
        yield "the search stopped before it arrived: more starts, or fewer parameters, may help"
