"""Long tasks, whose R is never formed, against the dense process, at any noise."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.linalg import block_diag

from motet import Engine, Features, Landmarks, MixedEffectRegressor, Model
from motet.engine.system import System
from motet.kernels import RBF, ConstantKernel, DotProduct, Exponentiation, Identity, Kernel, Linear, On, Scaled
from motet.kernels.nystrom import landmarks
from motet.linalg import LowRankInverse
from motet.model.noise import Noise
from motet.model.tasks import MAX_DENSE_ROWS, Shift, Task, fold
from motet.tuning.gradient import slope
from tests.oracles import Array, DenseGP, Problem, direct_condition
from tests.tuning.test_gradient import at_theta, differences, parameters

C = ConstantKernel
COVARIANCE = [[1.0, 0.3, 0.0], [0.3, 0.7, 0.1], [0.0, 0.1, 0.5]]
SHIFTS: dict[str, Kernel] = {
    "linear": Linear(COVARIANCE),
    "intercept": C(0.7),
    "scaled slopes": C(0.3) + C(0.2) * Scaled(DotProduct(0.4), [0.5, 1.0], [1.0, 2.0]),
    "quadratic": C(0.2) * Exponentiation(DotProduct(0.5), 2),
    "levels": C(0.4) + C(0.3) * On(Identity(), [1]) * On(Linear([[1.0, 0.2], [0.2, 0.5]]), [0]),
}
AVERAGES: dict[str, dict[str, Any]] = {
    "none": {"common": None},
    "features": {"common": C(0.5) * DotProduct(0.6), "basis": Features()},
    "growing": {"common": C(0.5) * RBF([1.0, 0.7])},
}
SIZES = (80, 3, 96, 80, 1)


def world(seed: int = 0) -> tuple[list[int], Array, Array, Array]:
    """Tasks of which some are long, on inputs whose second column has few levels; a few rows repeat."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(len(SIZES)), SIZES)
    X = np.column_stack([rng.normal(size=len(task)), rng.integers(-1, 3, size=len(task)) / 2.0])
    X[5:9] = X[0]
    order = rng.permutation(len(task))
    y = 2.0 + X[:, 0] + rng.normal(size=len(SIZES))[task] * (1 + X[:, 1]) + 0.3 * rng.normal(size=len(task))
    return task[order].tolist(), X[order], y[order], 10 ** rng.uniform(-0.5, 0.5, size=len(task))


def model_and_twin(average: str, shift: str, lam: float, bias: Any = "linear") -> tuple[Model, DenseGP]:
    settings = AVERAGES[average]
    model = Model(individual=SHIFTS[shift], alpha=0.4, lam=lam, bias=bias, **settings)
    return model, DenseGP(Problem(*world(), settings["common"], SHIFTS[shift], 0.4, lam, bias))


def tolerance(twin: DenseGP) -> float:
    return max(1e-9, 1e-15 * direct_condition(twin.p))


def eliminated(S: Array, B: Array) -> tuple[Array, Any]:
    """S⁻¹B and log |S| of a positive definite S, by elimination in the longest floats that there are."""
    S, B, log_det = S.copy(), B.copy(), np.longdouble(0)
    for i in range(len(S)):
        log_det += np.log(S[i, i])
        B[i], S[i] = B[i] / S[i, i], S[i] / S[i, i]
        for k in (k for k in range(len(S)) if k != i):
            B[k], S[k] = B[k] - S[k, i] * B[i], S[k] - S[k, i] * S[i]
    return B, log_det


