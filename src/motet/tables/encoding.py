"""The encoding of a data frame's inputs: columns of words, categories and dates as numbers, and what is missing.

``fit`` reads it off the frame that it is given, and every later frame is read in the same way. The columns are those
that a study and a release have. A category of two levels is one number, 0 or 1; of more, there is one for each level:
kernels are not indifferent to which level would be the reference of the others, and linear effects are counted from the
mean of all. A date is the days since the first one. Columns of numbers and truth values are read as they are, and so
are frames without other columns, and arrays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motet.arrays import Array
from motet.errors import InvalidData, InvalidModel, warn
from motet.tables.cells import common_unit, exceptions
from motet.tables.columns import MAX_VALUES, Column, Columns
from motet.tables.dates import days_since, orders_of
from motet.tables.files import cell_text
from motet.tables.frames import CATEGORIES, DECLARED, columns_of, is_numeric
from motet.tables.grouping import MIN_NAMED_REPEATS, MIN_NAMED_VALUES, MIN_REPEATS, MIN_VALUES, has_group_name
from motet.tables.missing import is_missing
from motet.tables.readings import reading_of
from motet.text import brief, count, first_few

EPOCH = date(2000, 1, 1)
TRUTH = ("False", "True")
UNKNOWN_LEVEL = -1.0  # the number of a level that was not fitted


@dataclass(frozen=True, eq=False)
class Encoding:
    """How each of the ``columns`` is read, in the order of the frame, or of an array without ``has_names``.

    Without ``columns`` inputs are numbers as they are.
    """

    columns: Columns | None = None
    has_names: bool = True

    @classmethod
    def of(cls, X: Any, *, may_be_task: bool, indicators: bool) -> Encoding:
        """Of a frame or an array. One of its columns ``may_be_task``, forgotten, if there is no other; with
        ``indicators`` a missing cell of a category is a level of its own.
        """
        names = columns_of(X)
        if len(set(map(str, names))) < len(names) or all(is_numeric(X[name]) for name in names):
            return cls()
        return cls(Columns(_column(X[name], str(name), may_be_task, indicators) for name in names))

    def with_fillers(self, X: Array, names: Sequence[str], *, has_names: bool) -> Encoding:
        """With the mean of each column of numbers in which some are missing, to stand for these."""
        absent = np.isnan(X)
        columns = list(self.columns or (Column(name=name) for name in names))
        gaps = [k for k in np.flatnonzero(absent.any(axis=0)).tolist() if not columns[k].values]
        for k in gaps:
            if absent[:, k].all():
                raise InvalidData(f"{names[k]} has no value in any row: leave it out")
            mean = float(np.mean(X[~absent[:, k], k]))
            columns[k] = replace(columns[k], filler=mean if columns[k].since is None else float(round(mean)))
        return Encoding(Columns(columns), has_names) if gaps else self

    # --- a frame to numbers ---

    def read(self, X: Any, *, learning: bool) -> Any:
        """The frame with a number for each cell: NaN if it is missing, −1 of a level that was not fitted.

        A level that was not fitted is refused to learn.
        """
        names = columns_of(X)
        if self.columns is None or not self.has_names:
            return X
        if not names and all(column.is_numeric for column in self.columns):
            return X
        if not names:
            expected = first_few(self.columns.names)
            raise InvalidData(f"expected a data frame with the columns {expected}, got {type(X).__name__}")
        columns = dict(zip(self.columns.names, self.columns))  # scikit-learn refuses others, by name
        ours = {name: self._read(columns[str(name)], X[name], learning) for name in names if str(name) in columns}
        return type(X)({name: X[name] for name in names} | ours)

    def _read(self, column: Column, values: Any, learning: bool) -> Any:
        if column.is_numeric and is_numeric(values):
            return values
        known: dict[Any, float] = {}
        cells = _cells(values)
        if column.since is not None and isinstance(cells, np.ndarray):
            return _days(cells, column.since)
        for cell in {_hashable(cell, column.name) for cell in cells}:
            known[cell] = _number(column, cell)
            if learning and known[cell] == UNKNOWN_LEVEL:
                levels = f"levels of {column.name} that were fitted ({first_few(filter(None, column.values))})"
                raise InvalidData(f"expected {levels}, got {brief(cell)}; fit learns all anew")
        return np.array([known[cell] for cell in cells])

    # --- numbers to inputs ---

    def expand(self, numbers: Array) -> Array:
        """The inputs that kernels read; a level that was not fitted has no number of 1."""
        return numbers if self.columns is None else self.columns.expand(numbers)

    def absent(self, numbers: Array) -> NDArray[np.bool_]:
        """Which cells are missing that have neither an indicator nor a level of their own."""
        absent = np.isnan(numbers)
        return absent & [column.filler is None for column in self.columns] if self.columns is not None else absent

    def unknown(self, numbers: Array, learned: Array) -> NDArray[np.bool_]:
        """Which numbers of inputs say nothing, as their cell is missing, or has a level of which nothing is learned."""
        absent, parts = self.absent(numbers), []
        if self.columns is None:
            return absent
        levels = self.columns.collapse(learned)
        for k, column in enumerate(self.columns):
            unknown = absent[:, k]
            if column.values:
                unknown = ~np.isin(numbers[:, k], levels[:, k])
            elif column.filler is not None and not np.isnan(levels[:, k]).any():
                unknown = np.isnan(numbers[:, k])
            parts.append(np.repeat(unknown[:, None], len(column.labels), axis=1))
        return np.hstack(parts)

    # --- what is said of it ---

    def quantities(self, X: Array, names: Sequence[str]) -> tuple[Array, list[str]]:
        """The columns of numbers, and their names; without gaps."""
        if self.columns is None:
            return X, list(names)
        places = [k for k, column in enumerate(self.columns) if column.is_numeric]
        fillers = [self.columns.columns[k].filler or 0.0 for k in places]
        return np.where(np.isnan(X[:, places]), fillers, X[:, places]), [names[k] for k in places]

    @property
    def names(self) -> list[str]:
        """Of the inputs: "age", "age is missing", "sex = male", "smoker"; none if they are the columns."""
        names = []
        for column in self.columns or ():
            is_truth = column.reference == TRUTH[0]
            values = [column.name if is_truth else f"{column.name} = {value}" for value in column.indicated if value]
            names += values + column.labels[len(values) :]
        return names

    @property
    def released(self) -> Columns | None:
        """The columns, for whoever has the release; None if they have no names, or such as a file cannot have."""
        try:
            return Columns.from_spec(self.columns.to_spec()) if self.columns is not None and self.has_names else None
        except InvalidModel:
            return None

    def bias(self, given: Any) -> Any:
        """The columns of a bias, a category's by its name, each as the inputs that it becomes."""
        if self.columns is None or not isinstance(given, (list, tuple)):
            return given
        labels = dict(zip(self.names, range(self.columns.width)))
        places = [self.columns.places(one) if one in self.columns.names else [labels.get(one, one)] for one in given]
        return [place for each in places for place in each]

    def notes(self, X: Array, slopes: Sequence[int]) -> Iterator[str]:
        """How columns are read that are no numbers, and what stands for missing cells among the rows X."""
        for column, first in zip(self.columns or (), [] if self.columns is None else self.columns.first_places):
            last = first + len(column.labels) - 1
            if column.since is not None:
                yield f"{column.name} is in days since {column.since}"
            if first in slopes and len(column.values) > 1 and not column.reference:
                yield f"effects of the levels of {column.name} are counted from their mean"
            if column.may_be_missing:
                place = first + column.indicated.index("") if column.values else last
                rows = f"{int(X[:, place].sum())} of {count(len(X), 'row')}"
                mean = "" if column.filler is None else f"is read as {column.text(column.filler)}, the mean, and "
                yield f"{self.names[place]} in {rows}: there it {mean}has an effect of its own"


