"""One object says what the noise of a row is: covariance, evidence, observations and private scale follow another."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import motet
from motet import Engine, Landmarks, Model
from motet.kernels import RBF, ConstantKernel, Linear
from motet.model.noise import Noise, Number
from motet.privacy.coordinates import Coordinates
from motet.regression.residuals import leave_out
from motet.regression.results import Results
from tests.oracles import DenseGP, Problem

SIGMA2, KNOWN, COARSER = 0.4, 0.09, 3.0
POINTS = np.linspace(0.0, 3.0, 7)[:, None]

SETTINGS = {
    "model/model.py",  # the field, and the model as plain data
    "model/noise.py",
    "study/study.py",  # the study file
    "tuning/defaults.py",  # a regressor's setting, which becomes the model's
    "regression/regressor.py",
    "planning/proposal.py",  # settings that are proposed, and that a table contradicts
    "planning/sections.py",  # the study file of a proposal
    "planning/findings.py",
    "cli/fit.py",  # settings shown
    "music/reproduce.py",
    "music/figures.py",
}


class Instrument(Noise):
    """Of a known variance in the units of y², whatever λ is; new observations are by a coarser instrument."""

    def variance(self, w: Number) -> Number:
        return KNOWN / SIGMA2 * w

    def observation(self, w: Number) -> Number:
        return COARSER * self.variance(w)


class Measured(Model):
    """A model of outputs that an instrument measured."""

    @property
    def noise(self) -> Noise:
        return Instrument(self.lam, SIGMA2)


def examples(seed: int = 0) -> Problem:
    """Of some tasks, with repeats of inputs, as a problem whose λ is the instrument's."""
    rng = np.random.default_rng(seed)
    tasks = [f"t{k}" for k in rng.integers(0, 4, size=30)]
    X, y, noise = POINTS[rng.integers(0, 7, size=30)], rng.normal(size=30), rng.uniform(0.5, 2.0, size=30)
    return Problem(tasks, X, y, noise, RBF(1.0), ConstantKernel(0.5) * RBF(0.6), 0.3, KNOWN / SIGMA2, "constant")


def engine_of(p: Problem, basis: Landmarks | None = None) -> Engine:
    engine = Engine(Measured(p.common, p.individual, p.alpha, lam=1e6, basis=basis))
    engine.learn_many(p.tasks, p.X, p.y, p.noise)
    return engine


def test_another_noise_is_followed_by_covariance_and_evidence() -> None:
    p = examples()
    engine, gp = engine_of(p), DenseGP(p, SIGMA2)
    evidence = engine.evidence()
    assert evidence.sigma2 == SIGMA2
    assert evidence.quadratic == pytest.approx(gp.Q, rel=1e-9)
    assert evidence.log_evidence == pytest.approx(gp.log_evidence, rel=1e-9)
    for task in ("t0", "t3", "new"):
        predicted = engine.predict_many([task] * 7, POINTS, return_std=True)
        np.testing.assert_allclose(predicted, gp.predict(POINTS, task), rtol=1e-7, atol=1e-9)
    rows = leave_out(Results(engine, None, "REML", ["x"])).rows
    for i in (0, 7, 20):
        others = np.arange(30) != i
        without = Problem([t for t, other in zip(p.tasks, others) if other], p.X[others], p.y[others], p.noise[others],
                          p.common, p.individual, p.alpha, p.lam, p.bias)  # fmt: skip
        mean, std = DenseGP(without, SIGMA2).predict(p.X[i : i + 1], p.tasks[i])
        assert rows["mean"][i] == pytest.approx(mean[0], rel=1e-7)
        assert rows["std"][i] ** 2 == pytest.approx(std[0] ** 2 + KNOWN * p.noise[i], rel=1e-7)


def test_another_noise_is_followed_by_observations_and_by_the_private_scale() -> None:
    p = examples()
    engine = engine_of(p)
    release = engine.disclose()
    estimates = (release.estimate(p.X[:5], p.y[:5]), release.active_estimate(engine.coefficients("t1")))
    for predict in (*(estimate.predict for estimate in estimates), release.average):
        stds = [predict(POINTS, return_std=True, observation=observation)[1] for observation in (False, True)]
        np.testing.assert_allclose(stds[1] ** 2 - stds[0] ** 2, COARSER * KNOWN, rtol=1e-9)
    model = engine_of(p, Landmarks(POINTS)).model
    observation = p.alpha + (1 - p.alpha) * 0.5 + COARSER * KNOWN / SIGMA2
    coordinates = Coordinates.of(model)
    assert coordinates.sigma2 == SIGMA2
    assert coordinates.bias_precision[-1] == pytest.approx(1 / observation, rel=1e-9)


def test_a_long_task_of_few_features_has_it_too() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 1)), rng.normal(size=90)
    p = Problem(["t0"] * 90, X, y, np.ones(90), None, Linear([[1.0, 0.2], [0.2, 0.5]]), 1.0, KNOWN / SIGMA2)
    engine = Engine(Measured(None, p.individual, 1.0, lam=1e6, bias="none"))
    engine.learn_many(p.tasks, X, y)
    assert engine.evidence().log_evidence == pytest.approx(DenseGP(p, SIGMA2).log_evidence, rel=1e-9)


def test_lam_is_read_where_it_is_a_setting_and_nowhere_else() -> None:
    package = Path(motet.__file__).parent
    readers = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(r"\.lam\b", path.read_text(encoding="utf-8"))
    }
    assert readers == SETTINGS
