"""Settings that a study's database keeps of itself, a text for each key; other modules give each its type."""

from __future__ import annotations

from sqlalchemy import Connection, select

from motet.store.schema import settings


def setting(connection: Connection, key: str) -> str | None:
    return connection.execute(select(settings.c.value).where(settings.c.key == key)).scalar()


def put(connection: Connection, key: str, value: str) -> None:
    present = settings.update().where(settings.c.key == key)
    if connection.execute(present.values(value=value)).rowcount == 0:
        connection.execute(settings.insert().values(key=key, value=value))
