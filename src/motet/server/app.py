"""The HTTP application of one study, its table of routes and its limits; and the server that runs it on a socket.

That server runs alone, or as one of many workers.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, NamedTuple

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from motet import errors
from motet.errors import MotetError
from motet.server import answers, document, routes
from motet.server.auth import require_downloader, require_operator
from motet.server.protection.connections import Listener, Server, max_connections
from motet.server.protection.refusals import HEADERS, NOT_STORED, error_response
from motet.server.protection.streams import EventStream
from motet.server.service import Service
from motet.store.store import Store
from motet.study.study import Study

GRACE_SECONDS = 5  # for requests that are under way when the server stops


class Route(NamedTuple):
    method: str
    path: str
    handler: Callable[..., Awaitable[Any]]
    caller: Literal["anyone", "downloader", "client", "operator"]
    answer: type[BaseModel] | str | None  # a type of JSON, or a media type; None for what is not in the document


STATUS: dict[type[MotetError], int] = {  # of each class and of those below it
    errors.Unauthorized: 401,
    errors.Forbidden: 403,
    errors.NotReleased: 404,
    errors.NotKnown: 404,
    errors.BudgetSpent: 409,
    errors.InvalidModel: 409,
    errors.InvalidRelease: 409,
    errors.NotAllowed: 409,
    errors.TooMany: 409,
    errors.Unusable: 409,
    errors.TooLarge: 413,
    errors.InvalidData: 422,
    errors.ServerError: 502,
    errors.Unreachable: 502,
    errors.Busy: 503,
    errors.InvalidStore: 503,
    errors.InvalidStudy: 503,
    MotetError: 503,
}
ROUTES = [  # Starlette searches in this order: the busiest route first
    Route("POST", "/v1/examples", routes.send, "client", answers.Sent),
    Route("GET", "/", routes.home, "anyone", None),
    Route("GET", "/web/{name}", routes.asset, "anyone", None),
    Route("GET", "/web/core/{name}", routes.asset, "anyone", None),
    Route("GET", "/docs", routes.docs, "anyone", None),
    Route("GET", "/openapi.json", routes.openapi, "anyone", None),
    Route("GET", "/healthz", routes.liveness, "anyone", answers.Health),
    Route("GET", "/readyz", routes.readiness, "anyone", answers.Health),
    Route("GET", "/v1/study", routes.study, "anyone", answers.StudyFacts),
    Route("GET", "/v1/disclosed", routes.disclosed, "downloader", answers.RELEASE_TYPE),
    Route("GET", "/v1/stream", routes.stream, "downloader", EventStream.media_type),
    Route("GET", "/v1/me", routes.about_me, "client", answers.AboutMe),
    Route("DELETE", "/v1/me", routes.forget_me, "client", answers.ForgottenMe),
    Route("GET", "/v1/me/examples", routes.my_examples, "client", answers.ExamplePage),
    Route("GET", "/v1/me/coefficients", routes.my_coefficients, "client", answers.OwnCoefficients),
    Route("PUT", "/v1/me/examples/{id}", routes.replace_example, "client", answers.ChangedExample),
    Route("DELETE", "/v1/me/examples/{id}", routes.remove_example, "client", answers.ChangedExample),
    Route("POST", "/v1/clients", routes.enroll, "operator", answers.NewClientList),
    Route("GET", "/v1/clients", routes.list_clients, "operator", answers.ClientPage),
    Route("GET", "/v1/clients/figures", routes.figures, "operator", answers.Figures),
    Route("DELETE", "/v1/clients/{id}", routes.remove_client, "operator", answers.RemovedClient),
    Route("POST", "/v1/clients/{id}/token", routes.rotate, "operator", answers.NewToken),
    Route("GET", "/v1/releases", routes.list_releases, "operator", answers.ReleasePage),
    Route("POST", "/v1/releases", routes.release_now, "operator", answers.ReleaseVersion),
    Route("GET", "/v1/refusals", routes.refusals, "operator", answers.RefusalPage),
    Route("GET", "/metrics", routes.metrics, "operator", "text/plain"),
]
PUBLIC = {"/", "/docs", "/openapi.json", "/v1/study"}  # read by anyone as often as they like, so one at a time
CROWDED = error_response(
    503,
    "busy",
    "your address has as many requests under way as one may have: try again in a second",
    headers={"Retry-After": "1"},
)
# A client's routes have their guard as an argument of the handler: they need to know which client calls.
GUARDS = {"downloader": require_downloader, "operator": require_operator}


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

    app = FastAPI(
        title=study.name,
        version="1",
        lifespan=lifespan,
        responses=document.REFUSALS,
        openapi_tags=[{"name": name, "description": text} for name, text in document.OPENAPI_TAGS.items()],
        generate_unique_id_function=lambda route: route.name,
        openapi_url=None,  # FastAPI would encode it for each reader
        docs_url=None,  # its own pages would fetch scripts from other sites
        redoc_url=None,
        redirect_slashes=False,  # to an address that the caller's Host has, not ours
        # A variable in the environment would make FastAPI send every path, ids included, to a collector.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    for kind in (MotetError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, _error_response)
    for method, path, handler, caller, answer in ROUTES:
        app.router.add_api_route(
            path,
            handler,
            methods=[method],
            dependencies=[Depends(GUARDS[caller])] if caller in GUARDS else [],
            tags=[document.tag(caller, path)],
            response_model=None,
            response_class=Response if isinstance(answer, str) else JSONResponse,
            responses=document.responses(answer, removes=handler in routes.REMOVALS) if answer else {},
            include_in_schema=answer is not None,
            openapi_extra={"x-caller": caller},
            route_class_override=routes.DirectRoute if handler is routes.send else APIRoute,
        )
    document.complete(app, study)
    if study.server.origins:
        origins = list(study.server.origins)
        app.add_middleware(CORSMiddleware, allow_origins=origins, allow_methods=["*"], allow_headers=["Authorization"])
    app.add_middleware(Gate)
    return app


class Gate:
    """Middleware around the whole application: refuses what is too large or too much, adds headers, and measures.

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

        address = scope["client"][0] if scope.get("client") else ""
        admitted = service.under_way.begin(address)
        try:
            refusal = _refusal(Headers(scope=scope), service.study.server.max_body) if admitted else CROWDED
            if scope["path"] in PUBLIC:
                await service.readers.passed()
            await (refusal or self._app)(scope, receive, send_and_note)
        finally:
            if admitted:
                service.under_way.end(address)
            service.metrics.count_request(scope, status, time.perf_counter() - start)


