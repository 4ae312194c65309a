"""Who may call a route: FastAPI dependencies, one for each kind of caller (client, operator, downloader)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any, NamedTuple, TypeVar

from fastapi import Depends, Header, Request
from starlette.exceptions import HTTPException

from motet.errors import Forbidden, Unauthorized
from motet.server.service import Service
from motet.store.clients import hash_token, require_token
from motet.store.store import Connection
from motet.store.writer import Command

T = TypeVar("T")
Authorization = Annotated[str | None, Header(include_in_schema=False)]  # the document has it as a scheme


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

    async def read(self, command: Callable[[Connection], T]) -> T:
        """What a client reads of itself, at a moment at which its token is valid."""
        return await self.service.read_for(self.token, command)


async def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def client_caller(request: Request, authorization: Authorization = None) -> Caller:
    service = await service_of(request)
    with _braked(request, service, token := _token(authorization)):
        client = await service.client(token)
    _slow_down(service.seconds_to_wait(client), "too many requests: slow down")
    return Caller(service, client, hash_token(token or ""))


async def require_operator(request: Request, authorization: Authorization = None) -> None:
    service = await service_of(request)
    with _braked(request, service, token := _token(authorization)):
        await service.check_operator(token)


async def require_downloader(request: Request, authorization: Authorization = None) -> str | None:
    """Anyone; or any holder of a token if the study gives its releases to clients only: then the token's hash."""
    service = await service_of(request)
    if service.study.server.download != "clients":
        return None
    await service.keep_up()  # another server may have withdrawn the token
    with suppress(Forbidden), _braked(request, service, token := _token(authorization)):
        await service.check_operator(token)
    return hash_token(token or "")


@contextmanager
def _braked(request: Request, service: Service, token: str | None) -> Iterator[None]:
    """Answer whoever tries many tokens that are not valid with less patience; a valid one never has to wait."""
    try:
        yield
    except Unauthorized:
        if token and request.client:
            _slow_down(service.seconds_to_guess(request.client.host), "too many tokens that are not valid: slow down")
        raise


def _slow_down(seconds: float | None, message: str) -> None:
    if seconds is not None:
        raise HTTPException(429, message, {"Retry-After": str(int(seconds) + 1)})


def _token(authorization: str | None) -> str | None:
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


ServiceDep = Annotated[Service, Depends(service_of)]
CallerDep = Annotated[Caller, Depends(client_caller)]
TokenDep = Annotated[str | None, Depends(require_downloader)]
