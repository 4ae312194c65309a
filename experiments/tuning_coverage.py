"""``python -m experiments.tuning_coverage [--seeds N]``: do intervals of tuned settings hold the truth, and do bands?

Simulates tasks from a known model, tunes one that starts elsewhere, and counts over seeds: each variance, in units of
the noise's and of the outputs, and each length scale in its 95 % interval; new values and observations in their 90 %
bands. Writes the first half of TUNING.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from experiments.tables import Table, mean_and_error
from experiments.tuning_results import write
from motet import MixedEffectRegressor, Model
from motet.arrays import Array
from motet.engine.system import System
from motet.kernels import RBF, ConstantKernel, Kernel, Linear
from motet.model.basis import Bias
from motet.tuning.components import Components

TASKS, ROWS, NEW_ROWS = 60, 8, 4
INTERVAL, BAND = 1.96, 1.645  # standard deviations on either side of 95 % and 90 %
STEP = 1e-4  # of a central difference
GOAL_SHARE, GOAL_BAND = 17 / 20, (0.85, 0.95)


@dataclass(frozen=True, eq=False)
class Case:
    """Kernels that data are drawn from, whose variances are in units of the noise's; and those a search starts from."""

    name: str
    common: Kernel | None
    individual: Kernel
    start: tuple[Kernel | None, Kernel]
    grid: Array  # of inputs
    noise: float  # standard deviation
    line: tuple[float, float]  # the bias: intercept and slope

    @property
    def bias(self) -> Bias:
        return "linear" if self.common is None else "constant"

    @property
    def components(self) -> Components:
        share = 0.5 if self.common is not None else 1.0
        return Components.of(Model(self.common, self.individual, 0.5, share, self.bias), self.grid)

    @property
    def truth(self) -> dict[str, float]:
        """The parameters as a search has them, and the logarithms of variances in the outputs' units, by name."""
        components = self.components
        ratios = zip(components.names, components.theta.tolist())
        return dict(ratios) | _variances(components, self.noise**2, self.grid)

    def simulate(self, rng: np.random.Generator) -> tuple[Array, Array, Array, Array]:
        """Inputs, values, observations and tasks of TASKS × (ROWS + NEW_ROWS) rows."""
        task = np.repeat(np.arange(TASKS), ROWS + NEW_ROWS)
        at = np.concatenate([rng.choice(len(self.grid), ROWS + NEW_ROWS, replace=False) for _ in range(TASKS)])
        f = self.line[0] + self.line[1] * self.grid[at, 0]
        if self.common is not None:
            f += self.noise * _draws(self.common(self.grid), 1, rng)[0, at]
        f += self.noise * _draws(self.individual(self.grid), TASKS, rng)[task, at]
        return self.grid[at], f, f + self.noise * rng.normal(size=len(f)), task


def _draws(K: Array, count: int, rng: np.random.Generator) -> Array:
    """Gaussian functions of covariance K, a row for each."""
    values, vectors = np.linalg.eigh(K)
    return np.asarray(rng.normal(size=(count, len(K))) * np.sqrt(np.maximum(values, 0.0)) @ vectors.T)


def _variances(components: Components, noise: float, X: Array) -> dict[str, float]:
    """Logarithms of the mean variance of each component at inputs, and of the noise's, given the latter."""
    named = {f"{one.label}, its variance": np.log(noise * one.size(X)) for one in components.terms}
    return {**named, "noise, its variance": float(np.log(noise))}


def scaled(variance: float, kernel: Kernel) -> Kernel:
    return ConstantKernel(variance) * kernel


CASES = (
    Case(
        "smooth average; shifts of an intercept and a smooth part",
        scaled(40.0, RBF(1.5)),
        ConstantKernel(10.0) + scaled(5.0, RBF(3.0)),
        (RBF(5.0), ConstantKernel(1.0) + scaled(1.0, RBF(5.0))),
        np.linspace(0, 20, 101)[:, None],
        noise=0.3,
        line=(5.0, 0.0),
    ),
    Case(
        "linear mixed model, correlated intercept and slope",
        None,
        Linear([[8.0, 0.6], [0.6, 0.2]]),
        (None, Linear(np.eye(2))),
        np.linspace(-5, 5, 41)[:, None],
        noise=2.0,
        line=(10.0, 1.0),
    ),
)


