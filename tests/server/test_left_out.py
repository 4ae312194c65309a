"""A client whose examples cannot be computed with stops nobody else, is named to the operator, and told to itself."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from motet import Disclosed, Engine, Model
from motet.engine.admission import EXTREME, TOO_MANY_INPUTS, UNUSABLE
from motet.errors import InvalidRelease
from motet.kernels import RBF, DotProduct
from motet.server.publisher import Publisher
from motet.store.examples import Example, add, to_bytes
from motet.store.releases import StoredRelease, current
from motet.store.schema import releases
from motet.store.store import Store
from tests.scenarios.harness import END, poll
from tests.server.world import EXACT, World, world
from tests.store.empty_store import addition
from tests.store.local_study import EXACT as LOCAL
from tests.store.local_study import LocalStudy, local_study, states

MODEL = Model(RBF(1.0), DotProduct(1.0), 0.5, 0.1, sigma2=1.0)  # of the study
OTHERS = {"a": ([0.5], 1.0), "b": ([-1.0], 0.5), "c": ([2.0], -0.5)}


@pytest.fixture
def exact(tmp_path: Path) -> Iterator[World]:
    for w in world(tmp_path / "study", EXACT):
        send(w, "another", OTHERS)
        yield w


def send(w: World, who: str, examples: dict[str, tuple[list[float], float]], noise: float = 1.0) -> None:
    rows = [{"id": id, "x": x, "y": y, "noise": noise} for id, (x, y) in examples.items()]
    assert w.call("POST", "/v1/examples", who, json={"examples": rows}).status_code == 200


def store(w: World, who: str, X: list[float], noise: float) -> None:
    """Examples that an earlier version took: now they would be refused when they are sent."""
    study = w.service.study
    rows = to_bytes(study.model, np.array(X)[:, None])
    new = [Example(str(k), x, 1.0, noise) for k, x in enumerate(rows)]
    with w.service.store.transaction() as connection:
        add(connection, addition(w.ids[who], new, 5))


def released(w: World) -> Disclosed:
    return Disclosed.from_bytes(w.call("GET", "/v1/disclosed").content)


def without_own() -> Disclosed:
    """The release of the other client alone."""
    engine = Engine(MODEL)
    for x, y in OTHERS.values():
        engine.learn("another", x, y)
    return engine.disclose()


def test_an_unusable_client_is_left_out_named_and_told(exact: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "motet.publisher")
    store(exact, "own", [1e10, 1e10 + 1], 0.01)
    assert exact.release() == 1
    assert np.array_equal(released(exact).theta, without_own().theta)
    assert np.array_equal(released(exact).inputs, without_own().inputs)
    assert exact.call("GET", "/v1/me", "own").json()["left_out"] == UNUSABLE
    assert exact.call("GET", "/v1/me", "another").json()["left_out"] is None
    listed = {c["name"]: c["left_out"] for c in exact.call("GET", "/v1/clients", "operator").json()["clients"]}
    assert listed == {"own": UNUSABLE, "another": None, "revoked": None}
    answer = exact.call("GET", "/v1/me/coefficients", "own")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "unusable")
    assert "replace or remove" in answer.json()["error"]["message"]
    assert exact.call("GET", "/v1/me/coefficients", "another").status_code == 200
    public = exact.call("GET", "/v1/study").json()
    assert public["refused"] is None
    assert "left" not in str(public)
    assert exact.release() == 2
    assert len([record for record in caplog.records if "left out" in record.message]) == 1
    assert exact.ids["own"] not in caplog.text


def test_it_comes_back_when_its_data_are_mended(exact: World) -> None:
    store(exact, "own", [1e10, 1e10 + 1], 0.01)
    exact.release()
    exact.call("PUT", "/v1/me/examples/0", "own", json={"x": [1.0], "y": 1.0})
    exact.call("DELETE", "/v1/me/examples/1", "own")
    own = exact.call("GET", "/v1/me/coefficients", "own")  # at once: the release has nothing of it to take out
    assert own.status_code == 200
    exact.release()
    assert exact.call("GET", "/v1/me", "own").json()["left_out"] is None
    engine = Engine(MODEL)
    for x, y in OTHERS.values():
        engine.learn("another", x, y)
    engine.learn("own", [1.0], 1.0)
    np.testing.assert_allclose(released(exact).theta, engine.disclose().theta, rtol=1e-9)


def test_a_restart_keeps_it_and_a_new_publisher_finds_it_again(exact: World) -> None:
    store(exact, "own", [1e10, 1e10 + 1], 0.01)
    exact.release()
    study = exact.service.study
    with closing(Store(study.store_url)) as store_of_the_next:
        exact.publisher = Publisher(store_of_the_next, study, clock=lambda: exact.now[0])
        assert exact.release() == 2
    assert exact.call("GET", "/v1/me", "own").json()["left_out"] == UNUSABLE


def test_a_verified_study_has_its_release_without_that_client(tmp_path: Path) -> None:
    with local_study(tmp_path, LOCAL) as study:
        (bad,) = study.enroll("bad")
        study.add(bad, (1e10, 0.0), (1e10 + 1.0, 1.0))
        study.execute("UPDATE examples SET noise = 0.01 WHERE client = :id", id=bad)
        assert study.release(2) == [1, 2]
        assert states(study) == {}


@pytest.mark.parametrize("magnitude", [1e7, 1e12, 1e20, 1e100, 9e149])
@pytest.mark.parametrize("basis", ["", '\n[basis]\nkind = "features"\n'], ids=["growing", "features"])
def test_sums_that_one_client_spoils_are_released_without_it(tmp_path: Path, magnitude: float, basis: str) -> None:
    """Its own covariance has an inverse, but all that is shared loses its digits."""
    text = LOCAL.replace('"rbf", length_scale = 1.0', '"dot_product", sigma_0 = 1.0') + basis
    (tmp_path / "alone").mkdir()
    with local_study(tmp_path / "alone", text) as alone, local_study(tmp_path, text) as study:
        alone.release()
        bad = study.enroll(*(f"bad {size}" for size in (3, 6, 40)))
        for client, size in zip(bad, (3, 6, 40)):
            study.add(client, *((magnitude * (1 + 1e-8 * k), 1.0) for k in range(size)))
            study.execute("UPDATE examples SET noise = 0.01 WHERE client = :id", id=client)
        assert study.release() == [1]
        found, expected = (Disclosed.from_bytes(release_of(one).data) for one in (study, alone))
        assert np.isfinite(found.theta).all()
        if set(left_out(study)) == set(bad):
            np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-9)
        assert set(left_out(study)) <= set(bad)
        assert set(left_out(study).values()) <= {EXTREME, UNUSABLE}


def test_more_inputs_than_a_release_can_have_leave_out_whoever_has_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("motet.server.learner.MAX_BASIS_POINTS", 12)
    with local_study(tmp_path, LOCAL) as study:  # ann, bob and cleo have 4 inputs
        flood, small = study.enroll("flood", "small")
        study.add(flood, *((10.0 + k, 1.0) for k in range(20)))
        study.add(small, *((5.0 + k, 1.0) for k in range(6)))
        assert study.release() == [1]
        assert left_out(study) == {flood: TOO_MANY_INPUTS}
        study.add(small, *((20.0 + k, 1.0) for k in range(10)), first=6)
        study.execute("DELETE FROM examples WHERE client = :id AND id <> '0'", id=flood)
        study.execute("INSERT INTO log SELECT max(sequence) + 1, 'remove', :id, '1' FROM log", id=flood)
        study.execute("UPDATE head SET sequence = sequence + 1")
        assert study.release() == [2]
        assert left_out(study) == {small: TOO_MANY_INPUTS}  # and the other is back


def left_out(study: LocalStudy) -> dict[str, str]:
    return dict(release_of(study).left_out)


def release_of(study: LocalStudy) -> StoredRelease:
    with study.store.snapshot() as connection:
        release = current(connection)
    assert release is not None
    return release


def test_nothing_is_released_that_nobody_can_read(exact: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither this server nor a client could load it, and after a restart no server would start on it."""
    store(exact, "own", [100.0], 0.01)
    check = Disclosed.check

    def refuse(release: Disclosed) -> None:
        check(release)
        if 100.0 in release.inputs:
            raise InvalidRelease("not a release")

    monkeypatch.setattr(Disclosed, "check", refuse)
    assert exact.release() == 1
    assert exact.call("GET", "/v1/me", "own").json()["left_out"] == EXTREME
    assert np.array_equal(released(exact).theta, without_own().theta)


def test_a_release_that_cannot_be_read_ends_nothing(exact: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "motet.service")
    assert exact.release() == 1
    with exact.service.store.transaction() as connection:
        connection.execute(releases.insert().values(version=2, sequence=0, made=1.0, data=b"damaged", noisy=None))
    poll(lambda: "no news from the database" in caplog.text, END, "the failure is logged")
    with exact.service.store.transaction() as connection:
        connection.execute(releases.delete().where(releases.c.version == 2))
    poll(lambda: "the database answers again" in caplog.text, END, "it is looked for again")
    assert exact.call("GET", "/v1/disclosed").status_code == 200
