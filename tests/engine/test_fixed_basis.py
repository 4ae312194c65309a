"""A fixed basis: what it misses is each task's own, in estimates, variances and the evidence alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from motet import Disclosed, Eigen, Landmarks
from tests.oracles import Array, DenseGP, Problem, direct
from tests.streams import CASES, engine_of, probes, problem


def residual_in_tasks(p: Problem, basis: Any) -> Problem:
    """The same problem with e(x)ᵀe(x′) as K̄, and what that misses in every task's own kernel."""
    common, ratio = p.common, p.alpha / (1.0 - p.alpha)
    assert common is not None

    def spanned(A: Array, B: Array) -> Array:
        return np.asarray(basis.e(A) @ basis.e(B).T)

    def own(kernel: Any) -> Any:
        return lambda A, B: kernel(A, B) + ratio * (common(A, B) - spanned(A, B))

    kernels = {task: own(kernel) for task, kernel in p.kernels.items()}
    return replace(p, common=spanned, individual=own(p.individual), kernels=kernels)


@pytest.mark.parametrize("bias", ["none", "linear"])
@pytest.mark.parametrize("basis", [Landmarks, lambda Z: Eigen(Z, 4)], ids=["landmarks", "eigen"])
def test_estimate_variance_and_evidence_of_a_fixed_basis_are_of_one_process(basis: Any, bias: str) -> None:
    """What the basis misses is every task's own, in the evidence as in the variance."""
    p = problem(CASES["ard"], seed=2, alpha=0.3, lam=0.1, bias=bias)
    engine = engine_of(p, basis=basis(probes(p, n=4)))
    release, X = engine.disclose(), probes(p, seed=3)
    truth = residual_in_tasks(p, release.basis)
    gp, evidence = DenseGP(truth), engine.evidence()
    assert evidence.sigma2 == pytest.approx(gp.sigma2, rel=1e-8)
    assert evidence.log_evidence == pytest.approx(gp.log_evidence, rel=1e-8)
    for task in ("t0", "t1", "somebody new"):
        mean, std = engine.predict_many([task] * len(X), X, return_std=True)
        expected_mean, expected_std = gp.predict(X, task)
        np.testing.assert_allclose(mean, expected_mean, rtol=0, atol=1e-8 * np.abs(p.y).max())
        np.testing.assert_allclose(std**2, expected_std**2, rtol=1e-8, atol=1e-8 * gp.sigma2)
        if task in engine.tasks:
            np.testing.assert_allclose(mean, direct(truth, X, task), rtol=0, atol=1e-8 * np.abs(p.y).max())
            estimate = release.active_estimate(engine.coefficients(task))
            np.testing.assert_allclose(estimate.predict(X, return_std=True), (mean, std), rtol=1e-8, atol=1e-8)
    everywhere = engine.predict_all(X)[engine.tasks.index("t1")]
    np.testing.assert_allclose(everywhere, gp.predict(X, "t1")[0], rtol=0, atol=1e-8 * np.abs(p.y).max())
    mine = np.array([t == "t2" for t in p.tasks])
    others = engine_of(p, ~mine, basis=basis(probes(p, n=4)), sigma2=gp.sigma2).disclose()
    passive = Disclosed.from_bytes(others.to_bytes()).estimate(p.X[mine], p.y[mine], p.noise[mine])
    mean, std = passive.predict(X, return_std=True)
    expected_mean, expected_std = gp.predict(X, "t2")
    np.testing.assert_allclose(mean, expected_mean, rtol=0, atol=1e-8 * np.abs(p.y).max())
    np.testing.assert_allclose(std**2, expected_std**2, rtol=1e-8, atol=1e-8 * gp.sigma2)
