"""A stranger or a hostile client wants the server to stop, or to keep others waiting."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import re
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
import psutil
import pytest

from motet import Disclosed
from motet.server.logs import JsonLines, PlainLines, Throttle
from motet.server.pages import assets
from motet.server.protection.rates import Buckets, Turnstile, UnderWay
from motet.server.protection.streams import STREAMS_AT_ONCE, Streams
from motet.server.service import Shown
from tests.scenarios.harness import END, poll
from tests.server.world import EXACT, ONE, World, connected, head, raw, world


@pytest.fixture
def exact(tmp_path: Path) -> Iterator[World]:
    yield from world(tmp_path / "exact", EXACT)


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


@pytest.mark.parametrize("second", ["own", "another", "garbage"])
def test_a_request_with_two_tokens_is_refused(untouched: World, second: str) -> None:
    line = f"Authorization: Bearer {untouched.tokens[second]}"
    answer = raw(untouched, head(untouched, "GET", "/v1/me", line, "Connection: close"))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "http_400"


def test_larger_bodies_share_the_memory(large: World) -> None:
    body = b" " * 4_000_000

    def status(who: str) -> int:
        return int(large.call("POST", "/v1/examples", who, content=body).status_code)

    with connected(large) as connection:
        connection.sendall(head(large, "POST", "/v1/examples", f"Content-Length: {len(body)}") + b"{")
        poll(lambda: large.service.bodies.large_bytes, END, "the server waits for the rest")
        assert status("own") == 503
        assert large.call("POST", "/v1/examples", "own", json=ONE).status_code == 200
        assert status("another") == 422
    poll(lambda: not large.service.bodies.large_bytes, END, "there is room again")
    assert status("own") == 422


# --- one client's heavy requests ---


def test_coefficients_are_computed_one_at_a_time(exact: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may take hundreds of megabytes, so a client waits for one, and others for it, but not for ever."""
    for who in ("own", "another"):
        exact.call("POST", "/v1/examples", who, json=ONE)
    exact.release()
    real, running, most, go = Disclosed.coefficients, 0, 0, threading.Event()

    def slow(*arguments: Any) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        assert go.wait(END)
        running -= 1
        return real(*arguments)

    monkeypatch.setattr(Disclosed, "coefficients", slow)
    with ThreadPoolExecutor(20) as threads:

        def ask(who: str) -> Future[int]:
            return threads.submit(lambda: int(exact.call("GET", "/v1/me/coefficients", who).status_code))

        first = ask("own")
        poll(lambda: running, END, "the first is computed")
        assert [ask("own").result(END) for _ in range(10)] == [503] * 10
        second = ask("another")
        assert exact.call("GET", "/v1/me", "another").status_code == 200
        go.set()
        assert (first.result(END), second.result(END)) == (200, 200)
    assert most == 1


# --- guessed tokens ---


def test_whoever_guesses_tokens_is_told_to_wait_and_nobody_else(tmp_path: Path) -> None:
    now = [0.0]
    for w in world(tmp_path, EXACT, rates=lambda: now[0]):

        def answer(token: str, address: str, w: World = w) -> httpx.Response:
            headers = {"Authorization": f"Bearer {token}", "X-Forwarded-For": address}
            return w.http.get("/v1/me", headers=headers)

        guesses = [answer(f"guess {k}", "192.0.2.1") for k in range(150)]
        assert [guess.status_code for guess in guesses] == [401] * 100 + [429] * 50
        seconds = int(guesses[-1].headers["Retry-After"])
        assert seconds >= 1
        same = {"X-Forwarded-For": "192.0.2.1"}
        assert w.call("GET", "/v1/clients", "garbage", headers=same).status_code == 429
        assert answer(w.tokens["own"] or "", "192.0.2.1").status_code == 200  # from behind the same address
        assert w.call("GET", "/v1/clients", "operator", headers=same).status_code == 200
        assert answer("a typing error", "192.0.2.2").status_code == 401
        assert w.http.get("/v1/me", headers=same).status_code == 401  # no token, no guess
        now[0] += seconds
        assert answer("one more guess", "192.0.2.1").status_code == 401


def test_buckets_take_a_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motet.server.protection.rates.MAX_BUCKETS", 10)
    buckets = Buckets()
    for k in range(1000):
        assert buckets.seconds_to_wait(f"{k}", 1e-6, capacity=1.0) is None
        assert buckets.seconds_to_wait("one that comes again and again", 1e-6, capacity=2000.0) is None
    assert buckets.seconds_to_wait("999", 1e-6, capacity=1.0) is not None
    assert len(buckets._levels) == 10


# --- streams, and slow readers of releases ---


def test_streams_have_a_limit_of_their_own(tmp_path: Path) -> None:
    for w in world(tmp_path / "few", EXACT + "max_connections = 4\n"):
        with ExitStack() as opened:
            for _ in range(2):
                opened.enter_context(w.http.stream("GET", "/v1/stream"))
            refused = w.call("GET", "/v1/stream")
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "busy")
            assert w.call("POST", "/v1/examples", "own", json=ONE).status_code == 200
        poll(partial(can_stream, w), END, "whoever leaves makes room")


