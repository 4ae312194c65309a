"""Removals over HTTP: 200 means that the bytes are gone and nothing that is served has them, 202 that they will be."""

from __future__ import annotations

import sqlite3
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from motet import Client, Disclosed
from motet.engine.engine import Engine
from motet.errors import InvalidRelease
from motet.server import service
from motet.server.processes.serve import check_current
from motet.store import releases
from motet.store import store as database
from motet.store.backup import back_up, restore
from motet.store.clients import forget
from tests.scenarios.harness import END, poll
from tests.server.world import EXACT, World, world
from tests.store.local_study import EXACT as LOCAL
from tests.store.local_study import local_study, reopened, states

SECRETS = [1.2345678, 2.3456789, 3.4567891]


@pytest.fixture
def exact(tmp_path: Path) -> Iterator[World]:
    yield from world(tmp_path, EXACT)


@contextmanager
def reader(folder: Path) -> Iterator[None]:
    """Another program that reads the database as it is now."""
    connection = sqlite3.connect(folder / "study.db", isolation_level=None)
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM examples").fetchone()
    yield
    connection.close()


def on_disk(folder: Path) -> list[float]:
    data = b"".join((folder / name).read_bytes() for name in ("study.db", "study.db-wal"))
    return [y for y in SECRETS if struct.pack(">d", y) in data]


def test_200_if_the_bytes_are_gone_and_202_if_something_reads_them(
    exact: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "MAX_ERASURE_SECONDS", END)
    examples = [{"id": str(k), "x": [0.5], "y": y} for k, y in enumerate(SECRETS)]
    assert exact.call("POST", "/v1/examples", "own", json={"examples": examples}).status_code == 200
    gone = exact.call("DELETE", "/v1/me/examples/0", "own")
    assert (gone.status_code, gone.json()) == (200, {"id": "0", "erased": True})
    assert on_disk(tmp_path) == SECRETS[1:]
    with reader(tmp_path), monkeypatch.context() as impatient:
        impatient.setattr(database, "MAX_ERASURE_SECONDS", 0.5)
        later = exact.call("PUT", "/v1/me/examples/1", "own", json={"x": [0.5], "y": 1.0})
        assert (later.status_code, later.json()["erased"]) == (202, False)
        assert "when no program reads the old ones" in later.json()["note"]
        with Client(str(exact.http.base_url), exact.tokens["own"]) as me:
            assert me.remove("2") is False
        assert on_disk(tmp_path) == SECRETS[1:]
        sent = exact.call("POST", "/v1/examples", "another", json={"examples": examples[:1]})
        assert sent.status_code == 200  # nobody else waits for the reader
    poll(lambda: on_disk(tmp_path) == SECRETS[:1], END, "what is removed leaves the disk")
    with Client(str(exact.http.base_url), exact.tokens["another"]) as other:
        assert other.replace("0", [0.5], 2.0) is True
        assert other.forget_me() is True
    assert on_disk(tmp_path) == []


def test_both_answers_are_documented(exact: World) -> None:
    paths = exact.call("GET", "/openapi.json").json()["paths"]
    for path, method in (("/v1/me/examples/{id}", "put"), ("/v1/me/examples/{id}", "delete"), ("/v1/me", "delete")):
        assert {"200", "202"} <= paths[path][method]["responses"].keys()


# --- what is served ---

BIAS = EXACT.replace("sigma2 = 1.0\n", 'bias = "linear"\n')  # two columns: with two examples σ² is open


@contextmanager
def ticking(world: World) -> Iterator[None]:
    """The publisher as it runs in a process of its own, by a clock that goes on."""
    stop = threading.Event()

    def tick() -> None:
        while not stop.wait(0.05):
            world.now[0] += 1.0
            world.publisher.tick()

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(END)


def send(world: World, who: str, *xs: float) -> None:
    examples = [{"id": str(k), "x": [x], "y": 1.0 + k} for k, x in enumerate(xs)]
    assert world.call("POST", "/v1/examples", who, json={"examples": examples}).status_code == 200


def served(world: World) -> Disclosed:
    return Disclosed.from_bytes(world.call("GET", "/v1/disclosed").content)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "MAX_ERASURE_SECONDS", END)
    monkeypatch.setattr(service, "MAX_REMOVAL_SECONDS", END)


@pytest.mark.usefixtures("patient")
def test_200_means_that_nothing_served_and_no_file_has_the_input(tmp_path: Path) -> None:
    """Down to as many examples as the bias has columns, to one, and to none."""
    secret = 0.7654321
    for one in world(tmp_path, BIAS):
        send(one, "own", secret)
        assert one.release() == 1  # of one example
        send(one, "another", -0.5, 0.25)
        assert one.release() == 2
        assert secret in served(one).inputs
        with ticking(one):
            gone = one.call("DELETE", "/v1/me", "own")
            assert (gone.status_code, gone.json()) == (200, {"removed": 1, "erased": True})
            assert secret not in served(one).inputs
            data = b"".join((tmp_path / name).read_bytes() for name in ("study.db", "study.db-wal"))
            assert struct.pack("<d", secret) not in data
            for method, path in (("PUT", "/v1/me/examples/0"), ("DELETE", "/v1/me/examples/1"), ("DELETE", "/v1/me")):
                body = {"x": [0.125], "y": 1.0} if method == "PUT" else None
                assert one.call(method, path, "another", json=body).status_code == 200
        assert len(served(one).inputs) == 0
        assert states(one.service.study) == {}


