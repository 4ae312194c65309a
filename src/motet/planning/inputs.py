"""The columns of a pilot's table: what each of them holds, which are inputs by default, and how these are read.

Columns hold numbers, dates, words of a few kinds, or text that is no input. Numbers of very different sizes, such as
cities' sales, are read by their logarithms, unless the numbers as they are predict better: what was late by an hour
arrives late by an hour. Both are tried in a linear model beside a level of each client.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from motet.arrays import Array, Index
from motet.errors import InvalidData
from motet.study.schema import OTHER_COLUMNS
from motet.tables.cells import common_unit
from motet.tables.columns import QUANTILES, Column, Columns
from motet.tables.dates import EPOCH, ORDERS, DateOrder, days_since, iso_date, orders_of
from motet.tables.files import Table, cell_number, cell_text
from motet.tables.missing import is_missing
from motet.tables.readings import exceptions_of, reading_of, unit_of
from motet.tables.roles import Roles
from motet.text import suggestion

Kind: TypeAlias = Literal["number", "date", "category", "text", "constant", "row number", "numbers and text"]

MAX_CATEGORIES = 20  # different words in a column of a category
BOUNDS_MARGIN = 0.25  # beyond the inputs of the pilot, as a share of their range, for those of others
MAX_MISSING = 0.3  # share of the rows, up to which a column is an input by default
MAX_DEPENDENCE = 0.99  # share of a column's variance that other columns explain, up to which it is one
MAX_COMPARED_ROWS = 5000  # for that, and for logarithms
MIN_PILOT_ROWS = 12
MANY_ROWS = 50  # of which whole numbers that are all different are the rows' own
MANY_CLIENTS = 25
MAX_GAPS = 20  # numbers for each row of a pilot that has some of the numbered rows
ROW_NUMBERS = ("rownames", "row", "index", "unnamed: 0")  # what R and pandas call them
MIN_SKEWNESS = 2.0  # of an exponential distribution
MIN_DIFFERENT = 13  # numbers of a column, as fewer are levels
THRESHOLDS = (0.05, 0.25, 0.5)  # quantiles of the numbers' sizes, above which logarithms begin
MIN_GAIN = 0.01  # of the squared error, by which the numbers as they are have to be better
RIDGE = 1e-6  # as a share of the mean square of a column
MIN_WEIGHT = 0.1  # of an input's slope, beside that of the input which tells most


@dataclass(frozen=True, kw_only=True)
class PilotRoles(Roles):
    """What the columns of a pilot mean, and how they are read. Inputs are columns, by default all that can be; or the
    ``name`` of an item, which a ``catalogue`` may describe."""

    catalogue: Path | None = None
    units: Mapping[str, str] | None = None
    logarithms: tuple[str, ...] | None = None  # inputs that are read by them; None: as the table says
    dates: DateOrder = ""  # of dates that may have the day or the month first
    encoding: str | None = None  # of the catalogue's file, if it is not in UTF-8

    def check_table(self, table: Table) -> None:
        """Raises unless the table has these columns, each in one role."""
        self.check(table.file, table.columns, task="client", chosen=False)
        for column in self.names:
            if column in OTHER_COLUMNS and not (column == "id" and column in (self.task, self.name)):
                raise InvalidData(f"{table.file}: {OTHER_COLUMNS[column]} are in a column {column!r}: rename it")
        if self.name is not None and self.inputs:
            raise InvalidData("expected inputs=, columns of numbers or words, or name=, of items, got both")
        if self.catalogue is not None and self.name is None:
            raise InvalidData("a catalogue describes items: give the column of their names too with name=")
        for column in self.logarithms or ():
            if column not in table.columns or (self.inputs and column not in self.inputs):
                raise InvalidData(f"logarithms= has {column!r}, which is no input{suggestion(column, table.columns)}")


def kinds_of(table: Table) -> dict[str, Kind]:
    """What each column of a table holds."""
    kinds = {column: _kind([cell for cell in table.cells(column) if not is_missing(cell)]) for column in table.columns}
    numbered = [column for column, kind in kinds.items() if kind == "number" and _numbers_rows(table, column)]
    return kinds | dict.fromkeys(numbered, "row number")


def uses_of(table: Table, client: str, target: str) -> dict[str, str]:
    """The other columns, each with the reason why it is no input by default; "" if it is one."""
    rows = [k for k, cell in enumerate(table.cells(target)) if not is_missing(cell)]
    clients = table.cells(client)
    uses: dict[str, str] = {}
    kinds = kinds_of(table)
    for column, kind in kinds.items():
        if column in (client, target):
            continue
        cells = table.cells(column)
        missing = sum(is_missing(cells[k]) for k in rows) / max(len(rows), 1)
        uses[column] = kind if kind in ("text", "constant", "row number") else ""
        if kind == "numbers and text":
            uses[column] = exceptions_of(table, column)
        if column in OTHER_COLUMNS:
            uses[column] = f"read as {OTHER_COLUMNS[column]}"
        elif missing > MAX_MISSING and not uses[column]:
            uses[column] = f"{100 * missing:.0f} % missing"
        elif not uses[column] and kind != "date" and _names_clients(cells, clients):
            uses[column] = "another name of the client"
    numeric = [column for column, why in uses.items() if not why and kinds[column] in ("number", "date")]
    return uses | dict.fromkeys(_dependent(table, numeric), "all but a combination of other inputs")


def _dependent(table: Table, columns: Sequence[str]) -> list[str]:
    """Columns that the others before and after them tell already, from the last; such as a date beside year and month.

    Slopes in such columns cancel each other, so nothing bounds how large they are.
    """
    if not columns:
        return []
    step = -(-len(table.rows) // MAX_COMPARED_ROWS)
    values = np.array([_days_or_numbers(table.cells(column)[::step]) for column in columns])
    values = values[:, np.isfinite(values).all(axis=0)]
    if values.shape[1] < MIN_PILOT_ROWS:
        return []
    values = values - values.mean(axis=1, keepdims=True)
    values = values / np.maximum(np.abs(values).max(axis=1, keepdims=True), 1e-300)
    kept, dependent = list(range(len(columns))), []
    for k in reversed(range(len(columns))):
        others = values[[other for other in kept if other != k]]
        explained = np.linalg.lstsq(others.T, values[k], rcond=None)[0] @ others if len(others) else 0.0
        residual = values[k] - explained
        if residual @ residual < (1 - MAX_DEPENDENCE) * (values[k] @ values[k]):
            kept.remove(k)
            dependent.append(columns[k])
    return dependent


def _days_or_numbers(cells: Sequence[Any]) -> Array:
    """NaN where one is missing."""
    filled = [cell for cell in cells if not is_missing(cell)]
    order, unit = next(iter(orders_of(filled)), ORDERS[0]), common_unit(filled)
    numbers = [cell_number(cell, unit) for cell in cells]
    days = [days_since(cell, EPOCH, order) if number is None else number for cell, number in zip(cells, numbers)]
    return np.array(days, dtype=float)


def _names_clients(cells: Sequence[Any], clients: Sequence[Any]) -> bool:
    """Whether each client has one value, which no other has, and these are words, or numbers such as 1, 2, 3; of many
    clients also numbers with gaps, in the order of the table."""
    pairs = set(zip(cells, clients))
    values = {cell_text(value) for value, _ in pairs}
    if not len(pairs) == len(values) == len(set(clients)):
        return False
    unit = common_unit(values)
    numbers = [cell_number(value, unit) for value in values]
    if any(number is None for number in numbers):
        return True
    whole = [int(number) for number in numbers if number is not None and number.is_integer()]
    if len(whole) < len(values) or min(whole) < 0:
        return False
    firsts = [cell_number(cell, unit) for cell in dict.fromkeys(cells)]
    is_sorted = len(values) >= MANY_CLIENTS and firsts == sorted(whole)
    return max(whole) <= (MAX_GAPS if is_sorted else 2) * len(values)


def _kind(cells: Sequence[Any]) -> Kind:
    texts = {cell_text(cell) for cell in set(cells)}  # mostly far fewer
    if len(texts) < 2:
        return "constant"
    reading = reading_of(cells, many=len(texts) > MAX_CATEGORIES)
    if reading != "words":
        return reading
    return "category" if len(texts) <= MAX_CATEGORIES else "text"


def _numbers_rows(table: Table, column: str) -> bool:
    """Whether a column numbers the rows: each has another whole number, one after the other, with gaps for rows of
    others; or in any order if there are many rows and few gaps, or if the column is called so."""
    numbers = np.array([cell_number(cell) for cell in table.cells(column) if not is_missing(cell)], dtype=float)
    if len(numbers) < MIN_PILOT_ROWS or len(np.unique(numbers)) < len(numbers) or (numbers != np.round(numbers)).any():
        return False
    is_dense = len(numbers) >= MANY_ROWS and np.ptp(numbers) < 2 * len(numbers)
    has_few_gaps = len(numbers) == len(table.rows) and np.ptp(numbers) < MAX_GAPS * len(numbers)
    is_sorted = has_few_gaps and bool((np.diff(numbers) > 0).all())
    return is_sorted or is_dense or column.lower() in ROW_NUMBERS


def column_of(table: Table, name: str, roles: PilotRoles) -> Column:
    """An input of the study, with bounds and quantiles around those of the table."""
    cells = [cell for cell in table.cells(name) if not is_missing(cell)]
    kind, unit = _kind(cells), unit_of(table, name, cells, (roles.units or {}).get(name, ""))
    if kind == "numbers and text":
        raise table.not_numbers(name, unit)
    if kind == "constant":
        raise InvalidData(f"{table.file}: the column {name!r} has one value only, so it tells nothing: leave it out")
    if kind == "text":
        values = len({cell_text(cell) for cell in cells})
        raise InvalidData(
            f"{table.file}: the column {name!r} has {values} different texts, too many for a category: leave it out of "
            f'inputs=, or, if they are items such as films, give it as name="{name}"'
        )
    if kind == "category":
        return Column(name=name, values=tuple(sorted({cell_text(cell) for cell in cells})))
    if kind == "date":
        order = _order(table, name, cells, roles.dates)
        return _date_column(name, np.array([days_since(cell, EPOCH, order) for cell in cells]), unit, order)
    numbers = np.array([cell_number(cell, unit) for cell in cells])
    low, high = outward(float(numbers.min()), float(numbers.max()), BOUNDS_MARGIN)
    quantiles = [rounded_within(q, high - low) for q in np.quantile(numbers, QUANTILES)]
    return Column(name=name, unit=unit, bounds=(low, high), quantiles=tuple(np.clip(quantiles, low, high).tolist()))


def _order(table: Table, name: str, cells: Sequence[Any], told: DateOrder) -> DateOrder:
    """Of the dates in a column: the one that all of them have, or the one that is told if both are possible."""
    orders = orders_of(cells)
    if len(orders) == 1 or told in orders:
        return orders[0] if len(orders) == 1 else told
    day, month = (iso_date(days_since(cells[0], EPOCH, order) or 0.0, EPOCH) for order in orders)
    raise InvalidData(
        f"{table.file}: dates in the column {name!r} may have the day or the month first: {cells[0]} is {day} or "
        f'{month}; say which, dates="day-first" or dates="month-first", or write them as 2020-12-31'
    )


def order_notes(table: Table, columns: Columns) -> Iterator[str]:
    for column in columns:
        if column.since is not None and column.order:
            cell = next(cell for cell in table.cells(column.name) if not is_missing(cell))
            yield f"dates in {column.name} have the {column.order}: {cell} is {column.cell(column.number(cell))}"


def _date_column(name: str, days: Array, unit: str, order: DateOrder) -> Column:
    """Dates in days since the first of the pilot, with room for some days before, and as many days again behind."""
    first, last = math.floor(days.min()), math.ceil(days.max())
    quantiles = np.round(np.quantile(days - first, QUANTILES)).tolist()
    width = max(last - first, 1)
    bounds = (-float(math.ceil(BOUNDS_MARGIN * width)), 2.0 * width)
    since = EPOCH + timedelta(days=first)
    return Column(name=name, unit=unit, since=since, order=order, bounds=bounds, quantiles=tuple(quantiles))


def unused(table: Table, roles: PilotRoles) -> str:
    """Columns that are no inputs, and why not, in words; "" if there are none."""
    kinds, uses = kinds_of(table), uses_of(table, roles.task, roles.target)
    others = [f"{column} ({why or kinds[column]})" for column, why in uses.items() if column not in roles.inputs]
    return f"columns that are not used: {', '.join(others)}" if others else ""


def outward(low: float, high: float, margin: float) -> tuple[float, float]:
    """Round numbers around a range, wider by a margin; a range on one side of 0 does not cross it."""
    width = (high - low) or abs(low) or 1.0
    step = 10.0 ** math.floor(math.log10(width)) / 10
    ends = low - margin * width, high + margin * width
    below = 0.0 if ends[0] < 0 <= low else math.floor(ends[0] / step) * step
    above = 0.0 if high <= 0 < ends[1] else math.ceil(ends[1] / step) * step
    return float(f"{below:.12g}"), float(f"{above:.12g}")


def rounded_within(number: float, width: float, digits: int = 3) -> float:
    """A number with so many digits, also of a width: 1947 stays 1947 among years."""
    sizes = [size for size in (abs(number), width) if size > 0]
    step = 10.0 ** (math.floor(math.log10(min(sizes, default=1.0))) - digits + 1)
    return float(f"{round(number / step) * step:.12g}")


# --- logarithms ---


def log_scaled(
    columns: Columns, rows: Array, y: Array, client: Index, names: Sequence[str] | None = None
) -> tuple[Columns, Array]:
    """The columns of a pilot and its rows, with those that are ``named`` read by logarithms; by default those of very
    different sizes, if that is no worse."""
    numbers = columns.collapse(rows)
    if names is None:
        chosen = _chosen(columns, rows, y, client)
    else:
        chosen = {k: log_above(numbers[:, k]) for k, name in enumerate(columns.names) if name in names}
    read = Columns(logarithmic(column, chosen[k]) if k in chosen else column for k, column in enumerate(columns))
    for k in chosen:
        numbers[:, k] = list(map(read.columns[k].encoded, numbers[:, k].tolist()))
    return read, read.expand(numbers)


def _chosen(columns: Columns, rows: Array, y: Array, client: Index) -> dict[int, float]:
    """Numbers of columns, with the size above which they are read by logarithms."""
    numbers = columns.collapse(rows)
    skewed = [k for k, column in enumerate(columns) if column.is_numeric and is_skewed(numbers[:, k])]
    chosen = {k: log_above(numbers[:, k]) for k in skewed}
    which = np.arange(0, len(y), -(-len(y) // MAX_COMPARED_ROWS))

    def error(thresholds: dict[int, float]) -> float:
        X = rows[which]
        for k, threshold in thresholds.items():
            place = columns.first_places[k]
            X[:, place] = np.arcsinh(X[:, place] / threshold)
        return LinearModel(X, y[which], client[which]).error

    for k in list(chosen):
        as_it_is = {other: threshold for other, threshold in chosen.items() if other != k}
        if error(as_it_is) < (1 - MIN_GAIN) * error(chosen):
            chosen = as_it_is
    return chosen


def is_skewed(numbers: Array) -> bool:
    """Whether few of the numbers are far from the others, and their logarithms are not."""
    if len(np.unique(numbers)) < MIN_DIFFERENT or abs(skewness(numbers)) <= MIN_SKEWNESS:
        return False
    return abs(skewness(np.arcsinh(numbers / log_above(numbers)))) <= abs(skewness(numbers)) / 2


def log_above(numbers: Array) -> float:
    """The size above which logarithms make the numbers most even."""
    sizes = np.quantile(np.abs(numbers[numbers != 0.0]), THRESHOLDS)
    thresholds = [float(f"{size:.1g}") for size in sizes]
    return min(thresholds, key=lambda threshold: abs(skewness(np.arcsinh(numbers / threshold))))


def skewness(numbers: Array) -> float:
    """The third moment of the numbers in units of their standard deviation."""
    centered = numbers / np.abs(numbers).max()
    centered = centered - centered.mean()
    return float(np.mean(centered**3) / np.mean(centered**2) ** 1.5)


def logarithmic(column: Column, threshold: float) -> Column:
    """The same column, read by logarithms above a threshold."""
    read = replace(column, log_above=threshold)
    bounds = None if column.bounds is None else (read.encoded(column.bounds[0]), read.encoded(column.bounds[1]))
    return replace(read, bounds=bounds, quantiles=tuple(map(read.encoded, column.quantiles)))


class LinearModel:
    """Of outputs by rows of inputs, in units of their standard deviations."""

    def __init__(self, rows: Array, y: Array, client: Index) -> None:
        _, number, size = np.unique(client, return_inverse=True, return_counts=True)
        deviation = rows.std(axis=0)
        scaled = (rows - rows.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
        Z = np.column_stack([np.ones(len(rows)), scaled, y])
        means = np.array([np.bincount(number, column) for column in Z.T]).T / size[:, None]
        Z = Z - ((1 - 1 / np.sqrt(1 + size))[:, None] * means)[number]
        self._Z, self._y = Z[:, :-1], Z[:, -1]
        A = self._Z.T @ self._Z
        self._inverse = np.linalg.pinv(A + RIDGE * np.diag(np.diag(A)))
        self._coefficients = self._inverse @ (self._Z.T @ self._y)

    @property
    def error(self) -> float:
        """The mean square of errors at rows that are left out one by one."""
        leverage = np.einsum("ij,jk,ik->i", self._Z, self._inverse, self._Z)
        residual = self._y - self._Z @ self._coefficients
        return float(np.mean((residual / np.maximum(1 - leverage, RIDGE)) ** 2))

    @property
    def weights(self) -> Array:
        """Sizes of the slopes as shares of the largest, with one digit, at least a tenth; all 1 if none is there."""
        sizes = np.abs(self._coefficients[1:])
        largest = sizes.max(initial=0.0)
        shares = np.maximum(sizes / largest, MIN_WEIGHT) if largest > 0 else np.ones(len(sizes))
        return np.array([float(f"{share:.1g}") for share in shares])
