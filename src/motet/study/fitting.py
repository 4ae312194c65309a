"""The rows of a table that a study takes. Limits of a pilot may be too narrow for rows of others: such rows are left
out and counted by reason, instead of a refusal of the whole table.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from motet.arrays import Array, numbers
from motet.errors import InvalidData
from motet.files import Table, cell_number, cell_text, is_missing
from motet.model.columns import Column
from motet.study.limits import ANY_OUTPUT
from motet.study.study import Study

NOISE = "noise"


def fitting_rows(study: Study, table: Table) -> tuple[Table, dict[str, int]]:
    """The rows that are complete and within the limits, and how many others there are, by reason.

    Of a client with more rows than it may have, the first ones are taken. Incomplete rows are counted in the table.
    """
    complete = _complete(study, table)
    rows, reasons = table.only(complete, left_out=len(table.rows) - len(complete)), Counter[str]()
    rows, misfits = without_misfits(study, rows)
    taken, chosen, most = Counter[str](), [], study.limits.examples_per_client
    for k, client in enumerate(rows.texts(study.table.client)):
        taken[client] += 1
        if taken[client] <= most:
            chosen.append(k)
        else:
            reasons[f"more than {most} of a client"] += 1
    return rows.only(chosen), {**misfits, **reasons}


def without_misfits(study: Study, table: Table) -> tuple[Table, dict[str, int]]:
    """The rows without those that have a value outside the limits, and how many these are, by reason."""
    reasons: dict[int, str] = {}
    for column, lacks, fits, reason in _columns(study, table):
        remembered = cache(fits)
        misfits = (k for k, cell in enumerate(table.cells(column)) if not lacks(cell) and not remembered(cell))
        reasons |= dict.fromkeys(misfits, reason)
    return table.only(k for k in range(len(table.rows)) if k not in reasons), dict(Counter(reasons.values()))


def _complete(study: Study, table: Table) -> list[int]:
    """The rows without a missing value."""
    needed: dict[str, Callable[[Any], bool]] = {study.table.client: is_missing}
    needed |= {column: lacks for column, lacks, _, _ in _columns(study, table) if column != NOISE}
    lacking: set[int] = set()
    for column, lacks in needed.items():
        lacking.update(k for k, cell in enumerate(table.cells(column)) if lacks(cell))
    return [k for k in range(len(table.rows)) if k not in lacking]


def arrays_of(study: Study, table: Table) -> tuple[list[str], Array, Array]:
    """Clients, inputs such as the model has, and outputs, of rows that fit."""
    fitting, _ = fitting_rows(study, table)
    model = study.model
    if model.catalogue is not None:
        X = model.catalogue.look_up(map(cell_text, fitting.cells(study.table.name)))
    else:
        assert model.columns is not None
        X = model.columns.rows({name: fitting.cells(name) for name in model.columns.names})
    y = fitting.floats(study.table.target, unit=study.output.unit or "")
    return fitting.texts(study.table.client), X, numbers(y, "outputs")


def _columns(study: Study, table: Table) -> Iterator[tuple[str, Callable[[Any], bool], Callable[[Any], bool], str]]:
    """The columns that an example has, which of their cells are missing, which fit, and what is said of others."""
    catalogue, columns, roles = study.model.catalogue, study.model.columns, study.table
    if catalogue is not None:
        yield roles.name, is_missing, lambda cell: cell_text(cell) in catalogue, "an item that the study does not have"
    bounds = study.input_bounds or ()
    for column, place in zip(columns or (), columns.first_places if columns is not None else ()):
        yield column.name, column.lacks, _within_column(column, bounds[place]), _outside(column, bounds[place])
        if column.is_numeric:
            anything = _within_column(column, (-math.inf, math.inf))
            yield column.name, column.lacks, anything, f"{column.name} that is no number"
    low, high = study.limits.y or ANY_OUTPUT
    unit = study.output.unit or ""
    yield roles.target, is_missing, _within(low, high, unit), f"{roles.target} outside {low:g} to {high:g}"
    yield roles.target, is_missing, _within(-math.inf, math.inf, unit), f"{roles.target} that is no number"
    if NOISE in table.columns:
        low, high = study.limits.noise
        yield NOISE, lambda cell: cell is None, _within(low, high), f"noise outside {low:g} to {high:g}"


def _within_column(column: Column, bounds: tuple[float, float]) -> Callable[[Any], bool]:
    def fits(cell: Any) -> bool:
        try:
            number = column.number(cell)
            return bool(column.values) or bounds[0] <= number <= bounds[1]
        except InvalidData:
            return False

    return fits


def _outside(column: Column, bounds: tuple[float, float]) -> str:
    if column.values:
        return f"{column.name} with a value that the study does not have"
    return f"{column.name} outside {column.text(bounds[0])} to {column.text(bounds[1])}"


def _within(low: float, high: float, unit: str = "") -> Callable[[Any], bool]:
    def fits(cell: Any) -> bool:
        number = cell_number(cell, unit)
        return number is not None and low <= number <= high

    return fits
