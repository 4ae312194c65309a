"""What scenarios run on: each kind of database."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def database(request: pytest.FixtureRequest) -> str:
    """The URL of a new database; empty for the file beside the study."""
    return "" if request.param == "SQLite" else str(request.getfixturevalue("postgres_url"))
