"""Evidence, gradient and curvature against a dense Gaussian process and finite differences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from motet import Landmarks, Model
from motet.engine.system import System
from motet.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Identity,
    Kernel,
    Linear,
    Matern,
    On,
    RationalQuadratic,
    Scaled,
)
from motet.kernels.derivatives import derivatives
from motet.kernels.gram import gram
from motet.kernels.registry import KERNELS
from motet.model.tasks import FoldedTasks, fold
from motet.tuning.gradient import slope
from tests.oracles import Array, DenseGP, Problem

C = ConstantKernel
COVARIANCE = [[1.0, 0.3, 0.0], [0.3, 1.0, 0.0], [0.0, 0.0, 0.5]]
MADE_OF_ALL: dict[str, Kernel] = {
    "rbf": RBF(0.8),
    "matern": Matern(0.7, nu=1.5),
    "rational_quadratic": RationalQuadratic(1.1, 0.7),
    "exp_sine_squared": On(ExpSineSquared(1.0, 2.5), [0]),
    "dot_product": DotProduct(0.6),
    "constant": C(0.7),
    "linear": Linear(COVARIANCE),
    "identity": C(0.4) * Identity(),
}
KERNELS_TO_DERIVE: dict[str, Kernel] = MADE_OF_ALL | {
    "ard": RBF([0.8, 1.3]),
    "half": Matern([0.7, 0.5], nu=0.5),
    "five halves": Matern([0.7, 0.5], nu=2.5),
    "smooth": Matern(0.7, nu=np.inf),
    "another smoothness": Matern(0.7, nu=0.8),
    "power": Exponentiation(DotProduct(0.5), 2),
    "product": C(0.5) * RBF(1.0) * DotProduct(0.3),
    "some fixed": C(0.5, "fixed") * RationalQuadratic(1.0, 0.7, alpha_bounds="fixed") + RBF(1.0, "fixed"),
    "scaled": Scaled(C(0.5) * RBF([1.0, 2.0]) + On(DotProduct(0.4), [1]), [0.1, -0.2], [2.0, 0.5]),
}


def test_every_kernel_of_the_list_is_here() -> None:
    assert set(MADE_OF_ALL) == set(KERNELS)


@pytest.mark.parametrize("name", KERNELS_TO_DERIVE)
def test_derivatives_are_differences(name: str) -> None:
    """Over a rectangle and over a stack."""
    kernel, rng = KERNELS_TO_DERIVE[name], np.random.default_rng(0)
    X, Y = rng.normal(size=(3, 5, 2)), rng.normal(size=(3, 4, 2))
    X[:, 0] = Y[:, 0]  # equal inputs too
    for A, B in ((X, Y), (X[0], Y[0])):
        found = list(derivatives(kernel, A, B))
        assert len(found) == len(kernel.theta)
        for i, D in enumerate(found):
            step = 1e-6 * np.eye(len(kernel.theta))[i]
            above, below = (gram(kernel.clone_with_theta(kernel.theta + s * step), A, B) for s in (1, -1))
            np.testing.assert_allclose(D, (above - below) / 2e-6, rtol=0, atol=1e-8)


# --- the evidence ---

MODELS: dict[str, tuple[Kernel | None, Kernel]] = {
    "smooth": (C(0.7) * RBF([1.0, 0.5]) + C(0.3) * RBF(0.4), C(0.3) + C(0.4) * RBF(1.0) + C(0.2) * DotProduct(0.5)),
    "rough": (C(0.7) * Matern([1.0, 0.5], nu=1.5), C(0.3) * Matern(0.7, nu=2.5) + C(0.1) * Matern(0.6, nu=0.5)),
    "periodic": (RationalQuadratic(1.0, 2.0), On(C(0.5) * ExpSineSquared(1.0, 2.0), [0]) + C(0.2) * RBF(1.0)),
    "linear": (C(0.5) * DotProduct(0.5), Linear(COVARIANCE)),
    "mixed model": (None, Linear(COVARIANCE)),
    "names": (C(0.3) * On(Identity(), [0]) + C(0.1) * Exponentiation(DotProduct(0.5), 2), C(0.3)),
}


def examples(rows: int = 90, tasks: int = 11) -> tuple[Array, Array, Array, Array, Array]:
    """Tasks, inputs by number, the inputs, outputs and noise; inputs repeat within and across tasks."""
    rng = np.random.default_rng(0)
    pool = rng.normal(size=(18, 2))
    task, at = rng.integers(tasks, size=rows), rng.integers(len(pool), size=rows)
    y = pool[at, 0] + rng.normal(size=tasks)[task] + rng.normal(size=rows)
    return task, at, pool, y, 10 ** rng.uniform(-0.5, 0.5, size=rows)


def folded_examples() -> tuple[FoldedTasks, Array]:
    task, at, pool, y, noise = examples()
    return fold(task, at, y, noise), pool


def parameters(model: Model) -> Array:
    return np.concatenate([[] if model.common is None else model.common.theta, model.individual.theta])


def at_theta(model: Model, theta: Array) -> Model:
    count = 0 if model.common is None else len(model.common.theta)
    common = None if model.common is None else model.common.clone_with_theta(theta[:count])
    return replace(model, common=common, individual=model.individual.clone_with_theta(theta[count:]))


def differences(function: Callable[[Array], float], theta: Array, step: float = 1e-5) -> Array:
    return np.array([(function(theta + h) - function(theta - h)) / (2 * step) for h in step * np.eye(len(theta))])


@pytest.mark.parametrize(
    ("name", "bias", "method", "basis"),
    [
        (name, ("none", "constant", "linear")[(i + k) % 3], method, basis)  # every bias with every model and method
        for i, name in enumerate(MODELS)
        for k, (method, basis) in enumerate(product(("REML", "ML"), ("growing", "landmarks")))
    ],
)
def test_the_gradient_is_that_of_the_evidence(name: str, bias: Any, method: Any, basis: str) -> None:
    common, individual = MODELS[name]
    folded, X = folded_examples()
    landmarks = Landmarks(X[:6]) if basis == "landmarks" and common is not None else None
    model = Model(common, individual, alpha=0.5, lam=0.5, bias=bias, basis=landmarks)
    theta = parameters(model)

    def evidence(at: Array) -> float:
        return System.of_tasks(at_theta(model, at), folded, X, method).evidence.log_evidence

    found = slope(System.of_tasks(model, folded, X, method))
    expected = differences(evidence, theta)
    np.testing.assert_allclose(found.gradient, expected, rtol=1e-6, atol=1e-6)
    assert np.linalg.eigvalsh(found.information)[0] > -1e-9 * np.abs(found.information).max()


@pytest.mark.parametrize("bias", ["none", "constant", "linear"])
@pytest.mark.parametrize("name", MODELS)
def test_both_criteria_are_those_of_the_dense_process(name: str, bias: Any) -> None:
    task, at, pool, y, noise = examples()
    common, individual = MODELS[name]
    p = Problem(task.tolist(), pool[at], y, noise, common, individual, 0.4, 0.3, bias)
    gp, model = DenseGP(p), Model(common, individual, alpha=0.4, lam=0.3, bias=bias)
    folded, X = folded_examples()
    assert System.of_tasks(model, folded, X).evidence.log_evidence == pytest.approx(gp.log_evidence, rel=1e-9)
    n = len(y)
    ml = -0.5 * (n * np.log(2 * np.pi * gp.Q / n) + np.linalg.slogdet(p.V)[1] + n)
    assert System.of_tasks(model, folded, X, "ML").evidence.log_evidence == pytest.approx(ml, rel=1e-9)


@pytest.mark.parametrize("name", ["smooth", "mixed model"])
def test_the_information_is_the_dense_average_of_observed_and_expected(name: str) -> None:
    """½ (∂Vᵢ Py)ᵀ P (∂Vₖ Py)/σ², less what the scale explains, by matrices over all rows."""
    task, at, pool, y, noise = examples()
    common, individual = MODELS[name]
    model = Model(common, individual, alpha=0.5, lam=0.5, bias="linear")
    theta = parameters(model)

    def covariance(values: Array) -> Array:
        m = at_theta(model, values)
        return Problem(task.tolist(), pool[at], y, noise, m.common, m.individual, 0.5, 0.5, "linear").V

    gp = DenseGP(Problem(task.tolist(), pool[at], y, noise, common, individual, 0.5, 0.5, "linear"))
    P = gp.Vinv - gp.Vinv @ gp.Psi @ np.linalg.solve(gp.A, gp.Psi.T @ gp.Vinv)
    steps = 1e-5 * np.eye(len(theta))
    changes = [(covariance(theta + h) - covariance(theta - h)) / 2e-5 for h in steps]
    v = np.array([D @ P @ y for D in changes])
    by_scale = v @ P @ y
    free = len(y) - gp.d
    expected = 0.5 * v @ P @ v.T / gp.sigma2 - np.outer(by_scale, by_scale) / (2 * free * gp.sigma2**2)
    folded, X = folded_examples()
    found = slope(System.of_tasks(model, folded, X)).information
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
