"""Named inputs: the columns that a study's inputs have, as people write them, and the numbers that kernels read.

A column holds numbers, one of some values (a category), or dates. A category becomes one number of 0 or 1 for each of
its values, a date the days since a fixed one. Numbers of very different sizes may be read by their logarithms. Columns
are matched by name, so their order does not matter, and whatever is unknown, missing or there twice is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cached_property
from itertools import accumulate
from typing import Any, cast

import numpy as np

from motet.arrays import MAX_MAGNITUDE, Array, finite_number
from motet.errors import InvalidData, InvalidModel, WrongDimension
from motet.tables.cells import measure
from motet.tables.dates import EPOCH, ORDERS, DateOrder, days_since, iso_date
from motet.tables.files import cell_number, cell_text
from motet.tables.missing import is_missing
from motet.text import alternatives, brief, first_few, suggestion

MAX_VALUES = 100  # of a category
MAX_COLUMN_LETTERS = 100
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MAX_SINH = 700.0  # above, a double has no hyperbolic sine


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of numbers; of a category, if it has ``values``; or of dates, in days ``since`` one.

    ``order`` is that of dates in tables: "day first" reads 31.12.2020, "month first" 12/31/2020; those with the year
    first are read as well, and only those without an order.

    A number x with ``log_above`` = w is read as asinh(x / w): by its logarithm if |x| is above w, nearly as x / w
    below; so zeros and negative numbers are read too.

    ``bounds`` are the lowest and the highest number, which a study refuses to leave; ``quantiles``, at 5, 25, 50, 75
    and 95 %, say how inputs are distributed between them; ``unit`` is for people; tables may have it in their cells.

    Cells may be missing if there is a ``filler``, the number that stands for them beside one more of 0 or 1; or, of a
    category, if "" is among its values. A category's ``reference`` is the value that has no number of its own.
    """

    name: str
    bounds: tuple[float, float] | None = None
    unit: str = ""
    values: tuple[str, ...] = ()
    since: date | None = None
    order: DateOrder = ""
    log_above: float | None = None
    quantiles: tuple[float, ...] = ()
    filler: float | None = None
    reference: str = ""

    @property
    def labels(self) -> list[str]:
        """The names of the numbers that it becomes."""
        missing = f"{self.name} is missing"
        values = [f"{self.name}={value}" if value else missing for value in self.indicated]
        return values or [self.name, *[missing] * (self.filler is not None)]

    @property
    def indicated(self) -> tuple[str, ...]:
        """The values that have a number of 0 or 1."""
        return tuple(value for value in self.values if not self.reference or value != self.reference)

    @property
    def may_be_missing(self) -> bool:
        return self.filler is not None or "" in self.values

    @property
    def is_numeric(self) -> bool:
        """Whether its cells are numbers."""
        return not self.values and self.since is None

    def number(self, cell: Any) -> float:
        """What a cell says: its number, the place of its value among the values, or its days."""
        if self.lacks(cell):
            raise InvalidData(f"expected {self.expected}, got nothing")
        if self.may_be_missing and is_missing(cell):
            return self.place_of.get("" if cell is None else cell_text(cell), self.place_of.get("", math.nan))
        if self.values:
            text = cell_text(cell)
            if text in self.place_of:
                return self.place_of[text]
            raise InvalidData(f"expected {self.expected}, got {brief(text)}{suggestion(text, self.values)}")
        number = cell_number(cell, self.unit) if self.since is None else days_since(cell, self.since, self.order)
        if number is None:
            unit = f" in {self.unit}" if self.unit and measure(cell) is not None else ""
            raise InvalidData(f"expected {self.expected}{unit}, got {brief(cell)}")
        return self.encoded(number)

    def encoded(self, number: float) -> float:
        """A number or days as kernels read them."""
        return number if self.log_above is None else math.asinh(number / self.log_above)

    def lacks(self, cell: Any) -> bool:
        """Whether a cell is missing and may not be; a word for that may be one of the values."""
        return is_missing(cell) and not self.may_be_missing and (cell is None or cell_text(cell) not in self.place_of)

    @cached_property
    def place_of(self) -> dict[str, float]:
        """The place of each value among the values."""
        return {value: float(k) for k, value in enumerate(self.values)}

    @property
    def expected(self) -> str:
        """What its cells are, in words."""
        if self.values:
            values = [value for value in self.values if value]
            return alternatives(*values) if len(values) <= 5 else f"one of {first_few(values)}"
        form = {"": "", "day first": " or 1.3.2024", "month first": " or 3/1/2024"}[self.order]
        return self.kind if self.since is None else f"{self.kind} such as 2024-03-01{form}"

    @property
    def kind(self) -> str:
        return "a number" if self.is_numeric else "a value" if self.values else "a date"

    def text(self, number: float) -> str:
        """A number as people read it."""
        try:
            return f"{self.cell(number):g}" if self.is_numeric else str(self.cell(number))
        except OverflowError:  # before the year 1, or after 9999
            return f"{number:g} days since {self.since}"

    def cell(self, number: float) -> Any:
        """The other way: a number, a value, or a date in ISO 8601; None if it is missing."""
        if self.filler is not None and math.isnan(number):
            return None
        if self.values:
            return self.values[round(number)] or None
        if self.log_above is not None:
            return float(f"{self.log_above * math.sinh(max(-MAX_SINH, min(number, MAX_SINH))):.12g}")
        return float(number) if self.since is None else iso_date(number, self.since)

    def to_spec(self) -> dict[str, Any]:
        """As a study file has it, without what is left out there."""
        bounds = None if self.bounds is None else [self.cell(bound) for bound in self.bounds]
        spec = {
            "name": self.name,
            "bounds": bounds,
            "unit": self.unit,
            "values": list(self.values),
            "since": None if self.since is None else self.since.isoformat(),
            "order": self.order,
            "log_above": self.log_above,
            "quantiles": [self.cell(one) for one in self.quantiles],
            "reference": self.reference,
        }
        filler = {} if self.filler is None else {"filler": self.cell(self.filler)}
        return {key: value for key, value in spec.items() if value} | filler

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> Column:
        """From a study file or JSON; a refusal has the key in ``where``."""
        if unknown := [key for key in spec if key not in cls.__dataclass_fields__]:
            known = ", ".join(cls.__dataclass_fields__)
            raise InvalidModel(f"unknown key {brief(unknown[0])}: a column takes {known}", where=str(unknown[0]))
        name, values = _line(spec.get("name"), "name"), spec.get("values", [])
        if '"' in name or "\\" in name:
            raise InvalidModel(f"expected a name without quotation marks and backslashes, got {name!r}", where="name")
        unit = _line(spec["unit"], "unit") if spec.get("unit") else ""
        if values and "since" in spec:
            raise InvalidModel("expected values, for a category, or since, for dates, got both", where="since")
        since = _date(spec["since"]) if "since" in spec else None
        column = cls(
            name=name, unit=unit, values=_values(values), since=since, order=_order(spec.get("order", ""), since)
        )
        if (reference := spec.get("reference", "")) and reference not in column.values:
            raise InvalidModel(f"expected one of the values, got {brief(reference)}", where="reference")
        column = replace(column, reference=reference)
        column = replace(column, log_above=_log_above(spec["log_above"], column) if "log_above" in spec else None)
        column = replace(column, bounds=_bounds(spec.get("bounds"), column))
        column = replace(column, filler=_filler(spec["filler"], column) if "filler" in spec else None)
        return replace(column, quantiles=_quantiles(spec["quantiles"], column) if "quantiles" in spec else ())


