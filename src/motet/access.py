"""Who may call what: a client its own, the operator the rest. FastAPI dependencies."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

from fastapi import Depends, Header, Request
from starlette.exceptions import HTTPException

from motet.errors import Forbidden
from motet.service import Service


async def token_of(authorization: Annotated[str | None, Header()] = None) -> str | None:
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


async def service_of(request: Request) -> Service:
    found: Service = request.app.state.service
    return found


Served = Annotated[Service, Depends(service_of)]
Token = Annotated[str | None, Depends(token_of)]


async def own_id(service: Served, token: Token) -> str:
    client = await service.client(token)
    if (wait := service.admit(client)) is not None:
        raise HTTPException(429, "too many requests: slow down", {"Retry-After": str(int(wait) + 1)})
    return client


async def operator(service: Served, token: Token) -> None:
    await service.check_operator(token)


async def may_download(service: Served, token: Token) -> None:
    if service.study.server.download == "clients":
        with suppress(Forbidden):
            await service.check_operator(token)


Me = Annotated[str, Depends(own_id)]
OPERATOR, DOWNLOAD = [Depends(operator)], [Depends(may_download)]
