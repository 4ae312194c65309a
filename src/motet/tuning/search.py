"""Maximum (restricted) likelihood by damped Newton steps with average information, then L-BFGS-B; starts, and a log.

Parameters are those of ``Components``, with σ² at its best for each. Steps are Newton's with the average information as
curvature (AI-REML), damped until they climb; L-BFGS-B goes on if they stop short. With little data several starts are
followed, because the evidence may then have several summits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from motet.arrays import Array
from motet.engine.condensation import condensed, is_linear
from motet.engine.padding import padded
from motet.engine.system import Evidence, Method, System
from motet.errors import MotetError, NoEvidence
from motet.kernels.algebra import innermost
from motet.model.tasks import FoldedTasks
from motet.tables.readings import ROUNDING, one_value
from motet.tuning.components import Components
from motet.tuning.gradient import Slope, slope

PRECISION, PRECISION_PER_ROW = 1e-6, 1e-9  # nats that a step must promise, or the search has arrived
ROUGH_PRECISION = 1e-2  # of the climbs from several starts, of which one is finished
MAX_STEPS, MAX_TRIES = 60, 12
FIRST_LINES = 12  # of the log, for climbs that begin when the search has to stop
MAX_STEP, MAX_STEP_TO_ZERO = 2.0, 8.0  # of a logarithm, and of that of a small variance that becomes smaller
TOWARDS_ZERO = 0.9  # of a covariance's root in one step: at 0 itself its gradient is 0, and the search would stay there
SMALL_VARIANCE = 0.05  # of a component, in units of the noise's
STARTS = (  # the noise's share of the variance, and length scales in units of the inputs' deviation
    (0.3, 1.0),
    (0.1, 0.3),
    (0.6, 1.0),
    (0.05, 1.0),
    (0.3, 3.0),
    (0.3, 0.1),
    (0.1, 0.1),
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
class Summit:
    """Where a climb ended, what is known of the evidence there, and whether that is an optimum."""

    components: Components
    slope: Slope
    reached: bool

    @property
    def height(self) -> float:
        return self.slope.height


class Objective(Protocol):
    """What is maximised: the log evidence of some rows as a function of a model's components."""

    @property
    def method(self) -> Method: ...

    @property
    def rows(self) -> int: ...

    @property
    def y(self) -> Array:
        """Outputs, or some of them."""

    def value(self, components: Components) -> float:
        """The log evidence; −∞ if there is none."""

    def slope(self, components: Components) -> Slope | None:
        """The evidence, its gradient and its curvature; None if there is none."""


Maximised = TypeVar("Maximised", bound=Objective)


@dataclass(frozen=True)
class NoisePrior:
    """p(v) ∝ (1 + little/v)^(−rows/2) of the noise's variance v: flat above ``little``, and below it as if so many rows
    had been seen whose residuals are not that small."""

    little: float
    rows: float

    def log_density(self, variance: float) -> float:
        return -0.5 * self.rows * float(np.log1p(self.little / variance))

    def derivative(self, variance: float) -> float:
        """By log v."""
        return 0.5 * self.rows * self.little / (variance + self.little)


@dataclass(frozen=True, eq=False)
class TaskObjective:
    """The log evidence of folded tasks on the inputs X, and the prior of their noise."""

    folded: FoldedTasks
    X: Array
    method: Method = "REML"
    prior: NoisePrior | None = None

    @cached_property
    def padded(self) -> FoldedTasks:
        """The tasks in few sizes; those that are condensed have few already."""
        return padded(self.folded)

    @cached_property
    def _condensed(self) -> tuple[FoldedTasks, Array]:
        """Short tasks that say the same to a linear model."""
        return condensed(self.folded, self.X)

    @property
    def rows(self) -> int:
        return int(self.folded.rows.sum())

    @property
    def y(self) -> Array:
        return self.folded.y

    def value(self, components: Components) -> float:
        system = self._system(components)
        if system is None:
            return -np.inf
        density = 0.0 if self.prior is None else self.prior.log_density(noise_variance(system))
        return system.evidence.log_evidence + density

    def slope(self, components: Components) -> Slope | None:
        system = self._system(components)
        if system is None:
            return None
        at = slope(system)
        if self.prior is None:
            return at
        variance, by_parameter = noise_variance(system), -2.0 * at.cross / at.free  # ∂ log σ², with σ² at its best
        gradient = at.gradient + self.prior.derivative(variance) * by_parameter
        return replace(at, gradient=gradient, log_prior=self.prior.log_density(variance))

    def _system(self, components: Components) -> System | None:
        model = components.searched
        tasks = self._condensed if is_linear(model, self.X.shape[1]) else (self.padded, self.X)
        try:
            system = System.of_tasks(model, *tasks, self.method)
        except (MotetError, np.linalg.LinAlgError):
            return None
        return system if is_usable(system.evidence, float(np.abs(self.y).max(initial=0.0))) else None


def noise_variance(system: System) -> float:
    """Of an observation of weight 1."""
    return system.evidence.sigma2 * system.model.noise.variance(1.0)


def is_usable(evidence: Evidence, largest_output: float) -> bool:
    """Whether there is an evidence, and more than rounding is left of the outputs."""
    return evidence.sigma2 > (ROUNDING * largest_output) ** 2 and bool(np.isfinite(evidence.log_evidence))