class Columns:
    """The inputs of a study by name. A row has the numbers of the first column first, then those of the second, …"""

    def __init__(self, columns: Iterable[Column]) -> None:
        self.columns = tuple(columns)
        self.names = tuple(column.name for column in self.columns)
        if not self.columns:
            raise InvalidModel("expected at least one column of inputs, got none")
        for name in self.names:
            if self.names.count(name) > 1:
                raise InvalidModel(f"the column {brief(name)} is there twice: columns have different names")

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Columns) and self.columns == other.columns

    def __hash__(self) -> int:
        return hash(self.columns)

    def __repr__(self) -> str:
        return f"Columns({', '.join(self.names)})"

    @cached_property
    def labels(self) -> list[str]:
        """The names of a row's numbers."""
        return [label for column in self.columns for label in column.labels]

    @property
    def width(self) -> int:
        """How many numbers a row has."""
        return len(self.labels)

    @cached_property
    def bounds(self) -> tuple[tuple[float, float], ...] | None:
        """The lowest and the highest of each of a row's numbers; None unless all columns have bounds."""
        bounded = all(column.values or column.bounds for column in self.columns)
        return self.bounds_or((0.0, 1.0)) if bounded else None

    def bounds_or(self, default: tuple[float, float]) -> tuple[tuple[float, float], ...]:
        """The same, with a default for columns without bounds."""
        pairs = [[] if c.values else [c.bounds or default] for c in self.columns]
        indicators = [[(0.0, 1.0)] * (len(c.labels) - len(pair)) for c, pair in zip(self.columns, pairs)]
        return tuple(pair for each in zip(pairs, indicators) for part in each for pair in part)

    def places(self, name: str) -> list[int]:
        """Where the numbers of a column, or of one label, are in a row."""
        if name not in self.names and name not in self.labels:
            raise InvalidModel(f"no input {brief(name)}; got {first_few(self.names)}{suggestion(name, self.names)}")
        if name not in self.names:
            return [self.labels.index(name)]
        k = self.names.index(name)
        return list(range(self.first_places[k], self.first_places[k] + len(self.columns[k].labels)))

    @cached_property
    def first_places(self) -> list[int]:
        """Where each column's numbers begin in a row."""
        return [0, *accumulate(len(column.labels) for column in self.columns)][:-1]

    # --- cells to rows, and back ---

    def check_names(self, names: Iterable[str]) -> None:
        """Raises unless these are the columns, each once, in any order."""
        given = list(names)
        for name in given:
            if name not in self.names:
                raise self.unknown(name, given)
            if given.count(name) > 1:
                raise doubled(name)
        if missing := [name for name in self.names if name not in given]:
            raise self.missing(missing[0])

    def unknown(self, name: Any, given: Sequence[Any] = ()) -> InvalidData:
        """The refusal of a name that is no column's, beside others that are ``given``."""
        hint = suggestion(str(name), [own for own in self.names if own not in given])
        return InvalidData(f"unknown input {brief(name)}{hint or ':'} the inputs are {first_few(self.names)}")

    def missing(self, name: str) -> InvalidData:
        return InvalidData(f"the input {brief(name)} is missing: the inputs are {first_few(self.names)}")

    def rows(self, X: Any) -> Array:
        """The rows of a data frame, of a mapping of columns, or of a list of mappings from names to cells."""
        if isinstance(X, (list, tuple)):
            return self.expand(np.array([self.row_numbers(one, f"row {k}") for k, one in enumerate(X)]))
        names = list(X.columns) if hasattr(X, "columns") else list(X)
        self.check_names(names)
        return self.expand(np.column_stack([_numbers(column, X[column.name]) for column in self.columns]))

    def row_numbers(self, x: Mapping[str, Any], where: str = "") -> list[float]:
        """What the cells of one input say; an error's ``where`` is the column."""
        prefix = f"{where}, " if where else ""
        if not isinstance(x, Mapping):
            raise InvalidData(f"{prefix}expected {self.expected}, got {brief(x)}")
        try:
            self.check_names(x)
        except InvalidData as error:
            raise error.reworded(f"{prefix}{error}") from None
        out = []
        for column in self.columns:
            try:
                out.append(column.number(x[column.name]))
            except InvalidData as error:
                text = f"{prefix}{column.name}: {error}" if where else str(error)
                raise InvalidData(text, where=column.name) from None
        return out

    def expand(self, numbers: Array) -> Array:
        """Rows for kernels, of one number for each column: a category's number becomes one of 0 or 1 for each value."""
        numbers = np.asarray(numbers, dtype=float).reshape(-1, len(self.columns))
        if self.width == len(self.columns):
            return numbers + 0.0
        return np.column_stack([_expanded(column, numbers[:, [k]]) for k, column in enumerate(self.columns)]) + 0.0

    def collapse(self, rows: Array) -> Array:
        """The other way: one number for each column."""
        if rows.shape[1:] != (self.width,):
            raise WrongDimension(f"inputs must have {self.width} numbers, got an array of shape {rows.shape}")
        out, first = np.empty((len(rows), len(self.columns))), 0
        for k, column in enumerate(self.columns):
            part = rows[:, first : first + len(column.labels)]
            out[:, k] = _place(column, part) if column.values else part[:, 0]
            if column.filler is not None:
                out[part[:, 1] > 0, k] = np.nan
            first += len(column.labels)
        return out

    def cells(self, rows: Array) -> list[dict[str, Any]]:
        """Rows as people write them, by name."""
        return [
            {column.name: column.cell(number) for column, number in zip(self.columns, row)}
            for row in self.collapse(rows).tolist()
        ]

    @property
    def expected(self) -> str:
        """What an input is, in words."""
        return f"an input by names, such as {brief(self.example())}"

    def example(self) -> dict[str, Any]:
        """Some input, to show the form."""
        numbers = [0.0 if c.values or c.bounds is None else float(np.mean(c.bounds)) for c in self.columns]
        return {column.name: column.cell(number) for column, number in zip(self.columns, numbers)}

    # --- plain data ---

    def to_spec(self) -> list[dict[str, Any]]:
        return [column.to_spec() for column in self.columns]

    @classmethod
    def from_spec(cls, spec: Sequence[Mapping[str, Any]]) -> Columns:
        if not isinstance(spec, (list, tuple)) or not all(isinstance(one, Mapping) for one in spec):
            raise InvalidModel(f"expected a list of columns, each with a name, got {brief(spec)}")
        return cls(Column.from_spec(one) for one in spec)


