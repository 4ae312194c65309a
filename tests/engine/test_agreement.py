"""Online ≡ offline ≡ active ≡ passive ≡ the article, on hard random streams."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import pytest

from motet import Disclosed, Engine
from tests.oracles import Array, DenseGP, Literal, Problem, direct, direct_condition
from tests.streams import CASES, engine_of, model_of, probes, problem

ALPHAS = (0.0, 0.01, 0.5, 1.0)
LAMS = (1e-6, 1e-3, 10.0)
BIASES = ("none", "constant", "linear")
HARD = [name for name in CASES if name != "smooth"]


def tolerance(p: Problem) -> float:
    """As a share of the outputs' scale; above a condition of 1e13 no method in double precision has digits left."""
    condition = direct_condition(p)
    assert condition < 1e13
    return (1e-8 if condition < 1e8 else 1e-5) * float(np.abs(p.y).max())


def streamed(p: Problem, seed: int) -> Engine:
    """One by one, in random order, with releases on the way."""
    engine = Engine(model_of(p), individual=p.kernels)
    for k, i in enumerate(np.random.default_rng(seed).permutation(len(p.y))):
        engine.learn(p.tasks[i], p.X[i], p.y[i], p.noise[i])
        if k % 29 == 0:
            engine.disclose()
    return engine


def passive(p: Problem, task: Hashable, X: Array) -> Array:
    mine = np.array([t == task for t in p.tasks])
    release = engine_of(p, ~mine).disclose()
    estimate = release.estimate(p.X[mine], p.y[mine], p.noise[mine], individual=p.kernels.get(task))
    return np.asarray(estimate.predict(X))


@pytest.mark.parametrize(
    ("name", "alpha", "lam", "bias"),
    [
        (name, alpha, LAMS[(i + j) % 3], BIASES[(i + 2 * j) % 3])  # every noise and bias with every kernel and share
        for i, name in enumerate(HARD)
        for j, alpha in enumerate(ALPHAS)
    ],
)
def test_all_ways_agree(name: str, alpha: float, lam: float, bias: str) -> None:
    p = problem(CASES[name], seed=3, alpha=alpha, lam=lam, bias=bias)
    X, close = probes(p), tolerance(p)
    online, offline = streamed(p, seed=5), engine_of(p)
    for task in ("t0", "t1", "t2", "t3"):
        truth = direct(p, X, task)
        for engine in (online, offline):
            estimate = engine.disclose().active_estimate(engine.coefficients(task))
            np.testing.assert_allclose(estimate.predict(X), truth, rtol=0, atol=close)
        np.testing.assert_allclose(passive(p, task, X), truth, rtol=0, atol=close)
    np.testing.assert_allclose(offline.disclose().average(X), direct(p, X, None), rtol=0, atol=close)


@pytest.mark.slow
@pytest.mark.parametrize(("alpha", "lam"), [(0.07, 3e-4), (0.5, 1e-6), (1.0, 1e-3)])
def test_smooth_kernel_on_489_unit_vectors(alpha: float, lam: float) -> None:
    p = problem(CASES["smooth"], seed=1, alpha=alpha, lam=lam, bias="none", rows=900, tasks=180)
    p.noise[:] = 10 ** np.random.default_rng(2).uniform(-1, 1, size=len(p.y))
    X, close = probes(p), tolerance(p)
    online, offline = streamed(p, seed=5), engine_of(p)
    assert len(offline.disclose().landmarks) <= len(offline.disclose().inputs) <= 489
    for task in ("t0", "t7"):
        truth = direct(p, X, task)
        for engine in (online, offline):
            estimate = engine.disclose().active_estimate(engine.coefficients(task))
            np.testing.assert_allclose(estimate.predict(X), truth, rtol=0, atol=close)
        np.testing.assert_allclose(passive(p, task, X), truth, rtol=0, atol=close)


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("alpha", [0.01, 0.5, 1.0])
def test_literal_algorithm_2_agrees(alpha: float, bias: str) -> None:
    """The article's own recursions, with the right γ in case 1, give the same estimates."""
    p = problem(CASES["matern"], seed=4, alpha=alpha, lam=0.1, bias=bias)
    p.noise[:] = 10 ** np.random.default_rng(2).uniform(-1, 1, size=len(p.y))
    literal = Literal(p)
    for task, x, y, noise in zip(p.tasks, p.X, p.y, p.noise):
        literal.receive(task, x, y, noise)
    engine, X = engine_of(p), probes(p)
    for task in ("t0", "t1"):
        mine = engine.disclose().active_estimate(engine.coefficients(task)).predict(X)
        np.testing.assert_allclose(mine, literal.predict(X, task), rtol=0, atol=1e-8 * np.abs(p.y).max())


