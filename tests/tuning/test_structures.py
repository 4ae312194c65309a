"""The structure that a regressor without settings chooses: tables with one known flaw each, and what is said of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from motet import MixedEffectRegressor
from motet.kernels import RBF, ConstantKernel
from motet.kernels.algebra import innermost
from motet.kernels.classes import On
from motet.tables.rows import Rows
from motet.tuning.components import Components
from motet.tuning.defaults import Settings
from motet.tuning.search import NoisePrior, TaskObjective
from motet.tuning.structures import LITTLE_NOISE, noise_prior
from motet.tuning.tuning import folded_tasks
from tests.oracles import Array

pytestmark = pytest.mark.slow
TASKS, ROWS, NEW = 60, 10, 50  # tasks from ``NEW`` on are new


class World:
    """Rows of a known function: 0.4 is the noise's deviation, unless another is given."""

    def __init__(self, columns: int, seed: int = 0, noise: float = 0.4) -> None:
        self.rng = np.random.default_rng(seed)
        self.task = np.repeat(np.arange(TASKS), ROWS)
        self.X = self.rng.normal(size=(len(self.task), columns))
        self.f = self.X[:, :3] @ np.array([1.0, -0.5, 0.3])[:columns] + self.each(1)[:, 0]
        self.noise = noise

    def each(self, count: int) -> Array:
        """Numbers of every task, at its rows."""
        return self.rng.normal(size=(TASKS, count))[self.task]

    def fit(self) -> MixedEffectRegressor:
        self.y = self.f + self.noise * self.rng.normal(size=len(self.f))
        self.learned = (self.task < NEW) & (np.arange(len(self.y)) % ROWS < 7)
        self.held_out = (self.task < NEW) & ~self.learned
        return MixedEffectRegressor().fit(self.X[self.learned], self.y[self.learned], task=self.task[self.learned])

    def error(self, reg: MixedEffectRegressor) -> float:
        """Root mean square, of the function at held-out rows of known tasks."""
        mean = reg.predict(self.X[self.held_out], task=self.task[self.held_out])
        return float(np.sqrt(np.mean((mean - self.f[self.held_out]) ** 2)))

    def coverage(self, reg: MixedEffectRegressor) -> float:
        """Of 90 % bands of observations of new tasks."""
        new = self.task >= NEW
        mean, std = reg.predict(self.X[new], task=self.task[new], return_std=True, observation=True)
        return float(np.mean(np.abs(self.y[new] - mean) < 1.645 * std))


def labels(reg: MixedEffectRegressor) -> list[str]:
    assert reg.tuning_ is not None
    return [component.label for component in reg.tuning_.components.terms]


def read_columns(reg: MixedEffectRegressor, side: str) -> set[int]:
    """Columns that a side's parts read, beside intercepts."""
    assert reg.tuning_ is not None
    read: set[int] = set()
    for component in reg.tuning_.components.on(side):  # type: ignore[arg-type]
        if type(innermost(component.kernel)) is not ConstantKernel:
            read |= set(component.kernel.columns if type(component.kernel) is On else range(reg.n_features_in_))
    return read


def noise_of(reg: MixedEffectRegressor) -> float:
    assert reg.tuning_ is not None
    return reg.tuning_.noise_variance


@pytest.mark.parametrize("seed", [0, 1])
def test_slopes_of_different_size_have_a_variance_each(seed: int) -> None:
    world = World(5, seed)
    world.f += (world.X * world.each(5)) @ np.array([1.5, 0.7, 0.0, 0.0, 0.0])
    reg = world.fit()
    assert read_columns(reg, "individual") == {0, 1}
    assert not [label for label in labels(reg) if "RBF" in label]
    assert world.error(reg) < 0.45  # of one variance for all slopes: 0.56
    assert noise_of(reg) == pytest.approx(0.16, rel=0.25)


def test_linear_rows_keep_their_noise() -> None:
    """With eight columns, a smooth part of all of them may tell every row."""
    coverage = []
    for world in (World(8, seed) for seed in range(4)):
        reg = world.fit()
        assert labels(reg) == ["shift: intercept"]
        assert noise_of(reg) == pytest.approx(0.16, rel=0.2)
        coverage.append(world.coverage(reg))
    assert 0.85 <= np.mean(coverage) <= 0.95  # of ten new tasks each


def test_shifts_read_no_column_that_is_constant_within_tasks() -> None:
    world = World(5)
    world.X[:, :2] = world.each(2)
    world.f = world.X @ np.array([1.0, -0.5, 0.3, 0.0, 0.0]) + (world.X * world.each(5)) @ np.array([0, 0, 1.0, 1.0, 0])
    reg = world.fit()
    assert {2, 3} <= read_columns(reg, "individual") <= {2, 3, 4}
    assert 0.82 <= world.coverage(reg) <= 0.97


