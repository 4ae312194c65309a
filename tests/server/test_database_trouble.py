"""A database that goes away, or takes no writes, while it is served: 503 with the reason, and a line in the log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import event

from tests.scenarios.harness import END, poll
from tests.server.world import EXACT, ONE, World, world


@pytest.fixture
def exact(tmp_path: Path) -> Iterator[World]:
    yield from world(tmp_path, EXACT)


@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "replaced"])
def test_a_database_that_was_deleted_takes_nothing(
    exact: World, tmp_path: Path, replaced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    data = (tmp_path / "study.db").read_bytes()
    (tmp_path / "study.db").unlink()
    if replaced:
        (tmp_path / "study.db").write_bytes(data)
    for method, path in (("POST", "/v1/examples"), ("DELETE", "/v1/me"), ("GET", "/v1/me"), ("GET", "/readyz")):
        answer = exact.call(method, path, "own", json=ONE if method == "POST" else None)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "busy")
        assert "the database's files were deleted or replaced" in answer.json()["error"]["message"]
        assert answer.headers["Retry-After"]
    poll(lambda: "deleted or replaced" in caplog.text, END, "an error in the log")
    assert (tmp_path / "study.db").exists() == replaced


def test_a_database_that_takes_no_writes_says_so(exact: World, caplog: pytest.LogCaptureFixture) -> None:
    def forbid(connection: object) -> None:
        connection.exec_driver_sql("PRAGMA query_only = ON")  # type: ignore[attr-defined]

    event.listen(exact.service.store.engine, "begin", forbid)
    answer = exact.call("POST", "/v1/examples", "own", json=ONE)
    assert answer.status_code == 503
    assert "cannot be used now: attempt to write a readonly database; try again" in answer.json()["error"]["message"]
    assert exact.call("GET", "/v1/me", "own").json()["count"] == 0
    assert "the database cannot be written: attempt to write a readonly database" in caplog.text
    event.remove(exact.service.store.engine, "begin", forbid)
