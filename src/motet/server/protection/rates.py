"""Who may call now: token buckets, so many requests of one network at once, and one after the other."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Container, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache

from motet.errors import Busy

MAX_ADDRESS_LETTERS = 64  # which a proxy may have from a client
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


@lru_cache(maxsize=10_000)
def network(address: str) -> str:
    """Whom an address stands for: itself, or all IPv6 addresses of one household."""
    parsed = _parsed(address)
    return str(
        ipaddress.ip_network((parsed, 64), strict=False) if parsed and parsed.version == 6 else parsed or address
    )


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    return getattr(parsed, "ipv4_mapped", None) or parsed


class Proxies:
    """Addresses that speak for many others, and so have no limit of their own."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._networks = [ipaddress.ip_network(address) for address in addresses]

    def __contains__(self, address: object) -> bool:
        parsed = _parsed(str(address))
        return parsed is not None and any(parsed in proxy for proxy in self._networks)


class Turnstile:
    """Lets callers through one by one; between two of them everybody else has a round of the event loop."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def passed(self) -> None:
        async with self._lock:
            await asyncio.sleep(0)


class UnderWay:
    """What has not ended, such as requests that are not answered yet: so many of one network.

    The address is the one that a proxy forwards; what proxies ask for themselves has no limit.
    """

    def __init__(self, limit: int, proxies: Container[str]) -> None:
        self._limit, self._proxies = limit, proxies
        self._count: Counter[str] = Counter()  # by network

    def begin(self, address: str) -> bool:
        """Whether there is room for one more; if so, it ends with ``end``."""
        whom = network(address[:MAX_ADDRESS_LETTERS])
        if self._count[whom] >= self._limit and address not in self._proxies:
            return False
        self._count[whom] += 1
        return True

    def end(self, address: str) -> None:
        whom = network(address[:MAX_ADDRESS_LETTERS])
        self._count[whom] -= 1
        if not self._count[whom]:
            del self._count[whom]


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