def doubled(name: str) -> InvalidData:
    """The refusal of a name that is there twice."""
    return InvalidData(f"the input {brief(name)} is there twice: give each once")


# --- cells ---


def _expanded(column: Column, number: Array) -> Array:
    """A column of numbers as those that kernels read."""
    if column.values:
        return (number == [column.place_of[value] for value in column.indicated]).astype(float)
    if column.filler is None:
        return number
    return np.hstack([np.where(np.isnan(number), column.filler, number), np.isnan(number)])


def _place(column: Column, indicators: Array) -> Array:
    """The other way, of a category."""
    places = np.array([column.place_of[value] for value in column.indicated])[indicators.argmax(axis=1)]
    reference = column.place_of.get(column.reference)
    return places if reference is None else np.where(indicators.any(axis=1), places, reference)


def _numbers(column: Column, cells: Any) -> Array:
    """A column of a frame."""
    array = np.asarray(cells)
    plain = column.is_numeric and column.log_above is None
    if plain and array.dtype.kind in "biuf" and np.isfinite(array).all():
        return array.astype(float)
    out = []
    for k, cell in enumerate(array if array.dtype.kind == "M" else array.tolist()):
        try:
            out.append(column.number(cell))
        except InvalidData as error:
            raise InvalidData(f"row {k}, {column.name}: {error}", where=column.name) from None
    return np.array(out)


