"""The database of a study: its tables, how they are opened, and transactions. SQLite or PostgreSQL.

The database is the truth; whatever else runs is stateless. ``log`` says in commit order what happened to whom, without
payloads, and is only appended to. Payloads are in ``examples`` alone; removing one takes its payload off the disk and
leaves its id, so that a late repetition counts as a duplicate. What is done to the tables is in ``motet.records``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, TypeVar

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    event,
    select,
    text,
)
from sqlalchemy.engine import Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from motet.errors import InvalidStore

VERSION = 1
SIZES = (*range(1, 100), 100, 200, 400, 800)  # rows of a statement: fewer than the 128 that Python's SQLite remembers
T = TypeVar("T")

metadata = MetaData()
settings = Table("settings", metadata, Column("key", String, primary_key=True), Column("value", Text, nullable=False))
head = Table("head", metadata, Column("one", Integer, primary_key=True), Column("sequence", Integer, nullable=False))
clients = Table(
    "clients",
    metadata,
    Column("id", String, primary_key=True),
    Column("name", String, nullable=False, unique=True),
    Column("token", String, nullable=False, unique=True),  # hashed
    Column("revoked", Boolean, nullable=False, default=False),
    Column("count", Integer, nullable=False, default=0),  # of its examples
)
examples = Table(
    "examples",
    metadata,
    Column("client", ForeignKey("clients.id"), primary_key=True),
    Column("sequence", Integer, nullable=False),  # of the log, when it came or was last changed
    Column("id", String, primary_key=True),
    Column("x", LargeBinary),  # these three are null where it was removed
    Column("y", Float(53)),
    Column("noise", Float(53)),
    sqlite_with_rowid=False,  # a client's examples lie together, and are written once
)
log = Table(
    "log",
    metadata,
    Column("sequence", Integer, primary_key=True, autoincrement=False),
    Column("kind", String, nullable=False),  # add, replace, remove, forget
    Column("client", String, nullable=False),
    Column("example", String),  # null where it is about many: those that came have their number
)
_altered = log.c.kind != "add"
Index("altered", log.c.client, log.c.sequence, sqlite_where=_altered, postgresql_where=_altered)
releases = Table(
    "releases",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("sequence", Integer, nullable=False),  # of the log, up to which it was folded
    Column("made", Float(53), nullable=False),  # seconds since 1970
    Column("data", LargeBinary, nullable=False),
    Column("noisy", LargeBinary),  # the noisy sum, where later releases build on it
)
ledger = Table(
    "ledger",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("scale", Float(53), nullable=False),
)
taken = Table(
    "taken", metadata, Column("client", String, primary_key=True), Column("releases", Integer, nullable=False)
)

SQLITE = (
    "journal_mode = WAL",
    "synchronous = FULL",
    "secure_delete = ON",
    "foreign_keys = ON",
    "busy_timeout = 10000",
    "cache_size = -65536",  # 64 MB: clients' rows lie apart
)
MIGRATIONS: dict[int, Sequence[str]] = {}  # statements that lead from a version to the next


class Store:
    """Opens a study's database, makes its tables or brings them up to date, and gives transactions."""

    def __init__(self, url: str) -> None:
        self.engine = _opened(url)
        self.is_sqlite = self.engine.dialect.name == "sqlite"
        with self.transaction() as connection:
            _prepare(connection)
        self.scrub()  # whoever was here before may have ended between a removal and this

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """All of it or nothing, durable when it ends."""
        with self.engine.connect().execution_options(writes=True) as connection, connection.begin():
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """To read from, at one moment."""
        with self.engine.connect() as connection, connection.begin():
            yield connection

    def scrub(self) -> bool:
        """Take what was deleted out of the files too: SQLite overwrites it, but its log keeps the old pages.

        False where somebody read for so long that it could not be done.
        """
        if not self.is_sqlite:
            return True
        with self.engine.connect() as connection:
            return not connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").scalar_one()


def insert_rows(connection: Connection, table: Table, rows: Iterable[tuple[Any, ...]], many: int) -> None:
    """So many rows in the order of the table's columns, many to a statement.

    Python's SQLite lets other threads run before every row of an executemany, which beside a busy event loop may take
    milliseconds a row; SQLAlchemy's own way to write many rows at once takes longer than the database.
    """
    names = ", ".join(table.c.keys())
    mark = "?" if connection.dialect.paramstyle == "qmark" else "%s"
    row = f"({', '.join([mark] * len(table.c))})"
    values = chain.from_iterable(rows)
    while many:
        some = SIZES[bisect_right(SIZES, many) - 1]
        many -= some
        statement = f"INSERT INTO {table.name} ({names}) VALUES {', '.join([row] * some)}"
        connection.exec_driver_sql(statement, tuple(islice(values, some * len(table.c))))


def attempt(connection: Connection, command: Callable[[Connection], T]) -> T | Exception:
    """A command's result, or its refusal with all that it did undone."""
    try:
        with connection.begin_nested():
            return command(connection)
    except Exception as error:  # whoever asked gets it
        if isinstance(error, DBAPIError) and error.connection_invalidated:
            raise
        return error


def _opened(url: str) -> Engine:
    try:
        parsed = make_url(url)
        engine = create_engine(parsed, pool_pre_ping=parsed.get_backend_name() != "sqlite")
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        raise InvalidStore(
            f"store.url: expected sqlite:///FILE or postgresql+psycopg://…, got {url!r}: {error}"
        ) from None
    if engine.dialect.name not in ("sqlite", "postgresql"):
        raise InvalidStore(f"store.url: expected SQLite or PostgreSQL, got {engine.dialect.name}")
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _set_up)
        event.listen(engine, "begin", _begin)
    return engine


def _set_up(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # transactions begin where we say
    for pragma in SQLITE:
        connection.execute(f"PRAGMA {pragma}").close()


def _begin(connection: Connection) -> None:
    """A writer takes its lock at once: one that waits until it writes cannot be let in any more."""
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _prepare(connection: Connection) -> None:
    metadata.create_all(connection)
    found = setting(connection, "schema")
    if found is None:
        put(connection, "schema", str(VERSION))
        connection.execute(head.insert().values(one=1, sequence=0))
        return
    if int(found) > VERSION:
        raise InvalidStore(f"this database is of schema {found}, this version knows {VERSION}: upgrade motet")
    for version in range(int(found), VERSION):
        for statement in MIGRATIONS[version]:
            connection.execute(text(statement))
    put(connection, "schema", str(VERSION))


# --- settings of the store itself: what the first start pinned, tokens' hashes, times ---


def setting(connection: Connection, key: str) -> str | None:
    return connection.execute(select(settings.c.value).where(settings.c.key == key)).scalar()


def put(connection: Connection, key: str, value: str) -> None:
    if connection.execute(settings.update().where(settings.c.key == key).values(value=value)).rowcount == 0:
        connection.execute(settings.insert().values(key=key, value=value))