def can_stream(w: World) -> bool:
    with w.http.stream("GET", "/v1/stream") as response:
        return response.status_code == 200


def _is_admitted(http: httpx.Client, headers: dict[str, str]) -> bool:
    return http.get("/healthz", headers=headers).status_code == 200


def test_a_visitor_behind_a_proxy_has_a_part_of_all_streams_and_requests(tmp_path: Path) -> None:
    """Counted by the address that the proxy forwards: all connections come from the proxy's own."""
    visitor, another = ({"X-Forwarded-For": f"192.0.2.{k}"} for k in (1, 2))
    for w in world(tmp_path / "proxied", EXACT + "max_connections_per_address = 4\n"):
        w.call("POST", "/v1/examples", "own", json=ONE)
        w.release()
        assert w.service.current is not None
        w.service.current = replace(w.service.current, data=bytes(20_000_000))
        with ExitStack() as held:
            for _ in range(2):
                stream = held.enter_context(w.http.stream("GET", "/v1/stream", headers=visitor))
                assert stream.status_code == 200
            refused = w.http.get("/v1/stream", headers=visitor)
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "busy")
            for _ in range(2):  # beside the streams, as many that do not read
                connection = held.enter_context(connected(w))
                connection.sendall(head(w, "GET", "/v1/disclosed", f"X-Forwarded-For: {visitor['X-Forwarded-For']}"))
                assert connection.recv(100).startswith(b"HTTP/1.1 200")
            crowded = w.http.get("/healthz", headers=visitor)
            assert (crowded.status_code, crowded.headers["Retry-After"]) == (503, "1")
            for headers in (another, {}):  # nobody else notices, nor the proxy itself
                assert w.call("POST", "/v1/examples", "another", json=ONE, headers=headers).status_code == 200
                with w.http.stream("GET", "/v1/stream", headers=headers) as stream:
                    assert stream.status_code == 200
        poll(partial(_is_admitted, w.http, visitor), END, "whoever leaves makes room")


def test_a_release_wakes_streams_a_few_at_a_time() -> None:
    """Between them every other request has its turn."""

    async def longest_run() -> tuple[int, int]:
        version, events = [1], list[str]()
        streams = Streams(1000, lambda: version[0], lambda _: asyncio.sleep(0, result=True), UnderWay(1000, ()))

        async def send(message: Any) -> None:
            if message.get("body"):
                events.append("stream")

        async def receive() -> Any:
            await asyncio.sleep(3600)

        async def other() -> None:
            while True:
                events.append("other")
                await asyncio.sleep(0)

        tasks = [asyncio.create_task(streams.new()({}, receive, send)) for _ in range(300)]
        async with asyncio.timeout(END):
            while len(events) < len(tasks):  # each tells of the current release, and waits
                await asyncio.sleep(0)
        events.clear()
        version[0] = 2
        tasks.append(asyncio.create_task(other()))
        await streams.wake()
        async with asyncio.timeout(END):
            while events.count("stream") < 300:
                await asyncio.sleep(0)
        await asyncio.sleep(0.1)  # and no more come
        for task in tasks:
            task.cancel()
        runs = [len(list(run)) for kind, run in itertools.groupby(events) if kind == "stream"]
        return sum(runs), max(runs)

    told, run = asyncio.run(longest_run())
    assert told == 300
    assert run <= STREAMS_AT_ONCE


def test_a_release_is_sent_piece_by_piece(exact: World) -> None:
    """So a slow reader has a piece of it in memory, not all."""
    exact.call("POST", "/v1/examples", "own", json=ONE)
    exact.release()
    assert exact.service.current is not None
    exact.service.current = replace(exact.service.current, data=bytes(range(256)) * 400_000)
    before = memory()
    with ExitStack() as held:
        for _ in range(10):
            connection = held.enter_context(connected(exact))
            connection.sendall(head(exact, "GET", "/v1/disclosed"))
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
        assert memory() - before < 100
    assert exact.call("GET", "/v1/disclosed").content == exact.service.current.data


def test_slow_readers_of_the_study_share_its_bytes(exact: World) -> None:
    exact.service._model = msgspec.Raw(b'"%s"' % (b"x" * 10_000_000))
    assert len(exact.call("GET", "/v1/study").content) > 10_000_000
    before = memory()
    with ExitStack() as held:
        for _ in range(20):
            connection = held.enter_context(connected(exact))
            connection.sendall(head(exact, "GET", "/v1/study"))
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
        assert memory() - before < 100


def test_public_facts_are_encoded_again_only_when_they_change(exact: World) -> None:
    def shown() -> Shown:
        return asyncio.run_coroutine_threadsafe(exact.service.shown(), exact.loop).result(END)

    first = shown()
    assert all(one is other for one, other in zip(shown(), first))
    exact.call("POST", "/v1/examples", "own", json=ONE)
    exact.release()
    for path, body in zip(("/v1/study?model=false", "/v1/study", "/"), shown()):
        assert exact.call("GET", path).content == body
        assert body not in first