def test_useless_columns_leave_the_noise_as_it_is() -> None:
    few, many = World(1, noise=1.0), World(21, noise=1.0)
    many.X[:, 0], many.f = few.X[:, 0], few.f
    errors = [world.error(reg) for world in (few, many) for reg in [world.fit()]]
    assert errors[1] < 1.25 * errors[0]
    assert noise_of(many.fit()) == pytest.approx(1.0, rel=0.2)


@pytest.mark.parametrize("columns", [25, 150])
def test_columns_that_tell_nothing_are_left_out_of_the_average(columns: int) -> None:
    """With a slope for each, 350 rows leave the error of 150 slopes; and with one variance for all, half of it."""
    many = World(columns)
    reg = many.fit()
    assert reg.tuning_ is not None
    assert reg.tuning_.model.bias == (0, 1, 2)
    assert many.error(reg) < 0.28  # with all columns: 0.31 and 0.46
    assert "no part reads" in " ".join(reg.summary().notes)
    taken = dict(zip(reg.summary().structure["step"], reg.summary().structure["taken"]))
    assert taken["slopes of the average in column 0"] == "yes"


def test_slopes_of_few_columns_stay_a_linear_bias() -> None:
    """Where every column tells, a prior of their slopes adds nothing."""
    reg = World(3).fit()
    assert reg.tuning_ is not None
    assert reg.tuning_.model.bias == "linear"
    assert "average" not in " ".join(labels(reg))


def test_a_shift_may_have_slopes_in_one_column_of_many() -> None:
    world = World(40)
    world.f += world.X[:, 30] * world.each(1)[:, 0]
    assert read_columns(world.fit(), "individual") == {30}


@pytest.mark.parametrize("columns", [9, 60])
def test_smooth_functions_are_found_among_useless_columns(columns: int) -> None:
    world = World(columns)
    phase = 2.0 * world.each(1)[:, 0]
    world.f = 1.5 * np.sin(2.0 * world.X[:, 4]) + 0.8 * np.sin(1.5 * world.X[:, 7] + phase)
    reg = world.fit()
    assert (read_columns(reg, "average"), read_columns(reg, "individual")) == ({4}, {7})
    assert world.error(reg) < 0.45
    assert noise_of(reg) == pytest.approx(0.16, rel=0.3)


def test_interactions_are_smooth_functions_of_all_columns() -> None:
    world = World(3)
    world.f += 2.0 * world.X[:, 0] * world.X[:, 1]
    reg = world.fit()
    assert read_columns(reg, "average") >= {0, 1}
    assert read_columns(reg, "individual") == set()
    assert world.error(reg) < 0.35


def test_what_only_tells_the_tasks_at_hand_apart_is_not_taken() -> None:
    """Tracks, each with a walk of its own: a smooth average of the place interpolates them, and misleads elsewhere."""
    scores = []
    for rng in map(np.random.default_rng, range(3)):
        task, step = np.repeat(np.arange(40), 15), np.tile(np.arange(15), 40)
        X = rng.normal(size=(40, 3))[task] + 0.08 * rng.normal(size=(40, 3))[task] * step[:, None]
        walk = np.concatenate([np.cumsum(0.5 * rng.normal(size=15)) for _ in range(40)])
        y, learned = X[:, 0] + walk + 0.2 * rng.normal(size=600), task < 30
        reg = MixedEffectRegressor().fit(X[learned], y[learned], task=task[learned])
        mean, std = reg.predict(X[~learned], task=task[~learned], return_std=True, observation=True)
        scores.append(np.mean(np.log(std) + 0.5 * ((y[~learned] - mean) / std) ** 2))
    assert np.mean(scores) < 1.0  # with such an average 1.09


def test_short_waves_are_found() -> None:
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(22), 20)
    X = rng.uniform(0.0, 10.0, size=(len(task), 1))
    y = np.sin(9.0 * X[:, 0]) + 0.5 * rng.normal(size=22)[task] + 0.3 * rng.normal(size=len(task))
    reg = MixedEffectRegressor().fit(X, y, task=task)
    assert "average: RBF" in labels(reg)
    assert noise_of(reg) == pytest.approx(0.09, rel=0.25)


