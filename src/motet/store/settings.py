"""Settings that a study's database keeps of itself, a text for each key; other modules give each its type."""

from __future__ import annotations

from sqlalchemy import Connection, select

from motet.errors import InvalidStore
from motet.store.schema import settings


def setting(connection: Connection, key: str) -> str | None:
    """The text, None if there is none; a damaged database may have anything in its place."""
    value = connection.execute(select(settings.c.value).where(settings.c.key == key)).scalar()
    if value is not None and not isinstance(value, str):
        raise InvalidStore(
            f"expected the setting {key!r} as text, got {value!r:.60}: motet verify shows what is damaged"
        )
    return value


def put(connection: Connection, key: str, value: str) -> None:
    present = settings.update().where(settings.c.key == key)
    if connection.execute(present.values(value=value)).rowcount == 0:
        connection.execute(settings.insert().values(key=key, value=value))
