"""The estimator: scikit-learn's checks, frames and labels, and the same numbers as the engine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from motet import Features, Landmarks, MixedEffectRegressor
from motet.errors import EmptyData, InvalidData, InvalidModel, NotPositiveDefinite, UnknownTask, WrongDimension
from motet.kernels import RBF, ConstantKernel, DotProduct, ExpSineSquared, Linear, Scaled
from tests.oracles import Array, DenseGP, Problem
from tests.streams import CASES, engine_of, probes, problem

WEIGHTS_ARE_REPEATS = "check_sample_weight_equivalence_on_dense_data"


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [
        MixedEffectRegressor(),
        MixedEffectRegressor("matern", "rbf", alpha=0.5, lam=0.1, bias="linear", optimizer=None),
        MixedEffectRegressor("dot_product", "rbf", basis=Features(), optimizer=None),
        MixedEffectRegressor(common=None, individual="rbf", missing="indicator", optimizer=None),
    ]
)
@pytest.mark.filterwarnings("ignore:settings are kept as given")  # some checks fit two rows
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    if estimator.optimizer and getattr(check, "func", check).__name__ == WEIGHTS_ARE_REPEATS:
        # With given settings they are. To the evidence a row of weight 2 is one observation, with half the noise.
        with pytest.raises(AssertionError, match="not equivalent to fitting with removed or repeated"):
            check(estimator)
        return
    check(estimator)


@pytest.fixture
def routing() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def study(seed: int = 0, tasks: int = 40, rows: int = 6) -> tuple[Array, Array, Array]:
    """Lines with a common curve: slopes differ by task."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(tasks), rows)
    X = rng.uniform(-2, 2, size=(tasks * rows, 1))
    slope = rng.normal(size=tasks)
    return X, np.sin(2 * X[:, 0]) + slope[task] * X[:, 0] + 0.1 * rng.normal(size=len(X)), task


def regressor(**changes: Any) -> MixedEffectRegressor:
    """With settings that stay as they are."""
    kernels = {"common": RBF(1.0), "individual": DotProduct(0.0), "alpha": 0.5, "lam": 0.02}
    return MixedEffectRegressor(**kernels | {"bias": "constant", "basis": None, "optimizer": None} | changes)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("name", ["ard", "rank 3", "mixed model"])
def test_known_new_and_absent_tasks(name: str, alpha: float) -> None:
    """The very numbers of the dense process, means and standard deviations, for all tasks at once."""
    p = problem(CASES[name], seed=8, alpha=alpha, lam=0.1, bias="constant")
    p.kernels = {}
    p.noise[:] = 10 ** np.random.default_rng(2).uniform(-2, 2, size=len(p.y))
    reg = MixedEffectRegressor(p.common, p.individual, alpha, 0.1, "constant", optimizer=None)
    reg.fit(p.X, p.y, task=p.tasks, sample_weight=1 / p.noise)
    gp, X = DenseGP(p), probes(p)
    assert reg.sigma2_ == pytest.approx(gp.sigma2)
    assert reg.log_evidence_ == pytest.approx(gp.log_evidence, rel=1e-9)
    labels = np.array(["t0", "t1", "t2", "nobody", "t1", "t8"] * 2)
    mean, std = reg.predict(X, task=labels, return_std=True)
    for k, label in enumerate(labels):
        expected_mean, expected_std = gp.predict(X[[k]], label)
        assert mean[k] == pytest.approx(expected_mean[0], abs=1e-8 * np.abs(p.y).max())
        assert std[k] ** 2 == pytest.approx(expected_std[0] ** 2, rel=1e-8, abs=1e-8 * gp.sigma2)
    average = reg.predict(X, return_std=True)
    np.testing.assert_allclose(average[0], gp.predict(X, None)[0], rtol=0, atol=1e-8 * np.abs(p.y).max())
    np.testing.assert_allclose(average[1] ** 2, gp.predict(X, None)[1] ** 2, rtol=1e-8, atol=1e-8 * gp.sigma2)


def test_predictions_are_those_of_the_engines_estimates() -> None:
    p = problem(CASES["ard"], seed=3, alpha=0.3, lam=0.1, bias="linear")
    engine, X = engine_of(p), probes(p)
    for task in ("t0", "t3", "t5"):
        estimate = engine.disclose().active_estimate(engine.coefficients(task))
        for observation in (False, True):
            mine = engine.predict_many([task] * len(X), X, return_std=True, observation=observation)
            theirs = estimate.predict(X, return_std=True, observation=observation)
            np.testing.assert_allclose(mine, theirs, rtol=1e-7, atol=1e-9)


