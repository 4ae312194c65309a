"""Parquet files, and CSVs that are too large to hold, in batches of rows: pyarrow, with its errors as refusals.

Numbers are floats, labels of tasks are as they are. A refusal names file, row and column. A new table is written beside
its name, and gets the name when it is whole.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from motet.arrays import is_finite
from motet.errors import InvalidData
from motet.tables.cells import kind_of
from motet.tables.decoding import first_undecodable
from motet.tables.files import PANDAS_INDEX, check_columns, csv_format, pyarrow_for, writing
from motet.tables.missing import MISSING_VALUE, WORDS, Missing
from motet.tables.roles import Roles
from motet.text import first_few

CSV_BLOCK_BYTES = 2**24
ROW = re.compile(r"Row #(\d+): ?")
CSV_COLUMN = re.compile(r"In CSV column #(\d+): ?")
CELL = re.compile(r"invalid value '(.*)'", re.S)
ROWS_READ = "rows read"  # in a batch: how many rows it was made of, those left out included

Batch: TypeAlias = dict[str, Any]  # arrays of equal length, by column
Place: TypeAlias = Callable[[int], str]  # of a row of a batch


def refusal(where: str, what: str) -> InvalidData:
    return InvalidData(f"{where}: {what}", where=where)


# --- record batches ---


def arrays(batch: Any, place: Place, roles: Roles, skip_missing: bool) -> Batch:
    """A record batch as arrays, without rows that lack something."""
    arrays, absent = {}, {}
    for name in roles.names:
        column = batch.column(name)
        if name in roles.numbers:
            arrays[name] = np.asarray(column.cast("float64").to_numpy(zero_copy_only=False), dtype=np.float64)
            absent[name] = np.isnan(arrays[name])
        else:
            arrays[name], absent[name] = (part.to_numpy(zero_copy_only=False) for part in (column, column.is_null()))

    def refused(k: int, column: str, what: str) -> InvalidData:
        return refusal(f"{place(k)}, column {column}", what)

    return complete_rows(arrays, absent, roles, refused, skip_missing=skip_missing)


def complete_rows(
    arrays: Batch, absent: Batch, roles: Roles, refused: Callable[[int, str, str], InvalidData], *, skip_missing: bool
) -> Batch:
    """A batch without the rows that lack something, which are refused unless they are skipped; of finite numbers, and
    of noise above 0."""
    missing = Missing.of(absent)
    if not skip_missing:
        missing.check(lambda k, column: refused(k, column, MISSING_VALUE))
    for name in roles.numbers:
        if not (good := is_finite(arrays[name]) | absent[name]).all():
            k = int(np.argmin(good))
            raise refused(k, name, f"expected a finite number, got {arrays[name][k]}")
    if roles.noise is not None and (wrong := arrays[roles.noise] <= 0).any():
        raise refused(int(np.argmax(wrong)), roles.noise, "expected a variance above 0")
    if missing.left_out:
        arrays = {name: values[missing.complete] for name, values in arrays.items()}
    return arrays | {ROWS_READ: len(missing.rows)}


def not_numbers(type: Any) -> str | None:
    """What a column of this type has instead of numbers; None if it has numbers."""
    from pyarrow import types

    if types.is_integer(type) or types.is_floating(type) or types.is_decimal(type):
        return None
    return "no value at all" if types.is_null(type) else f"{type}; encode it, or leave it out"


@contextmanager
def _refused(refusal_of: Callable[[Exception], InvalidData]) -> Iterator[None]:
    """Arrow's errors in what is done inside, as refusals."""
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError, UnicodeDecodeError) as error:
        raise refusal_of(error) from None


# --- Parquet ---


def parquet_file(file: Path) -> Any:
    pyarrow_for(file)
    from pyarrow.parquet import ParquetFile

    with _refused(lambda error: refusal(str(file), f"expected a Parquet file, got {_line(error)}; write it anew")):
        return ParquetFile(file, page_checksum_verification=True)


def parquet_columns(path: Path, files: Sequence[Path]) -> tuple[list[str], int]:
    """The columns of files of one schema, and how many rows they have."""
    first, rows = parquet_file(files[0]), 0
    for file in files:
        other = parquet_file(file)
        if other.schema_arrow != first.schema_arrow:
            difference = _schema_difference(first.schema_arrow, other.schema_arrow)
            raise refusal(str(file), f"expected the columns of {files[0].name}, got {difference}")
        rows += other.metadata.num_rows
    if not rows:
        raise InvalidData(f"{path}: expected at least one row, got none")
    columns = [name for name in first.schema_arrow.names if not name.startswith(PANDAS_INDEX)]
    check_columns(path, columns)
    return columns, rows


