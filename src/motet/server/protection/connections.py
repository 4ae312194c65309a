"""Connections between the sockets and the application: how many there are, and how long each may keep us waiting.

Whoever sends half a request, reads nothing of its response, or opens thousands of connections, takes a bounded part of
the server for a bounded time. Nothing here knows of studies.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import os
import socket
import struct
import sys
import time
from asyncio import constants, sslproto
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from motet.server.protection.rates import Proxies, UnderWay
from motet.server.protection.refusals import raw_error

LOG = logging.getLogger("motet.connections")
MAX_HEAD_BYTES = 16_384  # of a request without its body
MAX_HEADERS = 100
MAX_PIPELINED = 20  # requests that a client sends before it has the first response
READ_BYTES = 16_384  # received at once, so that nobody's bytes take long
SEND_BUFFER_BYTES = 262_144  # of the system for each connection,
WRITE_BUFFER_BYTES = 16_384  # and of this process: a response that is larger waits for its reader
HEAD_SECONDS = 10.0  # for a whole head, and for silence between requests
BODY_SECONDS = 10.0  # for a whole body,
BODY_BYTES_PER_SECOND = 8192  # and for each of its bytes: a slower sender is cut off
WRITE_SECONDS = 60.0  # for a part of a response, about 100 kB, to be read
EVICTION_SECONDS = 1.0  # after which a connection without a head may have to make room
ACCEPTS_AT_ONCE, ENDS_AT_ONCE = 8, 25  # before other work goes on
GRACE_SHARE = 0.8  # of the time that a stop gives to requests; what is left is for their handlers to end
RESERVED_DESCRIPTORS = 256  # for database files, logs and processes
LOG_SECONDS = 10.0  # between two lines of one kind
OVERLOAD = raw_error(
    503, "busy", "the server has as many connections as it can take now: try again in a second", (b"retry-after", b"1")
)
LONG_HEAD = f"expected a head of at most {MAX_HEAD_BYTES} bytes"
NO_LINGER = struct.pack("ii", 1, 0)
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def raise_descriptor_limit() -> int:
    """Let this process open as many files as the system allows, and return how many those are."""
    try:
        import resource
    except ImportError:  # not on Windows, which has no such limit
        return sys.maxsize
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def max_connections(wanted: int) -> int:
    """As many as wanted, if this process may open so many files."""
    descriptors = raise_descriptor_limit()
    return max(1, min(wanted, max(descriptors - RESERVED_DESCRIPTORS, descriptors // 2)))


# --- the listening socket ---


class Accepted(socket.socket):
    """A connection's socket, which reports its end."""

    ended: Callable[[], None] | None = None

    def close(self) -> None:
        super().close()
        if self.ended is not None:
            ended, self.ended = self.ended, None
            ended()