@pytest.mark.parametrize("lam", [1e-8, 1e-4, 0.3, 10.0])
@pytest.mark.parametrize("shift", SHIFTS)
def test_the_inverse_is_the_dense_one(shift: str, lam: float) -> None:
    """Products from both sides and the diagonal, as far as the dense one has digits itself."""
    task, X, _, noise = world()
    own = np.array(task) == 2
    long, kernel = Task.of(X[own], X[own, 0], noise[own]), SHIFTS[shift]
    R = long.inverse(Shift(kernel, 0.6, Noise(lam)))
    assert isinstance(R, LowRankInverse)
    V = 0.6 * kernel(long.X) + lam * np.diag(long.noise)
    exact, M = np.linalg.inv(V), np.random.default_rng(1).normal(size=(len(V), 3))
    bound = 1e-15 * np.linalg.cond(V) * np.abs(exact).max()
    for found, expected in (
        (R @ M, exact @ M),
        (R @ M[:, 0], exact @ M[:, 0]),
        (M.T @ R, M.T @ exact),
        (R.dense, exact),
        (R.diagonal, np.diag(exact)),
    ):
        np.testing.assert_allclose(found, expected, rtol=0, atol=10 * bound)


@pytest.mark.parametrize("lam", [1e-8, 1e-4, 0.3, 10.0])
@pytest.mark.parametrize("shift", SHIFTS)
def test_the_inverse_keeps_its_digits_where_the_dense_one_loses_them(shift: str, lam: float) -> None:
    """Determinant, weights and what is left of their variance against 64 bits: S = I + UᵀDU, UᵀRM = S⁻¹UᵀDM."""
    task, X, _, noise = world()
    own = np.array(task) == 2
    long, part = Task.of(X[own], X[own, 0], noise[own]), Shift(SHIFTS[shift], 0.6, Noise(lam))
    R, log_det = part.inverse(long.X[None], long.noise[None])
    assert isinstance(R, LowRankInverse)
    M = np.random.default_rng(1).normal(size=(len(long.y), 3))
    U, D = part.features(long.X).astype(np.longdouble), 1 / (np.longdouble(lam) * long.noise)
    S = np.eye(U.shape[1]) + U.T @ (D[:, None] * U)
    weights, log_S = eliminated(S, U.T @ (D[:, None] * M))
    left = (U * eliminated(S, U.T)[0].T).sum(axis=1)
    assert log_det[0] == pytest.approx(float(np.log(D).sum() - log_S), rel=1e-12)
    found, expected = part.features(long.X) @ R[0].weights(M), (U @ weights).astype(float)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * np.abs(expected).max())
    np.testing.assert_allclose(R[0].variance(part.features(long.X)), left.astype(float), rtol=1e-9)


@pytest.mark.parametrize(
    ("average", "shift", "lam"),
    [
        (list(AVERAGES)[(i + k) % 3], shift, lam)  # every average with every shift and noise
        for i, shift in enumerate(SHIFTS)
        for k, lam in enumerate([1e-8, 1e-3, 0.3, 10.0])
    ],
)
def test_everything_is_that_of_the_dense_process(average: str, shift: str, lam: float) -> None:
    model, twin = model_and_twin(average, shift, lam)
    task, X, y, noise = world()
    engine = Engine(model)
    engine.learn_many(task, X, y, noise)
    release, rtol = engine.disclose(), tolerance(twin)
    assert any(isinstance(batch.R, LowRankInverse) for batch in engine._state().batches.values())
    assert engine.evidence().log_evidence == pytest.approx(twin.log_evidence, rel=rtol)
    assert engine.evidence().sigma2 == pytest.approx(twin.sigma2, rel=rtol)
    at = np.vstack([X[:7], [[0.3, 0.75], [-1.5, 0.5]]])  # one at a level that nobody has
    scale = np.abs(y).max()
    for one in (0, 1, 2, 99):
        mean, std = engine.predict_many([one] * len(at), at, return_std=True)
        expected, expected_std = twin.predict(at, one)
        np.testing.assert_allclose(mean, expected, rtol=0, atol=rtol * scale * 10)
        np.testing.assert_allclose(std**2, expected_std**2, rtol=1e-6, atol=rtol * twin.sigma2 * 10)
    everyone = engine.predict_all(at)
    np.testing.assert_allclose(everyone[engine.tasks.index(2)], twin.predict(at, 2)[0], rtol=0, atol=rtol * scale * 10)
    own = np.array(task) == 2
    engine.forget(2)
    passive = engine.disclose().estimate(X[own], y[own], noise[own])
    np.testing.assert_allclose(passive.predict(at), twin.predict(at, 2)[0], rtol=0, atol=rtol * scale * 100)
    engine.learn_many([2] * own.sum(), X[own], y[own], noise[own])
    active = engine.disclose().active_estimate(engine.coefficients(2))
    mean, std = active.predict(at, return_std=True)
    np.testing.assert_allclose(mean, twin.predict(at, 2)[0], rtol=0, atol=rtol * scale * 100)
    np.testing.assert_allclose(std**2, twin.predict(at, 2)[1] ** 2, rtol=1e-6, atol=rtol * twin.sigma2 * 10)
    rest = np.flatnonzero(own)[:7]
    for i in rest:
        engine.unlearn(2, X[i], y[i], noise[i])
    before = engine.disclose()
    engine.learn_many([2] * len(rest), X[rest], y[rest], noise[rest])
    changed = before.active_estimate(engine.coefficients(2, before))
    np.testing.assert_allclose(changed.predict(at), twin.predict(at, 2)[0], rtol=0, atol=rtol * scale * 100)
    assert release.version == 1


