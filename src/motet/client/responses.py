"""What a server's answer means: whether to ask again, which of our errors it is, what is in it.

A server may be none of ours, or hostile, so nothing here trusts an answer's shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import httpx

from motet import errors
from motet.errors import Forbidden, MotetError, NotAllowed, ServerError, Unauthorized

PASSING = (502, 503, 504)
UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError, httpx.UnsupportedProtocol)
BY_CODE = {c.code: c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, MotetError)}
BY_STATUS: dict[int, type[MotetError]] = {401: Unauthorized, 403: Forbidden, 409: NotAllowed}

T = TypeVar("T")
Outcome = httpx.Response | httpx.TransportError


def is_passing(response: httpx.Response) -> bool:
    """The same request may be answered later; 429 with a time to wait is a limit of the rate."""
    return response.status_code in PASSING or (response.status_code == 429 and "Retry-After" in response.headers)


def may_be_done(outcome: Outcome) -> bool:
    return outcome.status_code != 429 if isinstance(outcome, httpx.Response) else not isinstance(outcome, UNSENT)


def asked_to_wait(outcome: Outcome) -> float:
    """Seconds that the server wants to be left alone; it may also name a date, which is left to our own pauses."""
    after = outcome.headers.get("Retry-After", "") if isinstance(outcome, httpx.Response) else ""
    return float(after) if after.isdecimal() else 0.0


def said(response: httpx.Response) -> tuple[str, str | None]:
    """Code and message of an error in the one shape, with where it is."""
    try:
        error = response.json()["error"]
        code, message, where = error["code"], error["message"], error.get("where")
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return "", None
    return str(code), f"{where}: {message}" if where else str(message)


def error_class(status: int, code: str) -> type[MotetError]:
    """The class that has the code; whether a token opens something is for the status to say."""
    by_status = BY_STATUS.get(status, ServerError)
    return by_status if status in (401, 403) else BY_CODE.get(code, by_status)


def event_names(lines: Iterator[str]) -> Iterator[str]:
    """The name of every server-sent event, when it is complete."""
    name = "message"
    for line in lines:
        if line.startswith("event:"):
            name = line.removeprefix("event:").strip()
        elif not line:
            yield name
            name = "message"


def field_of(data: Any, name: str, kind: type[T]) -> T:
    """A field of an answer, where it is of that kind."""
    found = data.get(name) if isinstance(data, dict) else None
    if type(found) is not kind:
        raise ServerError(f"expected {name!r} as {kind.__name__} in the server's answer, got {type(found).__name__}")
    return found
