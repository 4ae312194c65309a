"""What the tests of the store share; those that ask for ``store`` run on every kind of database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from motet.store.store import Store


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest) -> str:
    """Of a database that is not there yet, or is empty."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    tmp_path: Path = request.getfixturevalue("tmp_path")
    return f"sqlite:///{tmp_path / 'study.db'}"


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    opened = Store(store_url)
    yield opened
    opened.close()
