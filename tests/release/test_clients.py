"""Many clients at once: each is predicted as if it were alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from motet import Disclosed, Engine, Landmarks, Model
from motet.arrays import Array
from motet.errors import NotPositiveDefinite
from motet.kernels import RBF, DotProduct, ExpSineSquared
from motet.model.tasks import Task
from motet.privacy.ledger import Ledger
from motet.privacy.mechanism import release as private_release
from motet.release import clients as release_clients
from motet.release.clients import ClientData
from motet.release.disclosed import Estimate
from tests.oracles import Problem
from tests.privacy.worlds import MODELS as PRIVATE
from tests.privacy.worlds import mechanism, rounded_gaussian, rows_of, study
from tests.streams import CASES, engine_of, probes, problem


def alone(release: Disclosed, client: ClientData) -> Estimate:
    if not isinstance(client, Task):
        return release.active_estimate(client)
    if len(client.y):
        return release.estimate(client.X, client.y, client.noise)
    return Estimate(release, client, release.model.individual, client)


def check(release: Disclosed, asked: Iterable[tuple[ClientData, Array]], rtol: float = 1e-7) -> None:
    asked = list(asked)
    for observation in (False, True):
        found = list(release_clients.predict(release, asked, observation))
        assert len(found) == len(asked)
        for (client, X), (mean, std) in zip(asked, found):
            expected = alone(release, client).predict(X, return_std=True, observation=observation)
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
    clients: list[ClientData] = [of(p, "t4"), of(p, "t5"), Task.empty(p.X.shape[1])]
    clients += [engine.coefficients(task, release) for task in ("t0", "t1", "t2")]
    X = probes(p)
    check(release, ((client, X) for client in clients))
    monkeypatch.setattr(release_clients, "INPUTS_PER_GROUP", 15)
    check(release, ((client, X[k:]) for k, client in enumerate(clients)))


@pytest.mark.parametrize("numbers", [2**20, 200])
@pytest.mark.parametrize("bias", ["none", "linear"])
def test_clients_that_are_alike_are_predicted_as_one_stack(bias: str, numbers: int, monkeypatch: Any) -> None:
    """Some at inputs that a growing basis spans, some at others; of one size and of another; passive and active."""
    monkeypatch.setattr(release_clients, "NUMBERS_PER_PART", numbers)
    p, rng = hard("ard", bias), np.random.default_rng(4)
    engine = engine_of(p, sigma2=1.5)
    for task in range(8):
        engine.learn_many([task] * 3, p.X[task : task + 3], rng.normal(size=3))
    release = engine.disclose()
    inputs = [p.X[rng.choice(len(p.X), 4, replace=False)] + (0.1 if k % 3 else 0.0) for k in range(8)]
    clients: list[ClientData] = [Task.of(X, rng.normal(size=4), rng.uniform(0.5, 2, size=4)) for X in inputs]
    clients += [engine.coefficients(task) for task in range(8)]
    clients += [Task.of(p.X[:1], rng.normal(size=1), np.ones(1)) for _ in range(3)]
    X = probes(p)
    check(release, ((client, X) for client in clients))


@pytest.mark.parametrize("name", PRIVATE)
def test_private_releases(name: str) -> None:
    ledger = Ledger(epsilon=3.0, releases=2)
    release = private_release(study(name, 40), mechanism(name), ledger, noise=rounded_gaussian(1)).disclosed
    rng = np.random.default_rng(2)
    own = [Task.of(rows_of(name, rng, n), rng.normal(size=n), np.ones(n)) for n in (1, 4, 9)]
    active = [release.coefficients(one, Task.empty(one.X.shape[1]), release.model.individual) for one in own]
    clients: list[ClientData] = [*own, *active, Task.empty(own[0].X.shape[1])]
    check(release, ((client, rows_of(name, rng, 6)) for client in clients))


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
    ((mean, std),) = release_clients.predict(release, [(nobody, X)])
    average, spread = release.average(X, return_std=True)
    np.testing.assert_allclose(mean, average, rtol=1e-12)
    shift = 1.5 * release.model.individual_share * release.model.individual.diag(X)
    np.testing.assert_allclose(std**2, spread**2 + shift, rtol=1e-10)


def test_whose_fault_it_is() -> None:
    engine = Engine(Model(RBF(1.0), ExpSineSquared(0.3, 0.5), 0.01, 1e-9, "none", sigma2=1.0))
    engine.learn("a", [1.0, 2.0, 3.0], 2.0)
    X = np.random.default_rng(0).normal(size=(30, 3))
    with pytest.raises(NotPositiveDefinite, match=r"ExpSineSquared.* is not positive definite on a task's inputs"):
        list(release_clients.predict(engine.disclose(), [(Task.of(X, X[:, 0], np.ones(30)), X)]))
