"""The tables of a study's database, and the version of their layout.

``log`` records in commit order what happened to whom. It has no payloads, and of an example's replacements only the
last. Payloads are in ``examples`` alone: removing an example deletes its payload and keeps its id, so that a late
repetition of the request counts as a duplicate.
"""

from __future__ import annotations

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    event,
)

VERSION = 2
HERE, MOVED = 1, 0  # where a study is: in this database, or copied to another one

# The order of names and ids is that of their characters' numbers, whatever order a PostgreSQL database has.
Name = String().with_variant(String(collation="C"), "postgresql")
Number = Integer().with_variant(BigInteger(), "postgresql")  # of the log; SQLite's have 64 bits, and must say INTEGER

metadata = MetaData()
settings = Table("settings", metadata, Column("key", Name, primary_key=True), Column("value", Text, nullable=False))
head = Table(
    "head",
    metadata,
    Column("one", Integer, primary_key=True),  # HERE or MOVED; there is one row
    Column("sequence", Number, nullable=False),
)
clients = Table(
    "clients",
    metadata,
    Column("id", Name, primary_key=True),
    Column("name", Name, nullable=False, unique=True),
    Column("token", Name, nullable=False, unique=True),  # hashed
    Column("revoked", Boolean, nullable=False, default=False),
    Column("count", Integer, nullable=False, default=0),  # of its examples
)
examples = Table(
    "examples",
    metadata,
    Column("client", ForeignKey("clients.id"), primary_key=True),
    Column("sequence", Number, nullable=False),  # of the log, when it was added or last changed
    Column("id", Name, primary_key=True),
    Column("x", LargeBinary),  # x, y and noise are null if the example was removed
    Column("y", Float(53)),
    Column("noise", Float(53)),
    sqlite_with_rowid=False,  # a client's examples lie together, and are written once
)
log = Table(
    "log",
    metadata,
    Column("sequence", Number, primary_key=True, autoincrement=False),
    Column("kind", Name, nullable=False),  # add, replace, remove, forget
    Column("client", Name, nullable=False),
    Column("example", Name),  # null if the row is about many examples: each of them has the row's number
)
_altered = log.c.kind != "add"
Index("altered", log.c.client, log.c.sequence, sqlite_where=_altered, postgresql_where=_altered)
releases = Table(
    "releases",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("sequence", Number, nullable=False),  # of the log: the last row that the release includes
    Column("made", Float(53), nullable=False),  # seconds since 1970
    Column("data", LargeBinary, nullable=False),
    Column("noisy", LargeBinary),  # the noisy sum of a private release: later releases build on it
)
ledger = Table(
    "ledger",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("scale", Float(53), nullable=False),
)
participations = Table(  # in releases, if the budget is per client
    "taken", metadata, Column("client", Name, primary_key=True), Column("releases", Integer, nullable=False)
)

chain = Table(
    "chain",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("kind", Name, nullable=False),  # upgrade, start, release, withdrawal, restoration
    Column("content", Text, nullable=False),  # JSON: what was written with the link
    Column("digest", Name, nullable=False),  # SHA-256 of the digest before and of this row
)

# PostgreSQL's statistics, in a table of its own, would keep values of these columns after their rows are deleted.
UNCOUNTED = {
    examples: ("id", "x", "y", "noise"),
    clients: ("name", "token"),
    log: ("example",),
    releases: ("data", "noisy"),
    settings: ("value",),
}
for _table, _columns in UNCOUNTED.items():
    _changes = ", ".join(f"ALTER COLUMN {column} SET STATISTICS 0" for column in _columns)
    _statement = DDL(f"ALTER TABLE {_table.name} {_changes}")  # type: ignore[no-untyped-call]
    event.listen(_table, "after_create", _statement.execute_if(dialect="postgresql"))

PRESENT = examples.c.x.is_not(None)  # not removed