class Search(Generic[Maximised]):
    """A search for the components of the largest objective, with a log of what was tried; ``report`` gets every line.

    It stops where it is before the log has more than ``most`` lines.
    """

    def __init__(
        self, objective: Maximised, report: Callable[[Step], object] | None = None, *, most: int | None = None
    ) -> None:
        self.objective: Maximised = objective
        self.log = list[Step]()
        self.precision = max(PRECISION, PRECISION_PER_ROW * objective.rows)  # the evidence of many rows is rounded
        self._start = 0
        self._report, self._most = report, most

    @property
    def is_spent(self) -> bool:
        """Whether no line of the log is left but for the first of each climb to come."""
        return self._most is not None and len(self.log) >= self._most - FIRST_LINES

    def slope(self, components: Components, theta: Array) -> Slope | None:
        """The evidence, its gradient and its curvature; None if there is none at these parameters."""
        at = self.objective.slope(components.at(theta))
        if at is None or not np.isfinite(at.gradient).all():
            return None
        self.log.append(Step(self._start, len(self.log), at.log_evidence, tuple(theta.tolist())))
        if self._report is not None:
            self._report(self.log[-1])
        return at

    def best(self, components: Components, starts: int | None = None) -> Summit:
        """The highest of the summits above the best of several starts; ``starts`` is how many are followed."""
        rows = self.objective.rows
        count = starts or (4 if rows < SMALL_ROWS else 2 if rows < MEDIUM_ROWS else 1)
        candidates = islice(_starts(components), MAX_STARTS if count > 1 else MIN_STARTS)
        ranked = sorted(candidates, key=self.objective.value, reverse=True)[:count]
        if count == 1:
            return self.climb(ranked[0])
        summits = []
        for self._start, start in enumerate(ranked):
            summits.append(self.climb(start, ROUGH_PRECISION))
        return self.climb(max(summits, key=lambda summit: summit.height).components)

    # --- climbing ---

    def climb(self, components: Components, precision: float | None = None) -> Summit:
        """The summit near these components."""
        precision = self.precision if precision is None else precision
        bounds, damping = components.bounds, 1e-3
        theta = np.clip(components.theta, *bounds.T)
        current = self.slope(components, theta)
        if current is None:
            raise NoEvidence(one_value(self.objective.y) or "the rows are too few, or too alike, to choose settings by")
        for _ in range(MAX_STEPS):
            if self.is_spent:
                return Summit(components.at(theta), current, False)
            free = ~_held(theta, current.gradient, bounds)
            direction, gain = _newton(current, free, damping)
            if gain < precision:  # one step more costs little and gives the numbers two digits more
                there = np.clip(theta + direction, *bounds.T)
                last = self.slope(components, there)
                if last is not None and last.height > current.height:
                    theta, current = there, last
                return Summit(components.at(theta), current, True)
            before = current.height
            limits = _step_limits(components, components.at(theta))
            for _ in range(MAX_TRIES):
                if self.is_spent:
                    return Summit(components.at(theta), current, False)
                direction, _ = _newton(current, free, damping)
                there = np.clip(theta + np.clip(direction, *limits), *bounds.T)
                trial = self.slope(components, there)
                if trial is not None and trial.height > before:
                    theta, current, damping = there, trial, damping / 10.0
                    break
                damping = max(10.0 * damping, 1e-2)
            else:
                break
            if current.height - before < precision:
                return Summit(components.at(theta), current, True)
        return self._climb_on(components, theta, current, precision)

    def _climb_on(self, components: Components, theta: Array, before: Slope, precision: float) -> Summit:
        """L-BFGS-B, which needs no curvature, on the evidence per row: else its first step goes to the bounds."""
        bounds, rows = components.bounds, self.objective.rows

        def objective(theta: Array) -> tuple[float, Array]:
            at = None if self.is_spent else self.slope(components, theta)
            if at is None:
                return -before.height / rows + 1e3, np.zeros(len(theta))
            return -at.height / rows, -at.gradient / rows

        limits = [(float(low), float(high)) for low, high in bounds]
        result = minimize(objective, theta, jac=True, method="L-BFGS-B", bounds=limits, options={"ftol": 1e-12})
        after = self.slope(components, result.x)
        if after is None or after.height < before.height:
            after, result.x = before, theta
        _, gain = _newton(after, ~_held(result.x, after.gradient, bounds), 1e-3)
        return Summit(components.at(result.x), after, bool(gain < max(1e3 * precision, 1e-3)))


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


def _step_limits(components: Components, here: Components) -> tuple[Array, Array]:
    """How far one step from here may go, down and up: in logarithms, or in units of a covariance's own numbers."""
    down: list[float] = []
    up: list[float] = []
    for given, component in zip(components.terms, here.terms):
        if (own := component.own_scale) is not None:
            steps, is_not_negative = (
                MAX_STEP * own.steps(innermost(component.kernel)),
                component.kernel.bounds[:, 0] == 0.0,
            )
            down += np.where(is_not_negative, TOWARDS_ZERO * component.kernel.theta, steps).tolist()
            up += steps.tolist()
        else:
            count = given.parameters
            is_small = component.size(here.X) < SMALL_VARIANCE * here.unit
            down += [MAX_STEP_TO_ZERO if is_small else MAX_STEP, *[MAX_STEP] * (count - 1)]
            up += [MAX_STEP] * count
    return -np.array(down), np.array(up)


def _starts(components: Components) -> Iterator[Components]:
    """As given, and with the variance and the lengths divided otherwise."""
    yield components
    for noise_share, length in STARTS:
        ratio = components.unit * (1.0 - noise_share) / noise_share / len(components.terms)
        started = (component.started(components.X, ratio, length) for component in components.terms)
        yield replace(components, terms=tuple(started))
