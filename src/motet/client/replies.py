"""A server's reply, read within bounds: its bytes on the way and unpacked, its values, its time, a stream's lines.

The server may be hostile, or another one in its place: whatever it sends, a client needs little memory, and ends. What
a reply means is the subject of ``motet.client.responses``.
"""

from __future__ import annotations

import json
import math
import time
import zlib
from collections.abc import Iterator
from typing import Any

import httpx

from motet.errors import ServerError

MAX_RELEASE_BYTES = 2**29  # a release with 8,000 weights
MAX_JSON_BYTES = 2**26
MAX_JSON_VALUES = 2**22  # each of them takes up to about a hundred bytes of memory
MAX_ERROR_BYTES = 2**16
MAX_LINE_BYTES = 2**13  # of a stream of events
PIECE_BYTES = 2**16  # unpacked at once
REPLY_SECONDS = 30.0  # for a reply, beside the seconds that a server may be silent
MIN_BYTES_PER_SECOND = 2**14  # of a reply that takes longer
GZIP = 16 + zlib.MAX_WBITS


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
