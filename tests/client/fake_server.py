"""A study's server in memory for the client's tests: counts every id once, and fails as it is told to."""

from __future__ import annotations

import json
from typing import Any

import httpx

from motet import Client, Disclosed, Engine, Model
from motet.kernels import RBF, DotProduct

TOKEN = "a-very-secret-token"
MODEL = Model(RBF(1.0), DotProduct(0.5), alpha=0.3, lam=0.1, sigma2=1.0)
ANSWER = httpx.Response | Exception


def learned(more: float = 0.0) -> Engine:
    engine = Engine(MODEL)
    engine.learn_many(["u", "u", "v", "w"], [[0.0], [1.0], [1 / 3], [2.0]], [0.1, 1.0, 2.0, 0.7 + more])
    return engine


def refusal(status: int, code: str, message: str = "no", where: str | None = None, **headers: str) -> httpx.Response:
    return httpx.Response(status, json={"error": {"code": code, "message": message, "where": where}}, headers=headers)


def study() -> tuple[FakeServer, Client]:
    server = FakeServer()
    return server, server.client()


class FakeServer:
    """``failures`` are used up first: before a request is done, or after it where they are in ``lost``."""

    def __init__(self) -> None:
        self.engine = learned()
        self.examples: dict[str, dict[str, Any]] = {}
        self.failures: list[ANSWER] = []
        self.lost: list[ANSWER] = []
        self.fixed: dict[str, httpx.Response] = {}  # answers by method and path
        self.requests: list[httpx.Request] = []
        self.forgotten = False
        self.pauses: list[float] = []  # of the client
        self.page = 2

    def client(self, token: str | None = TOKEN) -> Client:
        """A client of this server that never sleeps."""
        http = httpx.Client(transport=httpx.MockTransport(self))
        return Client("https://study/", token, http=http, sleep=self.pauses.append)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if self.failures:
            return self._fail(self.failures.pop(0))
        answer = self._answer(request)
        return self._fail(self.lost.pop(0)) if self.lost else answer

    @staticmethod
    def _fail(how: ANSWER) -> httpx.Response:
        if isinstance(how, Exception):
            raise how
        return how

    @property
    def calls(self) -> list[str]:
        return [f"{request.method} {request.url.path}" for request in self.requests]

    @property
    def release(self) -> Disclosed:
        return self.engine.disclose()

    def _answer(self, request: httpx.Request) -> httpx.Response:
        call = f"{request.method} {request.url.path}"
        if call in self.fixed:
            return self.fixed[call]
        if self.forgotten:
            return refusal(401, "unauthorized", f"not a token: {request.headers.get('Authorization')}")
        match call.split("/v1/")[1].split("/"), request.method:
            case ["disclosed"], "GET":
                return self._disclosed(request)
            case ["examples"], "POST":
                return self._add(json.loads(request.content)["examples"])
            case ["me"], "DELETE":
                self.forgotten = True
                return httpx.Response(200, json={})
            case ["me"], _:
                name = request.headers.get("Authorization", "").rpartition("-of-")[2]
                return httpx.Response(200, json={"id": "u", "name": name, "count": len(self.examples)})
            case ["me", "coefficients"], _:
                return httpx.Response(200, json=self.engine.coefficients("u").to_dict())
            case ["me", "examples"], _:
                return self._page(request.url.params.get("after", ""))
            case ["me", "examples", id], "PUT":
                self.examples[id] = {"id": id, **json.loads(request.content)}
                return httpx.Response(200, json={})
            case ["me", "examples", id], "DELETE":
                gone = self.examples.pop(id, None)
                return httpx.Response(200, json={}) if gone else refusal(404, "unknown_example")
        return refusal(404, "http_404")

    def _disclosed(self, request: httpx.Request) -> httpx.Response:
        etag = f'"{self.release.digest}"'
        if request.headers.get("If-None-Match") == etag:
            return httpx.Response(304, headers={"ETag": etag})
        return httpx.Response(200, content=self.release.to_bytes(), headers={"ETag": etag})

    def _add(self, new: list[dict[str, Any]]) -> httpx.Response:
        fresh = {e["id"]: e for e in new if e["id"] not in self.examples}
        self.examples |= fresh
        counts = {"accepted": len(fresh), "duplicates": len(new) - len(fresh), "count": len(self.examples)}
        return httpx.Response(200, json=counts)

    def _page(self, after: str) -> httpx.Response:
        ids = sorted(id for id in self.examples if id > after)
        shown = [self.examples[id] for id in ids[: self.page]]
        return httpx.Response(
            200, json={"examples": shown, "next": ids[self.page - 1] if len(ids) > self.page else None}
        )
