"""Moments of tasks against the tasks themselves: the same information, evidence, gradient, settings and estimates."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from motet import Engine, Features, MixedEffectRegressor, Model
from motet.arrays import match
from motet.engine.condensation import condensed
from motet.engine.system import System
from motet.errors import InvalidModel, UnknownTask, WrongDimension
from motet.kernels import RBF, ConstantKernel, DotProduct, Linear, Scaled
from motet.model.tasks import fold
from motet.scale.moments import Moments
from motet.tuning.gradient import slope
from motet.tuning.tuning import tune_tasks
from tests.oracles import Array, DenseGP, Problem

C = ConstantKernel
COVARIANCE = [[1.0, 0.3, 0.0], [0.3, 0.7, 0.1], [0.0, 0.1, 0.5]]
MODELS: dict[str, dict[str, Any]] = {
    "random intercept": {"common": None, "individual": C(0.7)},
    "intercept and slopes": {"common": None, "individual": Linear(COVARIANCE)},
    "linear average": {"common": C(0.5) * DotProduct(0.6), "individual": Linear(COVARIANCE), "basis": Features()},
    "scaled": {"common": None, "individual": Scaled(C(0.5) + DotProduct(0.5), [1e3, 1.0], [1.0, 2.0])},
}
SIZES = (40, 3, 300, 1, 40, 2, 4)


def world(offset: float = 0.0) -> tuple[list[str], Array, Array, Array]:
    """Tasks long and short, in any order; one whose inputs are all equal."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(len(SIZES)), SIZES)
    X = rng.normal([offset, 0.0], size=(len(task), 2))
    X[task == 4] = X[0]
    y = 5.0 + X @ [0.5, -1.0] + rng.normal(size=len(SIZES))[task] + 0.3 * rng.normal(size=len(task))
    order = rng.permutation(len(task))
    return [f"task {k}" for k in task[order]], X[order], y[order], 10 ** rng.uniform(-0.5, 0.5, size=len(task))


def twins(name: str, bias: Any) -> tuple[Model, Engine, Moments, DenseGP]:
    offset = 1e3 if name == "scaled" else 0.0
    settings = MODELS[name]
    model, rows = Model(alpha=0.4, lam=0.2, bias=bias, **settings), world(offset)
    engine = Engine(model)
    engine.learn_many(*rows)
    problem = Problem(*rows, settings["common"], settings["individual"], 0.4, 0.2, bias)
    return model, engine, Moments.of_rows(*rows), DenseGP(problem)


@pytest.mark.parametrize(
    ("name", "bias"),
    [pair for pair in product(MODELS, ["none", "constant", "linear"]) if pair != ("scaled", "linear")],
)
def test_moments_say_what_the_rows_say(name: str, bias: Any) -> None:
    """All but a linear bias at inputs far from 0: without landmarks it is counted from there."""
    model, engine, moments, twin = twins(name, bias)
    assert len(moments.X) == sum(min(size, 3) for size in SIZES)
    total, expected = moments.information(model), engine.information()
    np.testing.assert_allclose(total.G, expected.G, rtol=1e-9, atol=1e-9 * np.abs(expected.G).max(initial=0.0))
    np.testing.assert_allclose(total.g, expected.g, rtol=1e-9, atol=1e-9 * np.abs(expected.g).max(initial=0.0))
    for method, evidence in (("REML", twin.log_evidence), ("ML", None)):
        found = moments.evidence(model, method)  # type: ignore[arg-type]
        dense = System.of_tasks(model, *folded(world(1e3 if name == "scaled" else 0.0)), method).evidence  # type: ignore[arg-type]
        assert found.log_evidence == pytest.approx(dense.log_evidence if evidence is None else evidence, rel=1e-9)
        assert found.sigma2 == pytest.approx(dense.sigma2, rel=1e-9)
    release, at = moments.disclose(model), world(1e3 if name == "scaled" else 0.0)[1][:5]
    for task in ("task 2", "task 0", "task 1", "task 3", "task 4"):
        mean, std = moments.estimate(release, task).predict(at, return_std=True)
        np.testing.assert_allclose(mean, twin.predict(at, task)[0], rtol=1e-8)
        np.testing.assert_allclose(std, twin.predict(at, task)[1], rtol=1e-6)


