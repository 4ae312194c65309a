"""Files: tables that are read, and new files that are written.

A table is CSV, Parquet if pyarrow is installed, or an Excel workbook if openpyxl is; what its columns mean is known to
those who read it. Cells of a CSV are separated by commas, semicolons or tabs, as its header is. A refusal names file,
row and column; a CSV's header is its row 1. No file is overwritten unless asked for, and a file with private data
is readable by its owner alone.
"""

from __future__ import annotations

import csv
import io
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any

import numpy as np

from motet.arrays import MAX_COLUMNS, finite_number
from motet.errors import InvalidData, MotetError
from motet.tables.cells import UNIT_TEXT, common_unit, exceptions, written_number
from motet.tables.decoding import decoded, encoding_of
from motet.tables.missing import is_missing, missing_column
from motet.tables.workbooks import is_workbook
from motet.tables.workbooks import rows as workbook_rows

PARQUET = (".parquet", ".pq")
PANDAS_INDEX = "__index_level_"  # how pandas' own columns of a Parquet file begin
SEPARATORS = ",;\t"
FORMAT_BYTES = 2**16  # by which the format of a large CSV is known
POINT_NUMBER, COMMA_NUMBER = (re.compile(rf"\s*[+-]?\d*{mark}\d+(e[+-]?\d+)?\s*", re.I) for mark in (r"\.", ","))
COMMA_MEASURE = re.compile(rf"\s*([+-]?\d*,?\d+\s*{UNIT_TEXT})?\s*")  # or nothing
MAX_TABLE_BYTES = 2**30  # of a table that is held
MAX_CELLS = 2**25  # of one; each takes 60 bytes of memory, in a table of one column 170
FREE_CELLS = 2**20  # that a Parquet file of any size may have,
CELLS_PER_BYTE = 64  # and so many more for each of its bytes: a bomb has thousands


# --- tables ---


@dataclass(frozen=True, eq=False)
class Table:
    """Cells as in the file, text or numbers; ``numbers`` are the rows' numbers there. A column is a name or a place.

    ``left_out`` is how many rows of the file were left out because a value is missing.
    """

    file: str
    columns: list[str]
    rows: list[list[Any]]
    numbers: list[int]
    left_out: int = 0

    def refusal(self, k: int, column: str | int, what: str) -> InvalidData:
        where = self.place(k, self.columns[column] if isinstance(column, int) else column)
        return InvalidData(f"{where}: {what}", where=where)

    def place(self, k: int, column: str | None = None) -> str:
        """File, row and column of a cell, or of a row."""
        return f"{self.file}, row {self.numbers[k]}" + ("" if column is None else f", column {column}")

    def require(self, *columns: str, role: str | None = None) -> None:
        """Raises unless the columns are there; a ``role`` is a setting that may name another."""
        for column in columns:
            if column not in self.columns:
                raise missing_column(self.file, column, self.columns, role)

    def cells(self, column: str | int) -> list[Any]:
        """A column, with None for an empty cell; None for every row if there is no such column."""
        if isinstance(column, str):
            if column not in self.columns:
                return [None] * len(self.rows)
            column = self.columns.index(column)
        cells = (row[column] for row in self.rows)
        return [(cell.strip() or None) if isinstance(cell, str) else cell for cell in cells]

    def texts(self, column: str | int) -> list[str]:
        """A column in which no cell is empty."""
        if isinstance(column, str):
            self.require(column)
        cells = self.cells(column)
        if None in cells:
            raise self.refusal(cells.index(None), column, "expected a value, got nothing")
        return [cell_text(cell) for cell in cells]

    def names(self, column: str | int) -> list[str]:
        """A column in which no cell is empty and none is twice."""
        for name, rows in self.groups(column).items():
            if len(rows) > 1:
                first = self.numbers[rows[0]]
                raise self.refusal(rows[1], column, f"{name!r:.60} is in row {first} already; keep one of them")
        return self.texts(column)

    def floats(self, column: str | int, default: float | None = None, *, unit: str = "") -> list[float]:
        """A column of finite numbers, with this unit or without; a ``default`` stands for empty cells."""
        floats = []
        for k, cell in enumerate(self.cells(column)):
            number = default if cell is None else cell_number(cell, unit)
            if cell is None and number is None:
                raise self.refusal(k, column, "expected a finite number, got nothing")
            if number is None:
                raise self.not_numbers(column, unit)
            floats.append(number)
        return floats

    def unit(self, column: str | int) -> str:
        """The unit that every number in a column has; "" if one has none."""
        return common_unit({cell for cell in self.cells(column) if not is_missing(cell)})

    def not_numbers(self, column: str | int, unit: str = "", *, advice: str = "") -> InvalidData:
        """The refusal of a column for its cells that are no finite numbers, all of which are named or counted."""
        cells = dict(enumerate(self.cells(column)))
        filled = {k: cell for k, cell in cells.items() if not is_missing(cell)}
        wrong = {k: cell for k, cell in filled.items() if cell_number(cell, unit) is None}
        wrong = wrong or {k: cell for k, cell in cells.items() if cell is not None and is_missing(cell)}
        total = max(len(filled), len(wrong))
        what = exceptions({self.numbers[k]: cell for k, cell in wrong.items()}, total, unit, advice)
        got = f"expected a finite number{f' in {unit}' * bool(unit)}, got {wrong[min(wrong)]!r:.60}"
        return self.refusal(min(wrong), column, f"{got}: {what}")

    def groups(self, column: str | int) -> dict[str, list[int]]:
        """The rows of each text in a column, in the order of their first rows."""
        groups: dict[str, list[int]] = {}
        for k, text in enumerate(self.texts(column)):
            groups.setdefault(text, []).append(k)
        return groups

    def only(self, chosen: Iterable[int], left_out: int = 0) -> Table:
        """Some of the rows, ``left_out`` of the others because a value is missing."""
        chosen = list(chosen)
        rows, numbers = [self.rows[k] for k in chosen], [self.numbers[k] for k in chosen]
        return Table(self.file, self.columns, rows, numbers, self.left_out + left_out)


