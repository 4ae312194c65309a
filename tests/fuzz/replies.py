"""What a server that is not ours, or is hostile, replies to a client."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
from hypothesis import strategies as st

from motet import Client
from motet.client.responses import layout_of
from motet.errors import Unreachable
from tests.compatibility.test_before import BEFORE, answers
from tests.fuzz.mutations import edited, mutated, mutated_json, to_json
from tests.fuzz.reader import Reader, use

STATUSES = [200] * 12 + [
    201,
    202,
    204,
    206,
    301,
    302,
    304,
    307,
    400,
    401,
    403,
    404,
    409,
    413,
    418,
    422,
    429,
    500,
    502,
    503,
    599,
]
HEADERS: list[dict[str, str]] = [
    {}, {}, {"Content-Type": "text/event-stream"}, {"Content-Type": "application/json; charset=utf-7"},
    {"Content-Type": "x; charset=rot13"}, {"Retry-After": "0"}, {"Retry-After": "9" * 400}, {"Retry-After": "²"},
    {"Retry-After": "-1"}, {"ETag": '"1"'}, {"ETag": "\x7f"}, {"Location": "/"}, {"Location": "http://[::1"},
    {"Content-Encoding": "gzip"}, {"Content-Encoding": "gzip, gzip"}, {"Content-Encoding": "identity, x"},
]  # fmt: skip


class Body(httpx.SyncByteStream):
    """A body that is read by the client, not before."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def __iter__(self) -> Iterator[bytes]:
        yield self.body


def _use_releases(client: Client) -> None:
    for release in islice(client.releases(), 2):
        use(release)


CALLS: dict[str, Callable[[Client], object]] = {
    "study": lambda client: layout_of(client.study()),
    "disclosed": lambda client: use(client.disclosed()),
    "me": Client.me,
    "examples": lambda client: list(islice(client.examples(), 20)),
    "coefficients": Client.coefficients,
    "send": lambda client: client.send_many([[0.5], [1.0]], [1.0, 2.0], ids=["a", "b"]),
    "replace": lambda client: client.replace("a", [0.5], 1.0),
    "remove": lambda client: client.remove("a"),
    "forget": Client.forget_me,
    "enroll": lambda client: client.enroll(["ann"]),
    "clients": lambda client: list(islice(client.clients(), 20)),
    "figures": Client.figures,
    "rotate": lambda client: client.rotate("a"),
    "release": Client.release_now,
    "history": Client.release_history,
    "refusals": Client.refusals,
    "releases": _use_releases,
}
EVENTS = b"event: release\ndata: 1\n\nevent: release\ndata: 2\n\n"


def replies(_: Path) -> Reader:
    then = answers("exact")
    release = (BEFORE / "exact" / "release.safetensors").read_bytes()
    fields = {"accepted": 2, "duplicates": 0, "count": 2, "version": 1, "token": "abc", "id": "a", "erased": True}
    lists: dict[str, Any] = {
        "clients": [{"id": "1", "name": "ann", "token": "abc"}], "examples": [], "refusals": [], "releases": [],
        "next": {},
    }  # fmt: skip
    error = {"error": {"code": "invalid_data", "message": "no", "where": "body.examples.1.y"}}
    valid = [fields | lists, error, *then["responses"].values()]

    def call(case: tuple[str, int, dict[str, str], bytes]) -> None:
        name, status, headers, body = case
        waits = 0

        def wait(_: float) -> None:
            nonlocal waits
            waits += 1
            if waits > 20:
                raise Unreachable("it goes on for ever")

        def reply(_: httpx.Request) -> httpx.Response:
            raw = [(k.encode(), v.encode()) for k, v in headers.items()]
            packed = gzip.compress(body) if headers.get("Content-Encoding") == "gzip" and len(body) % 2 else body
            return httpx.Response(status, headers=raw, stream=Body(packed))

        with httpx.Client(transport=httpx.MockTransport(reply)) as http:
            CALLS[name](Client("https://study", "secret-token", http=http, retries=1, sleep=wait))

    bodies = (
        mutated_json(valid)
        | mutated(st.sampled_from([release, EVENTS]))
        | st.sampled_from([release, EVENTS, b"", b"{}"])
    )
    cases = st.tuples(st.sampled_from(sorted(CALLS)), st.sampled_from(STATUSES), st.sampled_from(HEADERS), bodies)
    good: list[tuple[str, int, dict[str, str], bytes]] = [
        (name, 200, {}, to_json(fields | lists))
        for name in ("send", "enroll", "rotate", "release", "history", "refusals")
    ]
    return Reader(cases, call, [*good, ("disclosed", 200, {}, edited(release, []))])
