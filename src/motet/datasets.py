"""Tables that are too large to hold: Parquet or CSV, a file or a folder of files, read in batches of rows.

``Dataset.open`` looks at every file before any work: columns, their types, footers. What only the rows show (a missing
value, text among numbers, a damaged row group) is refused when it is met. A refusal names file, row and column.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from motet.arrays import far_number, is_finite
from motet.cells import NO_OUTCOMES, kind_of
from motet.decoding import first_undecodable
from motet.errors import InvalidData
from motet.files import (
    FORMAT_BYTES,
    MISSING,
    PARQUET,
    Table,
    cell_number,
    check_columns,
    csv_format,
    is_missing,
    read,
    writing,
)
from motet.text import first_few, suggestion
from motet.workbooks import is_workbook

MAX_HELD_BYTES = 2**25  # of a CSV that is read at once, with all that ``files.read`` understands
CSV_BLOCK_BYTES = 2**24
ROWS_PER_PART = 50_000  # of a table of cells
ROW = re.compile(r"Row #(\d+): ?")
CSV_COLUMN = re.compile(r"In CSV column #(\d+): ?")
CELL = re.compile(r"invalid value '(.*)'", re.S)

Batch: TypeAlias = dict[str, Any]  # arrays of equal length, by column
BATCH_ROWS = 2**18  # read at once
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Fields:
    """Which columns of a table are what; ``noise`` is each row's variance in units of the noise's, 1 if None."""

    task: str
    target: str
    inputs: tuple[str, ...]
    noise: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", tuple(self.inputs))
        if not self.inputs:
            raise InvalidData(f"expected columns of inputs beside {self.task} and {self.target}, got none")
        for column in self.numbers:
            if column == self.task or self.numbers.count(column) > 1:
                roles = "the column of tasks" if column == self.task else "there twice"
                raise InvalidData(f"column {column!r} is {roles}: name another")

    @property
    def numbers(self) -> list[str]:
        return [*self.inputs, self.target, *([] if self.noise is None else [self.noise])]

    @property
    def names(self) -> list[str]:
        return [self.task, *self.numbers]


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
            return _open_parquet(path, files)
        if _is_held(files):
            table = read(files[0], encoding=encoding)
            return cls(path, files, table.columns, len(table.rows), table)
        return _open_csv(path, files, encoding)

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

    def require(self, column: str, option: str = "") -> None:
        """Raises unless there is such a column; ``option`` is how to name another."""
        if column not in self.columns:
            hint = suggestion(column, self.columns) or (f"; name another, {option} COLUMN" if option else "")
            raise InvalidData(f"{self.path.name}: no column {column!r}; got {first_few(self.columns)}{hint}")

    def check(self, fields: Fields) -> None:
        """Raises unless the columns are there, with types that can be numbers; before any row is read."""
        for column in fields.names:
            self.require(column)
        if self.is_parquet:
            schema = _parquet_file(self.files[0]).schema_arrow
            for column in fields.numbers:
                if (kind := _not_numbers(schema.field(column).type)) is not None:
                    raise _refusal(f"{self.files[0].name}, column {column}", f"expected numbers, got {kind}")

    def units(self, fields: Fields) -> dict[str, str]:
        """The units that numbers in cells have, by column; a larger table than one that is held has none."""
        units = {column: "" if self.table is None else self.table.unit(column) for column in fields.numbers}
        return {column: unit for column, unit in units.items() if unit}

    def check_outliers(self, fields: Fields) -> None:
        """Raises if a few numbers of a held table are so far from all others that they decide every setting."""
        for column in fields.numbers if self.table is not None else ():
            assert self.table is not None
            far = far_number(_floats(self.table, column, is_output=column == fields.target))
            if far is not None:
                raise self.table.refusal(far[0], column, f"{far[1]}: {OUTLIER_ADVICE}")

    def batches(self, fields: Fields, *, rows: int = BATCH_ROWS, skip_missing: bool = False) -> Iterator[Batch]:
        """All rows in batches of at most about ``rows``: numbers as floats, labels of tasks as they are.

        A row that lacks one of them is refused, or with ``skip_missing`` left out; ``ROWS_READ`` of a batch counts it.
        """
        self.check(fields)
        if self.table is not None:
            yield _held_batch(self.table, fields, skip_missing)
            return
        for file in self.files:
            for batch, place in _file_batches(self, file, fields.names, fields.numbers, rows):
                yield _arrays(batch, place, fields, skip_missing)


ROWS_READ = "rows read"  # in a batch: how many rows it was made of, those left out included


def _files(path: Path) -> tuple[Path, ...]:
    """The file, or all tables of a folder in the order of their names."""
    if not path.is_dir():
        if not path.exists():
            raise InvalidData(f"cannot read {path}: there is no such file or folder; check its name")
        if not path.is_file():  # a pipe or a device has no end
            raise InvalidData(f"cannot read {path}: expected a file or folder, got a pipe, device or socket")
        return (path,)
    every = (file for file in path.rglob("*") if file.is_file() and not _is_hidden(file.relative_to(path)))
    files = tuple(sorted(file for file in every if file.suffix.lower() in (*PARQUET, ".csv")))
    if not files:
        raise InvalidData(f"{path}: expected a folder of Parquet or CSV files, got none")
    kinds = {file.suffix.lower() in PARQUET for file in files}
    if len(kinds) > 1:
        raise InvalidData(f"{path}: expected files of one format, got Parquet and CSV; keep one of them")
    return files


def _is_parquet(file: Path) -> bool:
    """By its name, or by its first bytes."""
    return file.suffix.lower() in PARQUET or _start(file).startswith(b"PAR1")


def _is_held(files: tuple[Path, ...]) -> bool:
    """Whether a table that is not Parquet is read at once: a small one, or an Excel workbook."""
    return len(files) == 1 and (files[0].stat().st_size <= MAX_HELD_BYTES or is_workbook(_start(files[0])))


def _start(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(8)


def _file_batches(
    dataset: Dataset, file: Path, columns: Sequence[str], numbers: Sequence[str], rows: int
) -> Iterator[tuple[Any, Place]]:
    if dataset.is_parquet:
        return _parquet_batches(file, columns, rows)
    return _csv_batches(file, columns, numbers, rows, dataset.encoding)


def _is_hidden(path: Path) -> bool:
    """As pyarrow and Spark see it: their own notes, and files that are being written."""
    return any(part.startswith((".", "_")) for part in path.parts)


def _refusal(where: str, what: str) -> InvalidData:
    return InvalidData(f"{where}: {what}", where=where)


# --- a small CSV ---


def _held_batch(table: Table, fields: Fields, skip_missing: bool) -> Batch:
    """All of it at once."""
    floats = {column: _floats(table, column, is_output=column == fields.target) for column in fields.numbers}
    absent = {column: [is_missing(cell) for cell in table.cells(column)] for column in fields.names}
    missing = np.any(list(absent.values()), axis=0)
    if missing.any() and not skip_missing:
        k = int(np.argmax(missing))
        raise table.refusal(k, next(column for column in absent if absent[column][k]), MISSING_VALUE)
    if fields.noise is not None and (wrong := floats[fields.noise] <= 0).any():
        raise table.refusal(int(np.argmax(wrong)), fields.noise, NOT_POSITIVE)
    complete = np.flatnonzero(~missing)
    labels = np.array(table.only(complete).texts(fields.task), dtype=object)
    numbers = {column: values[complete] for column, values in floats.items()}
    return {fields.task: labels, **numbers, ROWS_READ: len(missing)}


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


NOT_POSITIVE = "expected a variance above 0"
OUTLIER_ADVICE = "correct it, or empty the cell and leave the row out with --skip-missing"
MISSING_VALUE = "expected a value, got nothing; --skip-missing leaves such rows out"


# --- Arrow ---

Place: TypeAlias = Callable[[int], str]  # of a row of a batch


def _arrays(batch: Any, place: Place, fields: Fields, skip_missing: bool) -> Batch:
    """A record batch as arrays, without rows that lack something."""
    arrays = {name: _column(batch.column(name), name in fields.numbers) for name in fields.names}
    absent = {
        name: np.isnan(values) if name in fields.numbers else _nulls(batch.column(name))
        for name, values in arrays.items()
    }
    missing = np.any(list(absent.values()), axis=0)
    if missing.any() and not skip_missing:
        k = int(np.argmax(missing))
        raise _refusal(f"{place(k)}, column {next(name for name in absent if absent[name][k])}", MISSING_VALUE)
    for name in fields.numbers:
        if not (good := is_finite(arrays[name]) | absent[name]).all():
            k = int(np.argmin(good))
            raise _refusal(f"{place(k)}, column {name}", f"expected a finite number, got {arrays[name][k]}")
    if fields.noise is not None and (wrong := arrays[fields.noise] <= 0).any():
        raise _refusal(f"{place(int(np.argmax(wrong)))}, column {fields.noise}", NOT_POSITIVE)
    if missing.any():
        arrays = {name: values[~missing] for name, values in arrays.items()}
    return arrays | {ROWS_READ: len(missing)}


def _column(column: Any, is_number: bool) -> Any:
    if is_number:
        return np.asarray(column.cast("float64").to_numpy(zero_copy_only=False), dtype=np.float64)
    return column.to_numpy(zero_copy_only=False)


def _nulls(column: Any) -> Any:
    if not column.null_count:
        return np.zeros(len(column), dtype=bool)
    return column.is_null().to_numpy(zero_copy_only=False)


def _not_numbers(type: Any) -> str | None:
    """What a column of this type has instead of numbers; None if it has numbers."""
    from pyarrow import types

    if types.is_integer(type) or types.is_floating(type) or types.is_decimal(type):
        return None
    return "no value at all" if types.is_null(type) else f"{type}; encode it, or leave it out"


def _arrow(what: Path) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise InvalidData(f"reading {what.name} needs pyarrow: pip install 'motet[tables]'") from None
    return pyarrow


# --- Parquet ---


def _parquet_file(file: Path) -> Any:
    arrow = _arrow(file)
    from pyarrow.parquet import ParquetFile

    try:
        return ParquetFile(file, page_checksum_verification=True)
    except (arrow.ArrowException, OSError) as error:
        raise _refusal(str(file), f"expected a Parquet file, got {_line(error)}; write it anew") from None


def _open_parquet(path: Path, files: tuple[Path, ...]) -> Dataset:
    first, rows = _parquet_file(files[0]), 0
    for file in files:
        other = _parquet_file(file)
        if other.schema_arrow != first.schema_arrow:
            difference = _schema_difference(first.schema_arrow, other.schema_arrow)
            raise _refusal(str(file), f"expected the columns of {files[0].name}, got {difference}")
        rows += other.metadata.num_rows
    if not rows:
        raise InvalidData(f"{path}: expected at least one row, got none")
    columns = [name for name in first.schema_arrow.names if not name.startswith("__index_level_")]  # pandas' own
    check_columns(path, columns)
    return Dataset(path, files, columns, rows)


def _schema_difference(expected: Any, got: Any) -> str:
    """The first column that differs."""
    for field in expected:
        if field.name not in got.names:
            return f"none called {field.name!r}"
        if got.field(field.name).type != field.type:
            return f"{field.name!r} as {got.field(field.name).type}, not {field.type}"
    new = [name for name in got.names if name not in expected.names]
    return f"{new[0]!r} besides" if new else "another order"


def row_groups(dataset: Dataset) -> list[tuple[Path, int]]:
    """Every row group of a dataset of Parquet files."""
    return [(file, k) for file in dataset.files for k in range(_parquet_file(file).num_row_groups)]


def _parquet_batches(
    file: Path, columns: Sequence[str], rows: int, groups: Sequence[int] | None = None
) -> Iterator[tuple[Any, Place]]:
    opened, before = _parquet_file(file), 0
    for group in range(opened.num_row_groups):
        if groups is None or group in groups:
            batches = opened.iter_batches(rows, [group], list(columns))
            where = f"{file.name}, row group {group + 1} of {opened.num_row_groups}"
            begin = before
            for batch in _refused(batches, where):
                yield batch, lambda k, begin=begin: f"{file.name}, row {begin + k + 1}"  # type: ignore[misc]
                begin += len(batch)
        before += opened.metadata.row_group(group).num_rows


def read_row_group(place: tuple[Path, int], fields: Fields, skip_missing: bool = False) -> Batch:
    """The rows of one of the ``row_groups``."""
    file, group = place
    found = [
        _arrays(batch, where, fields, skip_missing)
        for batch, where in _parquet_batches(file, fields.names, 2**30, [group])
    ]
    return joined(found)


def _refused(batches: Iterator[Any], where: str) -> Iterator[Any]:
    """Batches, with Arrow's errors as refusals."""
    from pyarrow import ArrowException

    while True:
        try:
            batch = next(batches, None)
        except (ArrowException, OSError) as error:
            raise _refusal(where, f"cannot be read ({_line(error)}); write the file anew") from None
        if batch is None:
            return
        yield batch


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:120]