def test_all_columns_join_the_one_that_was_found_first() -> None:
    """A wave whose height is another elsewhere: of two columns together, one of which tells nothing by itself."""
    world = World(3)
    world.f = 2.0 * np.sin(3.0 * world.X[:, 0]) * (1.0 + 0.8 * np.tanh(world.X[:, 1]))
    reg = world.fit()
    assert read_columns(reg, "average") >= {0, 1}
    assert world.error(reg) < 0.6  # of the wave alone: about 1


def zeros_at_zero() -> tuple[Array, Array, Array, Array, float]:
    """Columns, outputs, tasks, which rows to learn and the mean variance of the noise: half of the rows are 0 at 0."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(40), 14)
    is_zero = rng.random(len(task)) < 0.5
    size = rng.gamma(2.0, 2.0, size=(len(task), 1)) * rng.uniform(0.5, 1.5, size=(len(task), 4))
    X = np.where(is_zero[:, None], 0.0, size)
    mean = X.mean(axis=1)
    y = mean * np.exp(0.4 * rng.normal(size=40))[task] + 0.15 * mean * rng.normal(size=len(task))
    return X, y, task, np.arange(len(y)) % 14 < 10, float(np.mean((0.15 * mean) ** 2))


def test_noise_stays_where_half_of_the_outputs_are_one_number() -> None:
    """The likeliest structure has none, and rows elsewhere would be far outside their bands."""
    X, y, task, learned, noise = zeros_at_zero()
    reg = MixedEffectRegressor().fit(X[learned], y[learned], task=task[learned])
    assert noise_of(reg) == pytest.approx(noise, rel=0.5)
    mean, std = reg.predict(X[~learned], task=task[~learned], return_std=True, observation=True)
    assert 0.85 <= np.mean(np.abs(y[~learned] - mean) < 1.645 * std) <= 0.97


def test_noise_is_held_up_where_the_structure_that_is_given_leaves_none() -> None:
    """As a smooth average of all columns does, which a search would not take."""
    X, y, task, learned, noise = zeros_at_zero()
    with pytest.warns(ConvergenceWarning, match="the noise is larger than what is likeliest"):
        reg = MixedEffectRegressor("rbf").fit(X[learned], y[learned], task=task[learned])
    assert reg.tuning_ is not None
    assert reg.tuning_.is_widened
    assert noise_of(reg) == pytest.approx(noise, rel=0.5)  # without it: 1e-9


def test_rough_functions_are_matern() -> None:
    rng = np.random.default_rng(1)
    task = np.repeat(np.arange(40), 12)
    X = rng.uniform(0.0, 10.0, size=(len(task), 1))
    y = 2.0 * np.abs(X[:, 0] % 3.0 - 1.5) + rng.normal(size=40)[task] + 0.1 * rng.normal(size=len(task))
    reg = MixedEffectRegressor().fit(X, y, task=task)
    assert "average: Matern" in labels(reg)


def test_what_was_tried_is_told() -> None:
    world = World(2)
    world.f += (world.X * world.each(2)) @ np.array([1.0, 0.0])
    reg = world.fit()
    assert reg.tuning_ is not None
    structure = reg.summary().structure
    assert structure["step"].tolist() == [attempt.name for attempt in reg.tuning_.path]
    taken = dict(zip(structure["step"], structure["taken"]))
    assert taken["slopes of the shifts"] == "yes"
    assert taken["smooth average"] == "no"
    assert "slopes of the shifts" in str(reg.summary())


def test_what_is_given_stays_given() -> None:
    world = World(2)
    world.fit()
    rows, task = (world.X[:150], world.y[:150]), world.task[:150]
    given = MixedEffectRegressor(RBF([1.0, 1.0]), ConstantKernel(1.0)).fit(*rows, task=task)
    assert given.tuning_ is not None
    assert not given.tuning_.path
    one = MixedEffectRegressor(individual=ConstantKernel(1.0)).fit(*rows, task=task)
    assert one.tuning_ is not None
    assert {attempt.name for attempt in one.tuning_.path} >= {"smooth average"}
    assert not [attempt.name for attempt in one.tuning_.path if "shifts" in attempt.name]
    alone = MixedEffectRegressor().fit(*rows)
    assert alone.tuning_ is not None
    assert not alone.tuning_.path


def test_one_task_has_its_structure_from_rows_left_out() -> None:
    """Without its one task nothing tells the bias; without a row all others do."""
    world = World(1)
    world.f = 2.0 * np.sin(2.0 * world.X[:, 0])
    y = world.f + 0.4 * world.rng.normal(size=len(world.f))
    reg = MixedEffectRegressor().fit(world.X[:200], y[:200], task=["one"] * 200)
    assert "average: RBF" in labels(reg)
    assert noise_of(reg) == pytest.approx(0.16, rel=0.25)


def test_a_column_of_one_number_is_read_by_no_part() -> None:
    """Its variance may be that of its rounding, above 0."""
    world = World(2)
    world.X[:, 1] = 0.1
    world.f = 2.0 * np.sin(2.0 * world.X[:, 0]) + world.each(1)[:, 0] * (1.0 + world.X[:, 0])
    reg = world.fit()
    assert world.X[world.learned, 1].var() > 0.0
    assert (read_columns(reg, "average"), read_columns(reg, "individual")) == ({0}, {0})


@pytest.mark.parametrize("settings", [{}, {"common": "rbf", "individual": "linear"}])
def test_the_unit_of_weights_is_nothing(settings: dict[str, Any]) -> None:
    """Weights are often 1/variance, in the outputs' unit."""
    world = World(2)
    world.f = 2.0 * np.sin(2.0 * world.X[:, 0]) + world.each(1)[:, 0]
    y = world.f + 0.4 * world.rng.normal(size=len(world.f))
    weight = world.rng.uniform(0.5, 2.0, size=300)
    one, large = (
        MixedEffectRegressor(**settings).fit(world.X[:300], y[:300], world.task[:300], factor * weight)
        for factor in (1.0, 2.0**40)
    )
    assert labels(one) == labels(large)
    assert noise_of(large) == pytest.approx(2.0**40 * noise_of(one), rel=1e-3)
    np.testing.assert_allclose(one.predict(world.X), large.predict(world.X), atol=1e-3)