def test_without_tasks_all_rows_are_one() -> None:
    X, y, _ = study()
    one = regressor().fit(X, y)
    same = regressor().fit(X, y, task=["x"] * len(y))
    np.testing.assert_allclose(one.predict(X), same.predict(X, task=["x"] * len(y)))
    assert np.abs(one.predict(X) - same.predict(X)).max() > 1e-3  # the average is something else
    with pytest.raises(InvalidData, match="omit task= in predict"):
        one.predict(X, task=["x"] * len(y))


@pytest.mark.parametrize(
    "labels",
    [
        lambda t: t,
        lambda t: t.tolist(),
        lambda t: [f"user {k}" for k in t],
        lambda t: np.array([f"user {k}" for k in t]),
        lambda t: [("site", int(k)) for k in t],
        lambda t: pd.Series(t).astype("category"),
        lambda t: pd.Series([f"user {k}" for k in t], dtype="string"),
        lambda t: pd.Series([("site", int(k)) for k in t]),
        pl.Series,
        lambda t: t.astype(float),
    ],
)
def test_labels_of_every_kind(labels: Any) -> None:
    X, y, task = study()
    expected = regressor().fit(X, y, task=task).predict(X, task=task)
    named = labels(task)
    np.testing.assert_allclose(regressor().fit(X, y, task=named).predict(X, task=named), expected, rtol=1e-9)


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
def test_a_missing_label_is_a_new_individual(missing: Any) -> None:
    X, y, task = study()
    reg = regressor().fit(X, y, task=task.tolist())
    unseen = reg.predict(X[:2], task=["never", "seen"], return_std=True)
    np.testing.assert_array_equal(reg.predict(X[:2], task=[missing, missing], return_std=True), unseen)
    assert (unseen[1] > reg.predict(X[:2], return_std=True)[1]).all()  # more than the average's
    with pytest.raises(InvalidData, match="needs a task label"):
        regressor().fit(X[:2], y[:2], task=["a", missing])


def test_a_number_far_from_all_others_is_named() -> None:
    X, y, task = study()
    X, y = X.copy(), y.copy()
    X[0, 0], y[5] = np.nan, 1e12
    with (
        pytest.warns(UserWarning, match="missing values"),
        pytest.warns(UserWarning, match="deviation of the others") as told,
    ):
        regressor().fit(X, y, task=task)
    (warning,) = [one for one in told if "deviation of the others" in str(one.message)]
    assert re.match(r"row 5, y 1e\+12: .e\+1. times the standard deviation of the others", str(warning.message))
    assert warning.filename == __file__


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_with_a_task_column(frame: Any) -> None:
    X, y, task = study()
    table = frame({"x": X[:, 0], "who": task})
    reg = regressor(task="who").fit(table, y)
    expected = regressor().fit(X, y, task=task)
    np.testing.assert_allclose(reg.predict(table), expected.predict(X, task=task))
    np.testing.assert_allclose(reg.predict(table[["x"]]), expected.predict(X))  # no column: the average
    assert list(reg.feature_names_in_) == ["x"]
    assert reg.n_features_in_ == 1
    with pytest.raises(InvalidData, match="leave task= out"):
        reg.fit(table, y, task=task)
    with pytest.raises(InvalidData, match=r"^no column 'who'; got x; name another with task=$"):
        reg.fit(table[["x"]], y)
    with pytest.raises(InvalidData, match="a column 'who' of tasks, got ndarray"):
        regressor(task="who").fit(X, y)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_misspelt_task_column_is_suggested(frame: Any) -> None:
    table = frame({"hours": [0.0, 1.0], "dose": [1.0, 2.0], "patient": ["a", "b"]})
    wrong = r"^no column 'Patient'; got hours, dose, patient; did you mean 'patient'\? rename it to 'Patient'"
    with pytest.raises(InvalidData, match=wrong):
        regressor(task="Patient").fit(table, [1.0, 2.0])
    reg = regressor(task="patient").fit(table, [1.0, 2.0])
    with pytest.raises(InvalidData, match=r"got hours, dose, Patient; did you mean 'Patient'\? rename"):
        reg.predict(frame({"hours": [0.0], "dose": [1.0], "Patient": ["a"]}))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array(["2026-01-01", "2026-01-02"], "datetime64[us]"), "in the column 'z', got dates or times .*; convert"),
        (["31.12.2020", "01.01.2021"], r"in the column 'z', got dates or times \(such as 31.12.2020\); convert"),
        (np.array([0, 3600], "timedelta64[ms]"), "in the column 'z', got dates or times"),
        (["north", "south"], "in the column 'z', got 'north'; encode it, or leave it out$"),
    ],
)
def test_a_column_that_was_fitted_as_numbers_stays_one(frame: Any, values: Any, message: str) -> None:
    table = frame({"x": [0.0, 1.0], "z": values, "who": ["a", "b"]})
    reg = regressor(task="who").fit(frame({"x": [0.0, 1.0], "z": [2.0, 3.0], "who": ["a", "b"]}), [1.0, 2.0])
    with pytest.raises(InvalidData, match=message):
        reg.predict(table)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("values", [[1, 2], [True, False], [1.0, 2.0], ["1", "2"]])
