"""Group commit by one writer: requests queue up, and a thread commits many of them in one transaction.

A future is answered after the commit, so whoever has an answer has it for good. A full queue refuses at once.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, OperationalError, ProgrammingError, SQLAlchemyError

from motet.errors import Busy, MotetError
from motet.store.examples import Addition, add, add_all
from motet.store.store import Connection, Store

LOG = logging.getLogger("motet.store")
Command: TypeAlias = Callable[[Connection], Any]
Write: TypeAlias = Command | Addition  # additions are made together
MAX_QUEUED, MAX_PER_COMMIT = 2000, 256  # requests
# After these a database undoes the statement alone. After others, such as a disk that is full or cannot be read, SQLite
# may undo the whole transaction by itself, and a commit of nothing would then succeed.
UNDONE_ALONE = (IntegrityError, DataError, ProgrammingError)
MAX_CONFLICTS = 3  # with transactions of other processes, in a row


class Removal(NamedTuple):
    """The result of a command that deletes; ``erased`` is whether the files have nothing of that any more."""

    result: Any
    erased: Future[bool]


class Request(NamedTuple):
    """A write, whether what it deletes is to be removed from the files too, and who waits for the outcome."""

    write: Write
    scrub: bool
    future: Future[Any]


class Writer:
    """Makes writes to a store in the order of their submission.

    ``answer`` is called after each commit with a function that settles the futures, which it is to call on the thread
    that waits for them: once for all of them, since waking another thread is expensive.
    """

    def __init__(
        self,
        store: Store,
        *,
        reached: Callable[[str], None] = lambda _: None,
        answer: Callable[[Callable[[], None]], object] = lambda settle: settle(),
    ) -> None:
        self._store, self._reached, self._answer = store, reached, answer
        self._queue: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._closed = False
        self._failure = ""
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def submit(self, write: Write, *, scrub: bool = False) -> Future[Any]:
        """Queue a write; its future has the result, or the refusal, once it is durable.

        With ``scrub`` the result is a ``Removal``: what the write deleted is to leave the files too.
        """
        if self._closed or self._queue.qsize() >= MAX_QUEUED:
            raise Busy("the server has more to write than it can take now: try again in a second")
        future: Future[Any] = Future()
        self._queue.put(Request(write, scrub, future))
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
        while (first := self._queue.get()) is not None:
            batch = [first]
            while len(batch) < MAX_PER_COMMIT and not self._queue.empty():  # nobody else takes from it
                if (following := self._queue.get()) is None:
                    self._write(batch)
                    return
                batch.append(following)
            self._write(batch)

    def _write(self, batch: list[Request]) -> None:
        # A request that was cancelled before this is not written; from here on none can be cancelled.
        batch = [request for request in batch if request.future.set_running_or_notify_cancel()]
        try:
            results = commit(self._store, [request.write for request in batch], reached=self._reached)
            self._reached("after commit")
            if any(request.scrub for request in batch):
                erased = self._store.scrub()
                results = [
                    Removal(result, erased) if request.scrub and not isinstance(result, Exception) else result
                    for request, result in zip(batch, results)
                ]
            self._log_failure("")
        except SQLAlchemyError as error:
            self._log_failure(str(getattr(error, "orig", None) or error).partition("\n")[0])
            results = [self._store.unavailable(error)] * len(batch)
        except Exception as error:  # the error is the answer, and the writer goes on
            self._log_failure(str(error))
            results = [error] * len(batch)
        self._answer(partial(_settle, [request.future for request in batch], results))

    def _log_failure(self, reason: str) -> None:
        """When it begins, when its reason changes, and when it ends."""
        if reason and reason != self._failure:
            LOG.error("the database cannot be written: %s", reason)
        elif self._failure and not reason:
            LOG.info("the database can be written again")
        self._failure = reason


def _settle(futures: list[Future[Any]], results: list[Any]) -> None:
    for future, result in zip(futures, results):
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)


# --- many writes in one transaction ---


def commit(store: Store, writes: Sequence[Write], *, reached: Callable[[str], None] = lambda _: None) -> list[Any]:
    """The results of the writes, or their refusals."""

    def run(way: Callable[[Connection, Sequence[Write]], list[Any]]) -> list[Any]:
        with store.transaction() as connection:
            results = way(connection, writes)
            reached("before commit")
        return results

    def attempt() -> list[Any]:
        try:
            return run(_together)
        except (MotetError, IntegrityError):  # an addition has a duplicate, or is refused
            return run(lambda connection, _: [_attempt(connection, write) for write in writes])

    for _ in range(MAX_CONFLICTS):
        try:
            return attempt()
        except OperationalError as error:
            if not store.dialect.is_conflict(error):
                raise
    return attempt()


def _together(connection: Connection, writes: Sequence[Write]) -> list[Any]:
    """All additions first, in a few statements: raises if any of them cannot be made."""
    additions = [write for write in writes if isinstance(write, Addition)]
    added = iter(add_all(connection, additions) if additions else [])
    return [next(added) if isinstance(write, Addition) else _attempt(connection, write) for write in writes]


def _attempt(connection: Connection, write: Write) -> Any:
    """A write's result; or its error, with all that it did undone."""
    savepoint = connection.begin_nested()
    try:
        result = add(connection, write) if isinstance(write, Addition) else write(connection)
    except Exception as error:  # the error is the answer, unless what others did is undone too
        if isinstance(error, MemoryError) or (isinstance(error, DBAPIError) and not isinstance(error, UNDONE_ALONE)):
            raise
        savepoint.rollback()
        return error
    savepoint.commit()
    return result
