"""Data frames, pandas's or polars's, as the regressor reads them: a column of tasks, and columns of inputs.

scikit-learn turns a frame into an array and forgets which column is which; whatever is refused here is named.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motet.arrays import Array, Index, outliers
from motet.errors import EmptyData, InvalidData
from motet.tables.dates import orders_of
from motet.tables.files import Table, check_columns
from motet.tables.missing import Missing, missing_column
from motet.text import MAX_NAMES, first_few

DECLARED = ("category", "Enum")  # types of categories, of pandas and polars, that list their levels
CATEGORIES = (*DECLARED, "Categorical")


def columns_of(X: Any) -> list[Hashable]:
    """The names of a frame's columns; none if it is not a frame."""
    return list(getattr(X, "columns", []))


def table_of(frame: Any) -> Table:
    """A frame with the cells that its file would have; rows are numbered from 1, as in Parquet."""
    if not (columns := [str(column) for column in columns_of(frame)]):
        raise InvalidData(f"expected a file or a data frame with columns, got {type(frame).__name__}")
    file = "the data frame"
    check_columns(Path(file), columns)
    cells = [frame[column].to_list() for column in frame.columns]
    rows = [[str(cell) if isinstance(cell, (list, dict)) else cell for cell in row] for row in zip(*cells)]
    if not rows:
        raise InvalidData(f"{file}: expected at least one row, got none")
    return Table(file, columns, rows, list(range(1, len(rows) + 1)))


def split_tasks(X: Any, task: Hashable, *, required: bool) -> tuple[Any, Any]:
    """The inputs without the column ``task``, and that column, or None if it may be missing."""
    columns = columns_of(X)
    if not columns:
        raise InvalidData(
            f"expected a data frame with a column {task!r} of tasks, got {type(X).__name__}; in a pipeline, "
            'pipeline.set_output(transform="pandas") keeps frames, or leave the column out of X and give it as '
            "metadata, task=ids, to a regressor without task"
        )
    if task in columns:
        return X[[column for column in columns if column != task]], X[task]
    names = [str(column) for column in columns]
    prefixed = [name for name in names if name.endswith(f"__{task}")]  # by a ColumnTransformer
    if required or prefixed or str(task).casefold() in (name.casefold() for name in names):
        error = missing_column(None, str(task), names, "task")
        if prefixed:
            advice = f"ColumnTransformer(…, verbose_feature_names_out=False) leaves {prefixed[0]!r} its name"
            raise error.reworded(f"{error}; {advice}")
        raise error
    return X, None


def check_inputs(X: Any, task: Hashable, expected: list[str] | None) -> None:
    """Raises unless X can be read as inputs: a frame with columns of numbers, or an array as wide as ``expected``.

    ``expected`` are the columns that the regressor was fitted with, if they had names.
    """
    columns = columns_of(X)
    wanted = "columns of inputs" if expected is None else f"the columns {first_few(map(str, expected))}"
    if hasattr(X, "columns") and not columns:
        only = "no columns" if task is None else f"only the column {task!r} of tasks"
        raise InvalidData(f"expected {wanted}, got {only}")
    for column in columns:
        if getattr(X[column], "ndim", 1) == 1 and (got := _other_than_numbers(X[column])):  # a name may occur twice
            raise InvalidData(f"expected numbers in the column {column!r}, got {got}")
    if not columns and expected is not None and np.ndim(X) == 2 and np.shape(X)[1] != len(expected):
        raise InvalidData(f"expected {wanted}, got an array of {np.shape(X)[1]} columns")


def is_numeric(values: Any) -> bool:
    """Whether a frame's column holds numbers, truth values, or objects that are numbers, and is no category."""
    return not str(values.dtype).startswith(CATEGORIES) and not _other_than_numbers(values)


def _other_than_numbers(values: Any) -> str:
    """What a column holds instead of numbers, and what to do; "" if it holds numbers, or objects that are numbers."""
    if getattr(values.dtype, "kind", "O") in "biufc":
        return ""
    array = np.asarray(values)
    first = [cell for cell in array[: 2 * MAX_NAMES].tolist() if not isinstance(cell, (list, dict, np.ndarray))]
    if array.dtype.kind in "mM" or (first and orders_of(first)):
        form = values.dtype if array.dtype.kind in "mM" else f"such as {array[0]}"
        return f"dates or times ({form}); convert them, for example to hours since the first"
    for value in array.tolist() if array.dtype.kind not in "biufc" else ():
        try:
            float(value)
        except (TypeError, ValueError):
            return f"{value!r:.30}; encode it, or leave it out"
    return ""


def complete_rows(missing: Missing) -> Index:
    """The rows that miss nothing; a warning tells of the others, of the line that called ``fit``, three calls above."""
    if missing.left_out:
        if not len(missing.complete):
            raise EmptyData(f"every row has missing values: {missing.words}")
        dropped = f"{missing.left_out} of {len(missing.rows)} rows have missing values and are left out"
        warnings.warn(f"{dropped}: {missing.words}", UserWarning, stacklevel=5)
    return missing.complete


def warn_of_outliers(columns: Mapping[str, Array], rows: Index) -> None:
    """A warning for each column in which a few numbers are so far from all others that they decide every setting.

    ``rows`` are the numbers of the rows; the warning is of the line that called ``fit``, three calls above.
    """
    for name, numbers in columns.items():
        far, std = outliers(numbers)
        if len(far):
            size = abs(numbers[far[0]] - np.median(numbers)) / std
            warnings.warn(
                f"row {rows[far[0]]}, {name} {numbers[far[0]]:g}: {size:.1g} times the standard deviation of the "
                "others, so it decides all that is fitted; correct it, or leave the row out",
                UserWarning,
                stacklevel=5,
            )


def missing_outputs(y: Any) -> NDArray[np.bool_]:
    """Which outputs are missing; none if they are no list of numbers, which is refused elsewhere."""
    try:
        array = np.asarray(y)
        array = array.astype(np.float64) if array.dtype.kind in "fO" else np.zeros(array.shape)
    except (TypeError, ValueError):
        return np.zeros(np.shape(y)[:1], dtype=bool)
    return np.isnan(array) if array.ndim == 1 else np.zeros(array.shape[:1], dtype=bool)