def folded(rows: tuple[list[str], Array, Array, Array]) -> tuple[Any, Array]:
    task, X, y, noise = rows
    number = {label: k for k, label in enumerate(dict.fromkeys(task))}
    input, first = match(X, {})
    return fold(np.array([number[label] for label in task]), input, y, noise), X[first]


@pytest.mark.parametrize("name", MODELS)
def test_gradient_and_curvature_are_those_of_the_rows(name: str) -> None:
    model = replace(twins(name, "constant")[0], alpha=0.5, lam=0.5)
    tasks, X = folded(world())
    full, short = slope(System.of_tasks(model, tasks, X)), slope(System.of_tasks(model, *condensed(tasks, X)))
    np.testing.assert_allclose(short.gradient, full.gradient, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(short.information, full.information, rtol=1e-8, atol=1e-8)


def test_moments_add_in_any_pieces() -> None:
    """A task's rows may be in several pieces: then they are condensed again."""
    model, _, whole, _ = twins("intercept and slopes", "linear")
    task, X, y, noise = world()
    pieces = [Moments.of_rows(task[k::5], X[k::5], y[k::5], noise[k::5]) for k in range(5)]
    total = pieces[0] + pieces[1] + pieces[2] + pieces[3] + pieces[4]
    assert total.rows == whole.rows == len(task)
    assert set(total.labels) == set(whole.labels)
    assert total.evidence(model).log_evidence == pytest.approx(whole.evidence(model).log_evidence, rel=1e-12)
    np.testing.assert_allclose(total.disclose(model).theta, whole.disclose(model).theta, rtol=1e-10)
    with pytest.raises(WrongDimension, match="got 2 and 1 columns"):
        whole + Moments.of_rows(["a"], [[0.0]], [1.0])


def test_settings_are_those_of_the_rows() -> None:
    """The search condenses by itself; from moments it is the same one."""
    model, engine, moments, _ = twins("intercept and slopes", "linear")
    found, expected = moments.tune(model), tune_tasks(engine.model, *engine.folded())
    assert found.log_evidence == pytest.approx(expected.log_evidence, abs=1e-5)  # starts differ, the summit does not
    assert found.rows == expected.rows
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-2, atol=1e-2)


def test_what_is_not_linear_is_refused() -> None:
    moments = Moments.of_rows(["a", "a"], [[0.0], [1.0]], [1.0, 2.0])
    for model in (Model(None, RBF(1.0), 0.5, 0.1), Model(DotProduct(1.0), C(1.0), 0.5, 0.1)):
        with pytest.raises(InvalidModel, match="moments are of linear models"):
            moments.disclose(model)
    with pytest.raises(UnknownTask, match="'b'"):
        moments.estimate(moments.disclose(Model(None, C(1.0), 0.5, 0.1, sigma2=1.0)), "b")


def test_a_regressor_tunes_long_tasks_quickly() -> None:
    """200,000 rows: every step of the search is on four examples a task."""
    rng = np.random.default_rng(1)
    task = np.repeat(np.arange(20), 10_000)
    X = rng.normal(size=(len(task), 3))
    effects = rng.normal(size=(20, 4))
    y = effects[task, 0] + (X * effects[task, 1:]).sum(axis=1) + 0.5 * rng.normal(size=len(task))
    reg = MixedEffectRegressor(None, "linear", bias="linear").fit(X, y, task=task)
    assert reg.sigma2_ * reg.engine_.model.lam == pytest.approx(0.25, rel=0.02)
    assert reg.tuning_ is not None
    assert reg.tuning_.seconds < 10.0
    found = reg.random_effects()
    for k, name in enumerate(["intercept", "column 0", "column 1", "column 2"]):
        np.testing.assert_allclose(
            np.array(found[name]) - np.mean(found[name]), effects[:, k] - effects[:, k].mean(), atol=0.05
        )
