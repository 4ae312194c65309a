"""The search for the settings that make outputs likeliest: where it starts, how it climbs, and its log.

Parameters are those of ``Components``, with σ² at its best for each. Steps are Newton's with the average information as
curvature (AI-REML), damped until they climb; L-BFGS-B goes on if they stop short. With little data several starts are
followed, because the evidence may then have several summits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from motet.arrays import Array
from motet.errors import MotetError, NoEvidence
from motet.learning.components import Components, innermost
from motet.learning.evidence import Method
from motet.learning.gradient import Slope, slope
from motet.learning.system import System
from motet.model.tasks import FoldedTasks

PRECISION, PRECISION_PER_ROW = 1e-6, 1e-9  # nats that a step must promise, or the search has arrived
ROUGH_PRECISION = 1e-2  # of the climbs from several starts, of which one is finished
MAX_STEPS, MAX_TRIES = 60, 12
FIRST_LINES = 12  # of the log, for climbs that begin when the search has to stop
ROUNDING = 1e-10  # of the outputs
MAX_STEP, MAX_STEP_TO_ZERO = 2.0, 8.0  # of a logarithm, and of that of a small variance that becomes smaller
TOWARDS_ZERO = 0.9  # of a covariance's root in one step: at 0 itself its gradient is 0, and the search would stay there
SMALL_VARIANCE = 0.05  # of a component, in units of the noise's
STARTS = (  # the noise's share of the variance, and length scales in units of the inputs' spread
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


def one_value(y: Array, name: str = "") -> str:
    """That an output has one value only, in words; "" if it has several."""
    if len(y) < 2 or np.ptp(y) > ROUNDING * np.abs(y).max():
        return ""
    output = f"the output {name!r}" if name else "the output"
    return f"{output} has one value only, {y[0]:g}, in every row, so there is nothing to learn"


@dataclass(frozen=True, eq=False)
class Summit:
    """Where a climb ended, what is known of the evidence there, and whether that is an optimum."""

    components: Components
    slope: Slope
    reached: bool

    @property
    def log_evidence(self) -> float:
        return self.slope.log_evidence


class Search:
    """The evidence of one set of examples under many models, with a log of what was tried.

    ``folded`` are the tasks on the inputs X; ``report`` gets every line of the log. If tasks are elsewhere, ``folded``
    is None, ``rows`` are given, and a class that derives from this one has ``value`` and ``_slope``. The search stops
    where it is before its log has more than ``most`` lines.
    """

    def __init__(
        self,
        folded: FoldedTasks | None,
        X: Array,
        method: Method,
        report: Callable[[Step], None] | None = None,
        *,
        rows: int | None = None,
        most: int | None = None,
    ) -> None:
        self.folded, self.X, self.method = folded, X, method
        self.rows = int(folded.rows.sum()) if folded is not None else rows or 0
        self.precision = max(PRECISION, PRECISION_PER_ROW * self.rows)  # the evidence of many rows is rounded
        self.log: list[Step] = []
        self._start = 0
        self._report, self._most = report, most

    @property
    def is_spent(self) -> bool:
        """Whether no line of the log is left but for the first of each climb to come."""
        return self._most is not None and len(self.log) >= self._most - FIRST_LINES

    def value(self, components: Components) -> float:
        """The log evidence; −∞ if there is none."""
        system = self._system(components)
        return -np.inf if system is None else system.evidence.log_evidence

    @property
    def _outputs(self) -> Array:
        assert self.folded is not None
        return self.folded.y

    def slope(self, components: Components, theta: Array) -> Slope | None:
        """The evidence, its gradient and its curvature; None if there is none at these parameters."""
        found = self._slope(components.at(theta))
        if found is None or not np.isfinite(found.gradient).all():
            return None
        self.log.append(Step(self._start, len(self.log), found.log_evidence, tuple(theta.tolist())))
        if self._report is not None:
            self._report(self.log[-1])
        return found

    def _slope(self, components: Components) -> Slope | None:
        system = self._system(components)
        return None if system is None else slope(system)

    def _system(self, components: Components) -> System | None:
        """The tasks solved; None if they cannot be, or if nothing but rounding is left of the outputs."""
        assert self.folded is not None
        try:
            system = System.of_tasks(components.searched, self.folded, self.X, self.method)
        except (MotetError, np.linalg.LinAlgError):
            return None
        left = system.evidence.sigma2 > (ROUNDING * np.abs(self.folded.y).max(initial=0.0)) ** 2
        return system if left and np.isfinite(system.evidence.log_evidence) else None

    def best(self, components: Components, starts: int | None = None) -> Summit:
        """The highest of the summits above the best of several starts; ``starts`` is how many are followed."""
        count = starts or (4 if self.rows < SMALL_ROWS else 2 if self.rows < MEDIUM_ROWS else 1)
        candidates = islice(_starts(components), MAX_STARTS if count > 1 else MIN_STARTS)
        ranked = sorted(candidates, key=self.value, reverse=True)[:count]
        if count == 1:
            return self.climb(ranked[0])
        summits = []
        for self._start, start in enumerate(ranked):
            summits.append(self.climb(start, ROUGH_PRECISION))
        return self.climb(max(summits, key=lambda summit: summit.log_evidence).components)

    # --- climbing ---

    def climb(self, components: Components, precision: float | None = None) -> Summit:
        """The summit near these components."""
        precision = self.precision if precision is None else precision
        bounds, damping = components.bounds, 1e-3
        theta = np.clip(components.theta, *bounds.T)
        current = self.slope(components, theta)
        if current is None:
            raise NoEvidence(one_value(self._outputs) or "the rows are too few, or too alike, to choose settings by")
        for _ in range(MAX_STEPS):
            if self.is_spent:
                return Summit(components.at(theta), current, False)
            free = ~_held(theta, current.gradient, bounds)
            direction, gain = _newton(current, free, damping)
            if gain < precision:  # one step more costs little and gives the numbers two digits more
                there = np.clip(theta + direction, *bounds.T)
                last = self.slope(components, there)
                if last is not None and last.log_evidence > current.log_evidence:
                    theta, current = there, last
                return Summit(components.at(theta), current, True)
            before = current.log_evidence
            limits = _step_limits(components.at(theta))
            for _ in range(MAX_TRIES):
                if self.is_spent:
                    return Summit(components.at(theta), current, False)
                direction, _ = _newton(current, free, damping)
                there = np.clip(theta + np.clip(direction, *limits), *bounds.T)
                trial = self.slope(components, there)
                if trial is not None and trial.log_evidence > before:
                    theta, current, damping = there, trial, damping / 10.0
                    break
                damping = max(10.0 * damping, 1e-2)
            else:
                break
            if current.log_evidence - before < precision:
                return Summit(components.at(theta), current, True)
        return self._climb_on(components, theta, current, precision)

    def _climb_on(self, components: Components, theta: Array, before: Slope, precision: float) -> Summit:
        """L-BFGS-B, which needs no curvature, on the evidence per row: else its first step goes to the bounds."""
        bounds = components.bounds

        def objective(at: Array) -> tuple[float, Array]:
            found = None if self.is_spent else self.slope(components, at)
            if found is None:
                return -before.log_evidence / self.rows + 1e3, np.zeros(len(at))
            return -found.log_evidence / self.rows, -found.gradient / self.rows

        limits = [(float(low), float(high)) for low, high in bounds]
        result = minimize(objective, theta, jac=True, method="L-BFGS-B", bounds=limits, options={"ftol": 1e-12})
        after = self.slope(components, result.x)
        if after is None or after.log_evidence < before.log_evidence:
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
            count = component.parameters
            is_small = component.size(components.X) < SMALL_VARIANCE
            down += [MAX_STEP_TO_ZERO if is_small else MAX_STEP, *[MAX_STEP] * (count - 1)]
            up += [MAX_STEP] * count
    return -np.array(down), np.array(up)


def _starts(components: Components) -> Iterator[Components]:
    """As given, and with the variance and the lengths divided otherwise."""
    yield components
    for noise_share, length in STARTS:
        ratio = (1.0 - noise_share) / noise_share / len(components.listed)
        started = (component.started(components.X, ratio, length) for component in components.listed)
        yield replace(components, listed=tuple(started))
