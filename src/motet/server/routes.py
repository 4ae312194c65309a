"""What each call of the HTTP interface does: checks, asks ``Service``, answers.

None of them waits for linear algebra on the sums. A client is shown its own, anyone releases, the operator the rest.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

from fastapi import Header, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from motet.errors import Busy, NotAllowed
from motet.release.coefficients import coefficients_to_dict
from motet.server import auth as access
from motet.server.auth import Caller, Me, Served
from motet.server.bodies import LONGEST, LONGEST_NAME, MOST, TEXT, NewClients, NewExample, NewExamples, read_examples
from motet.server.metrics import TYPE
from motet.server.pages import interface_page
from motet.server.pages import page as summary_page
from motet.store import records
from motet.store import releases as publications
from motet.store.store import setting
from motet.study.study import Study

ID = Annotated[str, Path(min_length=1, max_length=LONGEST, pattern=TEXT)]
RELEASE_WITHIN = 60.0  # seconds that the operator waits
KEEP_ALIVE = 15.0  # seconds between comments on a silent stream


# --- anyone ---


async def study(service: Served) -> dict[str, Any]:
    """The study: its model, policy and budget, the current version, and when the next release is due."""
    return await service.status()


async def disclosed(service: Served, if_none_match: Annotated[str | None, Header()] = None) -> Response:
    """The current release, a safetensors file."""
    current = service.released()
    headers = {"ETag": f'"{current.version}"', "Cache-Control": "no-cache"}
    if if_none_match == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(current.data, media_type="application/octet-stream", headers=headers)


async def stream(service: Served) -> StreamingResponse:
    """Server-sent events: one for the current release and one for each that follows."""

    async def events() -> AsyncIterator[str]:
        sent = 0
        while True:
            if service.current is not None and service.current.version != sent:
                sent = service.current.version
                yield f"event: release\ndata: {json.dumps({'version': sent})}\n\n"
            with suppress(TimeoutError):
                async with asyncio.timeout(KEEP_ALIVE), service.changed:
                    await service.changed.wait()
                    continue
            yield ": still here\n\n"

    return StreamingResponse(events(), media_type="text/event-stream", headers={"Cache-Control": "no-cache"})


async def summary(service: Served) -> HTMLResponse:
    return HTMLResponse(summary_page(await service.status()))


async def interface(request: Request) -> HTMLResponse:
    """This interface, with a command to try for each call."""
    return HTMLResponse(interface_page(request.app.openapi(), str(request.base_url).rstrip("/")))


async def alive() -> dict[str, str]:
    return {"status": "ok"}


async def ready(service: Served) -> dict[str, str]:
    await service.status()
    return {"status": "ok"}


# --- a client ---


async def send(me: Me, body: NewExamples) -> dict[str, int]:
    """Take examples, all or none; durable when answered; an id that was taken before changes nothing."""
    addition = _addition(me, body)
    del body  # what was read is larger than what is kept, and waiting takes a while
    done = await me.service.write(addition)
    me.service.metrics.took(done.accepted, done.duplicates)
    return vars(done)


def _addition(me: Caller, body: NewExamples) -> records.Addition:
    study, new = me.service.study, body.examples
    X, y, noise = study.check_examples([one.x for one in new], [one.y for one in new], [one.noise for one in new])
    columns = [one.id for one in new], records.to_bytes(study.model, X), y, noise
    return records.Addition(me.id, columns, study.limits.examples_per_client)


class Direct(APIRoute):
    """The route of ``send``, documented as the others but called without FastAPI's machinery: that alone would cost
    more than all the rest of a request."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.app = _sent


async def _sent(scope: Scope, receive: Receive, answer: Send) -> None:
    request = Request(scope, receive)
    me = await access.own(request, request.headers.get("authorization"))
    try:
        body = await request.body()
    except ClientDisconnect:
        raise HTTPException(400, "the body ended early") from None
    await JSONResponse(await send(me, _parsed(body)))(scope, receive, answer)


def _parsed(body: bytes) -> NewExamples:
    try:
        return read_examples(body)
    except ValidationError as error:
        raise RequestValidationError(
            [{**one, "loc": ("body", *one["loc"])} for one in error.errors(include_url=False)]
        ) from None


