"""A pilot: rows of some clients of a table such as people have it, read to find the settings of a study.

If the study is private, these are the ``pilot_clients``, and nothing here or in what follows looks at another row.

Columns may have any names, and hold numbers, dates, words of a few kinds, or text that is no input. Rows that cannot be
used are left out, and counted with the reason.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from motet.arrays import Array
from motet.cells import NO_OUTCOMES, common_unit
from motet.errors import EmptyData, InvalidData
from motet.files import Table, cell_number, cell_text, is_missing
from motet.learning.grouping import ONE_ROW_EACH
from motet.model.catalogue import Catalogue
from motet.model.columns import QUANTILES, Column, Columns
from motet.model.dates import DateOrder, days_since, iso_date, orders_of
from motet.study.gains import Gain, Together, gain_together, gains_of, without_inputs
from motet.study.items import Items
from motet.study.logarithms import log_scaled
from motet.study.pilot_clients import PilotClients
from motet.study.readings import (
    are_numbers,
    check_outliers,
    check_varies,
    exceptions_of,
    is_mixed,
    reading_notes,
    unit_of,
)
from motet.study.schema import OTHER_COLUMNS, TableSection
from motet.text import count, first_few, suggestion

Kind: TypeAlias = Literal["number", "date", "category", "text", "constant", "row number", "numbers and text"]

EPOCH = date(2000, 1, 1)
MAX_CATEGORIES = 20  # different words in a column of a category
MIN_CLIENTS, MIN_ROWS = 4, 12
BOUNDS_MARGIN = 0.25  # beyond the inputs of the pilot, as a share of their range, for those of others
OUTPUT_MARGIN = 0.5  # the same for outputs
MAX_MISSING = 0.3  # share of the rows, up to which a column is an input by default
MAX_DEPENDENCE = 0.99  # share of a column's variance that other columns explain, up to which it is one
MAX_COMPARED_ROWS = 5000  # for that
MANY_ROWS = 50  # of which whole numbers that are all different are the rows' own
MANY_CLIENTS = 25
MAX_GAPS = 20  # numbers for each row of a pilot that has some of the numbered rows
ROW_NUMBERS = ("rownames", "row", "index", "unnamed: 0")  # what R and pandas call them
MAX_LEVELS = 12  # different whole or half numbers, up to which outputs are a scale such as stars
ONE_ROW_ADVICE = "or say which column has the clients, --client COLUMN"


@dataclass(frozen=True, kw_only=True)
class Roles:
    """What the columns of a table mean. Inputs are columns, by default all that can be; or the ``name`` of an item,
    which a ``catalogue`` may describe."""

    client: str
    target: str
    inputs: tuple[str, ...] = ()
    name: str | None = None
    catalogue: Path | None = None
    units: Mapping[str, str] | None = None
    logarithms: tuple[str, ...] | None = None  # inputs that are read by them; None: as the table says
    dates: DateOrder = ""  # of dates that may have the day or the month first
    encoding: str | None = None  # of the catalogue's file, if it is not in UTF-8

    def check(self, table: Table) -> None:
        """Raises unless the table has these columns, each in one role."""
        named = [self.client, self.target, *self.inputs, *([] if self.name is None else [self.name])]
        for column in named:
            if column not in table.columns:
                hint = suggestion(column, table.columns)
                raise InvalidData(f"{table.file}: no column {column!r}; it has {first_few(table.columns)}{hint}")
            if named.count(column) > 1:
                raise InvalidData(
                    f"the column {column!r} has two roles: client, target and inputs are different columns"
                )
            if column in OTHER_COLUMNS and not (column == "id" and column in (self.client, self.name)):
                raise InvalidData(f"{table.file}: {OTHER_COLUMNS[column]} are in a column {column!r}: rename it")
        if self.name is not None and self.inputs:
            raise InvalidData("expected --inputs, columns of numbers or words, or --name, of items, got both")
        if self.catalogue is not None and self.name is None:
            raise InvalidData("a catalogue describes items: give the column of their names too, --name COLUMN")
        for column in self.logarithms or ():
            if column not in table.columns or (self.inputs and column not in self.inputs):
                raise InvalidData(f"--log has {column!r}, which is no input{suggestion(column, table.columns)}")


@dataclass(frozen=True, eq=False, kw_only=True)
class Pilot:
    """The rows that can be used: clients, inputs as a model reads them, and outputs; ``notes`` say what is left out."""

    file: str
    roles: Roles
    clients: list[str]
    X: Array
    y: Array
    columns: Columns | None = None
    catalogue: Catalogue | None = None
    notes: tuple[str, ...] = ()
    drawn: PilotClients | None = None
    unit: str = ""  # of outputs, if their cells have one
    items: Items | None = None  # the catalogue, with what its file says
    gains: tuple[Gain, ...] = ()

    @classmethod
    def read(cls, table: Table, roles: Roles, drawn: PilotClients | None = None) -> Pilot:
        """The rows of the clients that were ``drawn``; of all, without a promise to anybody, if none were."""
        roles.check(table)
        if drawn is not None:
            return replace(cls.read(drawn.rows(table, roles.client), roles), drawn=drawn)
        if roles.name is not None:
            items, cells, notes = _items(table, roles)
            return replace(cls._of(table, roles, cells, notes, catalogue=items.catalogue), items=items)
        if not roles.inputs:
            uses = uses_of(table, roles.client, roles.target)
            roles = replace(roles, inputs=tuple(column for column, why_not in uses.items() if not why_not))
            if not roles.inputs:
                raise InvalidData(f"{table.file}: no column beside {roles.client} and {roles.target} can be an input")
            return cls._with_inputs(table, roles)._without_giveaways(table)
        return cls._with_inputs(table, roles)

    @classmethod
    def _with_inputs(cls, table: Table, roles: Roles) -> Pilot:
        columns = Columns(_column(table, column, roles) for column in roles.inputs)
        cells = {column: table.cells(column) for column in roles.inputs}
        pilot = cls._of(table, roles, cells, [_unused(table, roles), *_order_notes(table, columns)], columns=columns)
        return replace(pilot, gains=gains_of(pilot.clients, columns, pilot.X, pilot.y)).by_logarithms()

    def _without_giveaways(self, table: Table) -> Pilot:
        """The same, read anew without inputs that give the output away."""
        columns = [gain.input for gain in self.gains if gain.is_giveaway]
        if not columns:
            return self
        rest = tuple(column for column in self.roles.inputs if column not in columns)
        if not rest:
            raise without_inputs(columns, table.file, self.roles.target)
        pilot = self._with_inputs(table, replace(self.roles, inputs=rest))
        return replace(pilot, gains=tuple(replace(gain, left_out=gain.is_giveaway) for gain in self.gains))

    @classmethod
    def _of(
        cls,
        table: Table,
        roles: Roles,
        inputs: Mapping[str, Sequence[Any]],
        notes: Sequence[str],
        *,
        columns: Columns | None = None,
        catalogue: Catalogue | None = None,
    ) -> Pilot:
        needed = {roles.client: table.cells(roles.client), roles.target: table.cells(roles.target), **inputs}
        missing = {column: [is_missing(cell) for cell in cells] for column, cells in needed.items()}
        complete = [k for k in range(len(table.rows)) if not any(each[k] for each in missing.values())]
        clients = [cell_text(needed[roles.client][k]) for k in complete]
        if len(set(clients)) < MIN_CLIENTS or len(complete) < MIN_ROWS:
            got = f"{count(len(complete), 'complete row')} of {count(len(set(clients)), 'client')}"
            raise EmptyData(
                f"{table.file}: expected at least {MIN_ROWS} complete rows of {MIN_CLIENTS} clients, got {got}: "
                "add rows, or write a study without a table (leave out --from)"
            )
        y, unit = _outputs(table.only(complete), roles.target)
        if catalogue is not None and roles.name is not None:
            X = catalogue.look_up(str(inputs[roles.name][k]) for k in complete)
        else:
            assert columns is not None
            X = columns.rows({column: [cells[k] for k in complete] for column, cells in inputs.items()})
        check_outliers(table, complete, roles.target, y)
        numeric = [one for one in columns or () if one.is_numeric and one.name not in (roles.logarithms or ())]
        for column in numeric:
            check_outliers(table, complete, column.name, [column.number(inputs[column.name][k]) for k in complete])
        read = reading_notes(table.only(complete), columns or (), roles.target, unit)
        listed = [*_missing_notes(missing, len(table.rows) - len(complete)), *filter(None, notes), *read]
        if len(set(clients)) == len(clients):
            listed.append(f"{ONE_ROW_EACH.format('client')}, {ONE_ROW_ADVICE}")
        return cls(
            file=table.file,
            roles=roles,
            clients=clients,
            X=X,
            y=y,
            columns=columns,
            catalogue=catalogue,
            notes=tuple(listed),
            unit=unit,
        )

    def by_logarithms(self) -> Pilot:
        """With inputs of very different sizes read by their logarithms."""
        assert self.columns is not None
        client = np.unique(self.clients, return_inverse=True)[1]
        columns, X = log_scaled(self.columns, self.X, self.y, client, self.roles.logarithms)
        read = [f"{column.name} above {column.log_above:g}" for column in columns if column.log_above is not None]
        note = f"read by their logarithms: {', '.join(read)}; --log COLUMNS names others, --log none none"
        return replace(self, columns=columns, X=X, notes=(*self.notes, *[note] * bool(read)))

    # --- what a study file says of them ---

    @property
    def table(self) -> TableSection:
        return TableSection(client=self.roles.client, target=self.roles.target, name=self.roles.name or "name")

    @property
    def sizes(self) -> Array:
        """How many rows each client has."""
        return np.array(list(Counter(self.clients).values()))

    @property
    def labels(self) -> list[str]:
        """The names of the numbers in a row."""
        if self.columns is not None:
            return self.columns.labels
        return [] if self.catalogue is None else ["item", *(f"feature {k}" for k in self.catalogue.features)]

    @cached_property
    def together(self) -> Together | None:
        """What all inputs tell, if they are columns."""
        return None if self.columns is None else gain_together(self.clients, self.columns, self.X, self.y)

    @property
    def range_y(self) -> tuple[float, float]:
        return float(self.y.min()), float(self.y.max())

    @property
    def limits_y(self) -> tuple[float, float]:
        """Wide enough for others: of a scale such as stars its ends, else half a range more; not below 0 if none is."""
        low, high = self.range_y
        halves = 2 * np.unique(self.y)
        if len(halves) <= MAX_LEVELS and (halves == np.round(halves)).all():
            return low, high
        return outward(low, high, OUTPUT_MARGIN)


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


# --- columns ---


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
    sampled = [[None if is_missing(cell) else cell for cell in table.cells(column)[::step]] for column in columns]
    orders: list[DateOrder] = [
        next(iter(orders_of(cell for cell in cells if cell is not None)), "") for cells in sampled
    ]
    units = [common_unit(cell for cell in cells if cell is not None) for cells in sampled]
    cells = [[_days_or_number(cell, order, unit) for cell in each] for each, order, unit in zip(sampled, orders, units)]
    values = np.array(cells, dtype=float).reshape(len(columns), -1)
    values = values[:, np.isfinite(values).all(axis=0)]
    if values.shape[1] < MIN_ROWS:
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


def _days_or_number(cell: Any, order: DateOrder, unit: str) -> float:
    number = cell_number(cell, unit)
    days = days_since(cell, EPOCH, order) if number is None else number
    return np.nan if days is None else days


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
    different = set(cells)  # mostly far fewer
    texts = {cell_text(cell) for cell in different}
    if len(texts) < 2:
        return "constant"
    if are_numbers(different):
        return "number"
    if orders_of(different):
        return "date"
    if is_mixed(cells, many=len(texts) > MAX_CATEGORIES):
        return "numbers and text"
    return "category" if len(texts) <= MAX_CATEGORIES else "text"


def _numbers_rows(table: Table, column: str) -> bool:
    """Whether a column numbers the rows: each has another whole number, one after the other, with gaps for rows of
    others; or in any order if there are many rows and few gaps, or if the column is called so."""
    numbers = np.array([cell_number(cell) for cell in table.cells(column) if not is_missing(cell)], dtype=float)
    if len(numbers) < MIN_ROWS or len(np.unique(numbers)) < len(numbers) or (numbers != np.round(numbers)).any():
        return False
    is_dense = len(numbers) >= MANY_ROWS and np.ptp(numbers) < 2 * len(numbers)
    is_sorted = len(numbers) == len(table.rows) and bool((np.diff(numbers) > 0).all())
    is_sorted = is_sorted and np.ptp(numbers) < MAX_GAPS * len(numbers)
    return is_sorted or is_dense or column.lower() in ROW_NUMBERS


def _column(table: Table, name: str, roles: Roles) -> Column:
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
            f"--inputs, or, if they are items such as films, give it as --name {name}"
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
        f"{month}; say which, --dates day-first or --dates month-first, or write them as 2020-12-31"
    )


def _order_notes(table: Table, columns: Columns) -> Iterator[str]:
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


def _unused(table: Table, roles: Roles) -> str:
    kinds, uses = kinds_of(table), uses_of(table, roles.client, roles.target)
    others = [
        f"{column} ({why_not or kinds[column]})" for column, why_not in uses.items() if column not in roles.inputs
    ]
    return f"columns that are not used: {', '.join(others)}" if others else ""


# --- items ---


def _items(table: Table, roles: Roles) -> tuple[Items, dict[str, list[Any]], list[str]]:
    """The items, the names in each row, None for one that is not in it, and a note about those."""
    assert roles.name is not None
    names = [None if is_missing(cell) else cell_text(cell) for cell in table.cells(roles.name)]
    tally = Counter(name for name in names if name is not None)
    if len(tally) < 2:
        raise InvalidData(f"{table.file}: expected at least two different items in {roles.name}, got {len(tally)}")
    if roles.catalogue is None:
        return Items(Catalogue([name for name, _ in tally.most_common()])), {roles.name: names}, []
    items = Items.read(roles.catalogue, roles.name, dates=roles.dates, encoding=roles.encoding)
    catalogue = items.catalogue
    unknown = [name for name in tally if name not in catalogue]
    rows = sum(tally[name] for name in unknown)
    note = f"{count(rows, 'row')} of {count(len(unknown), 'item')} not in {roles.catalogue.name}: {first_few(unknown)}"
    known = [name if name is not None and name in catalogue else None for name in names]
    return items, {roles.name: known}, [*items.notes, *[note] * bool(unknown)]


# --- rows ---


def _outputs(table: Table, target: str) -> tuple[Array, str]:
    """All of them, and their unit."""
    unit = table.unit(target)
    try:
        y = np.array(table.floats(target, unit=unit))
    except InvalidData:
        raise table.not_numbers(target, unit, advice=f"; {NO_OUTCOMES}") from None
    check_varies(y, table.file, target)
    return y, unit


def _missing_notes(missing: Mapping[str, Sequence[bool]], rows: int) -> Iterator[str]:
    if rows:
        listed = ", ".join(f"{sum(each)} in {column}" for column, each in missing.items() if any(each))
        yield f"{count(rows, 'row')} with missing values left out: {listed}"
