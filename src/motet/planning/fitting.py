"""The rows of a table that a study takes. Limits of a pilot may be too narrow for rows of others: such rows are left
out and counted by reason, instead of a refusal of the whole table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

from motet.arrays import Array, numbers
from motet.errors import InvalidData
from motet.study.limits import ANY_OUTPUT
from motet.study.study import Study
from motet.tables.columns import Column
from motet.tables.files import Table, cell_text
from motet.tables.missing import Missing, is_missing
from motet.tables.roles import NOISE


def fitting_rows(study: Study, table: Table) -> tuple[Table, dict[str, int]]:
    """The rows that are complete and within the limits, and how many others there are, by reason.

    Of a client with more rows than it may have, the first ones are taken. Incomplete rows are counted in the table.
    """
    client, most = study.table.client, study.limits.examples_per_client
    needed = {client: is_missing} | {column: lacks for column, lacks, _ in _columns(study, table) if column != NOISE}
    missing = Missing.of({column: list(map(lacks, table.cells(column))) for column, lacks in needed.items()})
    rows, reasons = without_misfits(study, table.only(missing.complete, left_out=missing.left_out))
    chosen = sorted(k for places in rows.groups(client).values() for k in places[:most])
    if surplus := len(rows.rows) - len(chosen):
        reasons[f"more than {most} of a client"] = surplus
    return rows.only(chosen), reasons


def without_misfits(study: Study, table: Table) -> tuple[Table, dict[str, int]]:
    """The rows without those that have a value outside the limits, and how many these are, by reason."""
    reasons: dict[int, str] = {}
    for column, lacks, misfit in _columns(study, table):
        remembered = cache(misfit)
        each = {k: remembered(cell) for k, cell in enumerate(table.cells(column)) if not lacks(cell)}
        reasons |= {k: reason for k, reason in each.items() if reason}
    return table.only(k for k in range(len(table.rows)) if k not in reasons), dict(Counter(reasons.values()))


def arrays_of(study: Study, rows: Table) -> tuple[list[str], Array, Array]:
    """Clients, inputs such as the model has, and outputs, of rows that fit."""
    model = study.model
    if model.catalogue is not None:
        X = model.catalogue.look_up(map(cell_text, rows.cells(study.table.name)))
    else:
        assert model.columns is not None
        X = model.columns.rows({name: rows.cells(name) for name in model.columns.names})
    y = rows.floats(study.table.target, unit=study.output.unit or "")
    return rows.texts(study.table.client), X, numbers(y, "outputs")


def _columns(study: Study, table: Table) -> Iterator[tuple[str, Callable[[Any], bool], Callable[[Any], str]]]:
    """The columns that an example has, which of their cells are missing, and why others do not fit, "" if they do."""
    catalogue, columns, roles, limits = study.model.catalogue, study.model.columns, study.table, study.limits
    if catalogue is not None:
        unknown = "an item that the study does not have"
        yield roles.name, is_missing, lambda cell: "" if cell_text(cell) in catalogue else unknown
    bounds = study.input_bounds or ()
    for column, place in zip(columns or (), columns.first_places if columns is not None else ()):
        yield column.name, column.lacks, partial(_misfit, column, bounds[place])
    target = Column(name=roles.target, unit=study.output.unit or "")
    yield roles.target, is_missing, partial(_misfit, target, limits.y or ANY_OUTPUT)
    if NOISE in table.columns:
        misfit, outside = partial(_misfit, Column(name=NOISE), limits.noise), "noise outside {:g} to {:g}"
        yield NOISE, lambda cell: cell is None, lambda cell: misfit(cell) and outside.format(*limits.noise)


def _misfit(column: Column, bounds: tuple[float, float], cell: Any) -> str:
    try:
        number = column.number(cell)
        if column.values or bounds[0] <= number <= bounds[1]:
            return ""
    except InvalidData:
        if column.values:
            return f"{column.name} with a value that the study does not have"
        if column.is_numeric:
            return f"{column.name} that is no number"
    return f"{column.name} outside {column.text(bounds[0])} to {column.text(bounds[1])}"
