"""Noise that differs by row: outliers cost little, tasks have their own bands, and normal noise stays what it was."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm, spearmanr, t

from motet import MixedEffectRegressor
from motet.engine.system import System
from motet.errors import InvalidModel
from motet.kernels import RBF, ConstantKernel
from motet.model.model import Model
from motet.tables.rows import Rows
from motet.tuning.robust import ChosenNoise
from motet.tuning.tuning import folded_tasks
from motet.tuning.weights import OfTasks, Residuals
from tests.oracles import Array

TASKS, ROWS, LEARNED = 50, 30, 12
slow = pytest.mark.slow


class World:
    """A curve, and a level and a slope of each task; the noise's deviation is 0.4, unless something is wrong."""

    def __init__(self, flaw: str = "", seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.task = np.repeat(np.arange(TASKS), ROWS)
        self.X = rng.uniform(-2.0, 2.0, size=(len(self.task), 1))
        level, slope = rng.normal(scale=[[0.7], [0.3]], size=(2, TASKS))
        self.f = np.cos(2.0 * self.X[:, 0]) + level[self.task] + slope[self.task] * self.X[:, 0]
        self.std = np.full(TASKS, 0.4)
        noise, is_outlier = rng.normal(size=len(self.task)), rng.random(len(self.task)) < 0.03
        if flaw == "tasks":
            self.std = 0.4 * np.exp(0.7 * rng.normal(size=TASKS))
        self.outlier = is_outlier if flaw == "outliers" else np.zeros(len(self.task), dtype=bool)
        self.y = self.f + self.std[self.task] * noise * np.where(self.outlier, 20.0, 1.0)
        self.learned = np.arange(len(self.task)) % ROWS < LEARNED

    def fit(self, noise: str, order: Any = slice(None)) -> MixedEffectRegressor:
        rows = (values[self.learned][order] for values in (self.X, self.y, self.task))
        X, y, task = rows
        return MixedEffectRegressor(noise=noise).fit(X, y, task=task)  # type: ignore[arg-type]

    def error(self, reg: MixedEffectRegressor) -> float:
        """Root mean square, of the function at held-out rows."""
        rest = ~self.learned
        return float(np.sqrt(np.mean((reg.predict(self.X[rest], task=self.task[rest]) - self.f[rest]) ** 2)))

    def coverage(self, reg: MixedEffectRegressor, which: Any = True, *, new: bool = False) -> float:
        """Of 90 % bands of observations at held-out rows of some tasks, or as if their tasks were new."""
        rows = ~self.learned & which
        task = self.task[rows] + TASKS * new
        mean, std = reg.predict(self.X[rows], task=task, return_std=True, observation=True)
        return float(np.mean(np.abs(self.y[rows] - mean) < norm.ppf(0.95) * std))


@cache
def fitted(flaw: str, noise: str = "auto", seed: int = 1) -> tuple[World, MixedEffectRegressor]:
    world = World(flaw, seed)
    return world, world.fit(noise)


def kind(reg: MixedEffectRegressor) -> str:
    return "gaussian" if reg.noise_ is None else reg.noise_.noise.kind


# --- what is chosen ---


@slow
def test_outliers_cost_little() -> None:
    world, robust = fitted("outliers")
    without = fitted("")[1]
    assert kind(robust) == "student"
    assert world.error(robust) < 1.15 * fitted("")[0].error(without)
    assert world.error(robust) < 0.7 * world.error(fitted("outliers", "gaussian")[1])
    assert 0.85 < world.coverage(robust) < 0.95
    assert 0.85 < world.coverage(robust, new=True) < 0.95


@slow
def test_outliers_are_named() -> None:
    world, robust = fitted("outliers")
    table, is_outlier = robust.diagnostics(), world.outlier[world.learned]
    named = table["outlier"] == "yes"
    far = np.abs((world.y - world.f)[world.learned]) > 5 * 0.4
    assert named[is_outlier & far].all()
    assert (named & ~is_outlier).sum() <= 3
    assert (table["weight"][named] < 0.25).all()
    assert table["weight"].max() <= 1.25
    notes = " ".join(robust.summary().notes)
    assert "Student's t" in notes
    assert f"{named.sum()} rows weigh less than a quarter" in notes
    structure = robust.summary().structure
    assert "yes" in structure["taken"][["Student" in step for step in structure["step"]]]
    frame = table.to_frame()
    assert frame.outlier[frame.studentised.abs() > 10].eq("yes").all()


@slow
def test_tasks_have_their_own_bands() -> None:
    world, robust = fitted("tasks")
    assert kind(robust) == "tasks"
    assert robust.noise_ is not None
    observed = robust.noise_.of_observations(np.arange(TASKS))
    assert spearmanr(observed, world.std).statistic > 0.85
    noisy = (world.std > np.median(world.std))[world.task]
    for which in (noisy, ~noisy):
        assert 0.85 < world.coverage(robust, which) < 0.95
    assert world.coverage(robust, new=True) == pytest.approx(0.9, abs=0.05)
    normal = fitted("tasks", "gaussian")[1]
    assert world.coverage(normal, ~noisy) > 0.96
    assert world.error(robust) < 0.95 * world.error(normal)
    assert "a scale of the noise for each task" in " ".join(robust.summary().notes)


@slow
@pytest.mark.parametrize("seed", range(4))
def test_normal_noise_stays(seed: int) -> None:
    world, reg = fitted("", "auto", seed)
    assert kind(reg) == "gaussian"
    assert "outlier" not in reg.diagnostics().columns
    mean = reg.predict(world.X, task=world.task)
    np.testing.assert_array_equal(mean, fitted("", "gaussian", seed)[1].predict(world.X, task=world.task))


def test_given_kernels_keep_normal_noise() -> None:
    """So that published figures of mixed models stay."""
    world = World("outliers")
    reg = MixedEffectRegressor(common=None, individual=ConstantKernel(1.0), bias="linear")
    assert kind(reg.fit(world.X, world.y, task=world.task)) == "gaussian"


# --- properties ---


@slow
@pytest.mark.parametrize("flaw", ["outliers", "tasks"])
def test_the_order_of_rows_does_not_matter(flaw: str) -> None:
    world, reg = fitted(flaw)
    order = np.random.default_rng(1).permutation(int(world.learned.sum()))
    other = world.fit("auto", order)
    assert kind(other) == kind(reg)
    mean, std = (np.array(r.predict(world.X, task=world.task, return_std=True, observation=True)) for r in (reg, other))
    np.testing.assert_allclose(mean, std, rtol=2e-3, atol=2e-3)


GIVEN: dict[str, Any] = {
    "common": RBF(1.0),
    "individual": ConstantKernel(1.0),
    "bias": "constant",
    "alpha": 0.4,
    "lam": 0.3,
    "sigma2": 1.5,
    "optimizer": None,
}


def small(seed: int = 3) -> tuple[Array, Array, Array, Array]:
    """Six tasks of five rows, with weights and an outlier."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(6), 5)
    X = rng.uniform(-2.0, 2.0, size=(30, 1))
    y = np.sin(X[:, 0]) + rng.normal(size=6)[task] + 0.5 * rng.normal(size=30)
    y[7] += 12.0
    return X, y, task, rng.uniform(0.5, 2.0, size=30)


def covariance(X: Array, task: Array) -> Array:
    """Of the functions at all rows, from the definition; the constant's weight has a very wide prior."""
    rbf = np.exp(-0.5 * (X - X.T) ** 2)
    return np.asarray(1.5 * (0.4 * rbf + 0.6 * (task[:, None] == task)) + 1e7)


def without_itself(i: int, K: Array, noise: Array, y: Array) -> tuple[float, float]:
    """The mean and the variance of the function at a row, from all others."""
    others = np.arange(len(y)) != i
    weights = np.linalg.solve(K[np.ix_(others, others)] + np.diag(noise[others]), K[others, i])
    return float(weights @ y[others]), float(K[i, i] - weights @ K[others, i])


def test_weights_are_those_of_a_dense_process() -> None:
    X, y, task, weight = small()
    K, base = covariance(X, task), 1.5 * 0.3 / weight
    spread = (t.ppf(0.95, 4) / norm.ppf(0.95)) ** 2
    noise = base.copy()
    for _ in range(60):
        moments = np.array([without_itself(i, K, noise, y) for i in range(30)])
        squares = (y - moments[:, 0]) ** 2 / (moments[:, 1] + base / spread)
        noise = base / spread * (4 + squares) / 5
    reg = MixedEffectRegressor(**GIVEN, noise="student").fit(X, y, task=task, sample_weight=weight)
    assert reg.noise_ is not None
    assert reg.noise_.noise.words.endswith("4 degrees of freedom")
    np.testing.assert_allclose(reg.diagnostics()["weight"], base / spread / noise, rtol=1e-3)
    mean = reg.predict(X, task=task)
    np.testing.assert_allclose(mean, K @ np.linalg.solve(K + np.diag(noise), y), atol=1e-3)


def test_scales_of_tasks_are_a_summit() -> None:
    """Of the evidence times their prior: by differences of the log evidence of a model that has them."""
    X, y, task, weight = small()
    reg = MixedEffectRegressor(**GIVEN, noise="tasks").fit(X, y, task=task, sample_weight=weight)
    chosen = reg.noise_
    assert isinstance(chosen, ChosenNoise)
    assert isinstance(chosen.noise, OfTasks)
    rows = Rows.of(task, X, y, 1.0 / weight)
    model = Model(**{key: value for key, value in GIVEN.items() if key != "optimizer"})
    multiplier = chosen.multipliers(task, X, y, reg.results_.rows[3])

    def log_evidence(multiplier: Array) -> float:
        learned = Rows.of(task, X, y, multiplier / weight)
        return System.of_tasks(model, *folded_tasks(learned, model)).evidence.log_evidence

    system = System.of_tasks(model, *folded_tasks(Rows.of(task, X, y, multiplier / weight), model))
    residuals = Residuals.of(system, rows, multiplier)
    for j in range(6):
        change = np.where(task == j, 1e-4, 0.0)
        slope = (log_evidence(multiplier * np.exp(change)) - log_evidence(multiplier * np.exp(-change))) / 2e-4
        difference = residuals.squares[task == j].sum() - residuals.free[task == j].sum()
        assert slope == pytest.approx(0.5 * difference, abs=1e-5)
    scale, degrees, new = chosen.noise.scales(residuals, multiplier)
    np.testing.assert_allclose(scale / new, multiplier[::5], rtol=1e-4)
    assert (degrees > chosen.noise.degrees).all()


@pytest.mark.parametrize("noise", ["student", "tasks"])
def test_later_rows_and_forgotten_tasks(noise: Any) -> None:
    """Exact for multipliers that are held: those of a task go with it, and new rows have those of their task, or 1."""
    X, y, task, weight = small()
    reg = MixedEffectRegressor(**GIVEN, noise=noise).fit(X, y, task=task, sample_weight=weight)
    assert reg.noise_ is not None
    learned = reg.results_.rows[3]
    later = (np.array([[0.3], [0.4]]), np.array([1.0, 2.0]), np.array([0, 9]))
    reg.partial_fit(later[0], later[1], task=later[2]).forget(1)
    of_task = learned[0] * weight[0] if noise == "tasks" else 1.0
    kept = task != 1
    plain = MixedEffectRegressor(**GIVEN, noise="gaussian").fit(
        np.concatenate([X[kept], later[0]]),
        np.concatenate([y[kept], later[1]]),
        task=np.concatenate([task[kept], later[2]]),
        sample_weight=1.0 / np.concatenate([learned[kept], [of_task, 1.0]]),
    )
    for label in (0, 1, 9, 12):
        ours, theirs = (np.array(r.predict(X, task=[label] * 30, return_std=True)) for r in (reg, plain))
        np.testing.assert_allclose(ours, theirs, atol=1e-9)
    assert 1 not in reg.noise_.rows
    assert 1 not in reg.noise_.observation
    table = reg.diagnostics()
    assert len(table) == 27
    assert np.isfinite(table["weight"]).all()


def test_left_out_rows_are_observations() -> None:
    """Whatever a row weighs itself, it is predicted as any other would be."""
    X, y, task, weight = small()
    reg = MixedEffectRegressor(**GIVEN, noise="student").fit(X, y, task=task, sample_weight=weight)
    K, noise = covariance(X, task), 1.5 * 0.3 * reg.results_.rows[3]
    rows = reg.loo().rows
    for i in (0, 7):
        mean, variance = without_itself(i, K, noise, y)
        assert rows["mean"][i] == pytest.approx(mean, abs=1e-4)
        assert rows["std"][i] ** 2 == pytest.approx(variance + 0.45 / weight[i], rel=1e-4)
        scale = rows["std"][i] * norm.ppf(0.95) / t.ppf(0.95, 4)
        assert rows["log_score"][i] == pytest.approx(t.logpdf(rows["residual"][i], 4, scale=scale), abs=1e-6)


def test_a_noise_that_there_is_not() -> None:
    with pytest.raises(InvalidModel, match="noise must be"):
        MixedEffectRegressor(noise="cauchy").fit([[0.0], [1.0]], [0.0, 1.0])  # type: ignore[arg-type]
