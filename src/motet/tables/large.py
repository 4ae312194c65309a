"""Tables that are too large to hold: Parquet or CSV, a file or a folder of files, read in batches of rows.

``Dataset.open`` looks at every file before any work: columns, their types, footers. What only the rows show (a missing
value, text among numbers, a damaged row group) is refused when it is met. A refusal names file, row and column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from motet.errors import InvalidData
from motet.tables.arrow import (
    Batch,
    Place,
    arrays,
    complete_rows,
    csv_batches,
    csv_columns,
    not_numbers,
    parquet_batches,
    parquet_columns,
    parquet_file,
    refusal,
)
from motet.tables.cells import NO_OUTCOMES
from motet.tables.files import FORMAT_BYTES, PARQUET, Table, cell_number, cell_text, read
from motet.tables.missing import is_missing
from motet.tables.readings import check_outliers
from motet.tables.roles import Roles
from motet.tables.workbooks import is_workbook

MAX_HELD_BYTES = 2**25  # of a CSV that is read at once, with all that ``files.read`` understands
ROWS_PER_PART = 50_000  # of a table of cells
BATCH_ROWS = 2**18  # read at once


@dataclass(frozen=True, eq=False)
class Dataset:
    """Files of one format and schema; or, of a small CSV, its ``table``."""

    path: Path
    files: tuple[Path, ...]
    columns: list[str]
    rows: int | None  # None if only reading tells
    table: Table | None = None
    encoding: str | None = None

    @classmethod
    def open(cls, path: Path, encoding: str | None = None) -> Dataset:
        """``encoding`` is that of CSVs which are not in UTF-8 or UTF-16."""
        files = _files(path)
        if _is_parquet(files[0]):
            return cls(path, files, *parquet_columns(path, files))
        if len(files) == 1 and (files[0].stat().st_size <= MAX_HELD_BYTES or is_workbook(_start(files[0]))):
            table = read(files[0], encoding=encoding)
            return cls(path, files, table.columns, len(table.rows), table)
        return cls(path, files, csv_columns(path, files, encoding), None, encoding=encoding)

    @cached_property
    def is_parquet(self) -> bool:
        return _is_parquet(self.files[0])

    @cached_property
    def estimated_rows(self) -> int:
        """How many rows there are, or about so many: a CSV's bytes by those of its first rows."""
        if self.rows is not None:
            return self.rows
        with self.files[0].open("rb") as file:
            start = file.read(FORMAT_BYTES)
        return sum(file.stat().st_size for file in self.files) * start.count(b"\n") // max(1, len(start))

    def check(self, roles: Roles) -> None:
        """Raises unless the columns are there, with types that can be numbers; before any row is read."""
        roles.check(self.path.name, self.columns)
        if self.is_parquet:
            schema = parquet_file(self.files[0]).schema_arrow
            for column in roles.numbers:
                if (kind := not_numbers(schema.field(column).type)) is not None:
                    raise refusal(f"{self.files[0].name}, column {column}", f"expected numbers, got {kind}")

    def units(self, roles: Roles) -> dict[str, str]:
        """The units that numbers in cells have, by column; a larger table than one that is held has none."""
        table = self.table
        return {} if table is None else {name: unit for name in roles.numbers if (unit := table.unit(name))}

    def check_outliers(self, roles: Roles) -> None:
        """Raises if a few numbers of a held table are so far from all others that they decide every setting."""
        if self.table is not None:
            for column in roles.numbers:
                numbers = _floats(self.table, column, is_output=column == roles.target)
                check_outliers(self.table, range(len(numbers)), column, numbers)

    def batches(self, roles: Roles, *, rows: int = BATCH_ROWS, skip_missing: bool = False) -> Iterator[Batch]:
        """All rows in batches of at most about ``rows``: numbers as floats, labels of tasks as they are.

        A row that lacks one of them is refused, or with ``skip_missing`` left out; ``ROWS_READ`` of a batch counts it.
        """
        self.check(roles)
        if self.table is not None:
            yield _held_batch(self.table, roles, skip_missing)
            return
        for file in self.files:
            for batch, place in _file_batches(self, file, roles.names, roles.numbers, rows):
                yield arrays(batch, place, roles, skip_missing)