# --- what a specification may have ---


def _line(text: Any, key: str) -> str:
    if not isinstance(text, str) or not text.strip() or not text.isprintable() or len(text) > MAX_COLUMN_LETTERS:
        raise InvalidModel(f"expected a line of at most {MAX_COLUMN_LETTERS} letters, got {brief(text)}", where=key)
    return text.strip()


def _values(values: Any) -> tuple[str, ...]:
    texts = [cell_text(one) for one in values] if isinstance(values, (list, tuple)) else []
    if not isinstance(values, (list, tuple)) or len(set(texts)) < len(texts) or len(texts) == 1:
        raise InvalidModel(f"expected a list of at least two different values, got {brief(values)}", where="values")
    if len(texts) > MAX_VALUES:
        raise InvalidModel(
            f"expected at most {MAX_VALUES} values, got {len(texts)}: more are better as the names of a catalogue",
            where="values",
        )
    return tuple(_line(text, "values") if text else "" for text in texts)


def _date(value: Any) -> date:
    if (day := days_since(value, EPOCH)) is None:
        raise InvalidModel(f'expected a date such as "2024-01-01", got {brief(value)}', where="since")
    return EPOCH + timedelta(days=int(day // 1))


def _order(value: Any, since: date | None) -> DateOrder:
    if value not in ORDERS or (value and since is None):
        wanted = f"{alternatives(*ORDERS[1:])}, of a column of dates"
        raise InvalidModel(f"expected {wanted}, got {brief(value)}", where="order")
    return cast("DateOrder", value)


def _log_above(value: Any, column: Column) -> float:
    number = finite_number(value)
    if not column.is_numeric or number is None or not number > 1 / MAX_MAGNITUDE:
        raise InvalidModel(f"expected a number above 0, of a column of numbers, got {brief(value)}", where="log_above")
    return number


def _filler(value: Any, column: Column) -> float:
    number = finite_number(value) if column.since is None else days_since(value, column.since)
    if column.values or number is None:
        raise InvalidModel(f"expected {column.expected}, not of a category, got {brief(value)}", where="filler")
    return column.encoded(number)


def _bounds(bounds: Any, column: Column) -> tuple[float, float] | None:
    if bounds is None:
        return None
    if column.values:
        raise InvalidModel("expected no bounds of a category, whose values are listed; remove them", where="bounds")
    ends = _ascending(bounds, column)
    if len(ends) != 2 or ends[0] == ends[1]:
        kind = "two numbers" if column.since is None else "two dates"
        raise InvalidModel(f"expected [lowest, highest], {kind}, got {brief(bounds)}", where="bounds")
    return ends[0], ends[1]


def _quantiles(quantiles: Any, column: Column) -> tuple[float, ...]:
    numbers = _ascending(quantiles, column)
    if column.bounds is None or len(numbers) != len(QUANTILES):
        shares = ", ".join(f"{share:.0%}" for share in QUANTILES)
        raise InvalidModel(f"expected bounds, and quantiles at {shares}, got {brief(quantiles)}", where="quantiles")
    if not column.bounds[0] <= numbers[0] <= numbers[-1] <= column.bounds[1]:
        raise InvalidModel(f"expected numbers within the bounds, got {brief(quantiles)}", where="quantiles")
    return tuple(numbers)


def _ascending(values: Any, column: Column) -> list[float]:
    """Numbers or dates in ascending order; none if they are something else."""
    cells = list(values) if isinstance(values, (list, tuple)) and not column.values else []
    numbers = [finite_number(one) if column.since is None else days_since(one, column.since) for one in cells]
    ascending = [column.encoded(number) for number in numbers if number is not None]
    return ascending if len(ascending) == len(cells) and ascending == sorted(ascending) else []