def cell_text(cell: Any) -> str:
    """A cell as text; 2.0 is "2", as tables write whole numbers either way."""
    if isinstance(cell, (float, np.floating)) and cell.is_integer():
        return str(int(cell))
    return str(cell).strip()


def cell_number(cell: Any, unit: str = "") -> float | None:
    """A cell as a finite number, None if it is not one; −0.0 is 0.0. It may have this ``unit``, and as text commas
    between thousands."""
    try:
        number = None if isinstance(cell, bool) else finite_number(float(cell))
    except (TypeError, ValueError, OverflowError):
        number = written_number(cell, unit) if isinstance(cell, str) else None
    return None if number is None else number + 0.0


def read(path: Path, *, by_place: bool = False, may_be_empty: bool = False, encoding: str | None = None) -> Table:
    """A table with a header and at least one row, unless it ``may_be_empty``.

    ``by_place`` allows columns without a name or with the same one; otherwise a first column without one, the index
    that R and pandas write, is left out. ``encoding`` is that of a CSV which is not in UTF-8 or UTF-16.
    """
    data = _bytes(path)
    if path.suffix.lower() in PARQUET or data.startswith(b"PAR1"):
        columns, numbered = _parquet(path, data)
    else:
        columns, numbered = _workbook(path, data) if is_workbook(data) else _csv(path, data, encoding)
    if not by_place and len(columns) > 1 and not columns[0]:
        columns, numbered = columns[1:], {number: row[1:] for number, row in numbered.items()}
    for place, column in enumerate([] if by_place else columns, start=1):
        if not column:
            raise InvalidData(f"{path.name}: column {place} has no name; name it, or write the table without its index")
    if not by_place:
        check_columns(path, columns)
    if not numbered and not (may_be_empty and columns):
        raise InvalidData(f"{path.name}: expected a header and at least one row below it, got none")
    return Table(path.name, columns, list(numbered.values()), list(numbered))


def check_columns(path: Path, columns: Sequence[str]) -> None:
    """Raises if there are more columns than any table of ours has, or two of one name."""
    _check_size(path, len(columns), 0)
    for column, times in Counter(columns).items():
        if times > 1:
            raise InvalidData(f"{path.name}: column {column!r} is there twice; rename one of them")


def lines(path: Path, encoding: str | None = None) -> list[str]:
    """The lines of a text file that are not blank."""
    return [line.strip() for line in decoded(path, _bytes(path), encoding).splitlines() if line.strip()]