def test_202_until_a_release_is_out_and_without_a_publisher_none_is_withdrawn(
    exact: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_REMOVAL_SECONDS", 0.2)
    send(exact, "own", 0.5)
    send(exact, "another", 0.25)
    assert exact.release() == 1
    later = exact.call("DELETE", "/v1/me", "own")
    assert (later.status_code, later.json()["erased"]) == (202, False)
    assert "the current release may have it until the next one" in later.json()["note"]
    assert 0.5 in served(exact).inputs
    exact.now[0] += 20.0  # a release is not due by the clock
    assert exact.publisher.tick() == 2
    assert exact.publisher.tick() is None  # one for all removals
    exact.refresh()
    assert served(exact).inputs.tolist() == [[0.25]]


@pytest.mark.usefixtures("patient", "backend")
def test_a_release_that_has_removed_data_is_withdrawn_if_there_can_be_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for one in world(tmp_path, EXACT):
        send(one, "own", 0.5)
        send(one, "another", 0.25)
        assert one.release() == 1
        with monkeypatch.context() as broken:
            broken.setattr(Engine, "disclose", _refuse)
            with ticking(one):
                answer = one.call("DELETE", f"/v1/clients/{one.ids['own']}?examples=true", "operator")
                assert answer.status_code == 200
            refused = one.call("GET", "/v1/disclosed")
            assert (refused.status_code, refused.json()["error"]["code"]) == (404, "not_released")
            assert "release 1 is withdrawn: it had data that were removed" in refused.json()["error"]["message"]
            assert one.call("GET", "/v1/me/coefficients", "another").status_code == 404
            study = one.call("GET", "/v1/study").json()
            assert (study["version"], "cannot be computed" in study["withdrawn"]) == (0, True)
            assert "withdrawn, since it had data" in one.call("GET", "/").text
            assert states(one.service.study) == {"last release": "skipped"}
        one.now[0] += 500.0  # tried again long before it is due
        assert one.publisher.tick() == 2
        one.refresh()
        assert served(one).inputs.tolist() == [[0.25]]
        assert one.call("GET", "/v1/study").json()["withdrawn"] is None
        assert states(one.service.study) == {}


@pytest.mark.parametrize("withdrawn", [False, True], ids=["the first", "after a withdrawal"])
@pytest.mark.usefixtures("backend")
def test_what_is_removed_while_a_release_is_made_is_not_said_to_be_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, withdrawn: bool
) -> None:
    """None is served meanwhile, but the one that is made has read it already."""
    monkeypatch.setattr(service, "MAX_REMOVAL_SECONDS", 0.2)
    answers: list[Any] = []

    def removing(point: str) -> None:
        if point == "caught up" and len(one.publisher.learner.engine.tasks) == 2 and not answers:
            answers.append(one.call("DELETE", "/v1/me", "own"))

    for one in world(tmp_path, EXACT, reached=removing):
        send(one, "another", 0.25, *[0.125] * withdrawn)
        if withdrawn:
            assert one.release() == 1
            with monkeypatch.context() as broken:
                broken.setattr(Engine, "disclose", _refuse)
                assert one.call("DELETE", "/v1/me/examples/0", "another").status_code == 202
                one.now[0] += 20.0
                assert one.publisher.tick() is None
            one.refresh()
            assert one.call("GET", "/v1/disclosed").status_code == 404
        send(one, "own", 0.5)
        version = one.release()
        assert (version, len(served(one).inputs)) == (1 + withdrawn, 2)
        (answer,) = answers
        assert (answer.status_code, answer.json()["erased"]) == (202, False)
        one.now[0] += 20.0
        assert one.publisher.tick() == version + 1
        one.refresh()
        assert 0.5 not in served(one).inputs
        assert states(one.service.study) == {}


@pytest.mark.usefixtures("patient")
def test_a_removal_before_any_release_is_at_once(exact: World) -> None:
    """Nothing is served, and nothing is made."""
    send(exact, "own", 0.5)
    assert exact.call("DELETE", "/v1/me", "own").status_code == 200
    send(exact, "another", 0.25)
    assert exact.release() == 1
    assert served(exact).inputs.tolist() == [[0.25]]


@pytest.mark.usefixtures("backend")
def test_a_study_whose_release_is_withdrawn_starts_again_and_is_backed_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next publisher makes the release that was asked for; so does that of a restored backup."""
    with local_study(tmp_path, LOCAL) as study:
        (first, *_) = study.enroll("zoe")
        study.add(first, (0.7654321, 1.0))
        assert study.release() == [1]
        study.do(forget, first)
        study.do(releases.request_after_removal)
        with monkeypatch.context() as broken:
            broken.setattr(Engine, "disclose", _refuse)
            assert study.release() == [None]
        back_up(study.study, tmp_path / "backup.zip", now=study.now)
        restored = restore(tmp_path / "backup.zip", tmp_path / "restored", now=study.now).study
        path, now = study.study.path, study.now
    for one in (path, restored.path):
        again = reopened(one, now + 20.0)
        check_current(again.study, again.store)
        assert "failed" not in states(again).values()
        with again.store.snapshot() as connection:
            current = releases.current(connection)
        assert current is not None
        assert current.withdrawn
        assert again.publisher.tick() is not None
        assert states(again) == {}
        again.store.close()


def _refuse(*_: object, **__: object) -> Disclosed:
    raise InvalidRelease("not a release: nothing can be computed")