@pytest.mark.parametrize(
    ("average", "shift", "bias", "method"),
    [
        (list(AVERAGES)[(i + k) % 3], shift, bias, method)  # every average with every shift, bias and method
        for i, shift in enumerate(SHIFTS)
        for k, (bias, method) in enumerate(product(("none", "linear"), ("REML", "ML")))
    ],
)
def test_the_gradient_is_that_of_the_evidence(average: str, shift: str, bias: Any, method: Any) -> None:
    model = replace(model_and_twin(average, shift, 0.3)[0], bias=bias)
    task, X, y, noise = world()
    inputs, at = np.unique(X, axis=0, return_inverse=True)
    folded = fold(np.array(task), at.ravel(), y, noise)

    def evidence(theta: Array) -> float:
        return System.of_tasks(at_theta(model, theta), folded, inputs, method).evidence.log_evidence

    found = slope(System.of_tasks(model, folded, inputs, method))
    np.testing.assert_allclose(found.gradient, differences(evidence, parameters(model)), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("shift", ["linear", "levels"])
def test_results_are_those_of_short_tasks(average: str, shift: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave one out, diagnostics, effects and summary: by features, and with R formed."""
    task, X, y, noise = world()
    settings = {"basis": None, **AVERAGES[average]}
    reg = MixedEffectRegressor(individual=SHIFTS[shift], lam=0.2, bias="linear", optimizer=None, **settings)

    def tables() -> list[Any]:
        fitted = reg.fit(X, y, task=task, sample_weight=1 / noise)
        loo = fitted.loo()
        kinds = {type(batch.R) for batch in fitted.results_.system.batches}
        forms.append(LowRankInverse in kinds)
        at = X[:2]
        return [loo.rows, loo.new, loo.tasks, fitted.diagnostics(), fitted.random_effects(at), fitted.fixed_effects()]

    forms: list[bool] = []
    found = tables()
    monkeypatch.setattr("motet.model.tasks.MIN_LOW_RANK_ROWS", 10**6)
    expected = tables()
    assert forms == [True, False]
    for a, b in zip(found, expected):
        for name in a.columns:
            if name != "task" and name != "effect":
                np.testing.assert_allclose(a[name], b[name], rtol=1e-8, atol=1e-10, err_msg=name)
    assert str(reg.summary())


def test_what_landmarks_miss_is_noise_in_a_long_task() -> None:
    """A proper process: the dense one with α(K̄ − eᵀe) on the diagonal; its gradient too."""
    rng = np.random.default_rng(3)
    size = MAX_DENSE_ROWS + 1
    X = rng.uniform(-2, 2, size=(size, 1))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=size)
    model = Model(
        C(0.8) * RBF(0.5), C(0.4) + C(0.2) * DotProduct(0.5), 0.5, 0.3, basis=Landmarks(np.linspace(-2, 2, 7)[:, None])
    )
    folded = fold(np.zeros(size, dtype=np.intp), np.arange(size), y, np.ones(size))

    def solved(at: Array) -> System:
        return System.of_tasks(at_theta(model, at), folded, X)

    system = solved(parameters(model))
    assert isinstance(system.batches[0].R, LowRankInverse)
    E = system.columns.basis.e(X)
    common = C(0.8) * RBF(0.5)
    residual = np.diag(common(X) - E @ E.T)
    V = 0.5 * E @ E.T + 0.5 * model.individual(X) + np.diag(0.5 * residual + 0.3)
    Vinv, ones = np.linalg.inv(V), np.ones(size)
    A = ones @ Vinv @ ones
    r = y - ones @ Vinv @ y / A
    Q, n = float(r @ Vinv @ r), size - 1
    expected = -0.5 * (n * np.log(2 * np.pi * Q / n) + np.linalg.slogdet(V)[1] + np.log(A) + n)
    assert system.evidence.log_evidence == pytest.approx(expected, rel=1e-9)
    gradient = differences(lambda at: solved(at).evidence.log_evidence, parameters(model))
    np.testing.assert_allclose(slope(system).gradient, gradient, rtol=1e-5, atol=1e-5)
    at = np.array([[0.1], [1.3]])
    k = 0.5 * system.columns.basis.e(at) @ E.T + 0.5 * model.individual(at, X)
    q = 1.0 - k @ Vinv @ ones
    variance = 0.5 * common.diag(at) + 0.5 * model.individual.diag(at) - np.einsum("ij,jk,ik->i", k, Vinv, k) + q**2 / A
    engine = Engine(model)
    engine.learn_many(["one"] * size, X, y)
    mean, std = engine.predict_many(["one"] * 2, at, return_std=True)
    np.testing.assert_allclose(mean, k @ Vinv @ r + (y - r)[0], rtol=1e-9)
    np.testing.assert_allclose(std**2, Q / n * variance, rtol=1e-8)
    engine.forget("one")
    engine.learn_many(["other"] * 3, X[:3], y[:3])
    passive, both = engine.disclose().estimate(X, y), Engine(model)
    both.learn_many(["other"] * 3 + ["one"] * size, np.vstack([X[:3], X]), np.append(y[:3], y))
    np.testing.assert_allclose(passive.predict(at), both.predict_many(["one"] * 2, at), rtol=1e-9)


# --- kernels without few features ---

SMOOTH = C(0.5) * RBF([0.8, 1.1]) + Linear([[0.3, 0.0, 0.1], [0.0, 0.2, 0.0], [0.1, 0.0, 0.4]])
LONG = MAX_DENSE_ROWS + 1
AT = np.array([[0.1, -0.4], [1.3, 0.2], [5.0, 5.0]])  # the last one far from all inputs


def smooth_world() -> tuple[Array, Array, Array, Array]:
    """Two long tasks of one size, and a short one."""
    rng = np.random.default_rng(4)
    task = np.repeat([0, 1, 2], [LONG, LONG, 4])
    X = rng.uniform(-2, 2, size=(len(task), 2))
    y = np.sin(2 * X[:, 0]) + np.cos(X[:, 1] + task) + 0.3 * rng.normal(size=len(task))
    return task, X, y, rng.uniform(0.5, 2.0, len(task))


def smooth_twin(model: Model, own: Array, Y: Array | None = None) -> Array:
    """The kernel of a long task's shift, by its definition: through landmarks, but for single inputs."""
    Z, kernel = landmarks(own), model.individual
    K = kernel(Z) + 1e-8 * np.trace(kernel(Z)) / len(Z) * np.eye(len(Z))
    if Y is not None:
        return model.individual_share * kernel(Y, Z) @ np.linalg.solve(K, kernel(Z, own))
    Q = kernel(own, Z) @ np.linalg.solve(K, kernel(Z, own))
    return model.individual_share * (Q + np.diag(kernel.diag(own) - np.diag(Q)))


def test_a_smooth_shift_of_a_long_task_has_landmarks_of_its_own() -> None:
    """A proper process: the dense one with that kernel. All who predict agree with it, and its gradient is right."""
    task, X, y, noise = smooth_world()
    model = Model(None, SMOOTH, 0.5, 0.3, "constant")
    folded, share = fold(task, np.arange(len(X)), y, noise), model.individual_share

    def solved(at: Array) -> System:
        return System.of_tasks(at_theta(model, at), folded, X)

    system, blocks = solved(parameters(model)), list[Array]()  # tasks share nothing but the constant
    assert isinstance(system.batches[-1].R, LowRankInverse)
    for one in range(3):
        own = np.flatnonzero(task == one)
        R = share * SMOOTH(X[own]) if one == 2 else smooth_twin(model, X[own])
        blocks.append(R + np.diag(0.3 * noise[own]))
    Vinv, ones = block_diag(*map(np.linalg.inv, blocks)), np.ones(len(X))
    A = ones @ Vinv @ ones
    level = ones @ Vinv @ y / A
    r, n = y - level, len(X) - 1
    Q = float(r @ Vinv @ r)
    log_det = sum(np.linalg.slogdet(block)[1] for block in blocks)
    expected = -0.5 * (n * np.log(2 * np.pi * Q / n) + log_det + np.log(A) + n)
    assert system.evidence.log_evidence == pytest.approx(expected, rel=1e-7)
    gradient = differences(lambda at: solved(at).evidence.log_evidence, parameters(model))
    np.testing.assert_allclose(slope(system).gradient, gradient, rtol=1e-4, atol=1e-3)

    own = np.flatnonzero(task == 1)
    k = np.zeros((len(AT), len(X)))
    k[:, own] = smooth_twin(model, X[own], AT)
    mean = level + k @ Vinv @ r
    q = 1.0 - k @ Vinv @ ones
    variance = share * SMOOTH.diag(AT) - np.einsum("ij,jk,ik->i", k, Vinv, k) + q**2 / A
    engine = Engine(model)
    engine.learn_many(task, X, y, noise)
    found, std = engine.predict_many([1] * len(AT), AT, return_std=True)
    np.testing.assert_allclose(found, mean, rtol=0, atol=1e-6)
    np.testing.assert_allclose(std**2, Q / n * variance, rtol=1e-5)
    np.testing.assert_allclose(engine.predict_all(AT)[1], mean, rtol=0, atol=1e-6)
    active = engine.disclose().active_estimate(engine.coefficients(1))
    engine.forget(1)
    passive = engine.disclose().estimate(X[own], y[own], noise[own])
    for estimate in (active, passive):
        found, std = estimate.predict(AT, return_std=True)
        np.testing.assert_allclose(found, mean, rtol=0, atol=1e-6)
        np.testing.assert_allclose(std**2, estimate.release.sigma2 * variance, rtol=1e-5)


def test_what_own_landmarks_miss_is_told_and_little_of_a_smooth_kernel() -> None:
    """Beside the process itself, at inputs amid a task's own."""
    task, X, y, _ = smooth_world()
    own, at = task == 0, np.random.default_rng(5).uniform(-1.8, 1.8, size=(50, 2))
    reg = MixedEffectRegressor(None, SMOOTH, lam=0.3, alpha=0.0, bias="none", sigma2=1.0, optimizer=None)
    reg.fit(X[own], y[own], task=task[own])
    assert 0 < reg.shifts_residual_ < 1e-6
    mean, std = reg.predict(at, task=[0] * 50, return_std=True)
    K = np.linalg.inv(SMOOTH(X[own]) + 0.3 * np.eye(LONG))
    k = SMOOTH(at, X[own])
    np.testing.assert_allclose(mean, k @ K @ y[own], rtol=0, atol=1e-3)
    np.testing.assert_allclose(std**2, SMOOTH.diag(at) - np.einsum("ij,jk,ik->i", k, K, k), rtol=1e-2)
    reg.set_params(individual=C(0.5) * RBF(0.02))
    with pytest.warns(UserWarning, match=r"up to 2001 rows: their shifts .* 200 landmarks .* miss \d\d% of their var"):
        reg.fit(X[own], y[own], task=task[own])
    assert reg.shifts_residual_ > 0.3