def file_bytes(path: Path, max_bytes: int) -> bytes:
    """All of a file that is no device, pipe or folder, which might have no end, and is not too large to hold."""
    nonblocking = getattr(os, "O_NONBLOCK", 0)  # a pipe does not wait for somebody who writes to it
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | nonblocking)) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(mode := status.st_mode):
            got = "a folder" if stat.S_ISDIR(mode) else "a pipe" if stat.S_ISFIFO(mode) else "a device or socket"
            raise OSError(f"expected a file, got {got}")
        if status.st_size > max_bytes:
            raise OSError(f"expected at most {max_bytes:,} bytes, got {status.st_size:,}")
        return file.read(status.st_size)


def _bytes(path: Path) -> bytes:
    try:
        return file_bytes(path, MAX_TABLE_BYTES)
    except OSError as error:
        raise InvalidData(f"cannot read {path}: {error.strerror or error}; check the file's name") from None


def _csv(path: Path, data: bytes, encoding: str | None) -> tuple[list[str], dict[int, list[Any]]]:
    text = decoded(path, data, encoding)
    separator = _separator(text)
    _check_size(path, text.lstrip().partition("\n")[0].count(separator) + 1, text.count(separator) + text.count("\n"))
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=separator))
    except csv.Error as error:
        raise InvalidData(f"cannot read {path}: expected a CSV file, got {error}") from None
    if separator == ";":
        rows = _with_points(rows)
    filled: dict[int, list[Any]] = {k: row for k, row in enumerate(rows, start=1) if any(cell.strip() for cell in row)}
    header = [cell.strip() for cell in filled.pop(next(iter(filled), 0), [])]
    name = {",": "commas", ";": "semicolons", "\t": "tabs"}[separator]
    for number, row in filled.items():
        if len(row) != len(header):
            mismatch = f"expected {len(header)} cells, as the header has, got {len(row)}"
            raise InvalidData(f"{path.name}, row {number}: {mismatch}; cells with {name} need quotation marks")
    return header, filled


def _check_size(path: Path, columns: int, cells: int) -> None:
    """Before cells are made."""
    if columns > MAX_COLUMNS:
        raise InvalidData(f"{path.name}: expected at most {MAX_COLUMNS:,} columns, got {columns:,}; leave some out")
    if cells > MAX_CELLS:
        raise InvalidData(f"{path.name}: expected at most {MAX_CELLS:,} cells, got {cells:,}; split it into several")


@dataclass(frozen=True)
class CsvFormat:
    """How a CSV is written, by its first rows."""

    columns: list[str]
    separator: str
    decimal: str  # the mark in 3.5
    encoding: str


def csv_format(path: Path, encoding: str | None = None) -> CsvFormat:
    """Of a file that is too large to hold."""
    with path.open("rb") as file:
        start = file.read(FORMAT_BYTES)
    encoding = encoding_of(start, encoding)
    text = start.decode(encoding, errors="replace")
    separator = _separator(text)
    rows = list(csv.reader(io.StringIO(text.rpartition("\n")[0] or text, newline=""), delimiter=separator))
    cells = [cell for row in rows[1:] for cell in row] if separator == ";" else []
    commas = any(map(COMMA_NUMBER.fullmatch, cells)) and not any(map(POINT_NUMBER.fullmatch, cells))
    columns = [cell.strip() for cell in rows[0]] if rows else []
    return CsvFormat(columns, separator, "," if commas else ".", "utf-8" if encoding == "utf-8-sig" else encoding)


def _separator(text: str) -> str:
    """What a header has most of, outside of quotation marks."""
    header = re.sub(r'"[^"]*"', "", text.lstrip().partition("\n")[0])
    return max(SEPARATORS, key=header.count)


def _with_points(rows: list[list[str]]) -> list[list[str]]:
    """Rows in which 3,5 is a number, unless another cell writes numbers with a point; so is 3,5 kg, where all cells of
    a column have a unit: else it may be a name."""
    if any(POINT_NUMBER.fullmatch(cell) for row in rows for cell in row):
        return rows
    columns = zip_longest(*rows[1:], fillvalue="")
    measured = {k for k, cells in enumerate(columns) if all(map(COMMA_MEASURE.fullmatch, cells))}
    forms = [COMMA_MEASURE if k in measured else COMMA_NUMBER for k in range(max(map(len, rows), default=0))]
    return [
        [cell.replace(",", ".") if form.fullmatch(cell) else cell for cell, form in zip(row, forms)] for row in rows
    ]


