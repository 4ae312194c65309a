"""Connections on which every read and write keeps the pace of its reply.

A time-out of httpx begins again with each byte. One byte of a head every half second, or notices (1xx) without end
before it, would hold a caller for ever, and are seen by nobody but the network's own stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import httpx

from motet.client.replies import Pace, TooSlow

WRITE_BYTES = 2**14  # at once, so that a reader who is slow is noticed

_pace: ContextVar[Pace | None] = ContextVar("pace", default=None)


@contextmanager
def keeping(pace: Pace) -> Iterator[None]:
    """What is read and written inside, by this thread, keeps the pace."""
    token = _pace.set(pace)
    try:
        yield
    finally:
        _pace.reset(token)


def paced(http: httpx.Client) -> httpx.Client:
    """The same client, with connections that keep a pace."""
    for transport in (http._transport, *http._mounts.values()):  # httpx has no public place for a network
        pool: Any = getattr(transport, "_pool", None)
        if pool is not None:
            pool._network_backend = _Network(pool._network_backend)
    return http


class _Network:
    """Opens streams that keep a pace; all the rest is httpcore's."""

    def __init__(self, network: Any) -> None:
        self._network = network

    def connect_tcp(self, *args: Any, **options: Any) -> _Stream:
        return _Stream(self._network.connect_tcp(*args, **options))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)


class _Stream:
    """A connection to a server."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _shortened(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if (pace := _pace.get()) is not None:
            pace.count(len(buffer))
        for begin in range(0, len(buffer), WRITE_BYTES):
            self._stream.write(buffer[begin : begin + WRITE_BYTES], _shortened(timeout))

    def start_tls(self, *args: Any, **options: Any) -> _Stream:
        return _Stream(self._stream.start_tls(*args, **options))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _shortened(timeout: float | None) -> float | None:
    """A time-out that ends when the reply's time ends."""
    if (pace := _pace.get()) is None:
        return timeout
    if (left := pace.seconds_left) <= 0:
        raise TooSlow("too slow")
    return left if timeout is None else min(timeout, left)
