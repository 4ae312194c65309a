"""Tokens are valid when the write is made: a request that began before its token was withdrawn changes nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.harness import END, poll
from tests.server.world import EXACT, ONE, World, world

pytestmark = pytest.mark.usefixtures("backend")
WITHDRAWALS = {
    "revoke": ("DELETE", "/v1/clients/{id}"),
    "rotate": ("POST", "/v1/clients/{id}/token"),
    "forget": ("DELETE", "/v1/clients/{id}?examples=true"),
}
WRITES: dict[str, tuple[str, str, Any]] = {
    "replace": ("PUT", "/v1/me/examples/1", {"x": [0.5], "y": 2.0}),
    "remove": ("DELETE", "/v1/me/examples/1", None),
    "forget": ("DELETE", "/v1/me", None),
}


@pytest.fixture
def exact(tmp_path: Path) -> Iterator[World]:
    for one in world(tmp_path, EXACT):
        assert one.call("POST", "/v1/examples", "own", json=ONE).status_code == 200  # and the token is in the cache
        yield one


def withdraw(world: World, kind: str) -> Any:
    method, path = WITHDRAWALS[kind]
    return world.call(method, path.format(id=world.ids["own"]), "operator")


def stored(world: World) -> list[tuple[str, float]]:
    with world.service.store.snapshot() as connection:
        rows = connection.exec_driver_sql("SELECT id, y FROM examples WHERE x IS NOT NULL")
        return [(row[0], row[1]) for row in rows]


@pytest.mark.parametrize("kind", WITHDRAWALS)
@pytest.mark.parametrize("id", ["1", "2"], ids=["a repetition", "a new example"])
def test_examples_that_were_on_their_way_are_refused(exact: World, kind: str, id: str) -> None:
    content = json.dumps({"examples": [{"id": id, "x": [0.5], "y": 3.0}]}).encode()

    def body() -> Iterator[bytes]:
        yield content[:20]
        assert withdraw(exact, kind).status_code == 200
        yield content[20:]

    length = {"Content-Length": str(len(content))}
    answer = exact.call("POST", "/v1/examples", "own", headers=length, content=body())
    assert answer.status_code == 401
    assert answer.json() == exact.call("GET", "/v1/me", "garbage").json()
    assert stored(exact) == ([] if kind == "forget" else [("1", 1.0)])


@pytest.mark.parametrize("kind", WITHDRAWALS)
@pytest.mark.parametrize("write", WRITES)
def test_changes_that_waited_are_refused(exact: World, kind: str, write: str) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def wait(_: object) -> None:
        begun.set()
        may_end.wait(END)

    method, path, body = WRITES[write]
    exact.service.writer.submit(wait)
    begun.wait(END)
    with ThreadPoolExecutor() as threads:
        withdrawal = threads.submit(withdraw, exact, kind)
        poll(lambda: exact.service.writer.waiting == 1, END, "the withdrawal waits")
        change = threads.submit(exact.call, method, path, "own", json=body)
        poll(lambda: exact.service.writer.waiting == 2, END, "the change waits")
        may_end.set()
        assert withdrawal.result(END).status_code == 200
        assert change.result(END).status_code == 401
    assert stored(exact) == ([] if kind == "forget" else [("1", 1.0)])
