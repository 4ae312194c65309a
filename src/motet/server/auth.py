"""Who may call a route: FastAPI dependencies, one for each kind of caller (client, operator, downloader)."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any, NamedTuple

from fastapi import Depends, Header, Request
from starlette.exceptions import HTTPException

from motet.errors import Forbidden
from motet.server.service import Service
from motet.store.clients import hash_token, require_token
from motet.store.store import Connection
from motet.store.writer import Command

Authorization = Annotated[str | None, Header()]


class Caller(NamedTuple):
    """A client whose token was valid when its request began, and the service that it calls."""

    service: Service
    id: str
    token: str  # hashed

    def checked(self, command: Command) -> Command:
        """A command that is refused if the token is not valid any more when it is carried out."""

        def run(connection: Connection) -> Any:
            require_token(connection, self.id, self.token)
            return command(connection)

        return run


async def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def client_caller(request: Request, authorization: Authorization = None) -> Caller:
    service = await service_of(request)
    token = _token(authorization)
    client = await service.client(token)
    if (seconds := service.seconds_to_wait(client)) is not None:
        raise HTTPException(429, "too many requests: slow down", {"Retry-After": str(int(seconds) + 1)})
    return Caller(service, client, hash_token(token or ""))


async def require_operator(request: Request, authorization: Authorization = None) -> None:
    await (await service_of(request)).check_operator(_token(authorization))


async def require_downloader(request: Request, authorization: Authorization = None) -> None:
    """Anyone, or any holder of a token if the study gives its releases to clients only."""
    service = await service_of(request)
    if service.study.server.download == "clients":
        with suppress(Forbidden):
            await service.check_operator(_token(authorization))


def _token(authorization: str | None) -> str | None:
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


ServiceDep = Annotated[Service, Depends(service_of)]
CallerDep = Annotated[Caller, Depends(client_caller)]
OPERATOR, DOWNLOADER = [Depends(require_operator)], [Depends(require_downloader)]