# --- a column of a frame ---


def _column(values: Any, name: str, may_be_task: bool, indicators: bool) -> Column:
    """How a column is read."""
    kind = getattr(values.dtype, "kind", None) or np.asarray(values).dtype.kind
    if kind in "iufc":
        return Column(name=name)
    cells = _cells(values)
    if isinstance(cells, np.ndarray):
        return Column(name=name, since=_first_day(cells, name))
    present = [_hashable(cell, name) for cell in cells if not is_missing(cell)]
    different = set(present)
    missing = [""] * (indicators and len(present) < len(cells))
    if not present:
        return Column(name=name)
    if all(isinstance(cell, (bool, np.bool_)) for cell in different):
        return Column(name=name, values=(*TRUTH, *missing), reference=TRUTH[0])
    if is_numeric(values):
        return Column(name=name)
    if not str(values.dtype).startswith(CATEGORIES):
        reading = reading_of(present, many=len(different) > MAX_VALUES)
        if reading == "number":
            return Column(name=name, unit=common_unit(different))
        if reading == "date":
            return _date_column(name, different)
        if reading == "numbers and text":
            present_cells = ((k, cell) for k, cell in enumerate(cells) if not is_missing(cell))
            odd = {k: cell for k, cell in present_cells if reading_of([cell], many=False) != "number"}
            raise InvalidData(f"expected numbers in the column {name!r}: {exceptions(odd, len(present))}")
    levels = _levels(values, name, present, may_be_task)
    return Column(name=name, values=(*levels, *missing), reference=levels[0] if len(levels) == 2 else "")


