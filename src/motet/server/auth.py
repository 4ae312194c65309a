"""Who may call what: a client its own, the operator the rest. FastAPI dependencies, one for each kind of caller."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, NamedTuple

from fastapi import Depends, Header, Request
from starlette.exceptions import HTTPException

from motet.errors import Forbidden
from motet.server.service import Service

Authorization = Annotated[str | None, Header()]


class Caller(NamedTuple):
    """A client that showed its token."""

    service: Service
    id: str


def service_of(request: Request) -> Service:
    found: Service = request.app.state.service
    return found


def token_of(authorization: str | None) -> str | None:
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


async def served(request: Request) -> Service:
    return service_of(request)


async def own(request: Request, authorization: Authorization = None) -> Caller:
    service = service_of(request)
    client = await service.client(token_of(authorization))
    if (wait := service.admit(client)) is not None:
        raise HTTPException(429, "too many requests: slow down", {"Retry-After": str(int(wait) + 1)})
    return Caller(service, client)


async def operator(request: Request, authorization: Authorization = None) -> None:
    await service_of(request).check_operator(token_of(authorization))


async def may_download(request: Request, authorization: Authorization = None) -> None:
    service = service_of(request)
    if service.study.server.download == "clients":
        with suppress(Forbidden):
            await service.check_operator(token_of(authorization))


Served = Annotated[Service, Depends(served)]
Me = Annotated[Caller, Depends(own)]
OPERATOR, DOWNLOAD = [Depends(operator)], [Depends(may_download)]
