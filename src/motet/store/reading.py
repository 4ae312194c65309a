"""A study's database to look at: nothing of it is changed, nor made where there is none, also beside a server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, create_engine, event
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.exc import SQLAlchemyError

from motet.errors import InvalidStore
from motet.store.store import VERSION, setting
from motet.study.study import Study


@contextmanager
def reading(study: Study) -> Iterator[Connection]:
    """The database at one moment."""
    url = make_url(study.store_url)
    place = str(url.database)
    if is_sqlite(url) and not Path(place).is_file():
        raise InvalidStore(f"expected a database at {place}, got none: serve the study first, motet serve {study.path}")
    engine = _engine(url)
    try:
        with engine.connect() as connection, connection.begin():
            _check_schema(connection, place)
            yield connection
    except SQLAlchemyError as error:
        cause = str(getattr(error, "orig", None) or error).splitlines()[0]
        do = "restore a backup of it" if is_sqlite(url) else "see that it runs and lets you in"
        raise InvalidStore(f"{place}: expected a study's database, got {cause}; {do}") from None
    finally:
        engine.dispose()


def is_sqlite(url: URL) -> bool:
    return url.get_backend_name() == "sqlite"


def _engine(url: URL) -> Engine:
    if not is_sqlite(url):
        try:
            return create_engine(
                url, isolation_level="REPEATABLE READ", execution_options={"postgresql_readonly": True}
            )
        except ModuleNotFoundError as error:
            raise InvalidStore(f"this database needs {error.name}: pip install 'motet[postgres]'") from None
    engine = create_engine(url)
    event.listen(engine, "connect", _only_look)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return engine


def _only_look(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # transactions begin where we say
    for pragma in ("query_only = ON", "busy_timeout = 10000"):
        connection.execute(f"PRAGMA {pragma}").close()


def _check_schema(connection: Connection, place: str) -> None:
    found = setting(connection, "schema")
    if found != str(VERSION):
        do = "upgrade motet" if (found or "").isdecimal() and int(found or 0) > VERSION else "serve the study once"
        raise InvalidStore(f"{place}: expected a database of schema {VERSION}, got {found}: {do}")
