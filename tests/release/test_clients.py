"""Many clients at once: each is predicted as if it were alone."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from motet import Disclosed, Engine, Landmarks, Model
from motet.arrays import Array
from motet.errors import NotPositiveDefinite
from motet.kernels import RBF, DotProduct, ExpSineSquared
from motet.model.tasks import Task
from motet.privacy.ledger import Ledger
from motet.privacy.mechanism import release as private_release
from motet.release import clients as many
from motet.release.clients import Member
from motet.release.disclosed import Estimate
from tests.oracles import Problem
from tests.privacy.worlds import MODELS as PRIVATE
from tests.privacy.worlds import mechanism, rounded_gaussian, rows_of, study
from tests.streams import CASES, engine_of, probes, problem


def alone(release: Disclosed, member: Member) -> Estimate:
    if not isinstance(member, Task):
        return release.active_estimate(member)
    if len(member.y):
        return release.estimate(member.X, member.y, member.noise)
    return Estimate(release, member, release.model.individual, member)


def check(release: Disclosed, asked: Iterable[tuple[Member, Array]], rtol: float = 1e-7) -> None:
    asked = list(asked)
    for observation in (False, True):
        found = list(many.predict(release, asked, observation))
        assert len(found) == len(asked)
        for (member, X), (mean, std) in zip(asked, found):
            expected = alone(release, member).predict(X, return_std=True, observation=observation)
            np.testing.assert_allclose(mean, expected[0], rtol=rtol, atol=rtol)
            np.testing.assert_allclose(std, expected[1], rtol=rtol, atol=rtol)


def hard(name: str, bias: str) -> Problem:
    p = problem(CASES[name], seed=3, alpha=0.4, lam=0.1, bias=bias, rows=60)
    p.noise[:] **= 0.25  # from 0.2 to 6: digits lost to a bad condition are not tested here
    return p


def of(p: Problem, task: str) -> Task:
    """A task's examples, at inputs that were seen and at others."""
    rows = np.array([t == task for t in p.tasks])
    X = p.X[rows] + np.where(np.arange(rows.sum()) % 2, 0.2, 0.0)[:, None]
    return Task.of(X, p.y[rows], p.noise[rows])


@pytest.mark.parametrize("bias", ["none", "constant", "linear"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("basis", ["growing", "landmarks"])
def test_each_is_predicted_as_if_alone(name: str, bias: str, basis: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Passive, new, active, active with examples that came since; in one group and in several."""
    p = hard(name, bias)
    mine = np.array([t in ("t4", "t5") for t in p.tasks])
    spec = {} if basis == "growing" or p.common is None else {"basis": Landmarks(p.X[:7])}
    engine = engine_of(p, ~mine, sigma2=1.5, **spec)
    release = engine.disclose()
    engine.learn("t1", p.X[0], 1.0)
    members: list[Member] = [of(p, "t4"), of(p, "t5"), Task.empty(p.X.shape[1])]
    members += [engine.coefficients(task, release) for task in ("t0", "t1", "t2")]
    X = probes(p)
    check(release, ((member, X) for member in members))
    monkeypatch.setattr(many, "INPUTS_PER_GROUP", 15)
    check(release, ((member, X[k:]) for k, member in enumerate(members)))


@pytest.mark.parametrize("name", PRIVATE)
def test_private_releases(name: str) -> None:
    ledger = Ledger(epsilon=3.0, releases=2)
    release = private_release(study(name, 40), mechanism(name), ledger, noise=rounded_gaussian(1)).disclosed
    rng = np.random.default_rng(2)
    own = [Task.of(rows_of(name, rng, n), rng.normal(size=n), np.ones(n)) for n in (1, 4, 9)]
    active = [release.coefficients(one, Task.empty(one.X.shape[1]), release.model.individual) for one in own]
    members: list[Member] = [*own, *active, Task.empty(own[0].X.shape[1])]
    check(release, ((member, rows_of(name, rng, 6)) for member in members))


@pytest.mark.parametrize("others", [0, 1, 3])
def test_who_alone_shows_the_bias(others: int) -> None:
    model = Model(RBF(1.0), DotProduct(0.5), 0.3, 0.1, "linear", Landmarks([[0.0], [1.0]]), sigma2=1.0)
    engine = Engine(model)
    for task in range(others):
        engine.learn(task, [0.0], 1.0 + task)
    own = Task.of(np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 9.0, 17.0]), np.ones(3))
    check(engine.disclose(), [(own, np.array([[-1.0], [0.5]])), (Task.empty(1), np.array([[2.0]]))])


def test_a_new_individual_is_the_average_with_the_variance_of_the_shift() -> None:
    release = engine_of(hard("ard", "constant"), sigma2=1.5).disclose()
    X = probes(hard("ard", "constant"))
    nobody = Task.empty(X.shape[1])
    ((mean, std),) = many.predict(release, [(nobody, X)])
    average, spread = release.average(X, return_std=True)
    np.testing.assert_allclose(mean, average, rtol=1e-12)
    shift = 1.5 * release.model.individual_share * release.model.individual.diag(X)
    np.testing.assert_allclose(std**2, spread**2 + shift, rtol=1e-10)


def test_whose_fault_it_is() -> None:
    engine = Engine(Model(RBF(1.0), ExpSineSquared(0.3, 0.5), 0.01, 1e-9, "none", sigma2=1.0))
    engine.learn("a", [1.0, 2.0, 3.0], 2.0)
    X = np.random.default_rng(0).normal(size=(30, 3))
    with pytest.raises(NotPositiveDefinite, match=r"ExpSineSquared.* is not positive definite on a task's inputs"):
        list(many.predict(engine.disclose(), [(Task.of(X, X[:, 0], np.ones(30)), X)]))
