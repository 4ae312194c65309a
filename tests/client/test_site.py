"""A site over HTTP: requests of a size that the server takes, each under the right token, and what an error names."""

from __future__ import annotations

from pathlib import Path

import pytest

from motet import Client
from motet.client.client import Sent
from motet.client.site import Site, enroll, send
from motet.client.tables import read_examples
from motet.errors import InvalidData, StaleRelease, TooLarge, Unreachable
from motet.tables.roles import Layout
from tests.client.fake_server import FakeServer, refusal
from tests.client.small_server import SmallServer

# --- requests that are small enough ---


def test_names_go_in_requests_that_are_small_enough() -> None:
    names = [f"site {k:04}" for k in range(1300)]
    roomy, narrow = SmallServer(10**6), SmallServer(200)
    for server in (roomy, narrow):
        found = [client for new in enroll(server.client(), names) for client in new]
        assert [client.name for client in found] == server.kept == names
        assert found[5].token == "tsite 0005"
    assert roomy.largest == 500
    assert 2 < narrow.largest < 20
    with pytest.raises(TooLarge, match="send smaller batches"):
        list(enroll(SmallServer(5).client(), names))


def test_no_token_is_lost_where_a_later_request_fails() -> None:
    names = [f"site {k:04}" for k in range(600)]
    coming = enroll(SmallServer(10**6, bad="0599").client(), names)
    assert [client.name for client in next(coming)] == names[:500]
    with pytest.raises(InvalidData, match="not that one; the 500 before 'site 0500' are enrolled: leave them out"):
        next(coming)
    with pytest.raises(InvalidData, match=r"a name has 1 to 200 letters, got 201"):
        list(enroll(SmallServer(10**6).client(), ["n" * 201]))


def test_a_refused_example_is_named_by_its_row(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("id,x,y\n\n" + "".join(f"e{k:03},{k},1\n" for k in range(90)), encoding="utf-8")
    examples = read_examples(path, Layout())
    moved: list[int] = []
    server = SmallServer(500)
    assert send(server.client(), examples, moved.append) == Sent(90, 0, 90)
    assert [example["id"] for example in server.kept] == examples.ids
    assert sum(moved) == 90
    server = SmallServer(500, bad="e077")
    with pytest.raises(InvalidData) as refused:
        send(server.client(), examples, moved.append)
    stored = len(server.kept)
    assert 0 < stored <= 77
    assert str(refused.value).startswith(
        f"own.csv, row {77 + 3}: not that one; the rows above row {stored + 3} are stored"
    )


@pytest.mark.slow
def test_an_error_names_whose_row_it_is_and_what_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    rows = "".join(f"e{k:03},{k},1,ann\nf{k:03},{k},1,bob\n" for k in range(40))
    path.write_text(f"id,x,y,client\n{rows}", encoding="utf-8")
    ann = read_examples(path, Layout(), "ann")
    many = [f"site {k}" for k in range(7)]
    moved: list[int] = []
    for bad, before, message in (
        ("e000", (), "own.csv, row 2, client ann: not that one; nothing was stored"),
        (
            "e000",
            ["bob"],
            "own.csv, row 2, client ann: not that one; all rows of 1 client (bob) are stored, and sending",
        ),
        (
            "e000",
            many,
            "all rows of 7 clients (site 0, site 1, site 2, site 3, site 4, …) are stored, and sending them",
        ),
        ("e039", (), "own.csv, row 80, client ann: not that one; the rows of ann above row"),
        ("e039", ["bob"], "all rows of 1 client (bob) and the rows of ann above row"),
    ):
        server = SmallServer(500, bad=bad)
        with pytest.raises(InvalidData) as refused:
            send(server.client(), ann, moved.append, "ann", before)
        assert message in str(refused.value)
        if bad == "e039":
            assert f"above row {2 + 2 * len(server.kept)} " in str(refused.value)
    with pytest.raises(Unreachable) as lost:
        send(Client("http://127.0.0.1:1", "token", retries=0), ann, moved.append, "ann")
    assert str(lost.value).startswith("client ann: POST http://127.0.0.1:1/v1/examples")
    assert "stored" not in str(lost.value)  # it may be


def test_an_input_out_of_bounds_is_named_by_its_column(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_text("hours,y,dose\n1,2,3\n30,2,3\n", encoding="utf-8")
    server = FakeServer()
    for where, message in (
        ("examples.1.x.0", r"^visits\.csv, row 3, column hours: expected a number from 0 to 24, got 30$"),
        ("body.examples.0.x.1", r"^visits\.csv, row 2, column dose: expected"),
        ("examples.7.x.9", r"^expected a number"),  # which there is not
    ):
        server.fixed["POST /v1/examples"] = refusal(
            422, "invalid_data", "expected a number from 0 to 24, got 30", where
        )
        with pytest.raises(InvalidData, match=message) as refused:
            send(server.client(), read_examples(path, Layout()), lambda _: None)
        assert str(refused.value).startswith(refused.value.where or "expected")


# --- one token for each client ---


def test_the_release_is_downloaded_once_for_all() -> None:
    server = FakeServer()
    tokens = {name: f"token-of-{name}" for name in ("ann", "bob", "cem")}
    site, moved = Site(server.client(""), tokens, "tokens.csv"), list[int]()
    release = site.disclosed()
    known = site.coefficients(["cem", "ann"], lambda: moved.append(1))
    assert (list(known), len(moved)) == (["cem", "ann"], 2)
    assert all(of is release for of, _ in known.values())
    calls = [call for call in server.calls if call != "GET /v1/me"]  # whose token it is
    assert calls == ["GET /v1/disclosed", *["GET /v1/me/coefficients"] * 2]
    asked = [request.headers["Authorization"] for request in server.requests]
    assert asked == [f"Bearer token-of-{name}" for name in ("ann", "cem", "ann") for _ in range(2)]


def test_who_is_refused_is_named_and_no_token_is() -> None:
    server = FakeServer()
    site = Site(
        server.client(""), {"ann": "SECRET-of-ann", "bob": "SECRET2-of-bob", "cem": "SECRET-of-bob"}, "tokens.csv"
    )
    server.fixed["GET /v1/me/coefficients"] = refusal(401, "unauthorized", "no client has SECRET2")
    with pytest.raises(
        InvalidData, match=r"the server refused the token of bob in tokens\.csv: put a new one"
    ) as refused:
        site.coefficients(["bob"], list)
    server.fixed["GET /v1/me/coefficients"] = refusal(409, "stale_release", "you changed examples: ask again later")
    with pytest.raises(StaleRelease, match="client ann: you changed examples: ask again later"):
        site.coefficients(["ann"], list)
    with pytest.raises(
        InvalidData, match=r"^tokens\.csv: the token of cem is that of 'bob': correct the file$"
    ) as mixed:
        site.coefficients(["cem"], list)
    assert "SECRET" not in str(refused.value) + str(mixed.value)
    names = [f"site {k}" for k in range(6)]
    with pytest.raises(
        InvalidData, match=r"^v\.csv: 6 of 7 clients have no token in tokens\.csv \(site 0, .*, …\), so"
    ):
        site.check([*names, "ann"], "v.csv")
