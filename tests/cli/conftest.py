"""The studies that tests of commands share, served once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.studies import Studies, served_studies


@pytest.fixture(scope="session")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studies]:
    with served_studies(tmp_path_factory) as served:
        yield served