def _refusal(headers: Headers, max_bytes: int) -> JSONResponse | None:
    """The response to two tokens, or to a body that is too large, has no length, or would not be read."""
    if len(headers.getlist("authorization")) > 1:  # a proxy may have looked at another one than we would
        return error_response(400, "http_400", "expected one header Authorization, got several: send one token")
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
        return error_response(500, "http_500", "internal error; see the server log")
    status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    headers = {"Retry-After": "1"} if status == 503 else {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return error_response(status, error.code, str(error), error.where, headers)


# --- the server that runs it ---


def http_server(
    study: Study,
    store: Store,
    operator: str,
    listening: socket.socket,
    *,
    certificate: Sequence[str] = (),
    ready: Callable[[], None],
    until: Callable[[], bool] = lambda: False,
) -> Server:
    """Its ``run`` serves until a signal comes or ``until`` is true; ``operator`` is the hash of that token.

    It accepts as many connections as the study allows. With TLS, ``certificate`` are its file and that of its key.
    """
    limits, (certfile, keyfile) = study.server, certificate or (None, None)
    listener = Listener(
        listening,
        limit=max_connections(limits.max_connections),
        limit_per_address=limits.max_connections_per_address,
        proxies=limits.proxies,
        tls=certfile is not None,
    )
    server = Server(
        create_app(study, lambda: Service(study, store, operator)),
        listener,
        ready,
        until,
        proxies=limits.proxies,
        ssl_certfile=certfile,
        ssl_keyfile=keyfile,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    gc.freeze()  # modules stay: collections need not walk through them,
    gc.set_threshold(20_000)  # nor come with every request
    gc.enable()
    return server