def article_order(p: Problem, release: Disclosed) -> Literal:
    """Algorithm 2 given the inputs in the release's order first, so that its L is our pivoted one."""
    literal = Literal(p)
    for z in release.landmarks:
        literal._new_input(z)
    for task, x, y, noise in zip(p.tasks, p.X, p.y, p.noise):
        literal.receive(task, x, y, noise)
    return literal


def test_the_articles_H_and_y_come_out() -> None:
    """On a strictly positive kernel, H = D^-½ H_article D^-½ and y = D^½ y̆_article."""
    p = problem(CASES["matern"], seed=6, alpha=0.3, lam=0.1, bias="none")
    p.noise[:] = 1.0
    release = engine_of(p).disclose()
    assert len(release.redundant) == 0
    literal = article_order(p, release)
    half = np.sqrt(np.diag(literal.D))
    np.testing.assert_allclose(half[:, None] * release.H * half, literal.H, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(release.y / half, literal.y, rtol=1e-8, atol=1e-9)
    np.testing.assert_array_equal(release.inputs, literal.x)


@pytest.mark.parametrize(
    ("name", "alpha", "bias"),
    [
        (name, alpha, (*BIASES, (0,))[(i + j) % 4])  # every bias with every kernel and share
        for i, name in enumerate(["ard", "rank 3", "equal features", "slopes", "mixed model"])
        for j, alpha in enumerate(ALPHAS)
    ],
)
def test_uncertainty_and_evidence_are_those_of_the_dense_process(name: str, alpha: float, bias: Any) -> None:
    """For known, new and absent tasks, at inputs seen and never seen, with repeats."""
    p = problem(CASES[name], seed=8, alpha=alpha, lam=0.1, bias=bias)
    p.noise[:] = 10 ** np.random.default_rng(2).uniform(-2, 2, size=len(p.y))
    gp, engine, X = DenseGP(p), engine_of(p), probes(p)
    release, found = engine.disclose(), engine.evidence()
    assert found.sigma2 == pytest.approx(gp.sigma2, rel=1e-9)
    assert found.log_evidence == pytest.approx(gp.log_evidence, rel=1e-9, abs=1e-8)
    known = release.active_estimate(engine.coefficients("t1")).predict(X, return_std=True)
    new = release.estimate(X[:0], []).predict(X, return_std=True)
    average = release.average(X, return_std=True)
    for (mean, std), label in ((known, "t1"), (new, "somebody new"), (average, None)):
        expected_mean, expected_std = gp.predict(X, label)
        np.testing.assert_allclose(mean, expected_mean, rtol=0, atol=1e-8 * np.abs(p.y).max())
        # The dense process subtracts variances, so its digits are those of the largest.
        np.testing.assert_allclose(std**2, expected_std**2, rtol=1e-8, atol=1e-8 * gp.sigma2)
    mine = np.array([t == "t2" for t in p.tasks])
    passive = engine_of(p, ~mine, sigma2=gp.sigma2).disclose()
    estimate = passive.estimate(p.X[mine], p.y[mine], p.noise[mine], individual=p.kernels.get("t2"))
    np.testing.assert_allclose(
        estimate.predict(X, return_std=True)[1] ** 2, gp.predict(X, "t2")[1] ** 2, rtol=1e-8, atol=1e-8 * gp.sigma2
    )


def test_std_of_an_observation_adds_the_noise() -> None:
    p = problem(CASES["ard"], seed=8, alpha=0.3, lam=0.2, bias="constant")
    release = engine_of(p, sigma2=1.7).disclose()
    estimate, X = release.estimate(p.X[:3], p.y[:3]), probes(p)
    function, observation = (estimate.predict(X, return_std=True, observation=o)[1] for o in (False, True))
    np.testing.assert_allclose(observation**2, function**2 + 1.7 * 0.2, rtol=1e-12)


def test_evidence_keeps_its_digits_under_an_offset() -> None:
    p = problem(CASES["ard"], seed=9, alpha=0.4, lam=0.1, bias="constant")
    p.noise[:] = 1.0
    plain = engine_of(p).evidence()
    p.y = p.y + 1e6
    assert engine_of(p).evidence().sigma2 == pytest.approx(plain.sigma2, rel=1e-6)
