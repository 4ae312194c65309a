"""Profile likelihood: the evidence as a function of one number, all others at their best, for pictures and intervals.

Unlike an interval by the delta method, one by profile follows the evidence where that is not symmetric.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from motet.arrays import Array, Index, numbers
from motet.errors import InvalidData, InvalidModel
from motet.regression.results import Results
from motet.regression.tables import Table
from motet.text import alternatives, suggestion
from motet.threads import blas_limit
from motet.tuning.components import SIDES, Components
from motet.tuning.search import Search, TaskObjective

GRID_STEP = 0.5  # between values, in standard errors
MIN_GRID_STEPS, MAX_GRID_STEPS = 6, 16  # to either side
INTERVAL_DROP = 1.920729410347062  # of the log evidence at the ends of a 95 % interval: half the quantile of χ²₁


@dataclass(frozen=True, eq=False)
class Profile:
    """The log evidence at some ``values`` of a number, the others at their best, and the number's ``estimate``.

    ``interval`` is where the log evidence is at most 1.92 below its maximum: 95 %. An end beyond the values is NaN.
    """

    name: str
    values: Array
    log_evidence: Array
    estimate: float
    interval: tuple[float, float]

    @property
    def table(self) -> Table:
        drop = self.log_evidence.max() - self.log_evidence
        return Table(
            {self.name: self.values, "log_evidence": self.log_evidence, "drop": drop}, f"Profile of {self.name}"
        )

    def to_frame(self) -> Any:
        return self.table.to_frame()

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.table}\nestimate {self.estimate:.5g}, 95 % interval {low:.5g} to {high:.5g}"

    __repr__ = __str__


# --- numbers as functions of the parameters ---


@dataclass(frozen=True, eq=False)
class Quantity:
    """A number to hold: a coordinate of it, which has no bounds, is linear in a shift of some parameters, ``moved``.

    ``coordinate`` is a function of the parameters, with its gradient. Of σ², which is not one of the parameters alone,
    the coordinate is relative to the logarithm of the noise's variance.
    """

    to_value: Callable[[Array], Array]
    to_coordinate: Callable[[Array], Array]
    coordinate: Callable[[Array], tuple[float, Array]]
    moved: Index
    sign: float = 1.0
    with_scale: bool = False

    def held(self, theta: Array, at: float) -> Array:
        """The parameters moved so that the coordinate has a value."""
        moved = theta.copy()
        moved[self.moved] += self.sign * (at - self.coordinate(theta)[0])
        return moved


def quantity(components: Components, name: str, sigma2_given: bool) -> Quantity:
    """The number of that name; raises, with those that there are, if there is none."""
    places = _variance_places(components)
    average, individual = (places[side] for side in SIDES)
    every = np.concatenate([average, individual])
    alone = [side for side in SIDES if components.on(side) and not len(places[side])]  # a scale of its own, told as 1
    names = list(components.names)
    if not sigma2_given and len(every):
        names = ["sigma2", *names] if alone else ["lam", "sigma2", *names]
    names = ["alpha", *names] if len(average) and len(individual) else names
    if name not in names:
        raise InvalidModel(f"expected one of {alternatives(*names)}, got {name!r:.60}{suggestion(str(name), names)}")

    def size(theta: Array, which: Index) -> tuple[float, Array]:
        """The logarithm of a sum of variances, and its gradient."""
        e = np.zeros(len(theta))
        e[which] = np.exp(theta[which])
        total = e.sum() + len(alone) * (which is every)
        return float(np.log(total)), e / total

    def difference(theta: Array) -> tuple[float, Array]:
        (a, da), (b, db) = size(theta, average), size(theta, individual)
        return a - b, da - db

    def negative(theta: Array) -> tuple[float, Array]:
        value, gradient = size(theta, every)
        return -value, -gradient

    if name == "alpha":
        return Quantity(expit, logit, difference, average)
    if name == "lam":
        return Quantity(np.exp, np.log, negative, every, sign=-1.0)
    if name == "sigma2":
        return Quantity(np.exp, np.log, lambda theta: size(theta, every), every[:0], with_scale=True)
    i = components.names.index(name)
    is_log = i in every or "covariance" not in name.split(" of ")[0]
    unit = np.eye(len(components.theta))[i]
    coordinate = lambda theta: (float(theta[i]), unit)  # noqa: E731
    to_value, to_coordinate = (np.exp, np.log) if is_log else (np.positive, np.positive)
    return Quantity(to_value, to_coordinate, coordinate, np.array([i]))


def _variance_places(components: Components) -> dict[str, Index]:
    """Where the variances of each side's components are among the parameters."""
    places: dict[str, list[int]] = {side: [] for side in SIDES}
    place = 0
    for component in components.terms:
        if not component.has_own_scale:
            places[component.side].append(place)
        place += component.parameters
    return {side: np.array(numbers, dtype=np.intp) for side, numbers in places.items()}


# --- the profile ---


