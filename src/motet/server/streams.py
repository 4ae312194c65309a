"""Responses that take long to be read: the stream of releases, and a release itself.

However many read them, and however slowly, they take a bounded part of the server's memory and time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from motet.errors import Busy

KEEP_ALIVE_SECONDS = 15.0  # between comments on a silent stream
STREAMS_AT_ONCE = 20  # that hear of a release before other work goes on,
PAUSE_SECONDS = 0.03  # which has as long
PIECE_BYTES = 16_384  # of a release; the next is sent when the reader has taken most of it


class Streams:
    """The open streams of one server, at most ``limit``."""

    def __init__(self, limit: int, version: Callable[[], int]) -> None:
        self._limit, self._version = limit, version
        self._open: dict[EventStream, None] = {}

    def new(self) -> EventStream:
        if len(self._open) >= self._limit:
            raise Busy("the server has as many streams as it can take now: ask for GET /v1/study now and then instead")
        return EventStream(self._open, self._version)

    async def wake(self) -> None:
        """Let every stream look for a new release, a few at a time."""
        for number, stream in enumerate(list(self._open)):
            if number % STREAMS_AT_ONCE == STREAMS_AT_ONCE - 1:
                await asyncio.sleep(PAUSE_SECONDS)
            stream.look.set()


class EventStream(Response):
    """Server-sent events, one for the current release and one for each new one, until the client leaves."""

    media_type = "text/event-stream"

    def __init__(self, streams: dict[EventStream, None], version: Callable[[], int]) -> None:
        super().__init__(headers={"Cache-Control": "no-cache"})
        del self.headers["content-length"]
        self.look = asyncio.Event()
        self._streams, self._version = streams, version

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        leaving = asyncio.ensure_future(_until_disconnected(receive))
        leaving.add_done_callback(lambda _: self.look.set())
        self._streams[self] = None
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._send_events(send, leaving)
            await send({"type": "http.response.body", "body": b""})
        finally:
            del self._streams[self]
            leaving.cancel()

    async def _send_events(self, send: Send, leaving: asyncio.Future[None]) -> None:
        last = 0
        while not leaving.done():
            self.look.clear()
            if (version := self._version()) not in (0, last):
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
        for begin in range(0, len(self.body), PIECE_BYTES):
            piece = self.body[begin : begin + PIECE_BYTES]
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
