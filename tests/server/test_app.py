"""The server in this process: who may call what, the one shape of errors, limits, and nothing secret in logs."""

from __future__ import annotations

import html
import json
import logging
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace

from motet import Disclosed
from motet.errors import InvalidStudy, MotetError
from motet.server.app import ROUTES, STATUS
from motet.server.pages import CALLERS
from motet.server.processes.serve import chosen_token, operator_token, serve
from motet.server.protection.connections import MAX_HEAD_BYTES
from motet.store.clients import hash_token
from motet.store.pins import pin
from motet.store.records import put, setting
from motet.store.store import Store
from motet.study.study import Study
from tests.scenarios.harness import END, poll
from tests.server.fuzz import PEOPLE, fuzz
from tests.server.world import EXACT, ONE, PRIVATE, World, connected, head, raw, shown, world


@pytest.fixture
def exact(tmp_path: Path) -> Iterator[World]:
    yield from world(tmp_path / "exact", EXACT)


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One server for all tests after which it is as before."""
    yield from world(tmp_path_factory.mktemp("untouched"), EXACT)


@pytest.fixture
def private(tmp_path: Path) -> Iterator[World]:
    yield from world(tmp_path / "private", PRIVATE)


# Who may call what, told here a second time: a route that is open by mistake in the table of the server is found.
ANYONE = {
    "/",
    "/web/{name}",
    "/web/core/{name}",
    "/docs",
    "/openapi.json",
    "/healthz",
    "/readyz",
    "/v1/study",
    "/v1/disclosed",
    "/v1/stream",
}
BODIES: dict[tuple[str, str], Any] = {
    ("POST", "/v1/examples"): ONE,
    ("PUT", "/v1/me/examples/{id}"): {"x": [1.0], "y": 2.0},
    ("POST", "/v1/clients"): {"names": ["somebody"]},
}


def expected(method: str, path: str, who: str | None) -> set[int]:
    """The statuses that a call may have, by the route's audience."""
    if path in ANYONE:
        return {200}
    if path.startswith(("/v1/clients", "/v1/releases", "/v1/refusals", "/metrics")):
        return {None: {401}, "garbage": {401}, "revoked": {401}, "another": {403}, "own": {403}}.get(who, {200, 503})
    if who in ("own", "another"):
        done = {202} if path.startswith("/v1/me") and method != "GET" else {200}  # no publisher runs here
        return done | {404} if who == "another" else done
    return {401}


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("who", PEOPLE)
def test_every_route_by_everyone(exact: World, who: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    exact.call("POST", "/v1/examples", "own", json=ONE)
    exact.release()
    monkeypatch.setattr("motet.server.routes.MAX_RELEASE_SECONDS", 0.01)
    monkeypatch.setattr("motet.server.service.MAX_REMOVAL_SECONDS", 0.01)
    order = sorted(ROUTES, key=lambda route: (route[0] == "DELETE", route[1] == "/v1/me"))  # forgetting comes last
    for method, path, *_ in order:
        if path == "/v1/stream":
            continue
        named = path.replace("{id}", exact.ids["another"] if "clients" in path else "1")
        named = named.replace("{name}", "matrix.js" if "core" in path else "page.js")
        answer = exact.call(method, named, who, json=BODIES.get((method, path)))
        assert answer.status_code in expected(method, path, who), (method, path, who, answer.text)
        if answer.status_code >= 400:
            assert set(answer.json()["error"]) == {"code", "message", "where"}
    if who != "own":
        assert exact.call("GET", "/v1/me/examples", "own").json()["examples"][0]["y"] == 1.0


def test_the_operator_sees_how_many_clients_there_are_and_whom_the_clip_shortens(private: World) -> None:
    for k in range(3):
        send(private, y=9.0, id=str(k))
    figures = private.call("GET", "/v1/clients/figures", "operator").json()
    assert {"examples": 3, "clients": 1} in figures["clients"]
    assert figures["expected_examples"] == 5
    assert figures["shortened"] == 1.0  # an output of nine standard deviations
    private.call("PUT", "/v1/me/examples/0", "own", json={"x": [0.5], "y": 0.0})
    for k in (1, 2):
        private.call("DELETE", f"/v1/me/examples/{k}", "own")
    assert private.call("GET", "/v1/clients/figures", "operator").json()["shortened"] == 0.0


def test_tokens_that_open_nothing_are_told_apart_by_nothing(untouched: World) -> None:
    answers = [untouched.call("GET", "/v1/me", who) for who in ("garbage", "revoked")]
    assert answers[0].content == answers[1].content
    assert shown(answers[0]) == shown(answers[1])


def test_the_operator_removes_a_client_with_all_it_sent(exact: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its token; it leaves the disk and the next release, and its name is free again."""
    monkeypatch.setattr("motet.store.store.MAX_ERASURE_SECONDS", END)
    send(exact, y=1.2345678901, id="mine")
    folder, mine = exact.service.study.path.parent, f"/v1/clients/{exact.ids['own']}"
    assert on_disk(folder, 1.2345678901)
    with_it = exact.release()
    for who, status in ((None, 401), ("another", 403), ("operator", 404)):
        path = "/v1/clients/nobody" if who == "operator" else mine
        assert exact.call("DELETE", f"{path}?examples=true", who).status_code == status
    assert exact.call("DELETE", f"{mine}?examples=perhaps", "operator").status_code == 422
    assert exact.call("DELETE", mine, "operator").json() == {"id": exact.ids["own"], "removed": 0}  # revoked
    assert on_disk(folder, 1.2345678901)
    monkeypatch.setattr("motet.server.service.MAX_REMOVAL_SECONDS", 0.01)  # the release comes below
    removal = exact.call("DELETE", f"{mine}?examples=true", "operator").json()
    assert removal.pop("note").startswith("deleted, and in no release computed later; the current release may have it")
    assert removal == {"id": exact.ids["own"], "removed": 1, "erased": False}
    assert not on_disk(folder, 1.2345678901)
    assert exact.call("GET", "/v1/me", "own").status_code == 401
    assert "own" not in {client["name"] for client in exact.call("GET", "/v1/clients", "operator").json()["clients"]}
    assert exact.release() == with_it + 1
    assert not Disclosed.from_bytes(exact.call("GET", "/v1/disclosed").content).inputs.size
    assert exact.call("POST", "/v1/clients", "operator", json={"names": ["own"]}).status_code == 200


def on_disk(folder: Path, value: float) -> bool:
    """Whether a file of the database has this number, as SQLite writes it."""
    return any(struct.pack(">d", value) in path.read_bytes() for path in folder.glob("study.db*"))


BAD: dict[str, Callable[[World], Any]] = {
    "no list": lambda w: w.call("POST", "/v1/examples", "own", json={}),
    "no examples": lambda w: w.call("POST", "/v1/examples", "own", json={"examples": []}),
    "unknown key": lambda w: w.call("POST", "/v1/examples", "own", json=ONE | {"more": 1}),
    "a name without a catalogue": lambda w: send(w, x="x"),
    "two numbers": lambda w: send(w, x=[1.0, 2.0]),
    "too large an output": lambda w: send(w, y=11.0),
    "not a number": lambda w: w.call("POST", "/v1/examples", "own", content=b'{"examples": [{"id": "1", "x": [NaN]'),
    "no noise": lambda w: send(w, noise=0.0),
    "text": lambda w: w.call("POST", "/v1/examples", "own", content=b"\xff\x00"),
    "unknown example": lambda w: w.call("DELETE", "/v1/me/examples/none", "own"),
    "unknown client": lambda w: w.call("POST", "/v1/clients/none/token", "operator"),
    "unknown path": lambda w: w.call("GET", "/nowhere"),
    "a slash at the end": lambda w: w.call("GET", "/v1/study/"),
    "wrong method": lambda w: w.call("PATCH", "/v1/me", "own"),
    "too large a body": lambda w: w.call("POST", "/v1/examples", "own", content=b"x" * 3000),
    "no length": lambda w: w.call("POST", "/v1/examples", "own", content=iter([b"x"])),
    "too many": lambda w: w.call(
        "POST", "/v1/examples", "own", json={"examples": [{"id": str(k), "x": [0.0], "y": 0.0} for k in range(6)]}
    ),
    "not released": lambda w: w.call("GET", "/v1/disclosed"),
    "no coefficients yet": lambda w: w.call("GET", "/v1/me/coefficients", "own"),
    "a name twice": lambda w: w.call("POST", "/v1/clients", "operator", json={"names": ["own"]}),
}


def send(w: World, **changes: Any) -> Any:
    return w.call("POST", "/v1/examples", "own", json={"examples": [{"id": "1", "x": [0.5], "y": 1.0} | changes]})


def test_every_error_has_a_status_of_its_own_kind_and_none_is_500() -> None:
    classes, statuses = [MotetError], {}
    for kind in classes:  # grows meanwhile
        classes += kind.__subclasses__()
        statuses[kind] = next(STATUS[base] for base in kind.__mro__ if base in STATUS)
    assert len(statuses) > 20
    assert all(400 <= status < 600 and status != 500 for status in statuses.values())
    assert set(MotetError.__subclasses__()) <= STATUS.keys()


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused_has_one_shape_and_changes_nothing(untouched: World, name: str) -> None:
    answer = BAD[name](untouched)
    assert 400 <= answer.status_code < 500
    error = answer.json()["error"]
    assert set(error) == {"code", "message", "where"}
    assert error["message"]
    assert untouched.call("GET", "/v1/me", "own").json()["count"] == 0


def test_no_text_has_what_no_database_keeps(untouched: World) -> None:
    for answer in (
        untouched.call("POST", "/v1/examples", "own", json={"examples": [{"id": "a\0", "x": [0.5], "y": 1.0}]}),
        untouched.call("DELETE", "/v1/me/examples/a%00", "own"),
        untouched.call("GET", "/v1/me/examples?after=a%00", "own"),
        untouched.call("POST", "/v1/clients", "operator", json={"names": ["a\0"]}),
    ):
        assert answer.status_code == 422
        assert "pattern" in answer.json()["error"]["message"]


# --- what no library of ours would send ---


@pytest.mark.parametrize("begin", [b"GET /", b"GET / HTTP/1.1\r\nX: ", b"GET / HTTP/1.1\r\nX"])
def test_a_head_that_does_not_end_is_refused(untouched: World, begin: bytes) -> None:
    assert raw(untouched, begin, b"a" * MAX_HEAD_BYTES).startswith(b"HTTP/1.1 431 ")
    assert raw(untouched, begin + b"a" * MAX_HEAD_BYTES).startswith(b"HTTP/1.1 431 ")


@pytest.fixture
def large(tmp_path: Path) -> Iterator[World]:
    yield from world(tmp_path / "large", EXACT.replace("max_body = 2000", "max_body = 20000000\nrate = 1e6"))


def test_a_long_body_is_no_long_head(large: World) -> None:
    body = json.dumps(ONE).encode() + b" " * 4 * MAX_HEAD_BYTES
    first, last = (
        head(large, "POST", "/v1/examples", f"Content-Length: {len(body)}", *more) + body
        for more in ((), ("Connection: close",))
    )
    answer = raw(large, *(first[k : k + MAX_HEAD_BYTES] for k in range(0, len(first), MAX_HEAD_BYTES)), last)
    assert answer.count(b"HTTP/1.1 200 ") == 2


def test_a_body_behind_an_upgrade_is_neither_lost_nor_a_request(untouched: World) -> None:
    """The parser reads none; clients that offer HTTP/2 on a plain connection are told so."""
    upgrade = "Connection: Upgrade", "Upgrade: h2c"
    hidden = head(untouched, "DELETE", "/v1/me")
    chunked = f"{len(hidden):x}\r\n".encode() + hidden + b"\r\n0\r\n\r\n"
    for length, body in ((f"Content-Length: {len(hidden)}", hidden), ("Transfer-Encoding: chunked", chunked)):
        begin = head(untouched, "POST", "/v1/examples", *upgrade, length)
        for pieces in ((begin + body,), (begin, body)):
            answer = raw(untouched, *pieces)
            assert answer.startswith(b"HTTP/1.1 400 ")
            assert answer.count(b"\r\ndate: ") == 1
            assert b"without the header Upgrade" in answer
    with connected(untouched) as connection:
        connection.sendall(head(untouched, "GET", "/v1/me", *upgrade))
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")  # hers is still there


def test_a_client_that_leaves_in_the_middle_is_no_failure(exact: World, caplog: pytest.LogCaptureFixture) -> None:
    begin = head(exact, "POST", "/v1/examples", "Content-Length: 500")
    with connected(exact) as connection:
        connection.sendall(begin + b"{")

    def counted() -> str | None:
        text = str(exact.call("GET", "/metrics", "operator").text)
        return text if 'route="/v1/examples",status="400"' in text else None

    assert 'status="500"' not in poll(counted, END, "the request is counted")
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_client_that_asks_too_often_is_told_to_wait(tmp_path: Path) -> None:
    now = [0.0]
    for w in world(tmp_path, EXACT + "rate = 3\n", rates=lambda: now[0]):
        answers = [w.call("GET", "/v1/me", "own") for _ in range(6)]
        assert [answer.status_code for answer in answers] == [200] * 3 + [429] * 3
        assert answers[-1].json()["error"]["code"] == "http_429"
        seconds = int(answers[-1].headers["Retry-After"])
        assert seconds >= 1
        assert w.call("GET", "/v1/me", "another").status_code == 200
        now[0] += seconds
        assert w.call("GET", "/v1/me", "own").status_code == 200


def test_a_rate_below_one_a_second_lets_a_request_through(tmp_path: Path) -> None:
    for w in world(tmp_path, EXACT + "rate = 0.01\n", rates=lambda: 0.0):
        first, second = (w.call("GET", "/v1/me", "own") for _ in range(2))
        assert (first.status_code, second.status_code) == (200, 429)
        assert int(second.headers["Retry-After"]) > 50


def test_an_empty_operator_token_in_the_environment_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTET_OPERATOR_TOKEN", " ")
    store, shown_tokens = Store(f"sqlite:///{tmp_path / 'study.db'}"), list[str]()
    first = operator_token(store, chosen_token(), shown_tokens.append)
    assert first == (hash_token(shown_tokens[0]), shown_tokens[0])
    assert operator_token(store, chosen_token(), shown_tokens.append) == (first[0], None)
    store.close()


@pytest.mark.usefixtures("backend")
def test_servers_that_start_at_once_show_one_operator_token(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(EXACT, encoding="utf-8")
    url, shown_tokens = Study.load(tmp_path / "study.toml").store_url, list[str]()

    def show(token: str) -> None:
        shown_tokens.append(token)
        time.sleep(0.2)  # before it is stored

    def start(_: int) -> tuple[str, str | None]:
        with closing(Store(url)) as store:
            return operator_token(store, None, show)

    with ThreadPoolExecutor(4) as pool:
        started = list(pool.map(start, range(4)))
    assert len(shown_tokens) == 1
    assert {hashed for hashed, _ in started} == {hash_token(shown_tokens[0])}


@pytest.mark.parametrize("token", ["abc", "fifteen-letters", "sixteen letters and spaces", "sixteen-lettérs-and-more"])
def test_an_operator_token_that_is_short_or_cannot_be_sent_is_refused(
    token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOTET_OPERATOR_TOKEN", token)
    (tmp_path / "study.toml").write_text(EXACT, encoding="utf-8")
    with pytest.raises(InvalidStudy, match="MOTET_OPERATOR_TOKEN: expected at least 16 ASCII letters") as refused:
        serve(tmp_path / "study.toml", port=0, show_token=print, show_ready=print)
    assert token not in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == ["study.toml"]  # nothing was begun


@pytest.mark.usefixtures("backend")
def test_releases_are_fetched_once_and_private_ones_come_by_the_clock(
    private: World, caplog: pytest.LogCaptureFixture
) -> None:
    told = private.call("GET", "/v1/study").json()
    assert (told["version"], told["dimension"]) == (0, 1)
    assert told["limits"] == {"y": [-10.0, 10.0], "noise": [0.01, 100.0], "examples_per_client": 5}
    refused = private.call("POST", "/v1/releases", "operator")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "not_allowed")
    for version in (1, 2):
        assert private.release() == version
        answer = private.call("GET", "/v1/disclosed")
        release = Disclosed.from_bytes(answer.content)
        assert (release.version, release.policy) == (version, "private")
        again = private.call("GET", "/v1/disclosed", headers={"If-None-Match": answer.headers["ETag"]})
        assert (again.status_code, again.content) == (304, b"")
    status = private.call("GET", "/v1/study").json()  # at once, and not when the next one would have been due
    assert status["next_release"] is None
    assert status["refused"] == (
        "the budget (ε = 1) is spent: all 2 releases are out; the last one stays valid, and no more will come"
    )
    assert status["budget"]["spent"] == pytest.approx(1.0, abs=1e-6)
    assert private.release() == private.release() == 2
    assert private.call("GET", "/v1/study").json() == status
    assert [r.getMessage() for r in caplog.records if "budget" in r.getMessage()] == [
        f"no more releases: {status['refused']}"
    ]
    page = private.call("GET", "/").text
    assert "Growth &lt;of&gt; children" in page
    assert "ε spent 1.00" in page
    assert private.call("GET", "/v1/study?model=false").json() == {k: v for k, v in status.items() if k != "model"}
    assert f"<td>none: {status['refused']}</td>" in page
    refused = private.call("POST", "/v1/releases", "operator")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "not_allowed")
    assert refused.json()["error"]["message"] == status["refused"]


def test_noisy_sums_are_not_added_up_in_other_coordinates(private: World) -> None:
    assert private.release() == 1
    with private.service.store.transaction() as connection:
        mark = json.loads(setting(connection, "coordinates") or "")
        put(connection, "coordinates", json.dumps([*mark[:-1], -mark[-1]]))
    assert private.release() == 1
    status = private.call("GET", "/v1/study").json()
    assert "a machine like the one that made the first" in status["refused"]
    assert "no release: " in private.call("GET", "/").text
    assert status["budget"]["made"] == 1
    with private.service.store.transaction() as connection:
        put(connection, "coordinates", json.dumps([number * (1 + 1e-9) for number in mark]))
    assert private.release() == 2


def test_counts_are_the_operators(exact: World) -> None:
    exact.call("POST", "/v1/examples", "own", json=ONE)
    exact.call("POST", "/v1/examples", "own", json=ONE)
    text = exact.call("GET", "/metrics", "operator").text
    assert 'motet_examples_total{outcome="accepted"} 1.0' in text
    assert 'motet_examples_total{outcome="duplicate"} 1.0' in text
    assert 'route="/v1/examples"' in text
    assert not any(id in text for id in exact.ids.values())


@pytest.mark.usefixtures("backend")
def test_the_operator_sees_releases_what_the_next_has_and_what_was_refused(private: World) -> None:
    def listing() -> Any:
        return private.call("GET", "/v1/releases", "operator").json()

    assert listing() == {"releases": [], "next": {"clients": 0, "examples": 0, "changes": 0}}
    private.call("POST", "/v1/examples", "own", json=ONE)
    assert listing()["next"] == {"clients": 1, "examples": 1, "changes": 1}
    private.release()
    private.call("POST", "/v1/examples", "own", json={"examples": [{"id": "2", "x": [0.1], "y": 0.0}]})
    (made,), upcoming = listing().values()
    assert (made["version"], made["made"]) == (1, private.now[0])
    assert made["scale"] == private.service.study.ledger().scale  # type: ignore[union-attr]
    assert made["spent"] == private.call("GET", "/v1/study").json()["budget"]["spent"] > 0
    assert upcoming == {"clients": 1, "examples": 2, "changes": 1}
    private.release()
    both = [one["spent"] for one in listing()["releases"]]
    assert both == [pytest.approx(1.0, abs=1e-6), made["spent"]]
    private.call("GET", "/v1/me/examples/secret-id", "own")
    private.call("GET", "/v1/me", "garbage")
    last, before = private.call("GET", "/v1/refusals", "operator").json()["refusals"][:2]
    assert (last["method"], last["route"], last["status"]) == ("GET", "/v1/me", 401)
    assert (before["route"], before["status"]) == ("/v1/me/examples/{id}", 405)
    for _ in range(120):
        private.call("GET", "/nowhere")
    assert len(private.call("GET", "/v1/refusals", "operator").json()["refusals"]) == 100


@pytest.mark.usefixtures("backend")
def test_logs_have_no_payloads_and_no_tokens(exact: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    send(exact, y=1.23456)
    exact.call("GET", "/v1/me/examples", "own")
    exact.call("GET", "/v1/me", "garbage")
    written = caplog.text + "".join(str(vars(record)) for record in caplog.records)
    for secret in ("1.23456", *filter(None, exact.tokens.values()), *exact.ids.values()):
        if secret != "garbage":
            assert secret not in written
    assert any(getattr(record, "route", None) == "/v1/examples" for record in caplog.records)


def test_requests_are_told_to_no_collector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = []

    class Collector(trace.TracerProvider):
        def get_tracer(self, *args: Any, **settings: Any) -> trace.Tracer:
            told.append((args, settings))
            return trace.NoOpTracer()

    monkeypatch.setattr(trace, "get_tracer_provider", Collector)
    for w in world(tmp_path / "silent", EXACT):
        assert w.call("PUT", "/v1/me/examples/secret", "own", json={"x": [1.0], "y": 2.0}).status_code == 404
    assert not told


def test_other_origins_are_let_in_only_if_the_study_names_them(tmp_path: Path) -> None:
    asked = {"Origin": "https://elsewhere.example"}
    for number, (text, allowed) in enumerate(
        [(EXACT, None), (EXACT + 'origins = ["https://elsewhere.example"]\n', "https://elsewhere.example")]
    ):
        for w in world(tmp_path / str(number), text):
            answer = w.call("GET", "/v1/study", headers=asked)
            assert answer.headers.get("access-control-allow-origin") == allowed


def test_downloads_may_be_for_clients_alone(tmp_path: Path) -> None:
    for w in world(tmp_path / "closed", EXACT + 'download = "clients"\n'):
        w.call("POST", "/v1/examples", "own", json=ONE)
        w.release()
        statuses = [w.call("GET", "/v1/disclosed", who).status_code for who in PEOPLE]
        assert statuses == [401, 401, 401, 200, 200, 200]


# --- a server beside one that was started with another file ---


@pytest.mark.usefixtures("backend")
def test_a_server_whose_study_was_changed_takes_no_more_examples(tmp_path: Path) -> None:
    """As on a database that any number of servers share; what was sent can still be read and removed."""
    for w in world(tmp_path / "first", EXACT):
        assert w.call("POST", "/v1/examples", "own", json=ONE).status_code == 200
        path = w.service.study.path
        path.write_text(EXACT.replace("[-10.0, 10.0]", "[-20.0, 20.0]"), encoding="utf-8")
        with closing(Store(w.service.study.store_url)) as store:
            pin(store, Study.load(path), now=w.now[0])
        example = ONE["examples"][0]
        for answer in (
            w.call("POST", "/v1/examples", "own", json={"examples": [example | {"id": "2"}]}),
            w.call("PUT", "/v1/me/examples/1", "own", json={"x": [0.5], "y": 2.0}),
        ):
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "busy")
            assert "the study was changed since this server started" in answer.json()["error"]["message"]
        assert [e["y"] for e in w.call("GET", "/v1/me/examples", "own").json()["examples"]] == [1.0]
        assert w.call("DELETE", "/v1/me/examples/1", "own").status_code in (200, 202)


def test_the_page_of_calls_describes_each_and_who_may_make_it(untouched: World) -> None:
    document = untouched.call("GET", "/openapi.json").json()
    page = untouched.call("GET", "/docs").text
    sections = {html.unescape(part.split("</h2>")[0]): part for part in page.split("<h2>")[1:]}
    listed = [route for route in ROUTES if route.answer is not None]
    for method, path, _, caller, _ in listed:
        section = sections[f"{method} {path}"]
        assert CALLERS[caller] in section
        assert html.escape(document["paths"][path][method.lower()]["description"]) in section
        assert ("Bearer TOKEN" in section) == (caller in ("client", "operator"))
    assert len(sections) == len(listed)
    assert "<script" not in page


def test_a_message_does_not_repeat_where_it_applies(untouched: World) -> None:
    for answer in (send(untouched, y=11.0), send(untouched, x=[1.0, 2.0]), send(untouched, id="")):
        error = answer.json()["error"]
        assert error["where"] in ("examples.0.y", "body.examples.0.x", "body.examples.0.id")
        assert error["where"] not in error["message"]


def test_the_examples_of_the_document_work(exact: World) -> None:
    document = exact.call("GET", "/openapi.json").json()
    for path, method, who in (("/v1/clients", "post", "operator"), ("/v1/examples", "post", "own")):
        body = document["paths"][path][method]["requestBody"]["content"]["application/json"]["example"]
        assert exact.call(method.upper(), path, who, json=body).status_code == 200


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def documented(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    text = EXACT.replace("examples_per_client = 5", "")
    if request.param == "postgresql":
        cluster = request.getfixturevalue("postgres")
        text += f'[store]\nurl = "{cluster.url(cluster.create())}"\n'
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("motet.server.routes.MAX_RELEASE_SECONDS", 0.01)
        for w in world(tmp_path_factory.mktemp("document"), text):
            w.call("POST", "/v1/examples", "own", json=ONE)
            w.release()
            yield w


@pytest.mark.parametrize(
    ("method", "path"), [route[:2] for route in ROUTES if route.answer is not None and route.path != "/v1/stream"]
)
def test_whatever_is_sent_no_call_fails_and_every_refusal_has_one_shape(
    documented: World, method: str, path: str
) -> None:
    fuzz(documented, method, path)