def test_columns_that_are_numbers_are_read(frame: Any, values: Any) -> None:
    table = frame({"x": values, "who": ["a", "b"]})
    expected = regressor().fit(np.array(values, dtype=float)[:, None], [1.0, 2.0], task=["a", "b"])
    np.testing.assert_array_equal(regressor(task="who").fit(table, [1.0, 2.0]).disclosed_.eta, expected.disclosed_.eta)


def test_inputs_of_other_columns_are_refused_without_a_warning() -> None:
    """A warning would be an error here."""
    table = pd.DataFrame({"x": [0.0, 1.0], "z": [1.0, 2.0], "who": ["a", "b"]})
    reg, named = regressor(task="who").fit(table, [1.0, 2.0]), regressor().fit(table[["x", "z"]], [1.0, 2.0])
    with pytest.raises(InvalidData, match="expected the columns x, z, got only the column 'who' of tasks"):
        reg.predict(table[["who"]])
    with pytest.raises(InvalidData, match="expected columns of inputs, got only the column 'who' of tasks"):
        regressor(task="who").fit(table[["who"]], [1.0, 2.0])
    with pytest.raises(InvalidData, match="a data frame with a column 'who' of tasks, got ndarray"):
        reg.predict(table[["x", "z"]].to_numpy())
    with pytest.raises(InvalidData, match="expected the columns x, z, got an array of 3 columns"):
        named.predict(np.zeros((2, 3)))


def test_weights_are_repeats_and_zero_drops_the_row() -> None:
    X, y, task = study()
    weight = np.random.default_rng(1).integers(0, 3, size=len(y))
    weighted = regressor(sigma2=1.0).fit(X, y, task=task, sample_weight=weight)
    rows = np.repeat(np.arange(len(y)), weight)
    repeated = regressor(sigma2=1.0).fit(X[rows], y[rows], task=task[rows])
    np.testing.assert_allclose(
        weighted.predict(X, task=task, return_std=True), repeated.predict(X, task=task, return_std=True), rtol=1e-8
    )
    with pytest.raises(EmptyData, match="zero"):
        regressor().fit(X, y, sample_weight=0 * y)
    for bad in (-1.0, np.nan):
        with pytest.raises(InvalidData, match="not negative; row 18 is"):
            regressor().fit(X, y, sample_weight=np.where(task == 3, bad, 1.0))


def test_partial_fit_and_forget_are_exact() -> None:
    X, y, task = study()
    reg = regressor()
    for part in np.array_split(np.random.default_rng(0).permutation(len(y)), 7):
        reg.partial_fit(X[part], y[part], task=task[part])
    whole = regressor().fit(X, y, task=task)
    np.testing.assert_allclose(reg.predict(X, task=task), whole.predict(X, task=task), rtol=1e-9)
    assert reg.log_evidence_ == pytest.approx(whole.log_evidence_)
    left = task != 7
    reg.forget(7)
    never = regressor().fit(X[left], y[left], task=task[left])
    np.testing.assert_allclose(reg.predict(X, task=task), never.predict(X, task=task), rtol=1e-8)
    assert 7 not in reg.tasks_
    assert reg.sigma2_ == pytest.approx(never.sigma2_)
    with pytest.raises(UnknownTask, match="7"):
        reg.forget(7)
    with pytest.raises(InvalidData, match="every time or never"):
        reg.partial_fit(X, y)


