"""Leave one out, in closed form, is what fitting without these rows gives; diagnostics are predictions and outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from motet import Landmarks, MixedEffectRegressor
from motet.kernels import RBF, ConstantKernel, DotProduct
from tests.oracles import Array
from tests.regression.test_effects import SMOOTH, some_rows

MODELS = {
    "mixed model": {"common": None, "individual": ConstantKernel(1.0) + DotProduct(0.3), "bias": "constant"},
    "growing": {"common": RBF(1.0), "individual": SMOOTH, "bias": "linear"},
    "landmarks": {"common": RBF(0.5), "individual": SMOOTH, "bias": "linear", "basis": Landmarks([[3.0], [4.2]])},
    "no bias": {"common": RBF(1.0), "individual": RBF(0.3), "bias": "none"},
}


def fitted(which: Any, settings: dict[str, Any], sigma2: float | None) -> MixedEffectRegressor:
    task, X, y, weight = (values[which] for values in some_rows())
    reg = MixedEffectRegressor(alpha=0.4, lam=0.2, optimizer=None, sigma2=sigma2, **settings)
    return reg.fit(X, y, task=task, sample_weight=weight)


def observation(reg: MixedEffectRegressor, X: Array, task: Any, weight: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of observations of these weights."""
    mean, std = reg.predict(X, task=task, return_std=True)
    return mean, np.sqrt(std**2 + reg.sigma2_ * reg.lam / weight)


@pytest.mark.parametrize("name", MODELS)
def test_each_row_without_itself(name: str) -> None:
    """Repeats of an input within a task are left out one at a time; the log scores are ratios of evidences."""
    task, X, y, weight = some_rows()
    assert len(np.unique(np.column_stack([task, X[:, 0]]), axis=0)) < len(task)
    whole = fitted(slice(None), MODELS[name], None)
    table = whole.loo().rows
    whole = fitted(slice(None), MODELS[name], whole.sigma2_)
    assert table["task"].tolist() == task.tolist()
    for i in range(len(task)):
        without = fitted(np.arange(len(task)) != i, MODELS[name], whole.sigma2_)
        mean, std = observation(without, X[[i]], task[[i]], weight[[i]])
        assert table["mean"][i] == pytest.approx(mean[0], abs=1e-6)
        assert table["std"][i] == pytest.approx(std[0], rel=1e-6)
        assert table["residual"][i] == pytest.approx(y[i] - mean[0], abs=1e-6)
        assert table["log_score"][i] == pytest.approx(whole.log_evidence_ - without.log_evidence_, abs=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_each_task_without_itself(name: str) -> None:
    task, X, _, weight = some_rows()
    whole = fitted(slice(None), MODELS[name], None)
    left_out = whole.loo()
    whole = fitted(slice(None), MODELS[name], whole.sigma2_)
    assert left_out.tasks["task"].tolist() == list("abcd")
    for j, label in enumerate("abcd"):
        its = task == label
        without = fitted(~its, MODELS[name], whole.sigma2_)
        mean, std = observation(without, X[its], task[its], weight[its])
        np.testing.assert_allclose(left_out.new["mean"][its], mean, atol=1e-6)
        np.testing.assert_allclose(left_out.new["std"][its], std, rtol=1e-6)
        ratio = whole.log_evidence_ - without.log_evidence_
        assert left_out.tasks["log_score"][j] == pytest.approx(ratio, abs=1e-6)
        assert left_out.tasks["rows"][j] == its.sum()


def test_what_other_rows_do_not_determine_is_not_predicted() -> None:
    """Only one row tells the slope, and only one task."""
    X, y = np.array([[0.0], [0.0], [0.0], [0.0], [1.0]]), np.array([1.0, 2.0, 1.5, 0.5, 3.0])
    reg = MixedEffectRegressor(None, ConstantKernel(1.0), lam=0.5, bias="linear", optimizer=None)
    left_out = reg.fit(X, y, task=list("aabbb")).loo()
    assert np.isnan(left_out.rows["mean"]).tolist() == [False] * 4 + [True]
    assert np.isnan(left_out.tasks["log_score"]).tolist() == [False, True]
    assert np.isfinite(left_out.log_score)


def test_diagnostics() -> None:
    task, X, y, weight = some_rows()
    reg = fitted(slice(None), MODELS["growing"], None)
    table, left_out = reg.diagnostics(), reg.loo().rows
    np.testing.assert_array_equal(table["observed"], y)
    np.testing.assert_array_equal(table["column 0"], X[:, 0])
    np.testing.assert_allclose(table["population"], reg.predict(X), atol=1e-9)
    np.testing.assert_allclose(table["individual"], reg.predict(X, task=task), atol=1e-9)
    noise = np.sqrt(reg.sigma2_ * reg.lam / weight)
    np.testing.assert_allclose(table["standardised"], (y - table["individual"]) / noise, atol=1e-9)
    np.testing.assert_allclose(table["studentised"], left_out["residual"] / left_out["std"], atol=1e-9)