async def own(me: Me) -> dict[str, Any]:
    found = await me.service.read(partial(records.about, client=me.id))
    return {"id": me.id, **found}


async def own_examples(
    me: Me,
    after: Annotated[str, Query(max_length=LONGEST, pattern=TEXT)] = "",
    limit: Annotated[int, Query(ge=1, le=MOST)] = 100,
) -> dict[str, Any]:
    held = await me.service.read(partial(records.page, client=me.id, after=after, limit=limit))
    following = held[-1].id if len(held) == limit else None
    inputs = records.inputs(me.service.study.model, [example.x for example in held])
    return {"examples": [example._asdict() | {"x": x} for example, x in zip(held, inputs)], "next": following}


async def own_coefficients(me: Me) -> dict[str, Any]:
    """Of the current release, never of fresher sums."""
    return coefficients_to_dict(await me.service.coefficients(me.id))


async def replace_example(me: Me, id: ID, body: NewExample) -> dict[str, str]:
    study = me.service.study
    row, y, noise = study.check_example(body.x, body.y, body.noise, where="body")
    example = records.Example(id, records.to_bytes(study.model, row[None])[0], y, noise)
    await me.service.write(partial(records.replace, client=me.id, example=example), scrub=True)
    return {"id": id}


async def remove_example(me: Me, id: ID) -> dict[str, str]:
    await me.service.write(partial(records.remove, client=me.id, id=id), scrub=True)
    return {"id": id}


async def forget_me(me: Me) -> dict[str, int]:
    """Everything of the client; its token opens nothing any more."""
    return {"removed": await me.service.write(partial(records.forget, client=me.id), scrub=True, access=True)}


# --- the operator ---


async def enrol(service: Served, body: NewClients) -> dict[str, Any]:
    new = await service.write(partial(records.enrol, names=body.names))
    return {"clients": [vars(client) for client in new]}


async def list_clients(
    service: Served, after: Annotated[str, Query(max_length=LONGEST_NAME, pattern=TEXT)] = ""
) -> dict[str, Any]:
    found = [dict(row) for row in await service.read(partial(records.listed, after=after, limit=1000))]
    return {"clients": found, "next": found[-1]["name"] if len(found) == 1000 else None}


async def revoke(service: Served, id: ID) -> dict[str, str]:
    await service.write(partial(records.revoke, client=id), access=True)
    return {"id": id}


async def rotate(service: Served, id: ID) -> dict[str, str]:
    return {"id": id, "token": await service.write(partial(records.rotate, client=id), access=True)}


async def metrics(service: Served) -> Response:
    return Response(service.metrics.text(), media_type=TYPE)


async def release_now(service: Served) -> dict[str, int]:
    """Ask the publisher for a release, and wait for it; where releases come by the clock alone it is refused."""
    if service.study.private:
        raise NotAllowed(f"private releases come by the clock alone: wait for the next one, due at {service.due}")
    sequence, before = await service.write(publications.want)
    deadline = time.monotonic() + RELEASE_WITHIN
    while time.monotonic() < deadline:
        await service.look()
        if service.current and service.current.version > before and service.current.sequence >= sequence:
            return {"version": service.current.version}
        if reason := await service.read(partial(setting, key="refused")):
            raise NotAllowed(f"no release: {reason}")
        await asyncio.sleep(0.1)
    raise Busy("the publisher has not answered: look at its log, and try again")


def examples(study: Study) -> list[tuple[str, str, Any]]:
    """Bodies that a study takes: path, method and body."""
    low, high = study.limits.y or (-1.0, 1.0)
    catalogue, points = study.model.catalogue, study.points
    x = catalogue.names[0] if catalogue else [0.0] * study.dimension if points is None else points[0].tolist()
    example = {"x": x, "y": (low + high) / 2, "noise": min(max(1.0, study.limits.noise[0]), study.limits.noise[1])}
    return [
        ("/v1/examples", "post", {"examples": [{"id": "1", **example}]}),
        ("/v1/me/examples/{id}", "put", example),
        ("/v1/clients", "post", {"names": ["somebody"]}),
    ]
