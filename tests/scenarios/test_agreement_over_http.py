"""Over a real socket: active ≡ passive ≡ regressor ≡ the article's linear system, and forgotten ≡ never seen."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from motet import Client, Disclosed, Engine, MixedEffectRegressor
from motet.client.client import Enrolled
from motet.errors import NotAllowed, NotReleased, Unauthorized
from motet.kernels.spec import from_spec, to_spec
from motet.study.study import Study
from tests.oracles import Array, KernelFunction, Problem, direct
from tests.scenarios.harness import CURVES, END, OPERATOR, Place, parts, poll, write_study

NAMES = ("ann", "bob", "cem", "dora", "eve")
EACH = 14  # examples of a client
GROWING = """
[model]
alpha = 0.4
lam = 0.1
common = { kernel = "sum", of = [{ kernel = "matern", length_scale = 1.0, nu = 1.5 }, { kernel = "dot_product" }] }
individual = { kernel = "rbf", length_scale = 0.7 }
[inputs]
dimension = 2
"""
CATALOGUE = """
[model]
alpha = 0.3
lam = 0.2
common = { kernel = "rbf", length_scale = 0.8 }
individual = { kernel = "dot_product", sigma_0 = 0.5 }
[inputs]
catalogue = "items.csv"
[basis]
kind = "eigen"
rank = 6
"""
EXACT = '[release]\npolicy = "exact"\nevery = "1d"\n'
ITEMS = 12
PRIVATE = f"""{CURVES}
[basis]
kind = "landmarks"
grid = {{ from = 0.0, to = 1.0, count = 5 }}
[limits]
y = [-10.0, 10.0]
[release]
policy = "private"
every = "1s"
epsilon = 3.0
releases = 3
"""


@dataclass
class Data:
    """What one client has: its ids, inputs as they are sent and as rows, outputs and noise."""

    ids: list[str]
    sent: list[Any]
    X: Array
    y: Array
    noise: Array

    def up_to(self, n: int) -> Data:
        return Data(self.ids[:n], self.sent[:n], self.X[:n], self.y[:n], self.noise[:n])


def simulated(study: Study, seed: int) -> dict[str, Data]:
    """Some inputs are everybody's, some are one's own; some come twice."""
    rng = np.random.default_rng(seed)
    catalogue, found = study.model.catalogue, {}
    shared = rng.normal(size=(4, 2))
    for name in NAMES:
        if catalogue is None:
            X = np.vstack([shared, rng.normal(size=(EACH - 6, 2))])
            X = np.vstack([X, X[[0, -1]]])
            sent: list[Any] = X.tolist()
        else:
            X = catalogue.rows[rng.integers(ITEMS, size=EACH)]
            sent = catalogue.name_rows(X)
        y, noise = rng.normal(2.0, 1.5, size=EACH), 10 ** rng.uniform(-1, 1, size=EACH)
        found[name] = Data([f"e{k}" for k in range(EACH)], sent, X, y, noise)
    return found


@pytest.fixture(scope="module", params=["growing", "catalogue"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp(request.param)
    rng = np.random.default_rng(0)
    rows = [f"item {k},{a!r},{b!r}" for k, (a, b) in enumerate(rng.normal(size=(ITEMS, 2)).tolist())]
    (folder / "items.csv").write_text("\n".join(["name,a,b", *rows]), encoding="utf-8")
    body = {"growing": GROWING, "catalogue": CATALOGUE}[request.param]
    with parts(write_study(folder, body + EXACT)) as running:
        yield running


def send_all(running: Place, person: Enrolled, data: Data, seed: int) -> None:
    """In random order and chunks, with repeats of ids among them and afterwards."""
    rng = np.random.default_rng(seed)
    order = np.concatenate([rng.permutation(len(data.y)), rng.integers(len(data.y), size=8)])
    with running.client(person.token) as me:
        while len(order):
            now, order = np.split(order, [int(rng.integers(1, 5))])
            me.send_many([data.sent[k] for k in now], data.y[now], data.noise[now], [data.ids[k] for k in now])


def send_concurrently(running: Place, people: list[Enrolled], data: dict[str, Data]) -> None:
    threads = [
        threading.Thread(target=send_all, args=(running, person, data[person.name], k), daemon=True)
        for k, person in enumerate(people)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(END)
        assert not thread.is_alive()


def engine_of(study: Study, data: dict[str, Data], without: str = "") -> Engine:
    engine = Engine(study.model)
    for name, own in data.items():
        if name != without:
            engine.learn_many([name] * len(own.y), own.X, own.y, own.noise)
    return engine


def passive(study: Study, data: dict[str, Data], name: str, probes: Array) -> Array:
    own = data[name]
    release = engine_of(study, data, without=name).disclose()
    return np.asarray(release.estimate(own.X, own.y, own.noise).predict(probes))


def oracle(study: Study, data: dict[str, Data], name: str, probes: Array) -> Array:
    model = study.model
    tasks = [task for task, own in data.items() for _ in own.y]
    X, y, noise = (np.concatenate([getattr(own, part) for own in data.values()]) for part in ("X", "y", "noise"))
    common: Any = model.common
    individual: Any = model.individual
    if model.catalogue is not None:  # what the basis misses is each task's own
        whole, low_rank = common, leading(common, model.catalogue.rows, rank=6)
        ratio = model.common_share / model.individual_share
        common, individual = low_rank, lambda X, Y: model.individual(X, Y) + ratio * (whole(X, Y) - low_rank(X, Y))
    problem = Problem(tasks, X, y, noise, common, individual, model.alpha, model.lam, model.bias)
    return direct(problem, probes, name)


def leading(kernel: KernelFunction, Z: Array, rank: int) -> KernelFunction:
    """K̄ as the leading eigenvectors over the catalogue have it."""
    values, vectors = np.linalg.eigh(kernel(Z, Z))
    V = vectors[:, -rank:] / np.sqrt(values[-rank:])
    return lambda X, Y: kernel(X, Z) @ V @ V.T @ kernel(Z, Y)


def regressor(study: Study, data: dict[str, Data]) -> MixedEffectRegressor:
    model = study.model
    kernels = {name: from_spec(to_spec(getattr(model, name))) for name in ("common", "individual")}
    settings: dict[str, Any] = {"alpha": model.alpha, "lam": model.lam, "bias": model.bias, "basis": model.basis}
    settings["optimizer"] = None
    tasks = [task for task, own in data.items() for _ in own.y]
    X, y, noise = (np.concatenate([getattr(own, part) for own in data.values()]) for part in ("X", "y", "noise"))
    return MixedEffectRegressor(**kernels, **settings).fit(X, y, task=tasks, sample_weight=1 / noise)


def assert_same(found: Disclosed, expected: Disclosed) -> None:
    for name in ("Lambda", "eta", "theta", "inputs", "A"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-10, atol=1e-10, err_msg=name)


def test_all_ways_agree_and_the_forgotten_never_were(served: Place) -> None:
    study = Study.load(served.study)
    whole = simulated(study, seed=1)
    data = {name: own.up_to(EACH - 3) if name == "ann" else own for name, own in whole.items()}
    probes = np.vstack([whole["ann"].X, whole["eve"].X])
    if study.model.catalogue is None:
        probes = np.vstack([probes, np.random.default_rng(2).normal(size=(9, 2))])
    with served.operator() as operator:
        people = operator.enroll(NAMES)
        send_concurrently(served, people, data)
        assert operator.release_now() == 1
        fitted = regressor(study, data)
        for person in people:
            with served.client(person.token) as me:
                assert me.me()["count"] == len(data[person.name].y)
                active = me.estimate().predict(probes)
            truth = oracle(study, data, person.name, probes)
            for found in (
                active,
                passive(study, data, person.name, probes),
                fitted.predict(probes, task=[person.name] * len(probes)),
            ):
                np.testing.assert_allclose(found, truth, rtol=0, atol=1e-8)
        by_name = {person.name: served.client(person.token) for person in people}
        more_counts_at_once(by_name["ann"], study, data, whole, probes)
        forgotten_was_never(served, operator, by_name["eve"], study, whole)
        for client in by_name.values():
            client.close()


def more_counts_at_once(
    ann: Client, study: Study, data: dict[str, Data], whole: dict[str, Data], probes: Array
) -> None:
    """What a client sent since the release is in its own estimate, and in nobody else's."""
    own = whole["ann"]
    ann.send_many(own.sent, own.y, own.noise, own.ids)
    now = data | {"ann": own}
    found = ann.estimate().predict(probes)
    np.testing.assert_allclose(found, oracle(study, now, "ann", probes), rtol=0, atol=1e-8)
    np.testing.assert_allclose(found, passive(study, now, "ann", probes), rtol=0, atol=1e-8)
    assert np.abs(found - oracle(study, data, "ann", probes)).max() > 1e-4


