"""The HTTP application of one study: its table of routes, its limits, and the one format of every error."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal, NamedTuple

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
    BudgetSpent,
    Busy,
    Forbidden,
    InvalidData,
    InvalidModel,
    InvalidRelease,
    InvalidStore,
    InvalidStudy,
    MotetError,
    NotAllowed,
    NotKnown,
    NotReleased,
    ServerError,
    TooLarge,
    TooMany,
    Unauthorized,
    Unreachable,
    Unusable,
)
from motet.server import routes
from motet.server.auth import DOWNLOADER, OPERATOR
from motet.server.bodies import schemas
from motet.server.refusals import HEADERS, NOT_STORED, error_response
from motet.server.service import Service
from motet.study.study import Study


class ErrorFields(BaseModel):
    code: str
    message: str
    where: str | None


class ErrorBody(BaseModel):
    """The one format of every error."""

    error: ErrorFields


class Route(NamedTuple):
    method: str
    path: str
    handler: Callable[..., Awaitable[Any]]
    caller: Literal["anyone", "downloader", "client", "operator"]


STATUS: dict[type[MotetError], int] = {  # of each class and of those below it
    Unauthorized: 401,
    Forbidden: 403,
    NotReleased: 404,
    NotKnown: 404,
    BudgetSpent: 409,
    InvalidModel: 409,
    InvalidRelease: 409,
    NotAllowed: 409,
    TooMany: 409,
    Unusable: 409,
    TooLarge: 413,
    InvalidData: 422,
    ServerError: 502,
    Unreachable: 502,
    Busy: 503,
    InvalidStore: 503,
    InvalidStudy: 503,
    MotetError: 503,
}
ROUTES = [  # Starlette searches in this order: the busiest route first
    Route("POST", "/v1/examples", routes.send, "client"),
    Route("GET", "/", routes.home, "anyone"),
    Route("GET", "/web/{name}", routes.asset, "anyone"),
    Route("GET", "/web/core/{name}", routes.asset, "anyone"),
    Route("GET", "/docs", routes.docs, "anyone"),
    Route("GET", "/healthz", routes.liveness, "anyone"),
    Route("GET", "/readyz", routes.readiness, "anyone"),
    Route("GET", "/v1/study", routes.study, "anyone"),
    Route("GET", "/v1/disclosed", routes.disclosed, "downloader"),
    Route("GET", "/v1/stream", routes.stream, "downloader"),
    Route("GET", "/v1/me", routes.about_me, "client"),
    Route("DELETE", "/v1/me", routes.forget_me, "client"),
    Route("GET", "/v1/me/examples", routes.my_examples, "client"),
    Route("GET", "/v1/me/coefficients", routes.my_coefficients, "client"),
    Route("PUT", "/v1/me/examples/{id}", routes.replace_example, "client"),
    Route("DELETE", "/v1/me/examples/{id}", routes.remove_example, "client"),
    Route("POST", "/v1/clients", routes.enroll, "operator"),
    Route("GET", "/v1/clients", routes.list_clients, "operator"),
    Route("GET", "/v1/clients/figures", routes.figures, "operator"),
    Route("DELETE", "/v1/clients/{id}", routes.remove_client, "operator"),
    Route("POST", "/v1/clients/{id}/token", routes.rotate, "operator"),
    Route("GET", "/v1/releases", routes.list_releases, "operator"),
    Route("POST", "/v1/releases", routes.release_now, "operator"),
    Route("GET", "/v1/refusals", routes.refusals, "operator"),
    Route("GET", "/metrics", routes.metrics, "operator"),
]
# A client's routes have their guard as an argument of the handler: they need to know which client calls.
GUARDS: dict[str, list[Any]] = {"anyone": [], "client": [], "downloader": DOWNLOADER, "operator": OPERATOR}


def create_app(study: Study, make_service: Callable[[], Service]) -> FastAPI:
    """The application of one study; its service is opened at startup and closed at shutdown."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service = app.state.service = make_service()
        await service.refresh()
        watcher = asyncio.create_task(service.watch())
        try:
            yield
        finally:
            watcher.cancel()
            service.writer.close()
            service.store.close()

    errors: dict[int | str, dict[str, Any]] = {"4XX": {"model": ErrorBody, "description": "Refused."}}
    app = FastAPI(
        title=study.name,
        version="1",
        lifespan=lifespan,
        responses=errors,
        docs_url=None,  # FastAPI's own pages would fetch scripts from other sites
        redoc_url=None,
        redirect_slashes=False,  # to an address that the caller's Host has, not ours
        # A variable in the environment would make FastAPI send every path, ids included, to a collector.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    for kind in (MotetError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, _error_response)
    for method, path, handler, caller in ROUTES:
        app.router.add_api_route(
            path,
            handler,
            methods=[method],
            dependencies=GUARDS[caller],
            responses=routes.REMOVAL_RESPONSES if handler in routes.REMOVALS else {},
            openapi_extra={"x-caller": caller},
            route_class_override=routes.DirectRoute if handler is routes.send else APIRoute,
        )
    _describe_bodies(app, study)
    if study.server.origins:
        origins = list(study.server.origins)
        app.add_middleware(CORSMiddleware, allow_origins=origins, allow_methods=["*"], allow_headers=["Authorization"])
    app.add_middleware(Gate)
    return app


def _describe_bodies(app: FastAPI, study: Study) -> None:
    """Add bodies to the OpenAPI document, each with an example that this study accepts."""
    document = app.openapi()
    document["components"]["schemas"] |= schemas(study)
    for path, method, kind, example in routes.example_bodies(study):
        content = {"schema": {"$ref": f"#/components/schemas/{kind}"}, "example": example}
        document["paths"][path][method]["requestBody"] = {"content": {"application/json": content}, "required": True}


class Gate:
    """Middleware around the whole application: refuses bodies that are too large, adds headers, and measures.

    Plain ASGI, because Starlette's decorators would take as long as the rest of a request.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        service: Service = scope["app"].state.service
        start, status = time.perf_counter(), 500

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = list(message.get("headers", ()))
                own = {name for name, _ in headers}
                message["headers"] = [*headers, *(pair for pair in (*HEADERS, NOT_STORED) if pair[0] not in own)]
            await send(message)

        try:
            refusal = _body_refusal(Headers(scope=scope), service.study.server.max_body)
            await (refusal or self._app)(scope, receive, send_and_note)
        finally:
            service.metrics.count_request(scope, status, time.perf_counter() - start)


def _body_refusal(headers: Headers, max_bytes: int) -> JSONResponse | None:
    """The response to a body that is too large, has no length, or would not be read."""
    length, encoded = headers.get("content-length", "0"), "transfer-encoding" in headers
    if "upgrade" in headers and (encoded or length != "0"):  # the parser takes the body for another protocol's
        message = "this server speaks HTTP/1.1: send bodies without the header Upgrade"
        return error_response(400, "http_400", message, headers={"Connection": "close"})
    if not encoded and length.isdigit() and int(length) <= max_bytes:
        return None
    return error_response(
        413, "too_large", f"expected a body of at most {max_bytes} bytes with its Content-Length: send smaller batches"
    )


def _error_response(_: Request, error: Exception) -> JSONResponse:
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        return error_response(422, "invalid_data", str(first["msg"]), ".".join(str(part) for part in first["loc"]))
    if isinstance(error, HTTPException):
        return error_response(error.status_code, f"http_{error.status_code}", str(error.detail), headers=error.headers)
    if not isinstance(error, MotetError):  # a fault of ours, which is logged
        return error_response(500, "http_500", "the server failed: its log has the reason")
    status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    headers = {"Retry-After": "1"} if status == 503 else {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return error_response(status, error.code, str(error), error.where, headers)