@blas_limit
def profile(results: Results, name: str, values: Any = None) -> Profile:
    """The evidence at some values of a number, the others at their best.

    ``name`` is "alpha", "lam" or "sigma2", as the tuned model has them, or one of ``tuning_.components.names``: a
    variance in units of the noise's, or a number of a kernel as the kernel has it. Without ``values`` steps of half a
    standard error go to either side of the estimate until they pass the ends of the 95 % interval.
    """
    components = results.components
    held = quantity(components, name, results.engine.model.noise.sigma2 is not None)
    at, gradient = held.coordinate(components.theta)
    at += np.log(results.noise_variance) if held.with_scale else 0.0
    if values is None:
        low, high = components.bounds[held.moved[0]] if name in components.names else (-np.inf, np.inf)
        grid = at + GRID_STEP * _error(results, held, gradient) * np.arange(-MAX_GRID_STEPS, MAX_GRID_STEPS + 1)
        grid = grid[(grid >= low) & (grid <= high)]
    else:
        with np.errstate(all="ignore"):
            grid = held.to_coordinate(np.unique(numbers(values, "values")).astype(float))
        if not len(grid) or not np.isfinite(grid).all():
            raise InvalidData(f"expected values that {name} can have, got {values!r:.60}")
    grid, heights = _Curve(results, held).over(grid, at, keep_all=values is not None)
    estimate = float(held.to_value(np.array(at)))
    return Profile(name, held.to_value(grid), heights, estimate, _interval(held, grid, heights))


class _Curve:
    """The best log evidence at values of a coordinate."""

    def __init__(self, results: Results, held: Quantity) -> None:
        self._search = Search(TaskObjective(*results.engine.folded(), results.method))
        self._components, self._held = results.components, held

    def over(self, grid: Array, at: float, *, keep_all: bool) -> tuple[Array, Array]:
        """From the estimate outwards, each value from where its neighbour was best; then inwards, if that is better."""
        middle = int(np.argmin(np.abs(grid - at)))
        best: dict[int, tuple[Array, float]] = {}
        for way in (range(middle, len(grid)), range(middle - 1, -1, -1)):
            start = self._components.theta
            for k in way:
                start, height = best[k] = self._best(grid[k], start)
                below = max(value for _, value in best.values()) - height
                if not keep_all and abs(k - middle) >= MIN_GRID_STEPS and below > 1.5 * INTERVAL_DROP:
                    break
        for order in (sorted(best), sorted(best, reverse=True)):
            for before, k in pairwise(order):
                if self._value(grid[k], best[before][0])[0] > best[k][1] + 1e-3:
                    best[k] = self._best(grid[k], best[before][0])
        used = sorted(best)
        return grid[used], np.array([best[k][1] for k in used])

    def _value(self, at: float, theta: Array) -> tuple[float, Array]:
        """The log evidence with the number held, and its gradient; −∞ if there is none."""
        held = self._held
        there = self._search.slope(self._components, held.held(theta, at))
        if there is None:
            return -np.inf, np.zeros(len(theta))
        height, gradient, (size, slope) = there.log_evidence, there.gradient, held.coordinate(theta)
        if held.with_scale:  # σ² of the model searched is given, and falls as sizes grow
            sigma2 = np.exp(at - size - np.log(self._components.searched.noise.variance(1.0)))
            free, ratio = there.free, sigma2 / there.sigma2
            height -= 0.5 * free * (np.log(ratio) + 1.0 / ratio - 1.0)
            gradient = gradient + there.cross * (1.0 / ratio - 1.0) + 0.5 * free * (1.0 - 1.0 / ratio) * slope
        return float(height), np.asarray(gradient - held.sign * gradient[held.moved].sum() * slope)

    def _best(self, at: float, start: Array) -> tuple[Array, float]:
        """The parameters that are best while the number is held, and the log evidence there."""
        first = self._search.slope(self._components, self._held.held(start, at))
        scale = np.ones(len(start)) if first is None else np.sqrt(np.maximum(np.diag(first.information), 1e-4))

        def objective(z: Array) -> tuple[float, Array]:
            height, gradient = self._value(at, z / scale)
            return (-height, -gradient / scale) if np.isfinite(height) else (1e10, gradient)

        low, high = (self._components.bounds * scale[:, None]).T
        limits = [(float(below), float(above)) for below, above in zip(low, high)]
        begin = np.clip(start * scale, low, high)
        result = minimize(objective, begin, jac=True, method="L-BFGS-B", bounds=limits, options={"ftol": 1e-11})
        return self._held.held(result.x / scale, at), -float(result.fun)


def _error(results: Results, held: Quantity, gradient: Array) -> float:
    """The standard error of a coordinate; 1 if it is not known."""
    if results.tuning is None:
        return 1.0
    J = np.append(float(held.with_scale), gradient)
    C = results.tuning.joint_covariance
    used = J != 0
    variance = float(J[used] @ C[np.ix_(used, used)] @ J[used])
    return np.sqrt(variance) if np.isfinite(variance) and variance > 0 else 1.0


def _interval(held: Quantity, grid: Array, heights: Array) -> tuple[float, float]:
    """Where the root of the drop, nearly linear in the coordinate, crosses that of a 95 % interval."""
    top = int(np.argmax(heights))
    root, limit = np.sqrt(np.maximum(heights[top] - heights, 0.0)), np.sqrt(INTERVAL_DROP)
    ends = []
    for side in (slice(top, None, -1), slice(top, None)):
        drops, at = root[side], grid[side]
        beyond = np.flatnonzero(drops > limit)
        if not len(beyond):
            ends.append(np.nan)
            continue
        k = int(beyond[0])
        share = (limit - drops[k - 1]) / (drops[k] - drops[k - 1])
        ends.append(float(held.to_value(np.array(at[k - 1] + share * (at[k] - at[k - 1])))))
    return ends[0], ends[1]
