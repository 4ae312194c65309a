"""Responses that take long to be read: the stream of releases, and a release itself.

However many read them, and however slowly, they take a bounded part of the server's memory and time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection

from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from motet.errors import Busy, Unauthorized
from motet.server.protection.rates import UnderWay
from motet.store.clients import INVALID_TOKEN

KEEP_ALIVE_SECONDS = 15.0  # between comments on a silent stream
STREAMS_AT_ONCE = 20  # that hear of a release before other work goes on,
WAKING_SECONDS = 0.03  # which has as long
INSTEAD = "ask for GET /v1/study now and then instead"
SENT_PIECE_BYTES = 16_384  # of a release; the next is sent when the reader has taken most of it


class Streams:
    """The open streams of one server, at most ``limit``, and so many of one address as ``by_address`` takes."""

    def __init__(
        self, limit: int, version: Callable[[], int], is_valid: Callable[[str], Awaitable[bool]], by_address: UnderWay
    ) -> None:
        self._limit, self.version, self.is_valid, self.by_address = limit, version, is_valid, by_address
        self.open: dict[EventStream, None] = {}

    def new(self, token: str | None = None) -> EventStream:
        """For anyone, or for as long as a token, hashed, is valid."""
        if len(self.open) >= self._limit:
            raise Busy(f"the server has as many streams as it can take now: {INSTEAD}")
        return EventStream(self, token)

    @property
    def tokens(self) -> set[str]:
        """Of the open streams that have one."""
        return {stream.token for stream in self.open if stream.token is not None}

    def end(self, tokens: Collection[str]) -> None:
        """End the streams that were opened with these."""
        for stream in self.open:
            if stream.token in tokens:
                stream.ended = True
                stream.look.set()

    async def wake(self) -> None:
        """Let every stream look for a new release, a few at a time."""
        for number, stream in enumerate(list(self.open)):
            if number % STREAMS_AT_ONCE == STREAMS_AT_ONCE - 1:
                await asyncio.sleep(WAKING_SECONDS)
            stream.look.set()


class EventStream(Response):
    """Server-sent events, one for the current release and one for each new one, until the client leaves or its token is
    withdrawn."""

    media_type = "text/event-stream"

    def __init__(self, streams: Streams, token: str | None) -> None:
        super().__init__(headers={"Cache-Control": "no-cache"})
        del self.headers["content-length"]
        self._streams, self.token = streams, token
        self.look, self.ended = asyncio.Event(), False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        address = scope["client"][0] if scope.get("client") else ""
        if not self._streams.by_address.begin(address):
            raise Busy(f"your address has as many streams as one may have: {INSTEAD}")
        leaving = asyncio.ensure_future(_until_disconnected(receive))
        leaving.add_done_callback(lambda _: self.look.set())
        self._streams.open[self] = None
        try:
            if self.token is not None and not await self._streams.is_valid(self.token):  # withdrawn before we listed it
                raise Unauthorized(INVALID_TOKEN)
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._send_events(send, leaving)
            await send({"type": "http.response.body", "body": b""})
        finally:
            del self._streams.open[self]
            self._streams.by_address.end(address)
            leaving.cancel()

    async def _send_events(self, send: Send, leaving: asyncio.Future[None]) -> None:
        last = 0
        while not (leaving.done() or self.ended):
            self.look.clear()
            if (version := self._streams.version()) not in (0, last):
                last = version
                event = f"event: release\ndata: {json.dumps({'version': version})}\n\n"
                await send({"type": "http.response.body", "body": event.encode(), "more_body": True})
            try:
                async with asyncio.timeout(KEEP_ALIVE_SECONDS):
                    await self.look.wait()
            except TimeoutError:
                await send({"type": "http.response.body", "body": b": still here\n\n", "more_body": True})


async def _until_disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class PiecewiseResponse(Response):
    """A large body, of which a slow reader has only a piece in the buffers."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        body = memoryview(self.body)  # its pieces are no copies: readers of one body share it
        for begin in range(0, len(body), SENT_PIECE_BYTES):
            await send(
                {"type": "http.response.body", "body": body[begin : begin + SENT_PIECE_BYTES], "more_body": True}
            )
        await send({"type": "http.response.body", "body": b""})