def test_a_fixed_basis_that_spans_the_inputs_changes_nothing() -> None:
    X, y, task = study()
    X = np.round(X, 1)
    grid = np.arange(-20, 21)[:, None] / 10
    grown, fixed = (regressor(basis=basis).fit(X, y, task=task) for basis in (None, Landmarks(grid)))
    np.testing.assert_allclose(grown.predict(X, task=task), fixed.predict(X, task=task), rtol=1e-6, atol=1e-7)


# --- scikit-learn's machinery -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("folds", [KFold(4, shuffle=True, random_state=0), GroupKFold(4)], ids=["plain", "by task"])
def test_cross_validation_routes_tasks(folds: Any) -> None:
    """Plain folds see every task and predict it; folds by task predict new individuals."""
    X, y, task = study()
    params = {"task": task, "groups": task} if isinstance(folds, GroupKFold) else {"task": task}
    scores = cross_validate(regressor(), X, y, cv=folds, params=params, return_train_score=True)["test_score"]
    by_hand = []
    for train, test in folds.split(X, y, task if isinstance(folds, GroupKFold) else None):
        fitted = regressor().fit(X[train], y[train], task=task[train])
        by_hand.append(fitted.score(X[test], y[test], task=task[test]))
    np.testing.assert_allclose(scores, by_hand)
    assert (np.mean(scores) > 0.9) == isinstance(folds, KFold)


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("folds", [KFold(3, shuffle=True, random_state=0), GroupKFold(3)], ids=["plain", "by task"])
def test_grid_search_over_alpha_and_lam_in_a_pipeline_on_a_frame(folds: Any) -> None:
    X, y, task = study()
    table = pd.DataFrame({"x": X[:, 0], "unrelated": np.random.default_rng(0).normal(size=len(y))})
    pipeline = make_pipeline(StandardScaler(), regressor(common=RBF([1.0, 10.0])))
    grid = {"mixedeffectregressor__alpha": [0.0, 0.5, 1.0], "mixedeffectregressor__lam": [1e-2, 1.0]}
    search = GridSearchCV(pipeline, grid, cv=folds)
    search.fit(table, y, task=task, **({"groups": task} if isinstance(folds, GroupKFold) else {}))
    assert search.best_params_["mixedeffectregressor__alpha"] > 0.0
    assert (search.best_score_ > 0.9) == isinstance(folds, KFold)  # new individuals are harder
    alone = clone(pipeline).set_params(**search.best_params_).fit(table, y, task=task)
    best = search.best_estimator_
    np.testing.assert_array_equal(best.predict(table, task=task), alone.predict(table, task=task))
    assert search.score(table, y, task=task) > 0.8


def test_grid_search_with_a_task_column_needs_no_routing() -> None:
    X, y, task = study()
    table = pd.DataFrame({"x": X[:, 0], "who": [f"user {k}" for k in task]})
    scale = ColumnTransformer(
        [("scale", StandardScaler(), ["x"])], remainder="passthrough", verbose_feature_names_out=False
    )
    pipeline = Pipeline([("scale", scale.set_output(transform="pandas")), ("learn", regressor(task="who"))])
    search = GridSearchCV(pipeline, {"learn__alpha": [0.0, 0.5, 1.0]}, cv=KFold(3, shuffle=True, random_state=0))
    search.fit(table, y)
    assert search.best_params_ == {"learn__alpha": 0.5}
    assert search.best_score_ > 0.9


def test_kernel_parameters_can_be_searched() -> None:
    reg = regressor()
    assert clone(reg).set_params(common__length_scale=3.0).common == RBF(3.0)
    assert reg.common == RBF(1.0)


# --- what people read -------------------------------------------------------------------------------------------------


def test_components_recover_the_simulations() -> None:
    """A random intercept and slope: the classical mixed model, with σ² estimated."""
    rng = np.random.default_rng(0)
    tasks, rows = 800, 8
    C = np.array([[1.0, 0.3], [0.3, 0.5]])
    task = np.repeat(np.arange(tasks), rows)
    x = rng.uniform(-1, 1, size=tasks * rows)
    b = rng.multivariate_normal([0, 0], 4.0 * C, size=tasks)
    y = 3 + 2 * x + b[task, 0] + b[task, 1] * x + rng.normal(size=len(x))
    reg = MixedEffectRegressor(None, Linear(C), lam=0.25, bias="linear", optimizer=None).fit(x[:, None], y, task=task)
    parts = reg.components_
    assert parts.noise == pytest.approx(1.0, rel=0.05)
    assert parts.individual == pytest.approx(4 * (1 + 0.5 * np.mean(x**2)), rel=0.1)
    assert parts.average == 0.0
    np.testing.assert_allclose(reg.disclosed_.theta, [3, 2], atol=0.2)
    assert str(parts).splitlines()[0].split() == ["component", "variance", "std", "share"]
    assert [line.split()[0] for line in str(parts).splitlines()[1:]] == ["average", "individual", "noise"]


