"""Scores of columns, against the covariance of all rows written out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal

from motet.engine.system import System
from motet.kernels import RBF, ConstantKernel
from motet.model.model import Model
from motet.tables.rows import Rows
from motet.tuning.screening import average_gains, largest, shift_scores, smooth_scores
from motet.tuning.tuning import folded_tasks
from tests.oracles import Array

TASKS, ROWS = 6, 5


def solved() -> tuple[System, Rows, Array]:
    """A system, its rows, and the covariance of their outputs in units of σ²; the bias has a wide prior there."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(TASKS), ROWS)
    X = rng.normal(size=(len(task), 3))
    y = X[:, 0] + np.sin(2.0 * X[:, 1]) + rng.normal(size=TASKS)[task] + 0.3 * rng.normal(size=len(task))
    model = Model(RBF(1.5), ConstantKernel(2.0), 0.6, 0.2, "constant")
    rows = Rows.of(task, X, y, np.ones(len(y)))
    system = System.of_tasks(model, *folded_tasks(rows, model))
    shift = 0.4 * 2.0 * (task[:, None] == task)
    V = 0.6 * RBF(1.5)(X) + shift + 0.2 * np.eye(len(y)) + 1e6
    return system, rows, V


def test_the_gain_of_a_slope_is_that_of_the_best_variance() -> None:
    system, rows, V = solved()
    sigma2 = system.evidence.sigma2

    def log_density(z: Array, variance: float) -> float:
        S = sigma2 * (V + variance * np.outer(z, z))
        return float(multivariate_normal.logpdf(rows.y, np.zeros(len(S)), S))

    gains = average_gains(system, system.X)
    for k, z in enumerate(rows.X.T):
        best = minimize_scalar(lambda log: -log_density(z, np.exp(log)), bounds=(-12, 8), method="bounded")  # noqa: B023
        assert gains[k] == pytest.approx(max(-best.fun - log_density(z, 0.0), 0.0), abs=1e-3)
    assert largest(gains, 1) == [0]


def test_the_score_of_a_shift_is_above_what_tasks_would_have_by_chance() -> None:
    """Alone, without an average, P is what a score test has."""
    rng = np.random.default_rng(1)
    task = np.repeat(np.arange(TASKS), ROWS)
    X = rng.normal(size=(len(task), 4))
    y = X[:, 2] * 2.0 * rng.normal(size=TASKS)[task] + 0.3 * rng.normal(size=len(task))
    rows = Rows.of(task, X, y, np.ones(len(y)))
    model = Model(None, ConstantKernel(0.5), 0.5, 1.0, "none")
    system = System.of_tasks(model, *folded_tasks(rows, model))
    assert (model.individual_share, model.noise.variance(1.0)) == (1.0, 1.0)
    P = np.linalg.inv(0.5 * (task[:, None] == task) + np.eye(len(task)))
    sigma2 = system.evidence.sigma2
    expected = []
    for z in X.T:
        parts = [(z[own], (P @ y)[own], P[np.ix_(own, own)]) for own in (task == j for j in range(TASKS))]
        above = sum((x @ a) ** 2 / sigma2 - x @ Q @ x for x, a, Q in parts)
        expected.append(above / np.sqrt(2.0 * sum((x @ Q @ x) ** 2 for x, _, Q in parts)))
    np.testing.assert_allclose(shift_scores(system, system.X), expected, rtol=1e-8)
    assert largest(np.array(expected), 2)[0] == 2


def test_waves_find_what_no_slope_tells() -> None:
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(40), 6)
    X = rng.normal(size=(len(task), 30))
    y = np.cos(2.0 * X[:, 7]) + rng.normal(size=40)[task] + 0.4 * rng.normal(size=len(task))
    model = Model(None, ConstantKernel(1.0), 0.5, 0.2)
    system = System.of_tasks(model, *folded_tasks(Rows.of(task, X, y, np.ones(len(y))), model))
    assert largest(smooth_scores(average_gains, system, system.X), 1) == [7]
    np.testing.assert_allclose(
        smooth_scores(average_gains, system, system.X), smooth_scores(average_gains, system, np.exp(system.X))
    )  # of ranks: the scale of a column is nothing
