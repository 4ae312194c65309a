"""Listeners who send: their ratings in random order, at an even pace, from a few threads."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from motet.client.client import Client
from motet.music.crowd import Crowd

THREADS = 6


class Load:
    """Sends all ratings within ``span`` seconds, if the server accepts them that fast; stops when it is left.

    ``arrivals`` gets the time of each rating that was acknowledged. ``stop`` stops it at once.
    """

    def __init__(
        self, crowd: Crowd, clients: list[Client], *, span: float, arrivals: list[float], stop: threading.Event
    ) -> None:
        self._clients, self._arrivals, self._stop = clients, arrivals, stop
        self._begin, self._span = time.monotonic(), span
        self._order = crowd.sending_order()
        self._unsent = [list(zip(*crowd.ratings(listener))) for listener in range(crowd.clients)]
        self._total, self._count = len(self._order), 0  # ratings: all, and those of turns so far
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="sender")
        self._senders: list[Future[None]] = [self._pool.submit(self._send) for _ in range(THREADS)]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is not None:
            self._stop.set()
        self._pool.shutdown()

    @property
    def over(self) -> bool:
        """Whether all ratings are sent; raises the error of a thread."""
        done = [sender for sender in self._senders if sender.done()]
        for sender in done:
            sender.result()
        return len(done) == len(self._senders)

    def _send(self) -> None:
        while (turn := self._next()) is not None:
            when, listener, ratings = turn
            if self._stop.wait(max(0.0, when - time.monotonic())):
                return
            self._clients[listener].send_many(*zip(*ratings))
            self._arrivals.extend([time.monotonic()] * len(ratings))

    def _next(self) -> tuple[float, int, list[tuple[str, float]]] | None:
        """When, by the monotonic clock, which listener sends which ratings: one, and one more for each second of delay,
        so that a slow machine keeps up."""
        with self._lock:
            while self._order:
                listener = self._order.pop()
                if ratings := self._unsent[listener]:
                    when = self._begin + self._span * self._count / self._total
                    number = 1 + max(0, int(time.monotonic() - when))
                    self._unsent[listener] = ratings[number:]
                    self._count += len(ratings[:number])
                    return when, listener, ratings[:number]
        return None
