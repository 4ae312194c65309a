"""The SDK against a server in memory: what is sent, what is estimated; and once over a real socket."""

from __future__ import annotations

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest

from motet import Client
from motet.client.client import Enrolled, Sent
from motet.errors import (
    InvalidData,
    InvalidNoise,
    InvalidRelease,
    MotetError,
    NotAllowed,
    NotFinite,
    ServerError,
    StaleRelease,
    UnknownName,
    WrongDimension,
)
from motet.kernels import RBF
from tests.client.fake_server import TOKEN, learned, refusal, study

X, Y = [[0.2], [1.5]], [1.0, -1.0]
GRID = np.linspace(-1.0, 3.0, 9)[:, None]


LOST = [httpx.ReadTimeout("slow"), httpx.ReadError("cut"), httpx.RemoteProtocolError("gone"), httpx.Response(504)]


# --- sending ---


@pytest.mark.parametrize("lost", LOST, ids=str)
def test_an_example_whose_answer_is_lost_counts_once(lost: Any) -> None:
    server, me = study()
    server.lost = [lost, lost]
    assert me.send([0.5], 1.0) == Sent(accepted=1, duplicates=0, count=1)
    assert len(server.requests) == 3
    assert len(server.examples) == 1
    assert me.send([0.5], 1.0).count == 2


def test_an_id_of_ones_own_counts_once_over_calls() -> None:
    _, me = study()
    assert me.send("Bach", 1.0, 2.0, id="first") == Sent(1, 0, 1)
    assert me.send("Bach", 1.0, 2.0, id="first") == Sent(0, 1, 1)


def test_many_are_sent_in_chunks_with_progress() -> None:
    server, me = study()
    told: list[tuple[int, int]] = []
    server.lost = [httpx.ReadTimeout("slow")]
    sent = me.send_many(np.arange(14.0).reshape(7, 2), np.arange(7), chunk=3, progress=lambda *now: told.append(now))
    assert sent == Sent(7, 0, 7)
    assert told == [(3, 7), (6, 7), (7, 7)]
    assert [e["x"] for e in server.examples.values()] == np.arange(14.0).reshape(7, 2).tolist()
    assert {e["noise"] for e in server.examples.values()} == {1.0}


def test_a_data_frame_is_its_rows() -> None:
    server, me = study()
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0], "y": [5.0, 6.0], "artist": ["Bach", "Dufay"]})
    me.send_many(frame[["a", "b"]].to_numpy(), frame["y"])
    me.send_many(frame["artist"], frame["y"])
    assert [e["x"] for e in server.examples.values()] == [[1.0, 3.0], [2.0, 4.0], "Bach", "Dufay"]


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        (WrongDimension, ([[1.0], [2.0]], [1.0])),
        (WrongDimension, ([1.0, 2.0], [1.0, 2.0])),
        (WrongDimension, ([[1.0], [2.0]], [1.0, 2.0], None, "ab")),
        (NotFinite, ([[1.0], [np.nan]], [1.0, 2.0])),
        (NotFinite, ([[1.0], [2.0]], [1.0, np.inf])),
        (InvalidNoise, ([[1.0], [2.0]], [1.0, 2.0], [1.0, 0.0])),
        (InvalidData, ("Bach", [1.0])),
        (InvalidData, ([], [])),
        (InvalidData, ([[1.0]], [1.0], None, [7])),
    ],
)
def test_what_cannot_be_sent_is_refused_before_anything_is(error: type[MotetError], arguments: tuple[Any, ...]) -> None:
    server, me = study()
    with pytest.raises(error):
        me.send_many(*arguments, chunk=1)
    assert not server.requests


def test_a_refused_chunk_says_which_and_what_is_stored() -> None:
    server, me = study()
    server.failures = [httpx.Response(200, json={"accepted": 2, "duplicates": 0, "count": 2})]
    server.fixed["POST /v1/examples"] = refusal(404, "unknown_name", "no 'Bahc'", "examples.1")
    with pytest.raises(UnknownName, match=r"^example 3 of 5: no 'Bahc'; the first 2 are stored$") as refused:
        me.send_many(["a", "b", "c", "Bahc", "d"], range(5), chunk=2)
    assert refused.value.where == "examples.3"


# --- lists and the operator ---


def test_all_pages_of_examples() -> None:
    server, me = study()
    me.send_many([[float(k)] for k in range(5)], range(5), ids=list("abcde"))
    me.replace("c", "Bach", 9.0, 2.0)
    assert [(e["id"], e["y"]) for e in me.examples()] == [("a", 0), ("b", 1), ("c", 9), ("d", 3), ("e", 4)]
    assert server.examples["c"] == {"id": "c", "x": "Bach", "y": 9.0, "noise": 2.0}
    assert server.calls.count("GET /v1/me/examples") == 3
    server.fixed["GET /v1/me/examples"] = httpx.Response(200, json={"examples": [], "next": "a"})
    with pytest.raises(ServerError, match="the same again"):
        list(me.examples())


