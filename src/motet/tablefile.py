"""Tables as files: CSV, or Parquet where pyarrow is installed. What their columns mean is ``motet.tables``' matter.

A refusal names file, row and column; a CSV's header is its row 1.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from motet.arrays import BOUND
from motet.errors import InvalidData

PARQUET = (".parquet", ".pq")


@dataclass(frozen=True, eq=False)
class Table:
    """Cells as the file has them, texts or numbers; ``numbers`` are those of the rows in the file."""

    file: str
    columns: list[str]
    rows: list[list[Any]]
    numbers: list[int]

    def refusal(self, k: int, column: str, what: str) -> InvalidData:
        return InvalidData(f"{self.file}, row {self.numbers[k]}, column {column}: {what}")

    def require(self, *columns: str) -> None:
        for column in columns:
            if column not in self.columns:
                hint = "; separate columns by commas" if len(self.columns) == 1 else ""
                raise InvalidData(f"{self.file}: no column {column!r}; got {', '.join(self.columns):.80}{hint}")

    def cells(self, column: str) -> list[Any]:
        """A column, None where a cell is empty; all of it where there is no such column."""
        if column not in self.columns:
            return [None] * len(self.rows)
        at = self.columns.index(column)
        return [_cell(row[at]) for row in self.rows]

    def texts(self, column: str) -> list[str]:
        """A column in which no cell is empty."""
        self.require(column)
        cells = self.cells(column)
        if None in cells:
            raise self.refusal(cells.index(None), column, f"expected a {column}, got nothing")
        return [str(cell) for cell in cells]

    def floats(self, column: str, default: float | None = None) -> list[float]:
        """A column of finite numbers; a ``default`` stands for cells that are empty."""
        found = []
        for k, cell in enumerate(self.cells(column)):
            number = default if cell is None else _number(cell)
            if number is None:
                got = "nothing" if cell is None else f"{cell!r:.60}"
                raise self.refusal(k, column, f"expected a finite number, got {got}")
            found.append(number)
        return found

    def groups(self, column: str) -> dict[str, list[int]]:
        """Which rows have which text in a column, in the order in which these come."""
        found: dict[str, list[int]] = {}
        for k, text in enumerate(self.texts(column)):
            found.setdefault(text, []).append(k)
        return found

    def only(self, chosen: Iterable[int]) -> Table:
        """Some of the rows."""
        chosen = list(chosen)
        return Table(self.file, self.columns, [self.rows[k] for k in chosen], [self.numbers[k] for k in chosen])


def read(path: Path) -> Table:
    """A table with a header and at least one row."""
    data = _bytes(path)
    parse = _parquet if path.suffix.lower() in PARQUET or data.startswith(b"PAR1") else _csv
    columns, numbered = parse(path, data)
    for at, column in enumerate(columns, start=1):
        if not column:
            raise InvalidData(f"{path.name}: column {at} has no name; name it, or write the table without its index")
        if columns.count(column) > 1:
            raise InvalidData(f"{path.name}: column {column!r} comes twice; rename one of them")
    if not numbered:
        raise InvalidData(f"{path.name}: expected a header and at least one row below it, got none")
    return Table(path.name, columns, list(numbered.values()), list(numbered))


def lines(path: Path) -> list[str]:
    """The lines of a file of text that have something in them."""
    return [line.strip() for line in _text(path, _bytes(path)).splitlines() if line.strip()]


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidData(f"cannot read {path}: {error.strerror or error}; check the file's name") from None


def _text(path: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidData(f"cannot read {path}: expected text in UTF-8; save it as that") from None


def _csv(path: Path, data: bytes) -> tuple[list[str], dict[int, list[Any]]]:
    try:
        rows = list(csv.reader(io.StringIO(_text(path, data), newline=""), strict=True))
    except csv.Error as error:
        raise InvalidData(f"cannot read {path}: expected a CSV file, got {error}") from None
    filled: dict[int, list[Any]] = {k: row for k, row in enumerate(rows, start=1) if any(cell.strip() for cell in row)}
    header = [cell.strip() for cell in filled.pop(next(iter(filled), 0), [])]
    for number, row in filled.items():
        if len(row) != len(header):
            wanted = f"expected {len(header)} cells, as the header has, got {len(row)}"
            raise InvalidData(f"{path.name}, row {number}: {wanted}; cells with commas need quotation marks")
    return header, filled


def _parquet(path: Path, data: bytes) -> tuple[list[str], dict[int, list[Any]]]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import read_table
    except ImportError:
        raise InvalidData(f"reading {path.name} needs pyarrow: pip install 'motet[tables]'") from None
    try:
        found = read_table(io.BytesIO(data))
    except (ArrowException, OSError) as error:
        raise InvalidData(f"cannot read {path}: expected a Parquet file, got {error}") from None
    kept = [name for name in found.column_names if not name.startswith("__index_level_")]  # pandas' own
    rows = zip(*(found.column(name).to_pylist() for name in kept))
    return kept, dict(enumerate(map(list, rows), start=1))


def _cell(cell: Any) -> Any:
    return (cell.strip() or None) if isinstance(cell, str) else cell


def _number(cell: Any) -> float | None:
    try:
        number = float(cell)
    except (TypeError, ValueError, OverflowError):
        return None
    return number + 0.0 if -BOUND < number < BOUND and not isinstance(cell, bool) else None