# --- CSV ---


def _open_csv(path: Path, files: tuple[Path, ...], encoding: str | None = None) -> Dataset:
    _arrow(path)
    columns = csv_format(files[0], encoding).columns
    for file in files:
        if (others := csv_format(file, encoding).columns) != columns:
            raise _refusal(str(file), f"expected the columns of {files[0].name}, {first_few(columns)}; got {others}")
    for place, column in enumerate(columns, start=1):
        if not (column or place == 1):  # the first may be the index of R or pandas
            raise InvalidData(f"{path.name}: column {place} has no name; rename it")
    check_columns(path, columns)
    return Dataset(path, files, columns, None, encoding=encoding)


def _csv_batches(
    file: Path, columns: Sequence[str], numbers: Sequence[str], rows: int, encoding: str | None
) -> Iterator[tuple[Any, Place]]:
    import pyarrow as pa
    from pyarrow import csv

    format = csv_format(file, encoding)
    types = {name: pa.float64() if name in numbers else pa.string() for name in columns}
    words = [form for word in MISSING for form in {word, word.upper(), word.capitalize(), word.title()}]
    try:
        reader = csv.open_csv(
            file,
            read_options=csv.ReadOptions(block_size=CSV_BLOCK_BYTES, use_threads=False, encoding=format.encoding),
            parse_options=csv.ParseOptions(delimiter=format.separator, newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=types,
                include_columns=list(columns),
                decimal_point=format.decimal,
                null_values=[*words, "NaN"],
                strings_can_be_null=True,
            ),
        )
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _csv_refusal(file, format.columns, error, encoding) from None
    begin = 2  # the header is row 1
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise _csv_refusal(file, format.columns, error, encoding) from None
        for part in range(0, len(batch), rows):
            place: Place = lambda k, begin=begin + part: f"{file.name}, row {begin + k}"  # type: ignore[misc]  # noqa: E731
            yield batch.slice(part, rows), place
        begin += len(batch)


