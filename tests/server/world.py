"""A server in this process with its publisher and some clients, for tests that call it."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from motet.server.app import GRACE_SECONDS, create_app
from motet.server.protection.connections import Listener, Server
from motet.server.publisher import Publisher
from motet.server.service import Service
from motet.store.clients import hash_token
from motet.store.pins import pin
from motet.store.store import Store
from motet.study.study import Study
from tests.scenarios.harness import END, poll

EXACT = """
[study]
name = "Growth <of> children"
[model]
alpha = 0.5
lam = 0.1
sigma2 = 1.0
common = { kernel = "rbf", length_scale = 1.0 }
individual = { kernel = "dot_product", sigma_0 = 1.0 }
[inputs]
dimension = 1
[limits]
y = [-10.0, 10.0]
examples_per_client = 5
[release]
policy = "exact"
every = "1h"
[server]
max_body = 2000
"""
PRIVATE = (
    EXACT.replace('policy = "exact"', 'policy = "private"\nepsilon = 1.0\nreleases = 2')
    + """
[basis]
kind = "landmarks"
grid = { from = -2.0, to = 2.0, count = 5 }
"""
)
ONE = {"examples": [{"id": "1", "x": [0.5], "y": 1.0}]}


@dataclass
class World:
    """A server, its publisher with a clock that we turn, and some people."""

    http: httpx.Client
    loop: asyncio.AbstractEventLoop
    service: Service
    publisher: Publisher
    now: list[float]
    tokens: dict[str, str | None]
    ids: dict[str, str]

    def call(self, method: str, path: str, who: str | None = None, **more: Any) -> Any:
        token = self.tokens[who] if who else None
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return self.http.request(method, path, headers=headers | more.pop("headers", {}), **more)

    def release(self) -> int:
        """Turn the clock, let the publisher tick, and let the server look."""
        self.now[0] += 3600
        self.publisher.tick()
        self.refresh()
        return self.service.version

    def refresh(self) -> None:
        """Let the server look for a release now."""
        asyncio.run_coroutine_threadsafe(self.service.refresh(), self.loop).result(END)


@contextmanager
def running(
    app: Any, *, settings: dict[str, Any] | None = None, **changes: Any
) -> Iterator[tuple[str, asyncio.AbstractEventLoop]]:
    """The application on a socket of its own, in a thread."""
    limits: dict[str, Any] = {"limit": 1000, "limit_per_address": 1000, "proxies": (), "tls": False} | changes
    listener = Listener(socket.create_server(("127.0.0.1", 0), backlog=2048), **limits)
    grace = {"timeout_graceful_shutdown": GRACE_SECONDS}
    server = Server(app, listener, proxies=("127.0.0.1",), **grace | (settings or {}))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=lambda: loop.run_until_complete(server.serve()), daemon=True)
    thread.start()
    poll(lambda: server.started or not thread.is_alive(), END, "the server starts")
    yield f"http://127.0.0.1:{listener.getsockname()[1]}", loop
    server.should_exit = True
    thread.join(END)
    assert not thread.is_alive(), f"the server does not stop: {asyncio.all_tasks(loop)}"
    loop.close()


def world(folder: Path, text: str, *, rates: Callable[[], float] = time.monotonic, **changes: Any) -> Iterator[World]:
    """``rates`` is the clock by which callers are told to wait; other changes are the publisher's."""
    folder.mkdir(exist_ok=True)
    (folder / "study.toml").write_text(text, encoding="utf-8")
    study = Study.load(folder / "study.toml")
    now = [1000.0]
    store = Store(study.store_url)
    pin(store, study, now=now[0])
    publishing = Store(study.store_url)
    publisher = Publisher(publishing, study, clock=lambda: now[0], **changes)
    app = create_app(study, lambda: Service(study, store, hash_token("operator's"), clock=rates))
    with closing(publishing), running(app) as (url, loop), httpx.Client(base_url=url, timeout=END) as http:
        tokens: dict[str, str | None] = {"operator": "operator's", "garbage": "garbage"}
        found = World(http, loop, app.state.service, publisher, now, tokens, {})
        made = found.call("POST", "/v1/clients", "operator", json={"names": ["own", "another", "revoked"]}).json()
        for client in made["clients"]:
            found.tokens[client["name"]], found.ids[client["name"]] = client["token"], client["id"]
        found.call("DELETE", f"/v1/clients/{found.ids['revoked']}", "operator")
        yield found


def shown(answer: httpx.Response) -> dict[str, str]:
    """All headers but the time."""
    return {key: value for key, value in answer.headers.items() if key != "date"}


# --- what no library of ours would send ---


def connected(world: World) -> socket.socket:
    address = world.http.base_url
    return socket.create_connection((address.host, address.port or 80), END)


def raw(world: World, *pieces: bytes) -> bytes:
    """All that the server answers on one connection, until it closes it."""
    answer = b""
    with connected(world) as connection, suppress(OSError):
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(0.05)
        while part := connection.recv(65536):
            answer += part
    return answer


def head(world: World, method: str, path: str, *lines: str) -> bytes:
    said = (f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {world.tokens['own']}", *lines)
    return "\r\n".join((*said, "", "")).encode()