def _workbook(path: Path, data: bytes) -> tuple[list[str], dict[int, list[Any]]]:
    """The header is the first row that is not empty."""
    rows = dict(workbook_rows(path.name, data, MAX_CELLS))
    header = [cell_text("" if cell is None else cell) for cell in rows.pop(next(iter(rows), 0), [])]
    for number, row in rows.items():
        if len(row) > len(header):
            mismatch = f"expected at most {len(header)} cells, as the header has, got {len(row)}"
            raise InvalidData(f"{path.name}, row {number}: {mismatch}; the table is that of the first sheet")
    return header, {number: row + [None] * (len(header) - len(row)) for number, row in rows.items()}


def _parquet(path: Path, data: bytes) -> tuple[list[str], dict[int, list[Any]]]:
    arrow = pyarrow_for(path)
    from pyarrow.parquet import ParquetFile

    try:
        file = ParquetFile(io.BytesIO(data))
        check_parquet(path, file.metadata, len(data))
        texts = [field.name for field in file.schema_arrow if str(field.type) in ("string", "large_string")]
        table = ParquetFile(io.BytesIO(data), read_dictionary=texts).read()
        names = {k: name for k, name in enumerate(table.column_names) if not name.startswith(PANDAS_INDEX)}
        rows = zip(*[_cells(table.column(k)) for k in names])  # two may have one name
    except InvalidData:
        raise
    except (
        arrow.ArrowException,
        OSError,
        ValueError,
        OverflowError,
    ) as error:  # also text that is not UTF-8, and odd dates
        raise InvalidData(f"cannot read {path}: expected a Parquet file, got {error}") from None
    return list(names.values()), dict(enumerate(map(list, rows), start=1))


def pyarrow_for(path: Path) -> Any:
    """pyarrow, or the refusal of a file that needs it."""
    try:
        import pyarrow
    except ImportError:
        raise InvalidData(f"reading {path.name} needs pyarrow: pip install 'motet[tables]'") from None
    return pyarrow


def check_parquet(path: Path, metadata: Any, size: int) -> None:
    """Sizes as a file's metadata tell them, before anything is read: a few bytes may stand for billions of cells."""
    cells = metadata.num_rows * metadata.num_columns
    _check_size(path, metadata.num_columns, cells)
    if cells > FREE_CELLS + CELLS_PER_BYTE * size:
        got = f"{cells:,} in {size:,} bytes"
        raise InvalidData(f"{path.name}: expected at most {CELLS_PER_BYTE} cells for each byte, got {got}")
    unpacked = sum(metadata.row_group(k).total_byte_size for k in range(metadata.num_row_groups))
    if unpacked > MAX_TABLE_BYTES:
        raise InvalidData(f"{path.name}: expected at most {MAX_TABLE_BYTES:,} bytes unpacked, got {unpacked:,}")


def _cells(column: Any) -> list[Any]:
    """Lists and structs as text: a cell can be compared with others. A text that is stored once is in memory once."""
    cells: list[Any] = []
    for chunk in column.chunks:
        if hasattr(chunk, "dictionary"):
            texts = chunk.dictionary.to_pylist()
            cells += [None if k is None else texts[k] for k in chunk.indices.to_pylist()]
        else:
            cells += [str(cell) if isinstance(cell, (list, dict)) else cell for cell in chunk.to_pylist()]
    return cells


# --- new files ---


def check_new(path: Path, *, force: bool = False) -> None:
    """Refuse a file that exists, unless ``force``; before the work, so that none is lost."""
    if path.exists() and not force:
        raise InvalidData(f"{path} already exists: choose another name, or overwrite it with force=True")


@contextmanager
def new_file(
    path: Path, refusal: type[MotetError], *, text: bool = False, keep_unfinished: bool = False
) -> Iterator[IO[Any]]:
    """A file that did not exist, for its owner alone, and on disk at the end.

    If the block fails, the file is removed; with ``keep_unfinished`` only if it is empty.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise refusal(f"{path} already exists: choose another name, or move it away") from None
    with open(descriptor, "w", encoding="utf-8", newline="") if text else open(descriptor, "wb") as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            if not (keep_unfinished and file.tell()):
                path.unlink()
            raise


@contextmanager
def writing(path: Path, refusal: type[MotetError]) -> Iterator[None]:
    """An error of the system while a file or folder is written, as a refusal."""
    try:
        yield
    except OSError as error:
        raise refusal(f"cannot write {path}: {error.strerror}; choose another place") from None
