"""Tokens are valid when the write or the read is made: a request that began before its token was withdrawn changes and
reads nothing, and a stream that it opened ends."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from motet.release.disclosed import Disclosed
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


@pytest.mark.parametrize(
    ("kind", "id"),
    [("revoke", "1"), ("rotate", "2"), ("forget", "1"), ("forget", "2")],
    ids=["revoke, a repetition", "rotate, a new example", "forget, a repetition", "forget, a new example"],
)
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


@pytest.mark.parametrize(
    ("kind", "write"),
    [("revoke", "replace"), ("revoke", "remove"), ("rotate", "forget"), ("forget", "replace"), ("forget", "forget")],
)
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


# --- reads and streams ---


@pytest.mark.parametrize(
    ("kind", "order"),
    [("revoke", ["another", "own"]), ("rotate", ["own", "another"]), ("forget", ["another", "own"])],
    ids=["revoke, waiting", "rotate, under way", "forget, waiting"],
)
def test_coefficients_that_were_on_their_way_are_refused(
    exact: World, kind: str, order: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are computed when the token is withdrawn, or wait behind another client's."""
    assert exact.release() == 1
    begun, may_end, real = threading.Event(), threading.Event(), Disclosed.coefficients

    def slow(*arguments: Any) -> Any:
        begun.set()
        may_end.wait(END)
        return real(*arguments)

    monkeypatch.setattr(Disclosed, "coefficients", slow)
    with ThreadPoolExecutor() as threads:
        reads = {}
        for who in order:
            reads[who] = threads.submit(exact.call, "GET", "/v1/me/coefficients", who)
            begun.wait(END)
        poll(lambda: len(exact.service._turns._callers) == 2, END, "both are on their way")
        assert threads.submit(withdraw, exact, kind).result(END).status_code in (200, 202)
        may_end.set()
        assert reads["own"].result(END).status_code == 401
        assert reads["another"].result(END).status_code == 200


@pytest.mark.parametrize("path", ["/v1/me", "/v1/me/examples"])
def test_a_token_that_another_server_withdrew_reads_nothing(exact: World, path: str) -> None:
    """This one has it in its cache."""
    exact.service._access = "as if nothing had changed"

    async def unchanged() -> None:
        pass

    exact.service.refresh = unchanged  # type: ignore[method-assign]
    with exact.service.store.transaction() as connection:
        connection.exec_driver_sql("UPDATE clients SET revoked = true WHERE name = 'own'")
    assert exact.call("GET", path, "own").status_code == 401


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[World]:
    """A study that gives its releases to clients only."""
    yield from world(tmp_path, EXACT.replace("[server]", '[server]\ndownload = "clients"'))


@pytest.mark.parametrize("kind", WITHDRAWALS)
def test_a_stream_ends_with_its_token_and_hears_of_no_later_release(closed: World, kind: str) -> None:
    """Those of others go on."""
    assert closed.call("POST", "/v1/examples", "another", json=ONE).status_code == 200
    heard: dict[str, list[str]] = {"own": [], "another": [], "operator": []}

    def listen(who: str) -> None:
        headers = {"Authorization": f"Bearer {closed.tokens[who]}"}
        with closed.http.stream("GET", "/v1/stream", headers=headers) as stream:
            for line in stream.iter_lines():
                heard[who] += [line] * line.startswith("data")
                if line == 'data: {"version": 2}':
                    return

    with ThreadPoolExecutor() as threads:
        listening = {who: threads.submit(listen, who) for who in heard}
        poll(lambda: len(closed.service.streams.open) == 3, END, "the streams are open")
        assert closed.release() == 1
        poll(lambda: all(heard.values()), END, "everybody hears of the first release")
        assert withdraw(closed, kind).status_code in (200, 202)
        listening["own"].result(END)
        assert closed.release() == 2
        for who in ("another", "operator"):
            listening[who].result(END)
    assert heard["own"] == ['data: {"version": 1}']
    assert closed.call("GET", "/v1/stream", "own").status_code == 401


def test_a_stream_of_anyone_does_not_depend_on_a_token(exact: World) -> None:
    assert exact.release() == 1
    headers = {"Authorization": f"Bearer {exact.tokens['own']}"}
    with exact.http.stream("GET", "/v1/stream", headers=headers) as stream:
        lines = stream.iter_lines()
        assert next(line for line in lines if line.startswith("data")) == 'data: {"version": 1}'
        assert withdraw(exact, "revoke").status_code == 200
        assert exact.release() == 2
        assert next(line for line in lines if line.startswith("data")) == 'data: {"version": 2}'
