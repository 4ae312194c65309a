"""A server in memory that takes small requests only, for the tests of chunks."""

from __future__ import annotations

import json
from typing import Any

import httpx

from motet import Client
from tests.client.fake_server import refusal


class SmallServer:
    """Takes so many bytes in a request, refuses what has ``bad`` in it, and keeps the rest."""

    def __init__(self, max_bytes: int, bad: str = "") -> None:
        self.max_bytes, self.bad = max_bytes, bad
        self.kept: list[Any] = []
        self.largest = 0

    def client(self) -> Client:
        return Client("https://study", "token", http=httpx.Client(transport=httpx.MockTransport(self)), retries=0)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"clients": [{"name": name} for name in self.kept], "next": None})
        if len(request.content) > self.max_bytes:
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