def forgotten_was_never(served: Place, operator: Client, eve: Client, study: Study, data: dict[str, Data]) -> None:
    outputs = [struct.pack(">d", y) for y in data["eve"].y]
    own_inputs = [struct.pack("<d", v) for v in data["eve"].X[4:-2].ravel()] if study.model.catalogue is None else []
    assert operator.release_now() == 2
    assert_same(operator.disclosed(), engine_of(study, data).disclose())
    assert all(map(served.on_disk, outputs + own_inputs))
    if eve.forget_me():  # else it takes longer
        assert not any(map(served.on_disk, outputs))
    poll(lambda: not any(map(served.on_disk, outputs)), END, "what is forgotten leaves the disk")
    with pytest.raises(Unauthorized):
        eve.me()
    assert operator.release_now() == 3
    assert_same(operator.disclosed(), engine_of(study, data, without="eve").disclose())
    assert not any(map(served.on_disk, outputs))
    poll(lambda: not any(map(served.on_disk, own_inputs)), END, "earlier releases leave the disk")
    assert served.on_disk(struct.pack(">d", data["dora"].y[0]))


def test_a_private_study_releases_by_the_clock_and_ends_with_its_budget(tmp_path: Path) -> None:
    X, y, probes = [[0.1], [0.5], [0.9]], [1.0, -0.5, 2.0], np.linspace(0, 1, 7)[:, None]
    with parts(write_study(tmp_path, PRIVATE)) as running, running.operator() as operator:
        (ann,) = operator.enroll(["ann"])
        with running.client(ann.token) as me:
            me.send_many(X, y, ids=["1", "2", "3"])
            with pytest.raises(NotAllowed, match="clock"):
                operator.release_now()
            headers = {"Authorization": f"Bearer {OPERATOR}"}
            refused = httpx.post(f"{running.url}/v1/releases", headers=headers, timeout=END)
            assert refused.status_code == 409
            poll(lambda: is_released(me), END, "the first release")
            active = me.estimate()
            alone = active.release.estimate(X, y)
            for deviation in (False, True):
                found, expected = (f.predict(probes, return_std=True)[deviation] for f in (active, alone))
                np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)
        status = poll(lambda: (now := operator.study())["version"] == 3 and now, END, "the end of the budget")
        assert "all 3 releases" in status["refused"]
        assert status["budget"]["made"] == status["version"] == 3
        assert status["budget"]["left"] < 0.1
        assert status["next_release"] is None
        poll(lambda: "no more releases: the budget" in running.log(), END, "the end of the budget in the log")
        assert operator.study()["version"] == operator.disclosed().version == 3
        assert running.rows("select version from ledger") == [(1,), (2,), (3,)]


def is_released(client: Client) -> bool:
    try:
        client.disclosed()
    except NotReleased:
        return False
    return True
