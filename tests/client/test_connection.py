"""Requests against a server that loses answers, refuses, and says tokens back."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import httpx
import pytest

from motet import Client
from motet.client.client import Enrolled
from motet.errors import (
    Busy,
    Forbidden,
    InvalidData,
    MotetError,
    NotAllowed,
    NotFinite,
    NotReleased,
    ServerError,
    TooMany,
    Unauthorized,
    UnknownExample,
    Unreachable,
)
from tests.client.fake_server import TOKEN, FakeServer, refusal, study

X, Y = [[0.2], [1.5]], [1.0, -1.0]


# --- retries ---


def test_pauses_grow_and_respect_the_server() -> None:
    server, me = study()
    server.failures = [
        httpx.ConnectError("no"),
        httpx.Response(502),
        refusal(503, "busy", **{"Retry-After": "7"}),
        refusal(429, "http_429", **{"Retry-After": "3"}),
    ]
    assert me.me()["id"] == "u"
    assert 0.25 <= server.pauses[0] <= 0.5 <= server.pauses[1] <= 1.0
    assert server.pauses[2] == 7.0
    assert server.pauses[3] >= 3.0


def test_a_server_that_asks_for_hours_is_not_waited_for() -> None:
    server, me = study()
    server.failures = [refusal(503, "busy", "later", **{"Retry-After": "86400"})]
    with pytest.raises(Busy, match="later"):
        me.me()
    assert not server.pauses


def test_unreachable_says_what_was_tried() -> None:
    server, me = study()
    server.failures = [httpx.ConnectError("refused")] * 6
    with pytest.raises(Unreachable) as caught:
        me.study()
    assert str(caught.value) == (
        "GET https://study/v1/study failed after 6 attempts: ConnectError: refused; check address and network"
    )
    assert len(server.pauses) == 5
    server.failures = [httpx.Response(502)] * 6
    with pytest.raises(Unreachable, match="response 502; it may have been carried out: check before you repeat it"):
        me.send([1.0], 1.0)


@pytest.mark.parametrize("call", ["enroll", "release_now"])
def test_what_must_not_happen_twice_is_repeated_only_where_it_was_not_sent(call: str) -> None:
    server, me = study()

    def ask() -> Any:
        return me.enroll(["anna"]) if call == "enroll" else me.release_now()

    server.fixed["POST /v1/clients"] = httpx.Response(
        200, json={"clients": [{"id": "1", "name": "anna", "token": "s3"}]}
    )
    server.fixed["POST /v1/releases"] = httpx.Response(200, json={"version": 4})
    server.failures = [httpx.ConnectError("refused"), httpx.ConnectTimeout("slow")]
    assert ask() == ([Enrolled("1", "anna", "s3")] if call == "enroll" else 4)
    assert len(server.requests) == 3
    server.lost = [httpx.ReadTimeout("slow")]
    with pytest.raises(Unreachable, match=r"1 attempt: .* it may have been carried out"):
        ask()
    assert len(server.requests) == 4


def test_removing_what_a_lost_request_removed_is_fine() -> None:
    server, me = study()
    me.send([1.0], 1.0, id="a b")
    server.lost = [httpx.ReadTimeout("slow")]
    me.remove("a b")
    assert not server.examples
    for never_sent in ([], [httpx.ConnectError("refused")]):
        server.failures = [*never_sent]
        with pytest.raises(UnknownExample):
            me.remove("a b")


def test_forgetting_is_done_when_the_token_is_gone() -> None:
    server, me = study()
    server.lost = [httpx.Response(200, json={"id": "u"}), httpx.ReadTimeout("slow")]
    me.forget_me()
    assert server.calls == ["GET /v1/me", "DELETE /v1/me", "DELETE /v1/me"]
    server.failures = [httpx.ReadTimeout("slow")]
    with pytest.raises(Unauthorized):  # a token that was never good has nothing forgotten
        me.forget_me()


@pytest.mark.parametrize("id", ["", ".", "..", "a/../..", "a\\b", "a\nb", None])
def test_an_id_cannot_lead_elsewhere(id: Any) -> None:
    server, me = study()
    for call in (me.remove, me.revoke, me.rotate, lambda id: me.replace(id, [1.0], 1.0)):
        with pytest.raises(InvalidData, match="an id is a text"):
            call(id)
    assert not server.requests


# --- errors ---


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal(401, "http_401"), Unauthorized),
        (refusal(403, "motet_error"), Forbidden),
        (refusal(404, "not_released", "due 2031-01-01T00:00Z"), NotReleased),
        (refusal(409, "budget_is_gone"), NotAllowed),
        (refusal(409, "too_many"), TooMany),
        (refusal(422, "not_finite"), NotFinite),
        (refusal(422, "invalid_request"), ServerError),
        (httpx.Response(500, text="<html>"), ServerError),
        (httpx.Response(404, json={"detail": "Not Found"}), ServerError),
        (httpx.Response(307, headers={"Location": "http://elsewhere/"}), ServerError),
        (httpx.Response(400, json={"error": {"code": [], "message": {}, "where": 3}}), ServerError),
        (httpx.Response(200, text="[" * 100_000), ServerError),
        (httpx.Response(200, json=[1]), ServerError),
    ],
)
def test_errors_are_the_packages_own(answer: httpx.Response, error: type[MotetError]) -> None:
    server, me = study()
    server.fixed["GET /v1/study"] = answer
    with pytest.raises(MotetError) as caught:
        me.study()
    assert type(caught.value) is error
    assert len(server.requests) == 1


def test_before_the_first_release_the_time_is_told() -> None:
    server, me = study()
    server.fixed["GET /v1/disclosed"] = refusal(404, "not_released", "the first release is due 2031-01-01T00:00Z")
    with pytest.raises(NotReleased, match="2031-01-01T00:00Z"):
        me.estimate(X, Y)


def test_the_token_is_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    server, me = study()
    caplog.set_level(logging.DEBUG)
    server.forgotten = True  # from here on it says the token back
    with pytest.raises(Unauthorized, match="Bearer …; check the token") as caught:
        me.me()
    server.failures = [httpx.ReadError(f"Bearer {TOKEN}")] * 6
    with pytest.raises(Unreachable) as unreachable:
        me.me()
    assert {request.headers["Authorization"] for request in server.requests} == {f"Bearer {TOKEN}"}
    shown = [repr(me), str(caught.value), str(unreachable.value), caplog.text]
    assert caplog.text
    assert not any(TOKEN in text for text in shown)


def test_where_the_token_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    server = FakeServer()
    monkeypatch.setenv("MOTET_TOKEN", "from-outside")
    with httpx.Client(transport=httpx.MockTransport(server)) as http:
        for given in (None, "given", ""):
            with Client("https://study", given, http=http) as client:
                client.disclosed()
        assert not http.is_closed
    sent = [request.headers.get("Authorization") for request in server.requests]
    assert sent == ["Bearer from-outside", "Bearer given", None]


@pytest.mark.parametrize("bad", [f"{TOKEN}\n", f"Bearer {TOKEN}", f"{TOKEN}é"])
def test_a_token_that_cannot_be_sent_is_refused_unseen(bad: str) -> None:
    with pytest.raises(InvalidData) as caught:
        Client("https://study", bad)
    assert TOKEN not in str(caught.value)


def test_a_token_is_not_sent_in_plain_text_without_a_warning() -> None:
    """To this machine it is, silently: warnings are errors here."""
    for url in ("http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1", "https://study.example.org"):
        Client(url, TOKEN).close()
    Client("http://study.example.org", "").close()
    match = r"http://study\.example\.org is not encrypted: .* https://"
    with pytest.warns(UserWarning, match=match) as shown, Client("http://study.example.org", TOKEN) as me:
        me.with_token("another")
    assert [warning.filename for warning in shown] == [__file__] * 2
    assert TOKEN not in str(shown[0].message)


def test_certificates_that_cannot_be_read_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ca.pem").write_text("no certificate", encoding="utf-8")
    for file in (tmp_path / "none.pem", tmp_path / "ca.pem"):
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        with pytest.raises(InvalidData, match=f"expected certificates of authorities in PEM, got SSL_CERT_FILE={file}"):
            Client("https://study")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "study:8000",
        "ftp://study",
        "http://me:pass@study",
        "http://study/?token=pass",
        "http://a..b",
        f"http://{'a' * 64}.org",
    ],
)
def test_an_address_without_secrets(url: str) -> None:
    with pytest.raises(InvalidData, match="expected the server's address") as caught:
        Client(url)
    assert "me:pass" not in str(caught.value)
