"""How the cells of a pilot's columns are read: as numbers, with a unit, with commas between thousands; and what is said
of it. Cells that are read in one of several ways are refused, or their column is left out, with their rows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from motet.arrays import Array, far_number
from motet.errors import InvalidData
from motet.tables.cells import common_unit, exceptions, measure, written_number
from motet.tables.columns import Column
from motet.tables.dates import orders_of
from motet.tables.files import Table, cell_number
from motet.tables.missing import is_missing
from motet.text import brief

Reading: TypeAlias = Literal["number", "date", "numbers and text", "words"]

FEW_EXCEPTIONS = 0.1  # share of the cells of a column of numbers that are none
MANY_NUMBERS = 0.5  # share of a column that has too many different cells for a category
ROUNDING = 1e-10  # of the largest output: what varies less is one number
EMPTY_ADVICE = "correct it, or empty the cell, so that the row is left out"
UNIT_IN_NAME = re.compile(r".*\S\s*[(\[]([^()\[\]]+)[)\]]")


def reading_of(cells: Collection[Any], *, many: bool) -> Reading:
    """How the cells of a column are read that are not missing; ``many`` are different, too many for a category."""
    different = set(cells)
    if are_numbers(different):
        return "number"
    if orders_of(different):
        return "date"
    return "numbers and text" if is_mixed(list(cells), many=many) else "words"


def are_numbers(cells: Collection[Any]) -> bool:
    """Whether each is a number; with one unit, if they have one."""
    return all(cell_number(cell) is not None for cell in cells) or bool(common_unit(cells))


def is_mixed(cells: Sequence[Any], *, many: bool) -> bool:
    """Whether a column is of numbers but for a few cells, or, if it has ``many`` different ones, but for half."""
    numbers = {cell: _is_measured(cell) for cell in set(cells)}
    share = sum(numbers[cell] for cell in cells) / max(len(cells), 1)
    return share >= (MANY_NUMBERS if many else 1 - FEW_EXCEPTIONS)


def exceptions_of(table: Table, column: str) -> str:
    """The cells of a mixed column that are no numbers, in words."""
    cells = {number: cell for number, cell in zip(table.numbers, table.cells(column)) if not is_missing(cell)}
    return exceptions({number: cell for number, cell in cells.items() if cell_number(cell) is None}, len(cells))


def unit_of(table: Table, name: str, cells: Sequence[Any], told: str) -> str:
    """A column's unit: that of its cells, the one that is told, or one in its name such as "weight (kg)"."""
    in_cells, in_name = common_unit(set(cells)), UNIT_IN_NAME.fullmatch(name)
    if in_cells and told and in_cells != told:
        raise InvalidData(f"{table.file}: every cell of {name!r} is in {in_cells}, not {told} (units=)")
    return in_cells or told or (in_name[1] if in_name else "")


def reading_notes(table: Table, columns: Iterable[Column], target: str, unit: str) -> Iterator[str]:
    """What of each column is not read as it is written."""
    for column in columns:
        cells = [cell for cell in table.cells(column.name) if not column.lacks(cell)]
        if column.is_numeric:
            yield from _number_notes(column.name, cells, column.unit)
        others = [value for value in column.values if not _is_measured(value)]
        if 0 < len(others) < len(column.values):
            yield (
                f"{column.name} is read as a category of {len(column.values)} values, "
                f"as {', '.join(map(brief, others[:3]))} {'is' if len(others) == 1 else 'are'} no number"
            )
    yield from _number_notes(target, table.cells(target), unit)


def check_outliers(table: Table, rows: Sequence[int], column: str, numbers: Any) -> None:
    """Raises if a few numbers are so far from all others that they decide every setting."""
    if (far := far_number(np.asarray(numbers, dtype=float))) is not None:
        raise table.refusal(rows[far[0]], column, f"{far[1]}: {EMPTY_ADVICE}")


def _is_measured(cell: Any) -> bool:
    return cell_number(cell) is not None or measure(cell) is not None


def _number_notes(name: str, cells: Sequence[Any], unit: str) -> Iterator[str]:
    texts = [cell for cell in cells if isinstance(cell, str)]
    if unit and (units := [text for text in texts if measure(text) is not None]):
        yield f"{name} is in {unit}: {brief(units[0])} is read as {cell_number(units[0], unit):.12g}"
    elif commas := [text for text in texts if "," in text and written_number(text) is not None]:
        yield f"commas in {name} are between thousands: {brief(commas[0])} is read as {cell_number(commas[0]):.12g}"


def one_value(y: Array, name: str = "") -> str:
    """That an output has one value only, in words; "" if it has several."""
    if len(y) < 2 or np.ptp(y) > ROUNDING * np.abs(y).max():
        return ""
    output = f"the output {name!r}" if name else "the output"
    return f"{output} has one value only, {y[0]:g}, in every row, so there is nothing to learn"