def _schema_difference(expected: Any, got: Any) -> str:
    """The first column that differs."""
    for field in expected:
        if field.name not in got.names:
            return f"none called {field.name!r}"
        if got.field(field.name).type != field.type:
            return f"{field.name!r} as {got.field(field.name).type}, not {field.type}"
    new = [name for name in got.names if name not in expected.names]
    return f"{new[0]!r} besides" if new else "another order"


def row_groups(files: Sequence[Path]) -> list[tuple[Path, int]]:
    """Every row group of Parquet files."""
    return [(file, k) for file in files for k in range(parquet_file(file).num_row_groups)]


def parquet_batches(
    file: Path, columns: Sequence[str], rows: int, groups: Sequence[int] | None = None
) -> Iterator[tuple[Any, Place]]:
    opened, before = parquet_file(file), 0
    for group in range(opened.num_row_groups):
        if groups is None or group in groups:
            where = f"{file.name}, row group {group + 1} of {opened.num_row_groups}"
            begin = before
            with _refused(partial(_damaged, where)):
                for batch in opened.iter_batches(rows, [group], list(columns)):
                    yield batch, lambda k, begin=begin: f"{file.name}, row {begin + k + 1}"  # type: ignore[misc]
                    begin += len(batch)
        before += opened.metadata.row_group(group).num_rows


def _damaged(where: str, error: Exception) -> InvalidData:
    return refusal(where, f"cannot be read ({_line(error)}); write the file anew")


def read_row_group(place: tuple[Path, int], roles: Roles, skip_missing: bool = False) -> Batch:
    """The rows of one of the ``row_groups``."""
    file, group = place
    batches = parquet_batches(file, roles.names, 2**30, [group])
    return joined([arrays(batch, where, roles, skip_missing) for batch, where in batches])


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:120]


# --- CSV ---


def csv_columns(path: Path, files: Sequence[Path], encoding: str | None = None) -> list[str]:
    """The columns that all of the files have."""
    pyarrow_for(path)
    columns = csv_format(files[0], encoding).columns
    for file in files:
        if (others := csv_format(file, encoding).columns) != columns:
            raise refusal(str(file), f"expected the columns of {files[0].name}, {first_few(columns)}; got {others}")
    for place, column in enumerate(columns, start=1):
        if not (column or place == 1):  # the first may be the index of R or pandas
            raise InvalidData(f"{path.name}: column {place} has no name; rename it")
    check_columns(path, columns)
    return columns


def csv_batches(
    file: Path, columns: Sequence[str], numbers: Sequence[str], rows: int, encoding: str | None
) -> Iterator[tuple[Any, Place]]:
    import pyarrow as pa
    from pyarrow import csv

    format = csv_format(file, encoding)
    types = {name: pa.float64() if name in numbers else pa.string() for name in columns}
    words = [form for word in WORDS for form in {word, word.upper(), word.capitalize(), word.title()}]
    options = {
        "read_options": csv.ReadOptions(block_size=CSV_BLOCK_BYTES, use_threads=False, encoding=format.encoding),
        "parse_options": csv.ParseOptions(delimiter=format.separator, newlines_in_values=True),
        "convert_options": csv.ConvertOptions(
            column_types=types,
            include_columns=list(columns),
            decimal_point=format.decimal,
            null_values=[*words, "NaN"],
            strings_can_be_null=True,
        ),
    }
    begin = 2  # the header is row 1
    with _refused(partial(_csv_refusal, file, format.columns, encoding)):
        for batch in csv.open_csv(file, **options):
            for part in range(0, len(batch), rows):
                yield batch.slice(part, rows), lambda k, begin=begin + part: f"{file.name}, row {begin + k}"  # type: ignore[misc]
            begin += len(batch)


def _csv_refusal(file: Path, columns: Sequence[str], encoding: str | None, error: Exception) -> InvalidData:
    """Arrow's error in our words."""
    text = _line(error)
    if (isinstance(error, UnicodeDecodeError) or "UTF8" in text) and (undecodable := first_undecodable(file, encoding)):
        return undecodable
    row, column, cell = ROW.search(text), CSV_COLUMN.search(text), CELL.search(text)
    where = file.name + (f", row {row[1]}" if row else "")
    if column:
        where += f", column {columns[int(column[1])]}"
    if cell:
        what = "; ".join(kind_of(cell[1].strip()))
        return refusal(where, f"expected a finite number, got {cell[1]!r:.60}: {what}, or leave the column out")
    return refusal(where, ROW.sub("", text).removeprefix("CSV parse error: "))


# --- new tables ---


@contextmanager
def new_table(path: Path) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """A Parquet file that is there at the end, or not at all; yields the function that writes a batch."""
    arrow = pyarrow_for(path)
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


def joined(batches: Sequence[Mapping[str, Any]]) -> Batch:
    """Several batches as one."""
    if len(batches) == 1:
        return dict(batches[0])
    table = {name: [batch[name] for batch in batches] for name in batches[0]}
    return {name: sum(parts) if name == ROWS_READ else np.concatenate(parts) for name, parts in table.items()}
