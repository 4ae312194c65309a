"""The HTTP server: an application from its routes, limits, and one shape for every error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from motet import handlers
from motet.access import DOWNLOAD, OPERATOR
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
from motet.metrics import Metrics
from motet.service import Service
from motet.study import Study


class Reason(BaseModel):
    code: str
    message: str
    where: str | None


class Refusal(BaseModel):
    """The one shape of every error."""

    error: Reason


Handler: TypeAlias = Callable[..., Awaitable[Any]]
Next: TypeAlias = Callable[[Request], Awaitable[Response]]
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
ROUTES: list[tuple[str, str, Handler, list[Any]]] = [
    ("GET", "/", handlers.summary, []),
    ("GET", "/docs", handlers.interface, []),
    ("GET", "/healthz", handlers.alive, []),
    ("GET", "/readyz", handlers.ready, []),
    ("GET", "/v1/study", handlers.study, []),
    ("GET", "/v1/disclosed", handlers.disclosed, DOWNLOAD),
    ("GET", "/v1/stream", handlers.stream, DOWNLOAD),
    ("POST", "/v1/examples", handlers.send, []),
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
        app.state.metrics = Metrics(lambda: service.writer.waiting, lambda: service.version)
        await service.look()
        watching = asyncio.create_task(service.watch())
        try:
            yield
        finally:
            watching.cancel()
            service.writer.close()
            service.store.close()

    refusals: dict[int | str, dict[str, Any]] = {"4XX": {"model": Refusal, "description": "Refused."}}
    # FastAPI's own pages would fetch scripts from elsewhere.
    app = FastAPI(title=study.name, version="1", lifespan=lifespan, responses=refusals, docs_url=None, redoc_url=None)
    for kind in (MotetError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _refused)
    app.middleware("http")(_limited)
    app.middleware("http")(_measured)
    for method, path, handler, guards in ROUTES:
        app.add_api_route(path, handler, methods=[method], dependencies=guards)
    _add_examples(app, study)
    if study.server.origins:
        origins = list(study.server.origins)
        app.add_middleware(CORSMiddleware, allow_origins=origins, allow_methods=["*"], allow_headers=["Authorization"])
    return app


def _add_examples(app: FastAPI, study: Study) -> None:
    """Bodies in the OpenAPI document that this very study takes."""
    document = app.openapi()
    for path, method, example in handlers.examples(study):
        document["paths"][path][method]["requestBody"]["content"]["application/json"]["example"] = example


async def _measured(request: Request, call_next: Next) -> Response:
    metrics: Metrics = request.app.state.metrics
    return await metrics.measure(request, call_next)


async def _limited(request: Request, call_next: Next) -> Response:
    """Bodies that say that they are too large, or do not say how large they are, are not read."""
    service: Service = request.app.state.service
    length, most = request.headers.get("content-length", "0"), service.study.server.max_body
    if request.headers.get("transfer-encoding") or not length.isdigit() or int(length) > most:
        return _error(413, "too_large", f"a body may have {most} bytes and must say its length: send smaller batches")
    return await call_next(request)


def _refused(_: Request, error: Exception) -> JSONResponse:
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        return _error(422, "invalid_data", str(first["msg"]), ".".join(str(part) for part in first["loc"]))
    if isinstance(error, HTTPException):
        return _error(error.status_code, f"http_{error.status_code}", str(error.detail), headers=error.headers)
    status = next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)
    headers = {"Retry-After": "1"} if status == 503 else {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return _error(status, getattr(error, "code", "motet_error"), str(error), getattr(error, "where", None), headers)


def _error(status: int, code: str, message: str, where: str | None = None, headers: Any = None) -> JSONResponse:
    return JSONResponse({"error": {"code": code, "message": message, "where": where}}, status, headers)