def test_repr_is_readable() -> None:
    reg = regressor(basis=Landmarks(np.zeros((41, 1)) + np.arange(41)[:, None]), common=ConstantKernel(2.0) * RBF(1.0))
    assert "Landmarks(41 points)" in repr(reg)
    assert len(repr(reg)) < 300
    X, y, task = study()
    assert repr(regressor().fit(X, y, task=task).disclosed_).startswith("Disclosed(release 1, growing basis of rank")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"alpha": 2.0}, InvalidModel, "alpha must lie in"),
        ({"common": "neural"}, InvalidModel, "known are rbf"),
        ({"bias": "cubic"}, InvalidModel, "bias must be one of"),
        ({"common": ExpSineSquared(0.3, 0.5)}, NotPositiveDefinite, "needs inputs of one column"),
        ({"common": RBF([1.0, 2.0, 3.0])}, WrongDimension, "2 columns"),
    ],
)
def test_refused_settings_show_in_fit(change: dict[str, Any], error: type[Exception], message: str) -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.raises(error, match=message):
        regressor(**change).fit(X, X[:, 0])


def test_kernels_given_by_name_read_scaled_inputs() -> None:
    X = np.array([[1.0, 5.0], [3.0, 5.0]])
    model = MixedEffectRegressor("rbf", "dot_product", optimizer=None).fit(X, [1.0, 2.0]).engine_.model
    scaling = [2.0, 5.0], [1.0, 1.0]
    assert (model.common, model.individual) == (Scaled(RBF(1.0), *scaling), Scaled(DotProduct(0.0), *scaling))


def test_refused_labels() -> None:
    X, y, task = study()
    with pytest.raises(WrongDimension, match="240 task labels, one for each input"):
        regressor().fit(X, y, task=task[1:])
    with pytest.raises(WrongDimension, match="labels"):
        regressor().fit(X, y, task="one")
    with pytest.raises(WrongDimension, match="sample_weight must hold 240"):
        regressor().fit(X, y, sample_weight=[1.0, 2.0])
    with pytest.raises(InvalidData, match="real numbers"):
        regressor().fit(X, y, sample_weight=["heavy"] * 240)


def test_one_problem_for_the_dense_process_by_hand() -> None:
    """α K̄ + (1−α) K̃ and σ²λ by hand, two tasks, no package code but the regressor."""
    X, y = np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 2.0, 0.5])
    p = Problem(["a", "a", "b"], X, y, np.ones(3), RBF(1.0), DotProduct(1.0), 0.5, 0.1, "none")
    reg = MixedEffectRegressor(RBF(1.0), DotProduct(1.0), 0.5, 0.1, "none", optimizer=None)
    reg.fit(X, y, task=["a", "a", "b"])
    V = 0.5 * RBF(1.0)(X) + 0.1 * np.eye(3)
    V[:2, :2] += 0.5 * DotProduct(1.0)(X[:2])
    V[2, 2] += 0.5 * 5.0
    np.testing.assert_allclose(p.V, V)
    assert reg.sigma2_ == pytest.approx(y @ np.linalg.solve(V, y) / 3)


# --- which columns are fixed ---


def test_a_bias_by_names_and_by_numbers() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 3)), columns=["age", "dose", "weight"])
    task, y = rng.integers(6, size=60), X.dose + rng.normal(size=60)
    settings: dict[str, Any] = {"common": None, "individual": ConstantKernel(1.0), "optimizer": None}
    named = MixedEffectRegressor(bias=["dose", "weight"], **settings).fit(X, y, task=task)
    assert named.engine_.model.bias == (1, 2)
    assert len(named.disclosed_.theta) == 3
    numbered = MixedEffectRegressor(bias=(1, 2), **settings).fit(X.to_numpy(), y, task=task)
    np.testing.assert_array_equal(named.predict(X, task=task), numbered.predict(X.to_numpy(), task=task))
    with pytest.raises(InvalidModel, match=r"'doses', the inputs have age, dose, weight; did you mean 'dose'\?"):
        MixedEffectRegressor(bias=["doses"], **settings).fit(X, y, task=task)
