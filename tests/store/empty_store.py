"""Clients and examples for a store that no study has."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from motet.store.clients import Enrollment, enroll
from motet.store.examples import Addition, Example
from motet.store.store import Store


def enrolled(store: Store, *names: str) -> list[Enrollment]:
    with store.transaction() as c:
        return enroll(c, names)


def example(id: str, y: float = 1.0) -> Example:
    return Example(id, struct.pack("<d", 0.5), y, 1.0)


def addition(client: str, new: Iterable[Example], limit: int, *, terms: str | None = None) -> Addition:
    return Addition(client, list(zip(*new)), limit, terms=terms)
