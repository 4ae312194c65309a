"""What differs between the kinds of database that may keep a study: how each is opened, checked, scrubbed and copied.

No other module asks which database it is. To add one, write its ``Dialect`` in a module like ``sqlite`` and
``postgresql``, enter it in ``store.DIALECTS``, and let the study file take its URLs (``motet.study.schema``). The
tables in ``store.schema`` are the same for all: a database that has no text without a length, no partial index or no
binary column of any size needs variants of their types there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar

from sqlalchemy import Connection, Table, create_engine
from sqlalchemy.engine import URL, Engine

from motet.errors import InvalidStore

ROWS_PER_STATEMENT = (*range(1, 100), 100, 200, 400, 800)  # fewer than the 128 statements that Python's SQLite caches


class Dialect(ABC):
    """One kind of database: how to open it, scrub it after a removal, check it and copy it, and who may use it at once.

    The defaults are those of a database server, which has programs of its own for checks and backups.
    """

    advice: ClassVar[str]  # for a database that cannot be used
    extra: ClassVar[str] = "server"  # of motet's packages, in pyproject.toml: what installs its driver
    undamaged: ClassVar[str]  # what to report if there is no ``damage``
    shared: ClassVar[bool] = False  # whether many servers may use it at once
    delay: ClassVar[str]  # when deleted rows leave the files, if not at once
    snapshot_options: ClassVar[dict[str, Any]] = {}  # of a transaction that reads the database at one moment

    def reason(self, error: Exception) -> str:
        """Of an error, for clients: nothing that is secret, such as an address."""
        return type(error).__name__

    def message(self, error: Exception) -> str:
        """Of an error, for the operator."""
        return str(error).partition("\n")[0]

    def is_conflict(self, error: Exception) -> bool:
        """Whether a transaction was undone because of others, and is to be tried again."""
        del error
        return False

    def insert_rows(
        self, connection: Connection, table: Table, rows: Iterable[tuple[Any, ...]], count: int, on_conflict: str
    ) -> None:
        """Insert ``count`` rows, with values in the order of the table's columns, many to a statement.

        Python's SQLite lets other threads run before every row of an executemany, which beside a busy event loop may
        take milliseconds a row; SQLAlchemy's own way to write many rows at once takes longer than the database.
        """
        names = ", ".join(table.c.keys())
        mark = "?" if connection.dialect.paramstyle == "qmark" else "%s"
        row = f"({', '.join([mark] * len(table.c))})"
        values = chain.from_iterable(rows)
        while count:
            batch = ROWS_PER_STATEMENT[bisect_right(ROWS_PER_STATEMENT, count) - 1]
            count -= batch
            statement = f"INSERT INTO {table.name} ({names}) VALUES {', '.join([row] * batch)} {on_conflict}"  # nosec B608  # names of ours
            connection.exec_driver_sql(statement, tuple(islice(values, batch * len(table.c))))

    def lock_setup(self, connection: Connection) -> None:
        """One process at a time creates or upgrades tables, until the end of the transaction."""
        del connection

    @abstractmethod
    def open(self, url: URL) -> Engine:
        """To read and write; transactions that write have the execution option ``writes``."""

    @abstractmethod
    def open_read_only(self, url: URL) -> Engine:
        """To read: a transaction sees the database at one moment, and nothing can be changed."""

    def create_engine(self, url: URL, **options: Any) -> Engine:
        """SQLAlchemy's, or a refusal that says what to install."""
        try:
            return create_engine(url, **options)
        except ModuleNotFoundError as error:
            raise InvalidStore(f"this database needs {error.name}: pip install 'motet[{self.extra}]'") from None

    def watch(self, url: URL) -> AbstractContextManager[Callable[[], None]]:
        """A check of an open database's files, which raises if they are not in their places any more: what is written
        then would be lost."""
        del url
        return nullcontext(lambda: None)

    def lock_server(self, url: URL, *, alone: bool = False) -> AbstractContextManager[None]:
        """Refuse a second server of a database that takes only one, or whoever must be ``alone`` beside any server.

        The end of the process ends the lock too.
        """
        del url, alone
        return nullcontext()

    def election(self, engine: Engine) -> AbstractContextManager[Callable[[], bool]]:
        """Of the process that publishes, if many serve the database: whether it is this one now."""
        del engine
        return nullcontext(lambda: True)

    @abstractmethod
    def scrub(self, url: URL, *, compact: bool) -> bool | None:
        """Remove deleted rows from the files too: None if a reader needs them still, otherwise whether all are gone.

        ``compact``: also from pages where they were before other rows moved them.
        """

    def size(self, connection: Connection) -> int:
        """Bytes of all that a ``scrub`` writes anew, which other writes wait for."""
        del connection
        return 0

    def damage(self, connection: Connection) -> list[str]:
        """What a check of pages and indexes reports, if this program can make one."""
        del connection
        return []

    def file(self, url: URL) -> Path | None:
        """The database's file; None if it is not one file."""
        del url
        return None

    def copy(self, url: URL, target: Path) -> None:
        """Write a database that is a file, as it is at one moment and without deleted rows, to a new file."""
        raise NotImplementedError
