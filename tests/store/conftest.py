"""What the tests of the store share; those that ask for ``store`` run on every kind of database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from motet.store.store import Store


@pytest.fixture
def store_url(backend: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Of a database that is empty, or not there yet."""
    if backend == "sqlite":
        return f"sqlite:///{tmp_path / 'study.db'}"
    return str(request.getfixturevalue("empty_postgres")())


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    opened = Store(store_url)
    yield opened
    opened.close()


@pytest.fixture
def file_store(tmp_path: Path) -> Iterator[Store]:
    """For what is SQLite's alone."""
    opened = Store(f"sqlite:///{tmp_path / 'study.db'}")
    yield opened
    opened.close()
