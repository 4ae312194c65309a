"""Whoever forgets the tasks is told: columns that look like groups, ``groups=``, and frames that became arrays."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn import datasets
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from motet import MixedEffectRegressor
from motet.errors import InvalidData, InvalidModel, NotFinite
from motet.kernels import RBF, ConstantKernel, DotProduct
from motet.tables.grouping import groups_among, has_group_name
from tests.oracles import Array

SETTINGS: dict[str, Any] = {"common": RBF(1.0), "individual": DotProduct(1.0), "lam": 0.05, "bias": "constant"}


def regressor(**changes: Any) -> MixedEffectRegressor:
    """With settings that stay as they are."""
    return MixedEffectRegressor(**SETTINGS | {"optimizer": None, "basis": None} | changes)


def rows(tasks: int = 40, each: int = 6, *, level: float = 1.0, slope: float = 0.0, seed: int = 0) -> Any:
    """An input, the tasks, and outputs whose level or slope differs between tasks."""
    rng, task = np.random.default_rng(seed), np.repeat(np.arange(tasks), each)
    x = rng.uniform(-2, 2, size=len(task))
    levels, slopes = level * rng.normal(size=tasks), slope * rng.normal(size=tasks)
    return x, task, np.sin(2 * x) + levels[task] + slopes[task] * x + 0.2 * rng.normal(size=len(task))


# --- columns that look like groups ---


@pytest.mark.parametrize("effect", [{"level": 1.0}, {"level": 0.0, "slope": 2.0}], ids=["levels", "slopes"])
def test_numbers_that_act_as_groups_are_told(effect: Any) -> None:
    x, task, y = rows(**effect)
    X = np.column_stack([x, task])
    with pytest.warns(UserWarning, match=r"^column 1 looks like a group: 40 whole numbers, each in 6 rows") as told:
        regressor().fit(X, y)
    (warning,) = told
    assert warning.filename == __file__
    assert "fit(X, y, task=ids) without that column" in str(warning.message)
    assert regressor().fit(X[:, :1], y, task=task).score(X[:, :1], y, task=task) > 0.9  # which is what it says


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("name", ["id", "subject", "patient_id", "groupNo"])
def test_names_of_groups_are_told_in_a_frame(frame: Any, name: str) -> None:
    x, task, y = rows(level=0.0, tasks=12)
    table = frame({"x": x, name: task})
    with pytest.warns(UserWarning, match=rf"^{name} looks like a group: 12 .* MixedEffectRegressor\(task='{name}'\)"):
        regressor().fit(table, y)
    regressor(task=name).fit(table, y)  # a warning would be an error
    regressor().fit(table[["x"]], y, task=task)


@pytest.mark.parametrize("name", ["age", "age_group", "valid", "group_size", "grid", "x", "hours", "7"])
def test_other_names_are_not(name: str) -> None:
    assert not has_group_name(name)


HOURS = np.arange(1, 25)
QUANTITIES: dict[str, tuple[Array, Callable[[Array], Array]]] = {
    "hours": (HOURS, lambda h: 3 * np.sin(2 * np.pi * h / 24)),
    "two waves": (HOURS, lambda h: 3 * np.sin(4 * np.pi * h / 24)),
    "rush hours": (HOURS, lambda h: 5.0 * np.isin(h, [7, 8, 17, 18])),
    "holidays": (np.arange(1, 13), lambda m: 5.0 * np.isin(m, [8, 12])),
    "steep": (np.arange(1, 13), lambda m: 100.0 * m),
    "parabola": (np.arange(1, 13), lambda m: (m - 6.0) ** 2),
    "years": (np.arange(1990, 2021), lambda t: 0.1 * (t - 1990)),
    "days": (np.arange(1, 301), np.log),
    "nothing": (np.arange(30), lambda k: 0.0 * k),
    "few": (np.arange(1, 8), lambda k: 4.0 * (k % 2)),
    "indicator": (np.arange(2), lambda k: 4.0 * k),
}


@pytest.mark.parametrize("kind", QUANTITIES)
def test_whole_numbers_that_are_quantities_are_not_told(kind: str) -> None:
    values, curve = QUANTITIES[kind]
    for seed in range(5):
        rng = np.random.default_rng(seed)
        k, x = rng.choice(values, size=1500), rng.normal(size=1500)
        y = curve(k) + np.sin(x) + 0.3 * rng.normal(size=1500)
        assert not list(groups_among(np.column_stack([x, k]), y, ["x", "k"]))


def test_counts_whose_outputs_spread_with_them_are_not_told() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        counts = rng.geometric(0.05, size=800).astype(float)
        assert not list(groups_among(counts[:, None], counts * np.exp(0.8 * rng.normal(size=800)), None))


@pytest.mark.parametrize("name", ["load_diabetes", "load_wine", "load_breast_cancer", "load_iris", "load_digits"])
def test_tables_of_scikit_learn_have_no_groups(name: str) -> None:
    data = getattr(datasets, name)(**({"scaled": False} if name == "load_diabetes" else {}))
    assert not list(groups_among(data.data, data.target.astype(float), data.feature_names))


def test_groups_are_told_among_many_columns_and_huge_numbers_are_left_to_others() -> None:
    x, task, y = rows(each=30)
    many = np.random.default_rng(0).normal(size=(len(y), 80))
    assert list(groups_among(np.column_stack([many, task]), y, None)) == [(80, 40)]
    X = np.column_stack([x, np.where(task, 1e200, 1.0) * task])
    with pytest.raises(NotFinite, match="must be finite"):
        regressor(individual=ConstantKernel(1.0)).fit(X, y)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_text_that_repeats_may_be_the_task(frame: Any) -> None:
    """A category of many levels is told, too many are refused: as a group, if they repeat."""
    x, task, y = rows(tasks=120)
    table = frame({"x": x, "who": [f"user {k}" for k in task]})
    with pytest.warns(UserWarning, match=r"who looks like a group: 8 levels.* MixedEffectRegressor\(task='who'\)"):
        regressor().fit(table[:48], y[:48])
    regressor(task="who").fit(table[:48], y[:48])  # without a warning
    with pytest.raises(InvalidData, match=r'"user 0".* leave it out.*; if .* groups of rows, say task=\'who\'$'):
        regressor().fit(table, y)
    with pytest.raises(InvalidData, match=r"leave it out, or give it fewer levels$"):
        regressor().fit(table[::6], y[::6])  # names that do not repeat


# --- scikit-learn's word ---


def test_groups_are_tasks() -> None:
    x, task, y = rows()
    X, reg = x[:, None], regressor()
    expected = regressor().fit(X, y, task=task)
    reg.fit(X, y, groups=task)
    np.testing.assert_array_equal(reg.predict(X, groups=task), expected.predict(X, task=task))
    assert reg.score(X, y, groups=task) == expected.score(X, y, task=task)
    np.testing.assert_array_equal(regressor().partial_fit(X, y, groups=task).predict(X), expected.predict(X))
    for call in (reg.fit, reg.partial_fit, reg.score):
        with pytest.raises(InvalidData, match="task= and groups= both name the group of each row"):
            call(X, y, task=task, groups=task)
    with pytest.raises(InvalidData, match="both name the group"):
        reg.predict(X, task=task, groups=task)
    with pytest.raises(InvalidData, match="tasks are in the column 'who' already"):
        regressor(task="who").fit(pd.DataFrame({"x": x, "who": task}), y, groups=task)


def test_routed_groups_are_of_the_folds_unless_they_are_requested() -> None:
    x, task, y = rows(level=3.0)
    X, folds = x[:, None], GroupKFold(4)
    with sklearn.config_context(enable_metadata_routing=True):
        asked = regressor().set_fit_request(task=False, groups=True).set_score_request(task=False, groups=True)
        scores = cross_val_score(asked, X, y, cv=folds, params={"groups": task})
        by_task = cross_val_score(regressor(), X, y, cv=folds, params={"groups": task, "task": task})
        alone = cross_val_score(regressor(), X, y, cv=folds, params={"groups": task})
        search = GridSearchCV(asked, {"alpha": [0.2, 0.8]}, cv=folds).fit(X, y, groups=task)
    np.testing.assert_array_equal(scores, by_task)
    assert (scores != alone).all()
    assert len(search.best_estimator_.tasks_) == 40
    unrouted = cross_val_score(regressor(task="who"), pd.DataFrame({"x": x, "who": task}), y, groups=task, cv=folds)
    np.testing.assert_allclose(unrouted, by_task)


# --- frames in pipelines ---


def test_a_pipeline_that_makes_arrays_is_told_how_to_keep_frames() -> None:
    x, task, y = rows()
    table = pd.DataFrame({"x": x, "subject": task})
    pipeline = make_pipeline(StandardScaler(), regressor(task="subject"))
    with pytest.raises(InvalidData, match="got ndarray; in a pipeline") as refusal:
        pipeline.fit(table, y)
    (way,) = re.findall(r"pipeline(\.set_output\(.*?\))", str(refusal.value))
    assert way == '.set_output(transform="pandas")'
    pipeline.set_output(transform="pandas").fit(table, y)
    assert len(pipeline[-1].tasks_) == 40
    ids = make_pipeline(StandardScaler(), regressor()).fit(table[["x"]], y, mixedeffectregressor__task=task)
    np.testing.assert_allclose(ids.predict(table[["x"]], task=task), pipeline.predict(table))


def test_a_column_transformer_that_renames_the_tasks_is_named() -> None:
    x, task, y = rows()
    table = pd.DataFrame({"x": x, "subject": task})

    def pipeline(**options: Any) -> Any:
        scale = ColumnTransformer([("scale", StandardScaler(), ["x"])], remainder="passthrough", **options)
        return make_pipeline(scale, regressor(task="subject")).set_output(transform="pandas")

    with pytest.raises(InvalidData, match=r"verbose_feature_names_out=False\) leaves 'remainder__subject' its name$"):
        pipeline().fit(table, y)
    assert len(pipeline(verbose_feature_names_out=False).fit(table, y)[-1].tasks_) == 40


# --- one row each, and other outcomes ---


def test_one_row_of_every_task_is_told() -> None:
    x, task, y = rows(tasks=60, each=1)
    alone = "^every task has one row, so nothing tells shifts from noise: .* give several rows of some tasks$"
    with pytest.warns(UserWarning, match=alone) as told:
        MixedEffectRegressor("rbf", "constant").fit(x[:, None], y, task=task)
    assert [warning.filename for warning in told] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        regressor().fit(x[:, None], y, task=task)  # settings are given, so nothing is divided
        MixedEffectRegressor("rbf", "constant").fit(x[:, None], y, task=np.append(task[:-1], 0))


@pytest.mark.parametrize("family", ["binomial", "poisson", None, 3])
def test_outcomes_are_gaussian(family: Any) -> None:
    x, task, y = rows(tasks=5)
    table = pd.DataFrame({"x": x, "id": task, "y": y})
    fits: list[Callable[[], Any]] = [
        lambda: regressor(family=family).fit(x[:, None], y, task=task),
        lambda: MixedEffectRegressor.from_formula("y ~ x + (1 | id)", table, family=family),
    ]
    for fit in fits:
        with pytest.raises(InvalidModel, match=rf'must be "gaussian", got {family!r}: outcomes are real numbers'):
            fit()
    said = MixedEffectRegressor.from_formula("y ~ x + (1 | id)", table, family="gaussian", optimizer=None)
    unsaid = MixedEffectRegressor.from_formula("y ~ x + (1 | id)", table, optimizer=None)
    np.testing.assert_array_equal(said.predict(table), unsaid.predict(table))
