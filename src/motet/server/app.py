"""The HTTP server: an application from its routes, limits, and one shape for every error."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from motet.errors import (
    Busy,
    Forbidden,
    InvalidData,
    MotetError,
    NotAllowed,
    NotKnown,
    NotReleased,
    StaleRelease,
    TooMany,
    Unauthorized,
)
from motet.server import routes as handlers
from motet.server.auth import DOWNLOAD, OPERATOR
from motet.server.service import Service
from motet.study.study import Study


class Reason(BaseModel):
    code: str
    message: str
    where: str | None


class Refusal(BaseModel):
    """The one shape of every error."""

    error: Reason


Handler: TypeAlias = Callable[..., Awaitable[Any]]
STATUS: dict[type[MotetError], int] = {
    Unauthorized: 401,
    Forbidden: 403,
    NotReleased: 404,
    NotKnown: 404,
    NotAllowed: 409,
    StaleRelease: 409,
    TooMany: 409,
    InvalidData: 422,
    Busy: 503,
}
ROUTES: list[tuple[str, str, Handler, list[Any]]] = [  # looked through in this order, the busiest first
    ("POST", "/v1/examples", handlers.send, []),
    ("GET", "/", handlers.summary, []),
    ("GET", "/docs", handlers.interface, []),
    ("GET", "/healthz", handlers.alive, []),
    ("GET", "/readyz", handlers.ready, []),
    ("GET", "/v1/study", handlers.study, []),
    ("GET", "/v1/disclosed", handlers.disclosed, DOWNLOAD),
    ("GET", "/v1/stream", handlers.stream, DOWNLOAD),
    ("GET", "/v1/me", handlers.own, []),
    ("DELETE", "/v1/me", handlers.forget_me, []),
    ("GET", "/v1/me/examples", handlers.own_examples, []),
    ("GET", "/v1/me/coefficients", handlers.own_coefficients, []),
    ("PUT", "/v1/me/examples/{id}", handlers.replace_example, []),
    ("DELETE", "/v1/me/examples/{id}", handlers.remove_example, []),
    ("POST", "/v1/clients", handlers.enrol, OPERATOR),
    ("GET", "/v1/clients", handlers.list_clients, OPERATOR),
    ("DELETE", "/v1/clients/{id}", handlers.revoke, OPERATOR),
    ("POST", "/v1/clients/{id}/token", handlers.rotate, OPERATOR),
    ("POST", "/v1/releases", handlers.release_now, OPERATOR),
    ("GET", "/metrics", handlers.metrics, OPERATOR),
]


def create_app(study: Study, make_service: Callable[[], Service]) -> FastAPI:
    """The application of one study; the service is made when it starts and closed when it ends."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service = app.state.service = make_service()
        await service.look()
        watching = asyncio.create_task(service.watch())
        try:
            yield
        finally:
            watching.cancel()
            service.writer.close()
            service.store.close()

    refusals: dict[int | str, dict[str, Any]] = {"4XX": {"model": Refusal, "description": "Refused."}}
    app = FastAPI(
        title=study.name,
        version="1",
        lifespan=lifespan,
        responses=refusals,
        docs_url=None,  # FastAPI's own pages would fetch scripts from elsewhere
        redoc_url=None,
        # A variable in the environment would have FastAPI send every path, with ids in it, to somebody else.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    for kind in (MotetError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _refused)
    for method, path, handler, guards in ROUTES:
        route = handlers.Direct if handler is handlers.send else APIRoute
        app.router.add_api_route(path, handler, methods=[method], dependencies=guards, route_class_override=route)
    _add_examples(app, study)
    if study.server.origins:
        origins = list(study.server.origins)
        app.add_middleware(CORSMiddleware, allow_origins=origins, allow_methods=["*"], allow_headers=["Authorization"])
    app.add_middleware(Gate)
    return app


def _add_examples(app: FastAPI, study: Study) -> None:
    """Bodies in the OpenAPI document that this very study takes."""
    document = app.openapi()
    for path, method, example in handlers.examples(study):
        document["paths"][path][method]["requestBody"]["content"]["application/json"]["example"] = example


class Gate:
    """Around the whole application: bodies that are too large are not read, and every answer is measured.

    A class of ASGI's own kind: Starlette's decorators would cost as much as the rest of a request.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        service: Service = scope["app"].state.service
        begin, statuses = time.perf_counter(), [500]

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                statuses[0] = message["status"]
            await send(message)

        try:
            refusal = _refusal(Headers(scope=scope), service.study.server.max_body)
            await (refusal or self._app)(scope, receive, sending)
        finally:
            service.metrics.record(scope, statuses[0], time.perf_counter() - begin)


def _refusal(headers: Headers, most: int) -> JSONResponse | None:
    """Of a body that says that it is too large, or does not say how large it is, or that would not be read."""
    length, encoded = headers.get("content-length", "0"), "transfer-encoding" in headers
    if "upgrade" in headers and (encoded or length != "0"):  # the parser takes what follows for another protocol's
        spoken = "this server speaks HTTP/1.1: send bodies without the header Upgrade"
        return _error(400, "http_400", spoken, headers={"Connection": "close"})
    if not encoded and length.isdigit() and int(length) <= most:
        return None
    return _error(413, "too_large", f"a body may have {most} bytes and must say its length: send smaller batches")


def _refused(_: Request, error: Exception) -> JSONResponse:
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        return _error(422, "invalid_data", str(first["msg"]), ".".join(str(part) for part in first["loc"]))
    if isinstance(error, HTTPException):
        return _error(error.status_code, f"http_{error.status_code}", str(error.detail), headers=error.headers)
    if not isinstance(error, MotetError):
        raise error
    status = next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)
    headers = {"Retry-After": "1"} if status == 503 else {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return _error(status, error.code, str(error), error.where, headers)


def _error(status: int, code: str, message: str, where: str | None = None, headers: Any = None) -> JSONResponse:
    return JSONResponse({"error": {"code": code, "message": message, "where": where}}, status, headers)
