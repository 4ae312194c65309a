"""A budget of each client's own, over HTTP: taking part, retiring, leaving and coming again, a backup put back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from motet.privacy.ledger import Integers, opendp_noise
from motet.store.backup import back_up, restore
from motet.store.store import Connection
from tests.server.world import PRIVATE, World, world
from tests.store.local_study import reopened, states

pytestmark = pytest.mark.usefixtures("backend")
RETIRED = "a client's budget (ε = 1) is for 2 releases: it has taken part in as many, and later ones leave it out"
PER_CLIENT = PRIVATE.replace("releases = 2", 'releases = 2\nper = "client"')


def send(w: World, who: str, id: str, x: float, y: float) -> None:
    example = {"id": id, "x": [x], "y": y}
    assert w.call("POST", "/v1/examples", who, json={"examples": [example]}).status_code == 200


def vector(w: World, *examples: tuple[float, float]) -> Integers:
    """What one client with these examples adds."""
    mechanism = w.service.study.mechanism()
    assert mechanism is not None
    X, y = np.array(examples).T
    return mechanism.clip.vector(X[:, None], y, np.ones(len(y)))


def taken(w: World) -> dict[str, int]:
    with w.service.store.snapshot() as connection:
        return participations(connection)


def participations(connection: Connection) -> dict[str, int]:
    rows = connection.exec_driver_sql("SELECT client, releases FROM taken")
    return {row.client: row.releases for row in rows}


def check_goes_on(w: World, version: int) -> None:
    """The study does not end: the next release comes, and nothing says that the budget is spent."""
    status: dict[str, Any] = w.call("GET", "/v1/study").json()
    assert (status["version"], status["refused"], status["budget"]["per"]) == (version, None, "client")
    assert status["next_release"] == w.now[0] + 3600
    assert status["budget"]["made"] == version


def test_clients_take_part_retire_leave_and_come_again(tmp_path: Path) -> None:
    sums: list[Integers] = []  # of each release, before the noise

    def noise(total: Integers, deviation: float) -> Integers:
        sums.append(total)
        return opendp_noise(total, deviation)

    for w in world(tmp_path / "study", PER_CLIENT, noise=noise):
        first = w.ids["own"]
        send(w, "own", "1", 0.5, 1.0)
        assert w.release() == 1
        np.testing.assert_array_equal(sums[-1], vector(w, (0.5, 1.0)))
        send(w, "another", "1", -1.0, 2.0)
        assert w.release() == 2
        np.testing.assert_array_equal(sums[-1], vector(w, (0.5, 1.0)) + vector(w, (-1.0, 2.0)))
        assert w.call("GET", "/v1/me", "own").json()["ended"] == RETIRED
        example = {"id": "2", "x": [1.5], "y": 3.0}  # it is welcome, and in no further release
        sent = w.call("POST", "/v1/examples", "own", json={"examples": [example]}).json()
        assert sent == {"accepted": 1, "duplicates": 0, "count": 2, "ended": RETIRED}
        assert w.call("GET", "/v1/me", "another").json()["ended"] is None
        assert w.release() == 3
        np.testing.assert_array_equal(sums[-1], vector(w, (-1.0, 2.0)))
        assert taken(w) == {first: 2, w.ids["another"]: 2}
        assert w.release() == 4
        assert not sums[-1].any()
        check_goes_on(w, 4)
        assert w.call("GET", "/v1/me", "own").json()["releases_taken_part_in"] == 2
        assert w.call("GET", "/v1/me/coefficients", "own").status_code == 200  # with the others' release, and its own
        assert states(w.service.study) == {}

        assert w.call("DELETE", "/v1/me", "own").json()["removed"] == 2
        (again,) = w.call("POST", "/v1/clients", "operator", json={"names": ["own"]}).json()["clients"]
        w.tokens["own"], w.ids["own"] = again["token"], again["id"]
        send(w, "own", "1", 0.5, 1.0)  # ids of a client that was forgotten are free again
        assert w.release() == 5
        np.testing.assert_array_equal(sums[-1], vector(w, (0.5, 1.0)))
        assert taken(w) == {first: 2, w.ids["another"]: 2, again["id"]: 1}  # another client, with a budget of its own
        assert states(w.service.study) == {}
        check_put_back(w, tmp_path)


def check_put_back(w: World, folder: Path) -> None:
    """All who were enrolled may have taken part in the release that the clock has brought since."""
    (late,) = w.call("POST", "/v1/clients", "operator", json={"names": ["late"]}).json()["clients"]
    back_up(w.service.study, folder / "backup.zip", now=w.now[0])
    done = restore(folder / "backup.zip", folder / "new", now=w.now[0] + 3600)
    assert (done.gap.version, done.gap.last) == (5, 6)
    study = reopened(done.study.path, w.now[0] + 3600)
    with study.store.snapshot() as connection:
        assert participations(connection) == {**taken(w), w.ids["own"]: 2, late["id"]: 1, w.ids["revoked"]: 1}
    assert study.release() == [7]
    assert states(study) == {"recomputed sums": "skipped"}
    study.store.close()
