"""What was deleted from a database leaves its files too, as soon as no reader needs it.

A thread of its own tries, and tries again by a timer: a program that reads the database for long delays it, and no
write waits for that. A request is answered within a bound: the bytes are gone, or they will be.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

LOG = logging.getLogger("motet.store")
MAX_WAIT_SECONDS = 3.0  # until a request is answered
MAX_REST_SECONDS = 1.0  # that a request waits for the next attempt to begin
MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.02, 1.0  # after an attempt that failed


class Scrubbed(NamedTuple):
    """An attempt that no reader prevented: how many seconds the writers shall have before the next one, and whether the
    bytes are gone; False if that is not ours to do."""

    rest: float
    gone: bool = True


class Scrubber:
    """Runs ``attempt`` until it succeeds; None means that a reader prevented it."""

    def __init__(self, attempt: Callable[[], Scrubbed | None]) -> None:
        self._attempt = attempt
        self._lock = threading.Lock()
        self._waiting: list[tuple[float, Future[bool]]] = []  # each with the end of its wait
        self._wanted, self._closed = threading.Event(), threading.Event()
        self._next = 0.0  # when the next attempt may begin, of time.monotonic
        self._thread: threading.Thread | None = None
        self._failing_since: float | None = None
        self._reported = ""  # the reason in the log

    def request(self) -> Future[bool]:
        """True as soon as all that is deleted by now has left the files; False if that takes longer."""
        answer: Future[bool] = Future()
        answer.set_running_or_notify_cancel()  # from here on nobody can cancel it
        with self._lock:
            now = time.monotonic()
            if self._closed.is_set() or self._next - now > MAX_REST_SECONDS:
                answer.set_result(False)
            else:
                self._waiting.append((now + MAX_WAIT_SECONDS, answer))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="scrubber", daemon=True)
                self._thread.start()
        self._wanted.set()
        return answer

    def close(self) -> None:
        """End after the attempt that is under way. What is pending stays so."""
        with self._lock:
            self._closed.set()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()
        self._answer(self._taken(), False)

    def _run(self) -> None:
        pause = MIN_PAUSE_SECONDS
        while self._wanted.wait() and not self._closed.is_set():
            self._wanted.clear()
            waiting = self._taken()
            done = self._try()
            if done is None:
                self._put_back(waiting)
                rest = pause = min(2 * pause, MAX_PAUSE_SECONDS)
            else:
                self._answer(waiting, done.gone)
                rest, pause = done.rest, MIN_PAUSE_SECONDS
            self._next = time.monotonic() + rest
            self._closed.wait(rest)

    def _try(self) -> Scrubbed | None:
        """An attempt. If they fail for longer than requests wait, the reason is logged once, and then the success."""
        try:
            done, reason = self._attempt(), "a program reads the database for long"
        except Exception as error:  # a full disk, for example
            done, reason = None, str(error).partition("\n")[0]
        if done is not None:
            if self._reported:
                LOG.info("removed data have left the database's files")
            self._failing_since, self._reported = None, ""
            return done
        now = time.monotonic()
        self._failing_since = self._failing_since or now
        if now - self._failing_since > MAX_WAIT_SECONDS and reason != self._reported:
            LOG.warning("removed data are still in the database's files: %s; trying again", reason)
            self._reported = reason
        return None

    def _taken(self) -> list[tuple[float, Future[bool]]]:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        return waiting

    def _put_back(self, waiting: list[tuple[float, Future[bool]]]) -> None:
        """Answer those that have waited long enough; the attempt is repeated for all of them."""
        now = time.monotonic()
        with self._lock:
            self._waiting += [one for one in waiting if one[0] > now]
        self._answer([one for one in waiting if one[0] <= now], False)
        self._wanted.set()

    def _answer(self, waiting: list[tuple[float, Future[bool]]], gone: bool) -> None:
        for _, answer in waiting:
            answer.set_result(gone)