def _csv_refusal(file: Path, columns: Sequence[str], error: Exception, encoding: str | None) -> InvalidData:
    """Arrow's error in our words."""
    text = _line(error)
    if (isinstance(error, UnicodeDecodeError) or "UTF8" in text) and (refusal := first_undecodable(file, encoding)):
        return refusal
    row, column, cell = ROW.search(text), CSV_COLUMN.search(text), CELL.search(text)
    where = file.name + (f", row {row[1]}" if row else "")
    if column:
        where += f", column {columns[int(column[1])]}"
    if cell:
        what = "; ".join(kind_of(cell[1].strip()))
        return _refusal(where, f"expected a finite number, got {cell[1]!r:.60}: {what}, or leave the column out")
    return _refusal(where, ROW.sub("", text).removeprefix("CSV parse error: "))


# --- tables of cells, in parts ---


def table_parts(path: Path, rows: int = ROWS_PER_PART, encoding: str | None = None) -> Iterator[Table]:
    """A table as ``files.read`` has it, in parts; a small CSV is one part."""
    files = _files(path)
    if not _is_parquet(files[0]):
        if _is_held(files):
            yield read(files[0], encoding=encoding)
            return
        dataset = _open_csv(path, files, encoding)
    else:
        dataset = _open_parquet(path, files)
    for file in files:
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


