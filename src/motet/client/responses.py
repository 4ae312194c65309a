"""A server's response: read within bounds, and what it means.

The server may be hostile, or another one in its place. Whatever it sends, a client needs little memory, and ends: bytes
on the way and unpacked, JSON values, time and the lines of a stream have limits. Nothing here trusts the shape of a
body: whether to repeat the request, which error it is, and which fields it has. ``connection`` asks for it all.
"""

from __future__ import annotations

import json
import math
import time
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import httpx

from motet import errors
from motet.errors import Forbidden, MotetError, NotAllowed, ServerError, Unauthorized
from motet.tables.catalogue import Catalogue
from motet.tables.columns import Columns
from motet.tables.roles import TABLE, Interval, Layout

MAX_RELEASE_BYTES = 2**29  # a release with 8,000 weights
MAX_JSON_BYTES = 2**26
MAX_JSON_VALUES = 2**22  # each of them takes up to about a hundred bytes of memory
MAX_ERROR_BYTES = 2**16
MAX_LINE_BYTES = 2**13  # of a stream of events
PIECE_BYTES = 2**16  # unpacked at once
REPLY_SECONDS = 30.0  # for a reply, beside the seconds that a server may be silent
MIN_BYTES_PER_SECOND = 2**14  # of a reply that takes longer
GZIP = 16 + zlib.MAX_WBITS
TRANSIENT = (502, 503, 504)
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError, httpx.UnsupportedProtocol)
ERROR_BY_CODE = {c.code: c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, MotetError)}
ERROR_BY_STATUS: dict[int, type[MotetError]] = {401: Unauthorized, 403: Forbidden, 409: NotAllowed}

T = TypeVar("T")
Outcome = httpx.Response | httpx.TransportError


# --- reading ---


class Pace:
    """How long a reply may still take: what a server may be silent, half a minute, and what its bytes take at 16 kB a
    second. ``silence`` is None for a caller who waits for ever."""

    def __init__(self, silence: float | None) -> None:
        self.bytes = 0
        self._end = math.inf if silence is None else time.monotonic() + silence + REPLY_SECONDS

    def count(self, bytes: int) -> None:
        self.bytes += bytes

    @property
    def seconds_left(self) -> float:
        return self._end + self.bytes / MIN_BYTES_PER_SECOND - time.monotonic()


class TooSlow(httpx.TransportError):
    """A reply that took longer than its pace allows."""


def read_reply(response: httpx.Response, max_bytes: int, pace: Pace) -> httpx.Response:
    """The reply with its body, unpacked. The body of an error that is too long for one of ours is left out."""
    max_bytes = MAX_ERROR_BYTES if response.is_error else max_bytes
    packed = _bounded(_received(response, pace), max_bytes)  # what unpacks to nothing may also have no end
    try:
        body = b"".join(_bounded(_unpacked(response, packed), max_bytes))
    except ServerError:
        if not response.is_error:
            raise
        body = b""
    headers = [(name, value) for name, value in response.headers.raw if name.lower() != b"content-encoding"]
    return httpx.Response(response.status_code, headers=headers, content=body, request=response.request)


def read_json(body: bytes) -> Any:
    """What a body in JSON says; raises a ValueError if it is none, or has more values than may be held."""
    if sum(body.count(mark) for mark in (b",", b"[", b"{")) > MAX_JSON_VALUES:
        raise ValueError(f"more than {MAX_JSON_VALUES:,} values")
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("something else") from None


def stream_lines(response: httpx.Response, silence: float) -> Iterator[str]:
    """The lines of a stream, until none is complete within ``silence`` seconds."""
    line, since = b"", time.monotonic()
    for piece in _unpacked(response, _received(response, Pace(None))):
        *complete, line = (line + piece).split(b"\n")
        if len(line) > MAX_LINE_BYTES:
            raise ServerError(f"expected a stream with lines of at most {MAX_LINE_BYTES} bytes, got a longer one")
        if complete:
            since = time.monotonic()
            yield from (one.rstrip(b"\r").decode(errors="replace") for one in complete)
        elif time.monotonic() > since + silence:
            return


def _received(response: httpx.Response, pace: Pace) -> Iterator[bytes]:
    """The body as it comes."""
    if response.is_stream_consumed:  # a transport or a hook of the caller's own has read it
        yield response.content
        return
    for piece in response.iter_raw():
        pace.count(len(piece))
        if pace.seconds_left <= 0:
            raise TooSlow("too slow")
        yield piece


def _bounded(pieces: Iterator[bytes], max_bytes: int) -> Iterator[bytes]:
    total = 0
    for piece in pieces:
        total += len(piece)
        if total > max_bytes:
            raise ServerError(f"expected a reply of at most {max_bytes:,} bytes, got more; is it a Motet server?")
        yield piece


def _unpacked(response: httpx.Response, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The body in small pieces: one for each that comes, even if it is empty, and more if it unpacks to more."""
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if response.is_stream_consumed or encoding in ("", "identity"):
        return pieces
    if encoding != "gzip":
        raise ServerError(f"expected a reply as it is or in gzip, got Content-Encoding {encoding!r:.60}")
    return _gunzipped(pieces)


def _gunzipped(pieces: Iterator[bytes]) -> Iterator[bytes]:
    unpacker, is_begun = zlib.decompressobj(GZIP), False
    for packed in pieces:
        is_begun = True
        try:
            piece = unpacker.decompress(packed, PIECE_BYTES)
            yield piece
            while piece:
                piece = unpacker.decompress(unpacker.unconsumed_tail, PIECE_BYTES)
                yield piece
        except zlib.error as error:
            raise ServerError(f"expected a reply in gzip, got {error}") from None
        if unpacker.unused_data:
            raise ServerError("expected a reply in gzip, got bytes after its end")
    if is_begun and not unpacker.eof:
        raise ServerError("expected a reply in gzip, got a part of one; try again")


# --- meaning ---


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


def layout_of(study: Mapping[str, Any]) -> Layout:
    """What the columns of a study's tables are, by the server's description of it."""
    model, table = field_of(study, "model", dict), study.get("table", TABLE)
    bounds, limits, output = study.get("bounds"), study.get("limits"), study.get("output")
    spec = model.get("catalogue")
    vectors = {key: field_of(spec, key, list) for key in ("names", "vectors")} if spec is not None else None
    return Layout(
        catalogue=None if vectors is None else Catalogue.from_spec(vectors),
        columns=Columns.from_spec(field_of(model, "columns", list)) if "columns" in model else None,
        dimension=field_of(study, "dimension", int),
        bounds=tuple(map(_interval, bounds)) if isinstance(bounds, list) else (),
        limits=_interval(limits.get("y")) if isinstance(limits, dict) else None,
        client=field_of(table, "client", str),
        target=field_of(table, "target", str),
        name=field_of(table, "name", str),
        unit=str(output.get("unit") or "") if isinstance(output, dict) else "",
    )


def _interval(pair: Any) -> Interval | None:
    """Two numbers; None for anything else, as a server may have other limits."""
    right = isinstance(pair, list) and len(pair) == 2 and all(type(end) in (int, float) for end in pair)
    return (float(pair[0]), float(pair[1])) if right else None