def test_the_operators_calls() -> None:
    server, me = study()
    server.fixed = {
        "GET /v1/clients": httpx.Response(200, json={"clients": [{"id": "1"}], "next": None}),
        "POST /v1/clients/1/token": httpx.Response(200, json={"token": "new"}),
        "DELETE /v1/clients/1": httpx.Response(200, json={}),
        "POST /v1/releases": refusal(409, "not_allowed", "by the clock alone"),
        "GET /v1/releases": httpx.Response(200, json={"releases": [{"version": 1}], "next": {"clients": 2}, "more": 3}),
        "GET /v1/refusals": httpx.Response(200, json={"refusals": [{"status": 401}]}),
    }
    assert me.release_history() == {"releases": [{"version": 1}], "next": {"clients": 2}}
    assert me.refusals() == [{"status": 401}]
    assert me.clients() == [{"id": "1"}]
    assert me.rotate("1") == "new"
    me.revoke("1")
    with pytest.raises(NotAllowed, match="by the clock alone"):
        me.release_now()
    assert "s3" not in repr(Enrolled("1", "anna", "s3"))


# --- releases and estimates ---


def test_a_release_is_downloaded_once() -> None:
    server, me = study()
    first = me.disclosed()
    assert me.disclosed() is first
    server.engine = learned(1.0)
    assert me.disclosed().digest == server.release.digest != first.digest
    asked = [request.headers.get("If-None-Match") for request in server.requests]
    assert asked == [None, f'"{first.digest}"', f'"{first.digest}"']
    server.fixed["GET /v1/disclosed"] = httpx.Response(200, content=b"not a release")
    with pytest.raises(InvalidRelease):
        me.disclosed()


def test_clients_of_one_process_share_downloads_but_no_tokens() -> None:
    server, me = study()
    other = me.with_token("of-somebody-else")
    first = me.disclosed()
    assert other.disclosed() is first
    asked, sent = server.requests[1], [request.headers["Authorization"] for request in server.requests]
    assert asked.headers["If-None-Match"] == f'"{first.digest}"'
    assert sent == [f"Bearer {TOKEN}", "Bearer of-somebody-else"]


def test_an_answer_not_modified_without_a_release() -> None:
    server, me = study()
    server.fixed["GET /v1/disclosed"] = httpx.Response(304)
    with pytest.raises(ServerError, match="no release was downloaded"):
        me.disclosed()


def test_active_estimate_is_the_engines() -> None:
    server, me = study()
    server.engine.disclose()
    server.engine.learn("u", [1.7], -1.0)  # after the release: comes with ``released``
    expected = server.engine.predict_many(["u"] * len(GRID), GRID, return_std=True)
    np.testing.assert_allclose(me.estimate().predict(GRID, return_std=True), expected, atol=1e-9)
    assert server.calls == ["GET /v1/me/coefficients", "GET /v1/disclosed"]
    me.estimate()
    assert server.calls[2:] == ["GET /v1/me/coefficients"]


def test_a_release_that_comes_in_between_is_fetched_again() -> None:
    server, me = study()
    stale = server._answer(httpx.Request("GET", "https://study/v1/me/coefficients"))
    server.engine = learned(1.0)
    server.failures = [stale]
    assert me.estimate().release.digest == server.release.digest
    server.fixed["GET /v1/me/coefficients"] = stale
    with pytest.raises(StaleRelease, match="3 times"):
        me.estimate()


@pytest.mark.parametrize("given", [{"X": X}, {"y": Y}, {"noise": [1.0]}, {"individual": RBF(1.0)}])
def test_half_a_passive_estimate_is_not_an_active_one(given: dict[str, Any]) -> None:
    server, me = study()
    with pytest.raises(InvalidData, match="passive"):
        me.estimate(**given)
    assert not server.requests


# --- over a socket ---


@pytest.mark.slow
def test_a_passive_client_sends_nothing_but_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOTET_TOKEN", raising=False)
    release = learned().disclose()
    seen: list[tuple[str, str, str | None, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.headers["Content-Length"] or self.headers["Transfer-Encoding"]
            seen.append((self.command, self.path, body, self.headers["Authorization"]))
            modified = self.headers["If-None-Match"] != '"1"'
            data = release.to_bytes() if modified else b""
            self.send_response(200 if modified else 304)
            self.send_header("ETag", '"1"')
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_PUT = do_DELETE = do_HEAD = do_GET

        def log_message(self, *_: Any) -> None:
            """Tests are quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as serving:
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            with Client(f"http://127.0.0.1:{serving.server_port}") as anyone:
                estimates = [anyone.estimate(X, Y, [1.0, 2.0], RBF(0.7)) for _ in range(2)]
        finally:
            serving.shutdown()
            thread.join()
    expected = release.estimate(X, Y, [1.0, 2.0], RBF(0.7)).predict(GRID, return_std=True)
    for estimate in estimates:
        np.testing.assert_array_equal(estimate.predict(GRID, return_std=True), expected)
    assert seen == [("GET", "/v1/disclosed", None, None)] * 2


@pytest.mark.slow
def test_the_client_needs_nothing_of_the_server() -> None:
    theirs = {"motet.server", "motet.store", "sqlalchemy", "fastapi", "uvicorn"}
    code = f"import motet.client.client, sys; print(sorted({theirs} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.strip() == "[]"
