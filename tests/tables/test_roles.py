"""The roles of columns, and one from outside: it is read, checked and counted as the others are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from motet.errors import InvalidData
from motet.tables.large import Dataset
from motet.tables.roles import Roles

ROWS = (("ann", 0.5, 1.0, 2.0), ("ann", 1.5, 2.0, 4.0), ("bob", 2.5, 3.0, None), ("bob", 3.5, 4.0, 8.0))


@dataclass(frozen=True)
class Counts(Roles):
    """``exposure`` is for how long each row was counted."""

    exposure: str | None = None

    @property
    def numbers(self) -> list[str]:
        return [*super().numbers, *([] if self.exposure is None else [self.exposure])]

    @property
    def settings(self) -> list[tuple[str, str]]:
        return [*super().settings, *([] if self.exposure is None else [("exposure", self.exposure)])]


@pytest.fixture(params=["csv", "parquet"])
def dataset(request: pytest.FixtureRequest, tmp_path: Path) -> Dataset:
    columns = dict(zip(("user", "dose", "cases", "days"), map(list, zip(*ROWS))))
    if request.param == "parquet":
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.table(columns), tmp_path / "table.parquet")
        return Dataset.open(tmp_path / "table.parquet")
    lines = [",".join("" if cell is None else str(cell) for cell in row) for row in (columns, *ROWS)]
    (tmp_path / "table.csv").write_text("\n".join([*lines, ""]), encoding="utf-8")
    return Dataset.open(tmp_path / "table.csv")


def test_a_role_from_outside_is_read_with_the_others(dataset: Dataset) -> None:
    roles = Counts("user", "cases", ("dose",), exposure="days")
    (batch,) = dataset.batches(roles, skip_missing=True)
    np.testing.assert_array_equal(batch["days"], [2.0, 4.0, 8.0])
    np.testing.assert_array_equal(batch["cases"], [1.0, 2.0, 4.0])
    assert batch["user"].tolist() == ["ann", "ann", "bob"]
    with pytest.raises(InvalidData, match=r"row [34], column days: expected a value, got nothing"):
        list(dataset.batches(roles))


@pytest.mark.parametrize(
    ("roles", "where", "message"),
    [
        (Counts("user", "cases", ("dose",), exposure="day"), "exposure", r"no column 'day'.*did you mean 'days'"),
        (Counts("user", "cases", ("dose",), exposure="dose"), "exposure", "inputs= and exposure= must be different"),
        (Counts("user", "cases", ("dose", "dose")), "inputs", "'dose' is there twice"),
        (Counts("user", "user", ("dose",)), "target", "task= and target= must be different columns, both are 'user'"),
        (Counts("user", "cases"), "inputs", "expected columns of inputs beside user and cases, got none"),
    ],
)
def test_each_column_is_there_in_one_role(roles: Counts, where: str, message: str) -> None:
    with pytest.raises(InvalidData, match=message) as refused:
        roles.check("table.csv", ["user", "dose", "cases", "days"])
    assert refused.value.where == where
