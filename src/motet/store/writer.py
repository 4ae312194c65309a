"""The one writer: requests queue up, and a thread commits many of them in one transaction.

A future is answered after the commit, so whoever has an answer has it for good. A full queue refuses at once.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeAlias

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from motet.errors import Busy, MotetError
from motet.store.records import apart, apply
from motet.store.store import Store

Command: TypeAlias = Callable[[Connection], Any]
DEPTH, BATCH = 2000, 256  # requests that may wait, and that are committed together


class Writer:
    """Runs commands on a store in the order in which they came.

    ``answer`` is called after each commit with what settles its futures, to be called where whoever waits is: once for
    all of them, since waking another thread is dear.
    """

    def __init__(
        self,
        store: Store,
        *,
        depth: int = DEPTH,
        reached: Callable[[str], None] = lambda _: None,
        answer: Callable[[Callable[[], None]], object] = lambda settle: settle(),
    ) -> None:
        self._store, self._reached, self._answer = store, reached, answer
        self._unscrubbed = False
        self._queue: queue.SimpleQueue[tuple[Command, bool, Future[Any]] | None] = queue.SimpleQueue()
        self._depth = depth
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def submit(self, command: Command, *, scrub: bool = False) -> Future[Any]:
        """Queue a command; its future has the result, or the refusal, once it is durable.

        ``scrub`` takes what the command deleted off the disk too, before it is answered.
        """
        if self._closed or self._queue.qsize() >= self._depth:
            raise Busy("the server has more to write than it can take now: try again in a second")
        future: Future[Any] = Future()
        self._queue.put((command, scrub, future))
        return future

    @property
    def waiting(self) -> int:
        return self._queue.qsize()

    def close(self) -> None:
        """Write what is queued, and end."""
        self._closed = True
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (one := self._queue.get()) is not None:
            taken = [one]
            while len(taken) < BATCH and not self._queue.empty():  # nobody else takes from it
                if (more := self._queue.get()) is None:
                    self._write(taken)
                    return
                taken.append(more)
            self._write(taken)

    def _write(self, taken: list[tuple[Command, bool, Future[Any]]]) -> None:
        # Whoever went away before it began has nothing done; from here on nobody can.
        taken = [one for one in taken if one[2].set_running_or_notify_cancel()]
        try:
            results = commit(self._store, [command for command, _, _ in taken], reached=self._reached)
            self._reached("after commit")
            self._unscrubbed = self._unscrubbed or any(scrub for _, scrub, _ in taken)
            if self._unscrubbed:  # where somebody read for too long, the next write tries again
                self._unscrubbed = not self._store.scrub()
        except SQLAlchemyError as error:
            results = [Busy(f"the database does not answer: {type(error).__name__}; try again")] * len(taken)
        except Exception as error:  # whoever asked gets it, and the writer goes on
            results = [error] * len(taken)
        self._answer(partial(_settle, [future for _, _, future in taken], results))


def _settle(futures: list[Future[Any]], results: list[Any]) -> None:
    for future, result in zip(futures, results):
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)


def commit(store: Store, commands: Sequence[Command], *, reached: Callable[[str], None] = lambda _: None) -> list[Any]:
    """The results of many commands, or their refusals, in one transaction."""

    def committed(way: Callable[[Connection, Sequence[Command]], list[Any]]) -> list[Any]:
        with store.transaction() as connection:
            results = way(connection, commands)
            reached("before commit")
        return results

    try:
        return committed(apply)
    except (MotetError, IntegrityError):  # not all additions can be made together
        return committed(apart)
