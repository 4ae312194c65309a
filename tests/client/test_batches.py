"""Names and tables in requests that the server takes, and what is told where one of them is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from motet import Client
from motet.client.batches import enroll, send
from motet.client.client import Sent
from motet.client.tables import read_examples
from motet.errors import InvalidData, TooLarge, Unreachable
from tests.client.fake_server import refusal


class SmallServer:
    """Takes so many bytes in a request, refuses what has ``bad`` in it, and keeps the rest."""

    def __init__(self, most: int, bad: str = "") -> None:
        self.most, self.bad = most, bad
        self.kept: list[Any] = []
        self.largest = 0

    def client(self) -> Client:
        return Client("http://study", "token", http=httpx.Client(transport=httpx.MockTransport(self)), retries=0)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"clients": [{"name": name} for name in self.kept], "next": None})
        if len(request.content) > self.most:
            return refusal(413, "too_large", "send smaller batches")
        ((kind, new),) = json.loads(request.content).items()
        self.largest = max(self.largest, len(new))
        for k, one in enumerate(new):
            if self.bad and self.bad in (one if kind == "names" else one["id"]):
                return refusal(422, "invalid_data", "not that one", f"examples.{k}" if kind == "examples" else None)
        self.kept += new
        if kind == "names":
            return httpx.Response(200, json={"clients": [{"id": n, "name": n, "token": f"t{n}"} for n in new]})
        return httpx.Response(200, json={"accepted": len(new), "duplicates": 0, "count": len(self.kept)})


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


def test_a_refused_example_is_told_by_its_row(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("id,x,y\n\n" + "".join(f"e{k:03},{k},1\n" for k in range(90)), encoding="utf-8")
    examples = read_examples(path, None)
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
        f"own.csv, row {77 + 3}: not that one; what is above row {stored + 3} is stored"
    )


def test_a_refusal_says_whose_row_it_is_and_what_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    rows = "".join(f"e{k:03},{k},1,ann\nf{k:03},{k},1,bob\n" for k in range(40))
    path.write_text(f"id,x,y,client\n{rows}", encoding="utf-8")
    ann = read_examples(path, None, client="ann")
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
        ("e039", (), "own.csv, row 80, client ann: not that one; what ann has above row"),
        ("e039", ["bob"], "all rows of 1 client (bob) and what ann has above row"),
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