@pytest.mark.parametrize("offset", [0.0, 2e4, 1e8])
def test_inputs_far_from_zero_are_no_reason_to_refuse(offset: float) -> None:
    world = World(2)
    world.X += offset
    reg = world.fit()
    assert not [label for label in labels(reg) if "RBF" in label]
    assert noise_of(reg) == pytest.approx(0.16, rel=0.2)
    assert world.error(reg) < 0.25


def test_the_same_rows_have_the_same_structure() -> None:
    world = World(3)
    world.fit()
    order = world.rng.permutation(len(world.y))
    first, second = (
        MixedEffectRegressor().fit(world.X[rows], world.y[rows], task=world.task[rows])
        for rows in (np.arange(len(order)), order)
    )
    assert labels(first) == labels(second)
    np.testing.assert_allclose(first.predict(world.X), second.predict(world.X), atol=1e-3)


# --- the prior of the noise ---


def objective(prior: NoisePrior | None) -> tuple[TaskObjective, Components]:
    world = World(2)
    world.fit()
    rows = Rows.of(world.task[:120], world.X[:120], world.y[:120], np.ones(120))
    model = Settings().model(rows)
    folded, X = folded_tasks(rows, model)
    return TaskObjective(folded, X, prior=prior), Components.of(model, X)


def test_the_gradient_of_the_prior_is_its_derivative() -> None:
    of, components = objective(NoisePrior(0.3, 5.0))
    theta, step = components.theta, 1e-5
    at = of.slope(components)
    assert at is not None
    assert at.height == pytest.approx(of.value(components), rel=1e-12)
    for k, e in enumerate(np.eye(len(theta))):
        high, low = (of.value(components.at(theta + sign * step * e)) for sign in (1.0, -1.0))
        assert (high - low) / (2.0 * step) == pytest.approx(at.gradient[k], rel=1e-4, abs=1e-4)


def test_the_prior_speaks_against_little_noise_alone() -> None:
    prior = NoisePrior(0.01, 4.0)
    assert prior.log_density(1.0) == pytest.approx(0.0, abs=0.03)
    assert prior.log_density(1e-6) - prior.log_density(1e-5) == pytest.approx(-2.0 * np.log(10.0), abs=0.01)
    without, components = objective(None)
    with_prior, _ = objective(prior)
    assert without.value(components) - with_prior.value(components) == pytest.approx(0.0, abs=0.5)


def test_little_is_relative_to_the_variance_within_tasks() -> None:
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(200), 5)
    y = 100.0 * rng.normal(size=200)[task] + 0.5 * rng.normal(size=1000)
    rows = Rows.of(task, np.zeros((1000, 1)), y, np.ones(1000))
    assert noise_prior(rows).little == pytest.approx(0.25 * LITTLE_NOISE, rel=0.1)
    alone: Any = Rows.of(np.arange(1000), np.zeros((1000, 1)), y, np.ones(1000))
    assert noise_prior(alone).little == pytest.approx(float(np.var(y)) * LITTLE_NOISE)