def test_the_page_of_calls_is_the_same_for_everybody(untouched: World) -> None:
    """So it is made once; an address that a reader can choose is not on it."""
    pages = {untouched.call("GET", "/docs", headers={"Host": host}).content for host in ("a.example", "b.example")}
    assert len(pages) == 1
    assert b"example" not in pages.pop().split(b"<h2>")[0]


def test_readers_of_public_pages_leave_every_other_round_to_others() -> None:
    async def rounds() -> list[str]:
        turnstile, events = Turnstile(), list[str]()

        async def reader() -> None:
            await turnstile.passed()
            events.append("reader")

        async def other() -> None:
            while True:
                events.append("other")
                await asyncio.sleep(0)

        busy = asyncio.create_task(other())
        await asyncio.gather(*(reader() for _ in range(40)))
        busy.cancel()
        return events

    events = asyncio.run(rounds())
    assert events.count("reader") == 40
    assert max(len(list(run)) for kind, run in itertools.groupby(events) if kind == "reader") == 1


def memory() -> float:
    """Megabytes of this process."""
    return float(psutil.Process().memory_info().rss) / 2**20


# --- what browsers are told, and methods that do not exist ---


def test_every_response_has_headers_that_let_a_browser_run_nothing(exact: World) -> None:
    exact.call("POST", "/v1/examples", "own", json=ONE)
    exact.release()
    for method, path, who, cache in (
        ("GET", "/", None, "no-store"),
        ("GET", "/docs", None, "no-store"),
        ("GET", "/web/page.js", None, "no-cache"),
        ("GET", "/v1/study", None, "no-store"),
        ("GET", "/v1/disclosed", None, "no-cache"),
        ("GET", "/v1/me/examples", "own", "no-store"),
        ("GET", "/v1/me", "garbage", "no-store"),
        ("GET", "/nowhere", None, "no-store"),
        ("POST", "/v1/examples", "own", "no-store"),
        ("GET", "/v1/clients", "operator", "no-store"),
    ):
        headers = exact.call(method, path, who).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == cache
        source = "'self'" if path in ("/", "/docs", "/web/page.js") else "'none'"
        assert f"default-src {source};" in headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert "server" not in headers


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_pages_have_no_script_or_style_in_them_and_load_this_servers_files_alone(untouched: World, path: str) -> None:
    answer = untouched.call("GET", path)
    text = re.sub(r'<script type="module" src="/web/page.js"></script>', "", answer.text)
    assert not re.search(r"<script|<style|<iframe|\sstyle=|\son\w+=|javascript:|data:", text)
    loaded = re.findall(r'<(?:link|img|script)[^>]* (?:href|src)="([^"]*)', answer.text)
    assert loaded
    for address in loaded:
        assert untouched.call("GET", address).status_code == 200


def test_the_files_of_the_page_are_a_closed_list(untouched: World) -> None:
    first = untouched.call("GET", "/web/page.js")
    assert first.headers["Content-Type"].startswith("text/javascript")
    again = untouched.call("GET", "/web/page.js", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    for path in (
        "/web/",
        "/web/nothing.js",
        "/web/index.html",
        "/web/..%2fapp.py",
        "/web/core/..%2fpage.js",
        "/web/core",
    ):
        assert untouched.call("GET", path).status_code == 404, path


def test_scripts_make_no_markup_and_no_code_from_text() -> None:
    for path, file in assets().items():
        if path.endswith(".js"):
            text = file.body.decode()
            assert not re.search(
                r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text
            ), path
            assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), path


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "PATCH", "PROPFIND", "HEAD", "FOO", "OPTIONS"])
@pytest.mark.parametrize("path", ["/v1/me", "/", "/nowhere", "*", "x:443"])
def test_methods_that_do_not_exist_are_refused_in_the_one_shape(untouched: World, method: str, path: str) -> None:
    answer = raw(untouched, head(untouched, method, path, "Connection: close"))
    begin, _, body = answer.partition(b"\r\n\r\n")
    assert int(begin.split()[1]) in ({501} if method == "FOO" else {400, 404, 405})
    assert b"x-content-type-options" in begin
    if method != "HEAD":
        assert json.loads(body)["error"].keys() == {"code", "message", "where"}


# --- logs ---


def test_lines_of_one_kind_are_limited_and_counted() -> None:
    now = 0.0
    throttle, shown = Throttle(lambda: now), []
    for k in range(5000):
        record = logging.LogRecord("asyncio", logging.ERROR, "", 0, "refused %d", (k,), None)
        if throttle.filter(record):
            shown.append(record)
    assert len(shown) == 200
    assert throttle.filter(logging.LogRecord("asyncio", logging.ERROR, "", 0, "another", (), None))
    now = 10.0
    record = logging.LogRecord("asyncio", logging.ERROR, "", 0, "refused %d", (1,), None)
    assert throttle.filter(record)
    assert json.loads(JsonLines().format(record))["left_out"] == 4800
    assert PlainLines().format(record).endswith("refused 1 (and 4800 more like this)")
