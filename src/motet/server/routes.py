"""The handlers of the HTTP routes: each checks its request, asks ``Service``, and answers.

None of them waits for linear algebra on the sums. A client sees its own data, anyone sees releases, the operator the
rest. A handler's docstring is its description on the page ``/docs``.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Annotated, Any

import msgspec
from fastapi import Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from motet.errors import Busy, NotAllowed
from motet.server import answers
from motet.server.auth import Caller, CallerDep, ServiceDep, TokenDep, client_caller
from motet.server.bodies import MAX_EXAMPLES_PER_REQUEST, MAX_ID_LENGTH, MAX_NAME_LENGTH, TEXT_PATTERN
from motet.server.metrics import CONTENT_TYPE
from motet.server.pages import PAGE_POLICY, assets
from motet.server.protection.streams import PiecewiseResponse
from motet.store import clients, releases
from motet.store import examples as stored
from motet.store.records import newest_number
from motet.store.store import Connection
from motet.study.limits import check_example, check_examples
from motet.text import utc

Id = Annotated[str, Path(min_length=1, max_length=MAX_ID_LENGTH, pattern=TEXT_PATTERN)]
CLIENTS_PER_PAGE = 1000
RELEASES_PER_PAGE = 100
PAGE_HEADERS = {"Content-Security-Policy": PAGE_POLICY}
MAX_RELEASE_SECONDS = 60.0  # that the operator waits for a release


# --- anyone ---


async def study(service: ServiceDep, model: bool = True) -> Response:
    """The study as JSON: model, input dimension, limits, policy, budget, current version, time of the next release.

    settings says where the model and the limits come from: a pilot of so many clients, or the study file. next_release
    is null after the last release that the budget allows; refused is then the reason. While a release is withdrawn,
    version is 0, and withdrawn the reason. With model=false
    the model is left out, which may be long: releases have it too.
    """
    shown = await service.shown()
    return PiecewiseResponse(shown.whole if model else shown.brief, media_type="application/json")


async def disclosed(service: ServiceDep, if_none_match: Annotated[str | None, Header()] = None) -> Response:
    """The current release, a safetensors file, with its version as ETag; 304 if the caller has that version already."""
    await service.keep_up()
    current = service.current_release()
    headers = {"ETag": f'"{current.version}"', "Cache-Control": "no-cache"}
    if if_none_match == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return PiecewiseResponse(current.data, media_type=answers.RELEASE_TYPE, headers=headers)


async def stream(service: ServiceDep, token: TokenDep) -> Response:
    """Server-sent events that do not end: one for the current release, and one for each new release. If releases are
    for clients only, they end when the token becomes invalid."""
    await service.keep_up()
    return service.streams.new(token)


async def home(service: ServiceDep) -> Response:
    """The page of the study, for a browser: the study, and one's own estimate, computed there."""
    return PiecewiseResponse((await service.shown()).page, media_type="text/html", headers=PAGE_HEADERS)


