"""Listeners who send: their ratings in random order, at an even pace, from a few threads."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import NamedTuple, Self

from motet.client.client import Client
from motet.music.crowd import Crowd

SENDERS = 6  # threads


class Turn(NamedTuple):
    when: float  # by the monotonic clock
    listener: int
    ratings: list[tuple[str, float]]


class Load:
    """Sends all ratings within ``span`` seconds, if the server takes them so fast; stopped when it is left.

    ``arrivals`` gets the time of each rating that was acknowledged. ``ending`` stops it at once.
    """

    def __init__(
        self, crowd: Crowd, clients: list[Client], *, span: float, arrivals: list[float], ending: threading.Event
    ) -> None:
        self._clients, self._arrivals, self._ending = clients, arrivals, ending
        self._begin, self._span, self._given = time.monotonic(), span, 0
        self._unsent = [list(zip(*crowd.ratings(listener))) for listener in range(crowd.clients)]
        self._order = crowd.as_they_come()
        self._total, self._lock = len(self._order), threading.Lock()

    def __enter__(self) -> Self:
        self._pool = ThreadPoolExecutor(SENDERS, thread_name_prefix="sender")
        self._sending: list[Future[None]] = [self._pool.submit(self._send) for _ in range(SENDERS)]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is not None:
            self._ending.set()
        self._pool.shutdown()

    @property
    def over(self) -> bool:
        """Whether all is sent; raises what went wrong in a thread."""
        done = [sender for sender in self._sending if sender.done()]
        for sender in done:
            sender.result()
        return len(done) == len(self._sending)

    def _send(self) -> None:
        while (turn := self._next()) is not None:
            if self._ending.wait(max(0.0, turn.when - time.monotonic())):
                return
            self._clients[turn.listener].send_many(*zip(*turn.ratings))
            self._arrivals.extend([time.monotonic()] * len(turn.ratings))

    def _next(self) -> Turn | None:
        """Whose turn it is, with one rating, and one more for each second we are late: a slow machine keeps up so."""
        with self._lock:
            while self._order:
                listener = self._order.pop()
                if left := self._unsent[listener]:
                    when = self._begin + self._span * self._given / self._total
                    count = 1 + max(0, int(time.monotonic() - when))
                    self._unsent[listener] = left[count:]
                    self._given += len(left[:count])
                    return Turn(when, listener, left[:count])
        return None
