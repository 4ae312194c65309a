"""A stranger or a hostile client wants the server to stop, or to keep others waiting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.harness import poll
from tests.server.world import EXACT, ONE, World, connected, head, world


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One server for all tests after which it is as before."""
    yield from world(tmp_path_factory.mktemp("untouched"), EXACT)


@pytest.fixture
def large(tmp_path: Path) -> Iterator[World]:
    yield from world(tmp_path / "large", EXACT.replace("max_body = 2000", "max_body = 20000000\nrate = 1e6"))


@pytest.mark.parametrize(
    ("method", "path", "who"),
    [
        ("POST", "/v1/examples", "stranger"),
        ("PUT", "/v1/me/examples/1", "stranger"),
        ("POST", "/v1/clients", "own"),
        ("DELETE", "/v1/me", "stranger"),
    ],
)
def test_a_body_is_not_read_before_the_token(untouched: World, method: str, path: str, who: str) -> None:
    lines = [f"{method} {path} HTTP/1.1", "Host: x", "Content-Type: application/json", "Content-Length: 1000"]
    lines += [f"Authorization: Bearer {untouched.tokens.get(who)}", "", "{"]
    with connected(untouched) as connection:
        connection.sendall("\r\n".join(lines).encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 403 " if who == "own" else b"HTTP/1.1 401 ")


def test_larger_bodies_share_the_memory(large: World) -> None:
    body = b" " * 4_000_000

    def status(who: str) -> int:
        return int(large.call("POST", "/v1/examples", who, content=body).status_code)

    with connected(large) as connection:
        connection.sendall(head(large, "POST", "/v1/examples", f"Content-Length: {len(body)}") + b"{")
        poll(lambda: large.service.bodies.large_bytes, 30, "the server waits for the rest")
        assert status("own") == 503
        assert large.call("POST", "/v1/examples", "own", json=ONE).status_code == 200
        assert status("another") == 422
    poll(lambda: not large.service.bodies.large_bytes, 30, "there is room again")
    assert status("own") == 422