async def asset(
    request: Request,
    name: str,
    if_none_match: Annotated[str | None, Header()] = None,
    accept_encoding: Annotated[str, Header()] = "",
) -> Response:
    """A script, the style or a picture of the page, with an ETag; compressed, if the caller can read that."""
    if (file := assets().get(request.url.path)) is None:
        raise HTTPException(404, f"the page has no file {name!r:.60}")
    headers = PAGE_HEADERS | {"ETag": file.etag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if if_none_match == file.etag:
        return Response(status_code=304, headers=headers)
    if "gzip" in accept_encoding:
        return Response(file.gzipped, media_type=file.media_type, headers=headers | {"Content-Encoding": "gzip"})
    return Response(file.body, media_type=file.media_type, headers=headers)


async def docs(request: Request) -> Response:
    """This page."""
    return PiecewiseResponse(request.app.state.docs, media_type="text/html", headers=PAGE_HEADERS)


async def openapi(request: Request) -> Response:
    """The same for programs."""
    return PiecewiseResponse(request.app.state.openapi, media_type="application/json")


async def liveness() -> dict[str, str]:
    """Whether the server runs, for a supervisor; does not ask the database."""
    return {"status": "ok"}


async def readiness(service: ServiceDep) -> dict[str, str]:
    """Whether the server can answer, for a load balancer; asks the database."""
    await service.status()
    return {"status": "ok"}


# --- a client ---


async def send(me: CallerDep, request: Request) -> dict[str, Any]:
    """Store examples, all or none; they are on disk before the response. An id that was sent before changes nothing.

    Returns how many were accepted and how many were duplicates, and the client's count of examples; with ended, the
    reason, if no later release will have them.
    """
    addition = await me.service.bodies.read(request, me.id, partial(_addition, me))
    result = await me.service.write(addition)
    me.service.metrics.count_examples(result.accepted, result.duplicates)
    ended = await me.service.end_for(me.id)
    return vars(result) | ({} if ended is None else {"ended": ended})


def _addition(me: Caller, body: bytes) -> stored.Addition:
    study, bodies = me.service.study, me.service.bodies
    new = bodies.examples(body).examples
    X, y, noise = check_examples(study, bodies.inputs(new), [one.y for one in new], [one.noise for one in new])
    columns = stored.columns(study.model, [one.id for one in new], X, y, noise)
    return stored.Addition(me.id, columns, study.limits.examples_per_client, me.token, me.service.terms)


class DirectRoute(APIRoute):
    """The route of ``send``: documented as the others, but called without FastAPI's machinery, which would take longer
    than all the rest of the request."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.app = _send_directly


async def _send_directly(scope: Scope, receive: Receive, send_response: Send) -> None:
    request = Request(scope, receive)
    me = await client_caller(request, request.headers.get("authorization"))
    await JSONResponse(await send(me, request))(scope, receive, send_response)


async def about_me(me: CallerDep) -> dict[str, Any]:
    """The client's id, name and count of examples; left_out is why the current release does not have them, and ended
    why no later one will, or null. If each client has a budget of its own, in how many releases it has taken part."""
    summary = await me.read(partial(clients.summary, client=me.id))
    about = {"id": me.id, **summary, "left_out": me.service.left_out.get(me.id)}
    about["ended"] = await me.service.end_for(me.id)
    if me.service.study.release.per == "client":
        about["releases_taken_part_in"] = await me.read(partial(releases.participation, client=me.id))
    return about


async def my_examples(
    me: CallerDep,
    after: Annotated[str, Query(max_length=MAX_ID_LENGTH, pattern=TEXT_PATTERN)] = "",
    limit: Annotated[int, Query(ge=1, le=MAX_EXAMPLES_PER_REQUEST)] = 100,
) -> Response:
    """The client's examples, ordered by id, at most limit; a next that is not null is the after of the next page."""

    def page(connection: Connection) -> bytes:
        rows = stored.page(connection, me.id, after=after, limit=limit)
        inputs = stored.inputs(me.service.study.model, [row.x for row in rows])
        examples = [row._asdict() | {"x": x} for row, x in zip(rows, inputs)]
        return msgspec.json.encode({"examples": examples, "next": rows[-1].id if len(rows) == limit else None})

    return PiecewiseResponse(await me.read(page), media_type="application/json")


async def my_coefficients(me: CallerDep) -> Response:
    """The client's coefficients for the current release, for its own estimate; never from newer sums."""
    coefficients = await me.service.coefficients(me.id, me.token)
    body = await run_in_threadpool(lambda: msgspec.json.encode(coefficients.to_dict()))
    await me.read(lambda _: None)  # it may have been withdrawn while they were computed
    return PiecewiseResponse(body, media_type="application/json")


async def replace_example(me: CallerDep, id: Id, request: Request, response: Response) -> dict[str, Any]:
    """Replace one of the client's examples, and erase the old values from the database's files. Returns the id."""
    study, bodies = me.service.study, me.service.bodies
    body = await bodies.read(request, me.id, bodies.example)
    (x,) = bodies.inputs([body])
    row, y, noise = check_example(study, x, body.y, body.noise, where="body")
    example = stored.Example.of(study.model, id, row, y, noise)
    replacement = partial(stored.replace, client=me.id, example=example, terms=me.service.terms)
    _, rest = await me.service.remove(me.checked(replacement))
    return {"id": id} | erasure(rest, response)


async def remove_example(me: CallerDep, id: Id, response: Response) -> dict[str, Any]:
    """Delete one of the client's examples, and erase it from the database's files. Returns the id."""
    _, rest = await me.service.remove(me.checked(partial(stored.remove, client=me.id, id=id)))
    return {"id": id} | erasure(rest, response)


async def forget_me(me: CallerDep, response: Response) -> dict[str, Any]:
    """Delete the client with all its examples, and erase them from the database's files; its token is no longer valid.
    Returns how many examples were deleted."""
    removed, rest = await me.service.remove(me.checked(partial(clients.forget, client=me.id)), access=True)
    return {"removed": removed} | erasure(rest, response)


def erasure(rest: str, response: Response) -> dict[str, Any]:
    """Fields of the response to a removal: 200 if no file and no release that is served has it, else 202 and where the
    ``rest`` is."""
    if not rest:
        return {"erased": True}
    response.status_code = 202
    return {"erased": False, "note": f"deleted, and in no release computed later; {rest}"}


# --- the operator ---


async def enroll(service: ServiceDep, request: Request) -> dict[str, Any]:
    """Enroll clients by name, all or none. Returns their ids and tokens; a token is shown only here."""
    body = await service.bodies.read(request, "the operator", service.bodies.clients)
    new = await service.write(partial(clients.enroll, names=body.names))
    return {"clients": [vars(client) for client in new]}


async def list_clients(
    service: ServiceDep, after: Annotated[str, Query(max_length=MAX_NAME_LENGTH, pattern=TEXT_PATTERN)] = ""
) -> dict[str, Any]:
    """Clients by name, with their ids, their counts of examples, and whether they are revoked; 1000 to a page.

    A left_out that is not null is the reason why the current release does not have the client.
    """
    rows = await service.read(partial(clients.list_clients, after=after, limit=CLIENTS_PER_PAGE))
    page = [{**row, "left_out": service.left_out.get(row["id"])} for row in rows]
    return {"clients": page, "next": rows[-1]["name"] if len(rows) == CLIENTS_PER_PAGE else None}


async def figures(service: ServiceDep) -> dict[str, Any]:
    """How many clients have how many examples, what the bounds of a private study expect of them, and the share of them
    that it shortens, measured on 200 at random."""
    counted = await service.read(clients.clients_by_examples)
    return {
        "clients": [{"examples": examples, "clients": number} for examples, number in counted.items()],
        "expected_examples": service.study.release.examples,
        "center": service.study.release.center,
        "shortened": await run_in_threadpool(service.shortened),
    }


async def remove_client(service: ServiceDep, id: Id, response: Response, examples: bool = False) -> dict[str, Any]:
    """Make a client's token invalid; its examples stay. With examples=true, delete the client with all its examples,
    and erase them from the database's files.

    Returns the id, and how many examples were removed.
    """
    if examples:
        removed, rest = await service.remove(partial(clients.forget, client=id), access=True)
        return {"id": id, "removed": removed} | erasure(rest, response)
    await service.write(partial(clients.revoke, client=id), access=True)
    return {"id": id, "removed": 0}


async def rotate(service: ServiceDep, id: Id) -> dict[str, str]:
    """Give a client a new token; the old one is no longer valid, and a client that was revoked is let in again.

    Returns the id and the token, shown only here.
    """
    return {"id": id, "token": await service.write(partial(clients.rotate, client=id), access=True)}


REMOVALS = (replace_example, remove_example, forget_me, remove_client)


async def metrics(service: ServiceDep) -> Response:
    """Counters and histograms in Prometheus' text format."""
    return Response(service.metrics.text(), media_type=CONTENT_TYPE)


async def refusals(service: ServiceDep) -> dict[str, Any]:
    """The last 100 requests that this server refused, newest first: time, method, route and status, nothing else."""
    return {"refusals": list(reversed(service.metrics.refusals))}


async def list_releases(service: ServiceDep) -> dict[str, Any]:
    """The newest 100 releases, newest first: time and, of private ones, the scale of the noise and ε spent by then.

    next is what the next one would have: how many clients and examples, and how many changes since the last release.
    """

    def listing(connection: Connection) -> dict[str, Any]:
        senders, examples = clients.totals(connection)
        changes = newest_number(connection) - (service.current.sequence if service.current else 0)
        rows = releases.history(connection, service.study.ledger(), RELEASES_PER_PAGE)
        return {"releases": rows, "next": {"clients": senders, "examples": examples, "changes": changes}}

    return await service.read(listing)


async def release_now(service: ServiceDep) -> dict[str, int]:
    """Make a release now and return its version; refused in a private study, which releases by the clock alone."""
    if service.study.private:
        status = await service.status()
        if (due := status["next_release"]) is None:
            raise NotAllowed(status["refused"])
        raise NotAllowed(f"private releases come by the clock alone: wait for the next one, due at {utc(due)}")
    sequence, before = await service.write(releases.request_release)
    deadline = time.monotonic() + MAX_RELEASE_SECONDS
    while time.monotonic() < deadline:
        await service.refresh()
        if service.current and service.current.version > before and service.current.sequence >= sequence:
            return {"version": service.current.version}
        if reason := await service.read(releases.refusal):
            raise NotAllowed(f"no release: {reason}")
        await asyncio.sleep(0.1)
    raise Busy(f"no release within {MAX_RELEASE_SECONDS:g} s: look at the publisher's log, and try again")