# --- new tables ---


@contextmanager
def new_table(path: Path) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """A Parquet file that is there at the end, or not at all; yields the function that writes a batch."""
    arrow = _arrow(path)
    from pyarrow.parquet import ParquetWriter

    with unfinished(path) as scratch, ExitStack() as stack:
        writers: list[Any] = []

        def write(batch: Mapping[str, Any]) -> None:
            table = arrow.table(dict(batch))
            if not writers:
                writers.append(stack.enter_context(ParquetWriter(scratch, table.schema)))
            writers[0].write_table(table.cast(writers[0].schema))

        yield write
        stack.close()


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """A name beside ``path`` to write a file or a folder to, which gets its own name if the block succeeds."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with writing(path, InvalidData):
            yield scratch
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.exists() and scratch.is_dir():
                path.unlink()
            scratch.replace(path)
    finally:
        if scratch.is_dir():
            shutil.rmtree(scratch)
        scratch.unlink(missing_ok=True)


# --- batches ---


def joined(batches: Sequence[Mapping[str, Any]]) -> Batch:
    """Several batches as one."""
    if len(batches) == 1:
        return dict(batches[0])
    return {
        name: sum(batch[name] for batch in batches)
        if name == ROWS_READ
        else np.concatenate([batch[name] for batch in batches])
        for name in batches[0]
    }


def ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The same items, the next one made while the last is worked on."""
    with ThreadPoolExecutor(1) as thread:
        following = thread.submit(next, items, None)
        while (item := following.result()) is not None:
            following = thread.submit(next, items, None)
            yield item


def overlapped(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """``map``, with two items under way at a time."""
    under_way = deque[Future[Result]]()
    with ThreadPoolExecutor(2) as threads:
        for item in items:
            under_way.append(threads.submit(function, item))
            if len(under_way) > 1:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
