"""What a server's response means: whether to repeat the request, which error it is, and which fields it has.

The server may not be Motet's, or may be hostile, so nothing here trusts the shape of a response.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

import httpx

from motet import errors
from motet.errors import Forbidden, MotetError, NotAllowed, ServerError, Unauthorized

TRANSIENT = (502, 503, 504)
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError, httpx.UnsupportedProtocol)
ERROR_BY_CODE = {c.code: c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, MotetError)}
ERROR_BY_STATUS: dict[int, type[MotetError]] = {401: Unauthorized, 403: Forbidden, 409: NotAllowed}

T = TypeVar("T")
Outcome = httpx.Response | httpx.TransportError


class ErrorBody(NamedTuple):
    """The fields of ``{"error": {"code", "message", "where"}}``; without a message if the body is of another shape."""

    code: str = ""
    message: str | None = None
    where: str | None = None


class ExamplePlace(NamedTuple):
    """What an error's ``where`` points to: an example by its number in the request, and a field of it, or ""."""

    example: int
    field: str

    @classmethod
    def parse(cls, where: str | None) -> ExamplePlace | None:
        """Of "body.examples.3.x.0" or "examples.3"; None if ``where`` is not in an example."""
        head, _, rest = (where or "").removeprefix("body.").partition(".")
        number, _, field = rest.partition(".")
        return cls(int(number), field) if head == "examples" and number.isdecimal() else None

    def __str__(self) -> str:
        return f"examples.{self.example}" + (f".{self.field}" if self.field else "")


def is_transient(response: httpx.Response) -> bool:
    """The same request may succeed later; 429 with a time to wait is a limit of the rate."""
    return response.status_code in TRANSIENT or (response.status_code == 429 and "Retry-After" in response.headers)


def may_be_done(outcome: Outcome) -> bool:
    """The server may have carried the request out although no success was reported."""
    return outcome.status_code != 429 if isinstance(outcome, httpx.Response) else not isinstance(outcome, NOT_SENT)


def retry_after(outcome: Outcome) -> float:
    """Seconds that the server asks us to wait; 0 if it names none, or a date."""
    seconds = outcome.headers.get("Retry-After", "") if isinstance(outcome, httpx.Response) else ""
    return float(seconds) if seconds.isdecimal() else 0.0


def error_body(response: httpx.Response) -> ErrorBody:
    try:
        error = response.json()["error"]
        code, message, where = error["code"], error["message"], error.get("where")
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return ErrorBody()
    return ErrorBody(str(code), str(message), str(where) if where else None)


def error_class(status: int, code: str) -> type[MotetError]:
    """The class that has the code; for 401 and 403 the status decides."""
    by_status = ERROR_BY_STATUS.get(status, ServerError)
    return by_status if status in (401, 403) else ERROR_BY_CODE.get(code, by_status)


def event_names(lines: Iterator[str]) -> Iterator[str]:
    """The name of every server-sent event, when it is complete."""
    name = "message"
    for line in lines:
        if line.startswith("event:"):
            name = line.removeprefix("event:").strip()
        elif not line:
            yield name
            name = "message"


def field_of(body: Any, name: str, kind: type[T]) -> T:
    """A field of a JSON object, checked to be of that type."""
    value = body.get(name) if isinstance(body, dict) else None
    if type(value) is not kind:
        raise ServerError(f"expected {name!r} as {kind.__name__} in the server's response, got {type(value).__name__}")
    return value