class Listener(socket.socket):
    """A listening socket that accepts so many connections, in all and from each address but those of ``proxies``.

    It refuses others itself, at the cost of a few system calls, also before TLS has begun.
    """

    def __init__(
        self, listening: socket.socket, *, limit: int, limit_per_address: int, proxies: Sequence[str], tls: bool
    ) -> None:
        super().__init__(listening.family, listening.type, listening.proto, fileno=listening.detach())
        # asyncio does not set this on a socket that it did not make; without it responses wait for a delayed ACK
        self.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        self._limit, self._tls = limit, tls
        self._by_address = UnderWay(limit_per_address, Proxies(proxies))
        self.handshakes: dict[int, tuple[float, Accepted]] = {}  # of TLS, by descriptor, the oldest first
        self._count = self._accepts = 0
        self._spare = os.open(os.devnull, os.O_RDONLY)  # given up for a moment if there are no other descriptors
        self._logged = -math.inf
        self.evict: Callable[[], bool] = lambda: False  # closes a connection that has nothing under way

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection that is admitted; after some, whoever waits for the event loop comes first."""
        while self._accepts < ACCEPTS_AT_ONCE:
            self._accepts += 1
            try:
                connection, address = super().accept()
            except BlockingIOError:
                self._accepts = 0
                raise
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS:
                    raise
                self._shed(error)
                continue
            if self._admits(address[0]):
                return self._admitted(connection, address[0]), address
            self._refuse(connection)
        self._accepts = 0
        raise BlockingIOError

    def close(self) -> None:
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1
        super().close()

    def _admits(self, address: str) -> bool:
        if not self._by_address.begin(address):
            return False
        if self._count < self._limit or self._end_handshake() or self.evict():
            return True
        self._by_address.end(address)
        return False

    def _end_handshake(self) -> bool:
        """Make room for another connection: the oldest handshake ends, unless it began just now."""
        descriptor, (began, accepted) = next(iter(self.handshakes.items()), (-1, (math.inf, None)))
        if accepted is None or time.monotonic() < began + EVICTION_SECONDS:
            return False
        del self.handshakes[descriptor]
        with suppress(OSError):
            accepted.shutdown(socket.SHUT_RDWR)  # the event loop then closes it
        return True

    def _admitted(self, connection: socket.socket, address: str) -> Accepted:
        accepted = Accepted(connection.family, connection.type, connection.proto, fileno=connection.detach())
        self._count += 1
        descriptor = accepted.fileno()
        accepted.ended = lambda: self._ended(address, descriptor)
        if self._tls:
            self.handshakes[descriptor] = time.monotonic(), accepted
        return accepted

    def _ended(self, address: str, descriptor: int) -> None:
        self.handshakes.pop(descriptor, None)
        self._count -= 1
        self._by_address.end(address)

    def _refuse(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            if not self._tls:
                connection.setblocking(False)
                connection.send(OVERLOAD)
                connection.shutdown(socket.SHUT_WR)
                connection.recv(READ_BYTES)  # bytes that nobody read would take the response back
        self._log("refusing connections: %d are open", self._count)

    def _shed(self, error: OSError) -> None:
        """Without a descriptor a connection can only be closed, and would wait for ever otherwise."""
        self._log("refusing connections: %s", error.strerror)
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1  # another thread may take it, and closing it again would be closing that thread's file
        with suppress(OSError):
            super().accept()[0].close()
        with suppress(OSError):
            self._spare = os.open(os.devnull, os.O_RDONLY)

    def _log(self, message: str, value: object) -> None:
        if time.monotonic() - self._logged > LOG_SECONDS:
            self._logged = time.monotonic()
            LOG.warning(message, value)


# --- one connection ---


class State(ServerState):
    """uvicorn's, the listener's handshakes, and the connections that wait for a head, the longest wait first."""

    def __init__(self, handshakes: dict[int, tuple[float, Accepted]]) -> None:
        super().__init__()
        self.handshakes = handshakes
        self.waiting: dict[BoundedConnection, None] = {}


class BoundedConnection(HttpToolsProtocol):
    """uvicorn's connection, with an end to every wait: for a head, a body, the next request, and a reader."""

    server_state: State

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._head_bytes = 0  # received of a head that may not have ended
        self._field_bytes = 0  # of this request's head, as far as it is parsed
        self._part: Literal["head", "body"] | None = None  # of a request that is being received
        self._read_deadline = self._write_deadline = math.inf

    # --- what uvicorn and the parser call ---

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.server_state.handshakes.pop(transport.get_extra_info("socket").fileno(), None)
        transport.max_size = READ_BYTES  # type: ignore[attr-defined]
        transport.set_write_buffer_limits(WRITE_BUFFER_BYTES)
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self.server_state.waiting.pop(self, None)
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """At a stop of the server: a response without a length would not end by itself."""
        super().shutdown()
        if self._is_busy and self.cycle.chunked_encoding:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(431, LONG_HEAD)
        elif self._part == "body" and not self.cycle.response_complete:
            self.flow.pause_reading()  # until the application wants the body, or has answered without it

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= MAX_PIPELINED:
            self._reset()
            raise ConnectionAbortedError
        super().on_message_begin()
        self._part, self._field_bytes = "head", 0
        self._await_head()

    def on_url(self, url: bytes) -> None:
        self._count_field(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= MAX_HEADERS:
            raise LargeHead(f"expected at most {MAX_HEADERS} headers")
        self._count_field(len(name) + len(value) + len(b": \r\n"))
        super().on_header(name, value)

    def _count_field(self, length: int) -> None:
        """A head may end in the bytes with which it becomes too long, and others may follow in the same bytes."""
        self._field_bytes += length
        if self._field_bytes > MAX_HEAD_BYTES:
            raise LargeHead(LONG_HEAD)

    def on_headers_complete(self) -> None:
        self.server_state.waiting.pop(self, None)
        self._part, self._read_deadline = "body", self.loop.time() + BODY_SECONDS
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._head_bytes -= len(body)
        self._read_deadline += len(body) / BODY_BYTES_PER_SECOND
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._head_bytes, self._part, self._read_deadline = 0, None, math.inf
        super().on_message_complete()
        self._await_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._part != "body":
            self._await_head()

    def pause_writing(self) -> None:
        self._write_deadline = self.loop.time() + WRITE_SECONDS
        super().pause_writing()

    def resume_writing(self) -> None:
        self._write_deadline = math.inf
        super().resume_writing()

    def send_400_response(self, _: str) -> None:
        """What the parser does not understand, refused in the one format of errors."""
        error = sys.exc_info()[1]
        if isinstance(error, httptools.HttpParserInvalidMethodError):
            self._refuse(501, "expected a method of HTTP such as GET or POST")
        elif error is not None and isinstance(error.__context__, LargeHead):
            self._refuse(431, str(error.__context__))
        else:
            self._refuse(400, "expected a request of HTTP/1.1")

    # --- the ends of waits ---

    @property
    def _is_busy(self) -> bool:
        """Whether a response is under way."""
        return self.cycle is not None and not self.cycle.response_complete

    def _await_head(self) -> None:
        """Begin to wait, at the end of the line, unless it is us who have something to do."""
        if not self._is_busy:
            self._read_deadline = self.loop.time() + HEAD_SECONDS
            self.server_state.waiting.pop(self, None)
            self.server_state.waiting[self] = None

    def expire(self, now: float) -> bool:
        """End a wait that is too long, and return whether there was one."""
        if self.transport.is_closing():  # and some of the response is not read yet
            self._write_deadline = min(self._write_deadline, now + WRITE_SECONDS)
        elif self.flow.read_paused:  # it is us who keep the client waiting
            self._read_deadline = max(self._read_deadline, now + BODY_SECONDS)
        elif now > self._read_deadline:
            if self._part == "head" or (self._part == "body" and not self.cycle.response_started):
                self._refuse(408, "expected the rest of this request sooner")
            self.transport.close()
            return True
        if now > self._write_deadline:
            self._reset()
            return True
        return False

    def evict(self) -> bool:
        """Make room for another connection, unless this one came just now."""
        if self.loop.time() < self._read_deadline - HEAD_SECONDS + EVICTION_SECONDS:
            return False
        self.server_state.waiting.pop(self, None)
        self._reset()
        return True

    def _reset(self) -> None:
        """Close at once; otherwise the system would go on to send what it has."""
        with suppress(OSError):
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        self.transport.abort()

    def _refuse(self, status: int, message: str) -> None:
        if not self.transport.is_closing():
            self.transport.write(raw_error(status, f"http_{status}", message, *self.server_state.default_headers))
            self.transport.close()


class LargeHead(Exception):
    """Ends the parsing of a head that is beyond a limit."""


# --- all of them ---


class Server(uvicorn.Server):
    """uvicorn's on one listener, with an end to long waits, and a callback for the moment when it answers.

    It stops when ``until`` is true, or at a signal. TLS too has less patience, and smaller buffers, than asyncio would.
    """

    server_state: State

    def __init__(
        self,
        app: Any,
        listener: Listener,
        ready: Callable[[], None] = lambda: None,
        until: Callable[[], bool] = lambda: False,
        *,
        proxies: Sequence[str],
        **settings: Any,
    ) -> None:
        constants.SSL_HANDSHAKE_TIMEOUT = HEAD_SECONDS
        sslproto.SSLProtocol.max_size = READ_BYTES
        config = uvicorn.Config(
            app,
            http=BoundedConnection,
            ws="none",
            log_config=None,
            access_log=False,
            forwarded_allow_ips=list(proxies),
            server_header=False,
            timeout_keep_alive=86_400,  # of uvicorn's own timers, which any byte would put off
            **settings,
        )
        super().__init__(config)
        self.server_state = State(listener.handshakes)
        self._listener, self._ready, self._until = listener, ready, until
        self._round: Iterator[BoundedConnection] = iter(())
        listener.evict = self._evict

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([*(sockets or ()), self._listener])
        if self.started:
            self._ready()

    async def on_tick(self, counter: int) -> bool:
        """Every tenth of a second: look at a tenth of the connections, and end a few, so that others need not wait."""
        now, ends = asyncio.get_running_loop().time(), 0
        for _ in range(len(self.server_state.connections) // 10 + 1):
            connection = next(self._round, None)
            if connection is None:
                self._round = iter(list(self.server_state.connections))  # type: ignore[arg-type]
            elif connection.transport is not None and connection.expire(now):
                ends += 1
            if ends >= ENDS_AT_ONCE:
                break
        return await super().on_tick(counter) or self._until()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """uvicorn's, which would cancel, each with a traceback, what waits for a reader that does not read."""
        grace = self.config.timeout_graceful_shutdown
        if grace is not None:
            asyncio.get_running_loop().call_later(GRACE_SHARE * grace, self._abort_connections)
        await super().shutdown(sockets)

    def _abort_connections(self) -> None:
        for connection in list(self.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()

    def _evict(self) -> bool:
        longest = next(iter(self.server_state.waiting), None)
        return longest is not None and longest.evict()
