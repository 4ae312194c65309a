"""Who may call now: so often, each for itself, and one after the other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from motet.errors import Busy

MAX_BUCKETS = 100_000
MAX_WAITING = 50


class Buckets:
    """Token buckets, one for each client or address; if there are too many, the longest unused is forgotten."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._levels: dict[str, tuple[float, float]] = {}  # calls left, and when

    def seconds_to_wait(self, key: str, rate: float, *, capacity: float) -> float | None:
        """None if a call is allowed now, which takes one from a bucket that is filled at the ``rate``."""
        now = self._clock()
        level, before = self._levels.pop(key, (capacity, now))
        level = min(capacity, level + (now - before) * rate)
        self._levels[key] = (level - 1.0 if level >= 1.0 else level, now)
        if len(self._levels) > MAX_BUCKETS:
            del self._levels[next(iter(self._levels))]
        return None if level >= 1.0 else (1.0 - level) / rate


class Turns:
    """Work that takes much memory: one at a time, and each caller waits once."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._callers: set[str] = set()

    @asynccontextmanager
    async def turn(self, caller: str) -> AsyncIterator[None]:
        if caller in self._callers or len(self._callers) >= MAX_WAITING:
            raise Busy("the server is busy with such requests, perhaps of your own: try again in a second")
        self._callers.add(caller)
        try:
            async with self._lock:
                yield
        finally:
            self._callers.remove(caller)
