"""Which of the processes that share a database publishes: the one that holds an advisory lock of PostgreSQL.

The lock belongs to a connection, so it ends when the holder dies. A holder that is stopped or cut off shows nothing any
more; PostgreSQL then ends its connection, and another process is elected. An election saves work alone: the transaction
that publishes sees to it that nothing is released twice.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from sqlalchemy import Connection, func, select
from sqlalchemy.engine import Engine
from sqlalchemy.exc import SQLAlchemyError

LOG = logging.getLogger("motet.store")
PUBLISHER_LOCK = int.from_bytes(b"motet")  # the number of the advisory lock, in this database alone
BEAT_SECONDS = 1.0  # between two signs of life, and between two attempts to be elected
LEASE_SECONDS = 6.0  # after its last sign of life a process knows that it may not be the elected one any more,
SILENCE_SECONDS = 8  # and after these PostgreSQL ends its connection


class Candidate(Protocol):
    """One process of those that would publish."""

    @property
    def elected(self) -> bool:
        """Whether this process is the one that publishes now."""


class Unopposed:
    """The only process there is."""

    elected = True


class LockHolder:
    """A candidate on PostgreSQL. A thread tries to get the lock, and shows signs of life while it holds it."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._ended = engine, threading.Event()
        self._alive = -math.inf  # when the elected process last showed that it lives
        self._thread = threading.Thread(target=self._run, name="election", daemon=True)
        self._thread.start()

    @property
    def elected(self) -> bool:
        return time.monotonic() < self._alive + LEASE_SECONDS

    def close(self) -> None:
        self._ended.set()
        self._thread.join(LEASE_SECONDS)

    def _run(self) -> None:
        failure = ""
        while not self._ended.is_set():
            try:
                with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                    connection.detach()  # it is closed at the end, and the lock with it
                    failure = ""
                    self._stand(connection)
            except SQLAlchemyError as error:
                if (reason := type(getattr(error, "orig", None) or error).__name__) != failure:
                    LOG.error("cannot ask which publisher is elected: %s", reason)
                failure = reason
            self._alive = -math.inf
            self._ended.wait(BEAT_SECONDS)

    def _stand(self, connection: Connection) -> None:
        """Until the end, or until the connection breaks."""
        connection.exec_driver_sql(f"SET idle_session_timeout = '{SILENCE_SECONDS}s'")
        attempt, sign = select(func.pg_try_advisory_lock(PUBLISHER_LOCK)), select(1)
        elected = False
        while not self._ended.is_set():
            now = time.monotonic()
            elected = bool(connection.execute(sign if elected else attempt).scalar())
            if elected:
                self._alive = now
            self._ended.wait(BEAT_SECONDS)


@contextmanager
def lock_holder(engine: Engine) -> Iterator[Candidate]:
    candidate = LockHolder(engine)
    try:
        yield candidate
    finally:
        candidate.close()