def _levels(values: Any, name: str, present: Sequence[Any], may_be_task: bool) -> list[str]:
    """Of a category: those that its type lists, or its different texts; refused if they are nearly as many as rows."""
    texts = sorted({cell_text(cell) for cell in set(present)})
    number, repeats = len(texts), len(present) / len(texts)
    group = f"; if it names groups of rows, say task={name!r}" if may_be_task and repeats >= MIN_NAMED_REPEATS else ""
    if number > MAX_VALUES or repeats < MIN_NAMED_REPEATS:
        got = f"{count(number, 'different word')} in {count(len(present), 'row')}, such as {brief(present[0])}"
        raise InvalidData(
            f"expected numbers, dates or a category in the column {name!r}, got {got}: too many for a category; "
            f"leave it out, or give it fewer levels{group}"
        )
    is_named = has_group_name(name) and number >= MIN_NAMED_VALUES
    if may_be_task and (is_named or (number >= MIN_VALUES and repeats >= MIN_REPEATS)):
        warn(
            f"{name} looks like a group: {number} levels, each in {repeats:.2g} rows on average. It is read as a "
            "category, and all rows are one task; if its rows belong together, say so: "
            f"MixedEffectRegressor(task={name!r})"
        )
    if not str(values.dtype).startswith(DECLARED):
        return texts
    declared = list(dict.fromkeys(cell_text(one) for one in values.dtype.categories))
    return declared if len(declared) <= MAX_VALUES else texts


def _date_column(name: str, different: set[Any]) -> Column:
    orders = orders_of(different)
    if len(orders) > 1:
        raise InvalidData(
            f"dates in the column {name!r} may have the day or the month first, such as {min(map(str, different))}; "
            "write them as 2020-12-31 (pandas.to_datetime reads them; say dayfirst)"
        )
    days = [days_since(cell, EPOCH, orders[0]) for cell in different]
    first = min(day for day in days if day is not None)
    return Column(name=name, since=EPOCH + timedelta(days=math.floor(first)), order=orders[0])


def _first_day(times: Any, name: str) -> date:
    first = times[~np.isnat(times)].min().astype("datetime64[D]").item()
    if not isinstance(first, date):
        raise InvalidData(f"expected dates of the years 1 to 9999 in the column {name!r}, got {times.min()}")
    return first


def _days(times: Any, since: date) -> Array:
    """Times as days; NaN where there is none."""
    days = (times.astype("datetime64[us]") - np.datetime64(since, "us")) / np.timedelta64(1, "D")
    return np.asarray(days, dtype=float)


# --- cells ---


def _cells(values: Any) -> Any:
    """A column's cells: times as an array, others as a list; durations are refused."""
    if getattr(values.dtype, "tz", None) is not None:  # of pandas
        values = values.dt.tz_convert("UTC").dt.tz_localize(None)
    kind = getattr(values.dtype, "kind", "O")
    array = np.asarray(values) if kind in "mM" or str(values.dtype).startswith(("Date", "Duration")) else None
    if array is None:
        return values.to_list()
    if array.dtype.kind == "m":
        got = f"dates or times ({values.dtype}); convert them, for example to hours since the first"
        raise InvalidData(f"expected numbers in the column {values.name!r}, got {got}")
    return array if not np.isnat(array).all() else [None] * len(array)


def _hashable(cell: Any, column: str) -> Any:
    try:
        hash(cell)
    except TypeError:
        got = f"{cell!r:.40}; encode it, or leave it out"
        raise InvalidData(f"expected numbers, words or dates in the column {column!r}, got {got}") from None
    return cell


def _number(column: Column, cell: Any) -> float:
    """What a cell says; NaN if it is missing, −1 if it is a level that was not fitted."""
    if column.lacks(cell):
        return math.nan
    if not is_missing(cell):
        is_number = isinstance(cell, (bool, np.bool_)) if column.is_numeric else column.reference == TRUTH[0]
        if is_number and cell in (0, 1):
            return float(cell)
        if column.values and cell_text(cell) not in column.place_of:
            return UNKNOWN_LEVEL
    try:
        return column.number(cell)
    except InvalidData as error:
        raise InvalidData(f"the column {column.name!r}: {error}", where=column.name) from None