def _files(path: Path) -> tuple[Path, ...]:
    """The file, or all tables of a folder in the order of their names."""
    if not path.is_dir():
        if not path.exists():
            raise InvalidData(f"cannot read {path}: there is no such file or folder; check its name")
        if not path.is_file():  # a pipe or a device has no end
            raise InvalidData(f"cannot read {path}: expected a file or folder, got a pipe, device or socket")
        return (path,)
    tables = [file for file in path.rglob("*") if file.suffix.lower() in (*PARQUET, ".csv") and file.is_file()]
    hidden = (".", "_")  # to pyarrow and Spark: their own notes, and files that are being written
    files = tuple(
        file for file in sorted(tables) if not any(part.startswith(hidden) for part in file.relative_to(path).parts)
    )
    if not files:
        raise InvalidData(f"{path}: expected a folder of Parquet or CSV files, got none")
    kinds = {file.suffix.lower() in PARQUET for file in files}
    if len(kinds) > 1:
        raise InvalidData(f"{path}: expected files of one format, got Parquet and CSV; keep one of them")
    return files


def _is_parquet(file: Path) -> bool:
    """By its name, or by its first bytes."""
    return file.suffix.lower() in PARQUET or _start(file).startswith(b"PAR1")


def _start(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(8)


def _file_batches(
    dataset: Dataset, file: Path, columns: Sequence[str], numbers: Sequence[str], rows: int
) -> Iterator[tuple[Any, Place]]:
    if dataset.is_parquet:
        return parquet_batches(file, columns, rows)
    return csv_batches(file, columns, numbers, rows, dataset.encoding)


# --- a small CSV ---


def _held_batch(table: Table, roles: Roles, skip_missing: bool) -> Batch:
    """All of it at once."""
    labels = [None if is_missing(cell) else cell_text(cell) for cell in table.cells(roles.task)]
    floats = {column: _floats(table, column, is_output=column == roles.target) for column in roles.numbers}
    absent = {column: np.array(list(map(is_missing, table.cells(column)))) for column in roles.names}
    arrays = {roles.task: np.array(labels, dtype=object), **floats}
    return complete_rows(arrays, absent, roles, table.refusal, skip_missing=skip_missing)


def _floats(table: Table, column: str, *, is_output: bool) -> Any:
    """A column of numbers, NaN where one is missing."""
    unit, floats = table.unit(column), []
    for cell in table.cells(column):
        number = np.nan if is_missing(cell) else cell_number(cell, unit)
        if number is None:
            advice = f"; {NO_OUTCOMES}" if is_output else ", or leave the column out"
            raise table.not_numbers(column, unit, advice=advice)
        floats.append(number)
    return np.array(floats)


# --- tables of cells, in parts ---


def table_parts(path: Path, rows: int = ROWS_PER_PART, encoding: str | None = None) -> Iterator[Table]:
    """A table as ``files.read`` has it, in parts; a small CSV is one part."""
    dataset = Dataset.open(path, encoding)
    if dataset.table is not None:
        yield dataset.table
        return
    for file in dataset.files:
        begin = 1 if dataset.is_parquet else 2  # a CSV's header is row 1
        for batch, _ in _file_batches(dataset, file, [column for column in dataset.columns if column], [], rows):
            cells = [list(row) for row in zip(*(batch.column(name).to_pylist() for name in batch.schema.names))]
            yield Table(file.name, list(batch.schema.names), cells, list(range(begin, begin + len(cells))))
            begin += len(cells)


def whole_table(parts: Iterable[Table]) -> Table:
    """All parts as one."""
    every = list(parts)
    rows, numbers = ([row for part in every for row in getattr(part, name)] for name in ("rows", "numbers"))
    return replace(every[0], rows=rows, numbers=numbers)
