"""A study moved to another database, SQLite or PostgreSQL, with all that must not be lost or spent twice.

The source is sealed first: nothing can be written or released there any more, so what is copied is all there is. The
target gets everything in one transaction. Whoever is interrupted runs the move again: it ends as if nothing had been.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass

from sqlalchemy import Table, func, select, update
from sqlalchemy.engine import URL

from motet.errors import InvalidStore
from motet.store import schema
from motet.store.clients import totals
from motet.store.records import put, setting
from motet.store.store import Connection, Progress, Store, insert_rows, parse, read_only, refusing
from motet.study.study import Study, store_url

ROWS_PER_QUERY = {schema.releases: 2, schema.chain: 50}  # their rows may be large
OTHER_ROWS_PER_QUERY = 800


@dataclass(frozen=True)
class Move:
    """Where a study is now, and what went there; ``again`` if an earlier run had done it all."""

    target: str  # its URL, without a password
    clients: int
    examples: int
    again: bool = False


def migrate(study: Study, target: str, progress: Progress, *, reached: Callable[[str], None] = lambda _: None) -> Move:
    """Move a study that is not served to a database that has none; its file then needs another ``store.url``."""
    (from_dialect, from_url), (to_dialect, to_url) = parse(study.store_url), parse(store_url(target, study.path.parent))
    name = _shown(to_url)
    if name == _shown(from_url):
        raise InvalidStore(f"expected another database than that of {study.path.name}, got the same one")
    with read_only(study):  # there is a database, and it is a study's
        pass
    with ExitStack() as opened:
        for dialect, url in ((from_dialect, from_url), (to_dialect, to_url)):
            with refusing(url, dialect):
                opened.enter_context(dialect.lock_server(url, alone=True))
        source = opened.enter_context(closing(Store(study.store_url)))
        new = opened.enter_context(closing(Store(to_url.render_as_string(hide_password=False))))
        opened.enter_context(new.refusing())
        again = _is_done(source, new, name)
        if not again:
            _seal(source, name)
            reached("sealed")
            _copy_or_open(source, new, progress, reached)
            reached("committed")
        with new.snapshot() as connection:
            return Move(name, *totals(connection), again)


def _shown(url: URL) -> str:
    """A URL without the password, also where another program shows it."""
    bare = url._replace(password=None).difference_update_query(["password"])
    return bare.render_as_string(hide_password=False)


# --- the source is sealed ---


def _is_done(source: Store, target: Store, name: str) -> bool:
    """Whether an earlier run has copied everything; refuses a target with another study, and another target."""
    with source.snapshot() as connection:
        moved, number = setting(connection, "moved"), setting(connection, "move")
    if moved not in (None, name):
        raise InvalidStore(f"the study was moved to {moved}, or a move there was interrupted: end that one first")
    with target.snapshot() as connection:
        if moved is not None and setting(connection, "move") == number:
            return True
        if not _is_empty(connection):
            raise InvalidStore(f"{name}: expected an empty database, got one that has a study: choose another one")
    return False


def _is_empty(connection: Connection) -> bool:
    """Whether a database has the tables of a study, and nothing in them."""
    settings = set(connection.execute(select(schema.settings.c.key)).scalars())
    others = (table for table in schema.metadata.sorted_tables if table not in (schema.settings, schema.head))
    return settings <= {"schema", "unscrubbed"} and not any(_count(connection, table) for table in others)


def _count(connection: Connection, table: Table) -> int:
    return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def _seal(source: Store, target: str) -> None:
    """From here on nothing is written, also not by a server that does not know; the number tells moves apart."""
    with source.transaction() as connection:
        connection.execute(update(schema.head).values(one=schema.MOVED))
        if setting(connection, "moved") is None:
            put(connection, "moved", target)
            put(connection, "move", secrets.token_hex(8))


# --- everything is copied ---


def _copy_or_open(source: Store, target: Store, progress: Progress, reached: Callable[[str], None]) -> None:
    """All in one transaction of the target; if that fails before its commit, the source is as before."""
    copied = False
    try:
        with target.transaction() as new:
            with source.snapshot() as old:
                copy_tables(old, new, progress, reached)
            reached("copied")
            copied = True
    except BaseException:
        if not copied:
            with source.transaction() as connection:
                connection.execute(update(schema.head).values(one=schema.HERE))
                connection.execute(schema.settings.delete().where(schema.settings.c.key == "moved"))
        raise


def copy_tables(
    source: Connection,
    target: Connection,
    progress: Progress = lambda _: nullcontext(lambda _: None),
    reached: Callable[[str], None] = lambda _: None,
) -> None:
    """All rows of a study into the empty tables of another database, a few at a time."""
    target.execute(schema.settings.delete())
    target.execute(schema.head.delete())
    with progress(_count(source, schema.examples)) as advance:
        for table in schema.metadata.sorted_tables:
            _copy(table, source, target, advance if table is schema.examples else lambda _: None)
            reached(f"copied {table.name}")
    target.execute(update(schema.head).values(one=schema.HERE))
    target.execute(schema.settings.delete().where(schema.settings.c.key == "moved"))  # of the source alone


def _copy(table: Table, source: Connection, target: Connection, advance: Callable[[int], None]) -> None:
    limit = ROWS_PER_QUERY.get(table, OTHER_ROWS_PER_QUERY)
    ordered = select(table).order_by(*table.primary_key)
    with source.execute(ordered, execution_options={"yield_per": limit}) as rows:
        for part in rows.partitions():
            insert_rows(target, table, map(tuple, part), len(part))
            advance(len(part))
    if _count(source, table) != _count(target, table):
        raise InvalidStore(f"table {table.name}: expected as many rows in the copy, got others")
