"""A site over HTTP: one download for all, each request under the right token, and who is refused."""

from __future__ import annotations

import pytest

from motet.client.site import Site
from motet.errors import InvalidData, StaleRelease
from tests.client.fake_server import FakeServer, refusal


def test_the_release_is_downloaded_once_for_all() -> None:
    server = FakeServer()
    tokens = {name: f"token-of-{name}" for name in ("ann", "bob", "cem")}
    site, moved = Site(server.client(""), tokens, "tokens.csv"), list[int]()
    release = site.disclosed()
    known = site.coefficients(["cem", "ann"], lambda: moved.append(1))
    assert (list(known), len(moved)) == (["cem", "ann"], 2)
    assert all(of is release for of, _ in known.values())
    assert server.calls == ["GET /v1/disclosed", *["GET /v1/me/coefficients"] * 2]
    asked = [request.headers["Authorization"] for request in server.requests]
    assert asked == [f"Bearer token-of-{name}" for name in ("ann", "cem", "ann")]


def test_who_is_refused_is_named_and_no_token_is() -> None:
    server = FakeServer()
    site = Site(server.client(""), {"ann": "SECRET", "bob": "SECRET2"}, "tokens.csv")
    server.fixed["GET /v1/me/coefficients"] = refusal(401, "unauthorized", "no client has SECRET2")
    with pytest.raises(InvalidData, match=r"no client with the token of bob in tokens\.csv: put a new one") as refused:
        site.coefficients(["bob"], list)
    server.fixed["GET /v1/me/coefficients"] = refusal(409, "stale_release", "you changed examples: ask again later")
    with pytest.raises(StaleRelease, match="client ann: you changed examples: ask again later"):
        site.coefficients(["ann"], list)
    assert "SECRET" not in str(refused.value)
    names = [f"site {k}" for k in range(6)]
    with pytest.raises(
        InvalidData, match=r"^v\.csv: 6 of 7 clients have no token in tokens\.csv \(site 0, .*, …\), so"
    ):
        site.check([*names, "ann"], "v.csv")