@dataclass(frozen=True)
class Outcome:
    """Of one seed: which parameters are in their intervals, and the shares of values and observations in bands."""

    inside: dict[str, bool]
    values: float
    observations: float


def outcome(case: Case, seed: int) -> Outcome:
    X, f, y, task = case.simulate(np.random.default_rng(seed))
    seen = np.arange(len(y)) % (ROWS + NEW_ROWS) < ROWS
    reg = MixedEffectRegressor(*case.start, bias=case.bias, basis=None).fit(X[seen], y[seen], task=task[seen])
    found = dict(estimates(reg, case.grid))
    inside = {
        name: name in found and bool(abs(found[name][0] - true) <= INTERVAL * found[name][1])
        for name, true in case.truth.items()
    }

    def share(values: Array, observation: bool) -> float:
        mean, std = reg.predict(X[~seen], task=task[~seen], return_std=True, observation=observation)
        return float(np.mean(np.abs(values - mean) <= BAND * std))

    return Outcome(inside, share(f[~seen], False), share(y[~seen], True))


def estimates(reg: MixedEffectRegressor, grid: Array) -> Iterator[tuple[str, tuple[float, float]]]:
    """Every quantity of ``Case.truth``, and its standard error.

    With σ̂² at its best for given ratios θ, log σ² has the variance 2/(N − p) around log σ̂²(θ); the rest is the delta
    method, by central differences.
    """
    tuning = reg.tuning_
    assert tuning is not None
    components, theta, covariance = tuning.components, tuning.theta, tuning.covariance
    for name, value, variance in zip(components.names, theta, np.diag(covariance)):
        yield name, (value, np.sqrt(variance))
    ((_, folded, X),) = reg.engine_.tasks_by_kernel()

    def variances(at: Array) -> dict[str, float]:
        there = components.at(at)
        sigma2 = System.of_tasks(there.searched, folded, X).evidence.sigma2
        return _variances(there, sigma2 * there.searched.lam, grid)

    steps = STEP * np.eye(len(theta))
    pairs = [(variances(theta + step), variances(theta - step)) for step in steps]
    for name, value in variances(theta).items():
        d = np.array([(above[name] - below[name]) / (2 * STEP) for above, below in pairs])
        yield name, (value, np.sqrt(2.0 / tuning.free + d @ covariance @ d))


def tables(case: Case, outcomes: list[Outcome]) -> Iterator[Table]:
    seeds = len(outcomes)
    rows = []
    for name in case.truth:
        count = sum(one.inside[name] for one in outcomes)
        rows.append((name, f"{count} of {seeds}", "yes" if count >= GOAL_SHARE * seeds else "no"))
    for what in ("values", "observations"):
        mean, error = mean_and_error([getattr(one, what) for one in outcomes])
        met = "yes" if GOAL_BAND[0] <= mean <= GOAL_BAND[1] else "no"
        rows.append((f"new {what} of known tasks in 90 % bands", f"{mean:.1%} ± {error:.1%}", met))
    caption = f"{case.name[0].upper()}{case.name[1:]}: {TASKS} tasks × {ROWS} rows."
    yield Table(caption, ("in its 95 % interval", f"{seeds} seeds", "met"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="experiments.tuning_coverage")
    parser.add_argument("--seeds", type=int, default=20)
    seeds = range(parser.parse_args().seeds)
    found = [table for case in CASES for table in tables(case, [outcome(case, seed) for seed in seeds])]
    text = (
        "Goals: each parameter in its 95 % interval in at least 17 of 20 seeds, 90 % bands that hold 85 to 95 %. "
        "The first rows are the parameters of the search: variances in units of the noise's, numbers of a Cholesky "
        "factor. Those with 'its variance' are in the units of the outputs, the mean over the inputs."
    )
    write("coverage", text, found)


if __name__ == "__main__":
    main()
