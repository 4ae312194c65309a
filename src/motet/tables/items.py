"""A catalogue as people have it, as the one that a study reads: for each item a name, and numbers.

Lists such as Drama|War, and words of a few kinds, become a column of 0 and 1 for each value. Numbers and dates are
scaled, as they stand beside those; missing ones are the mean. Text that is different for nearly every item is left out.
A catalogue of names and numbers stays as it is. Catalogues are public, so all of this may be said.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from motet.arrays import Array
from motet.errors import InvalidData
from motet.tables.catalogue import Catalogue
from motet.tables.cells import common_unit
from motet.tables.dates import EPOCH, DateOrder, days_since, orders_of
from motet.tables.files import Table, cell_number, cell_text, new_file, read
from motet.tables.missing import is_missing
from motet.tables.readings import are_numbers, is_mixed
from motet.text import count, first_few

SEPARATOR = "|"  # of a list's values
MAX_VALUE_COLUMNS = 50  # of a column, each of which becomes one
MAX_FEATURES = 500
MAX_SHARE = 0.5  # of the items, that a column of words has different ones of
MAX_MISSING = 0.3  # share of the items
FEATURE_DIGITS = 6
ID_NAME = re.compile(r"(.*[ _])?[iI][dD]|.*[a-z]I[dD]")


@dataclass(frozen=True, eq=False)
class Items:
    """A catalogue and the header of its file; ``is_new`` if that has to be written. ``notes`` say what became what."""

    catalogue: Catalogue
    header: tuple[str, ...] = ("name",)
    notes: tuple[str, ...] = ()
    is_new: bool = True

    @classmethod
    def read(cls, path: Path, name: str | None = None, *, dates: DateOrder = "", encoding: str | None = None) -> Items:
        """Of a file whose column of names is ``name``, or else the first."""
        table = read(path, by_place=True, encoding=encoding)
        place = table.columns.index(name) if name in table.columns else 0
        others = [k for k in range(len(table.columns)) if k != place]
        is_plain = all(cell_number(cell) is not None for k in others for cell in table.cells(k))
        has_header = any(cell_number(table.columns[k]) is None for k in others)
        if place == 0 and encoding is None and path.suffix.lower() == ".csv" and (is_plain or not has_header):
            return cls(Catalogue.from_table(table), is_new=False)
        columns: dict[str, list[float]] = {}
        notes: list[str] = []
        names = table.names(place)
        for k in others:
            expanded, note = _Expansion(table, k, dates).columns()
            columns |= expanded
            notes += [f"{table.file}: {note}"] * bool(note)
        if len(columns) > MAX_FEATURES:
            got = f"expected at most {MAX_FEATURES} columns of features, got {len(columns)}"
            raise InvalidData(f"{table.file}: {got}, once lists and words are columns: leave some out")
        vectors = np.array(list(columns.values())).T if columns else None
        return cls(Catalogue(names, vectors), (table.columns[place] or "name", *columns), tuple(notes))

    def write(self, path: Path, *, force: bool = False) -> None:
        """A CSV as ``Catalogue.from_csv`` reads it, with the same numbers."""
        if path.exists() and force:
            path.unlink()
        with new_file(path, InvalidData, text=True) as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(self.header)
            for name, vector in zip(self.catalogue.names, self.catalogue.vectors.tolist()):
                writer.writerow([name, *(f"{number:.12g}" for number in vector)])


def items_file(items: Items | None, study: Path) -> Path | None:
    """The file of new items, beside a study's file; None if there are none."""
    return None if items is None or not items.is_new else study.with_name(f"{study.stem}-items.csv")


@contextmanager
def written_items(items: Items | None, study: Path, *, force: bool) -> Iterator[None]:
    """New items beside a study's file, which is written in the block; removed if that fails."""
    file = items_file(items, study)
    if file is None or items is None:
        yield
        return
    items.write(file, force=force)
    try:
        yield
    except BaseException:
        file.unlink()
        raise


@dataclass(frozen=True, eq=False)
class _Expansion:
    """A column of a catalogue as columns of numbers."""

    table: Table
    place: int
    dates: DateOrder

    @property
    def name(self) -> str:
        return self.table.columns[self.place] or f"column {self.place + 1}"

    def columns(self) -> tuple[dict[str, list[float]], str]:
        """They by name, none if it is left out, and what is said of it."""
        cells = [None if is_missing(cell) else cell for cell in self.table.cells(self.place)]
        filled = [cell for cell in cells if cell is not None]
        texts = {cell_text(cell) for cell in filled}
        empty = len(cells) - len(filled)
        if (missing := 1 - len(filled) / len(cells)) > MAX_MISSING:
            return {}, f"{self.name} is left out ({100 * missing:.0f} % missing)"
        if len(texts) < 2 or ID_NAME.fullmatch(self.name):
            return {}, f"{self.name} is left out ({'other ids of the items' if len(texts) > 1 else 'one value only'})"
        if (numbers := self._numbers(cells, filled)) is not None:
            without = f"; {count(empty, 'item')} without one {'has' if empty == 1 else 'have'} the mean" * bool(empty)
            about = f"{self.name} is scaled: 0 is its mean, 1 its standard deviation{without}"
            return {self.name: _scaled(numbers)}, about
        if any(SEPARATOR in text for text in texts):
            return self._values([set() if cell is None else _parts(cell) for cell in cells], "lists")
        if is_mixed(filled, many=len(texts) > MAX_VALUE_COLUMNS):
            raise self.table.not_numbers(self.place)
        if len(texts) > min(MAX_VALUE_COLUMNS, MAX_SHARE * len(cells)):
            return {}, f"{self.name} is left out (text, {len(texts)} different)"
        return self._values([set() if cell is None else {cell_text(cell)} for cell in cells], "words")

    def _numbers(self, cells: Sequence[Any], filled: Sequence[Any]) -> Array | None:
        """Numbers, or dates in days, NaN where one is missing; None if it has others."""
        if are_numbers(set(filled)):
            unit = common_unit(set(filled))
            return np.array([np.nan if cell is None else cell_number(cell, unit) for cell in cells], dtype=float)
        orders = orders_of(filled)
        if not orders:
            return None
        if len(orders) > 1 and self.dates not in orders:
            raise InvalidData(
                f"{self.table.file}: dates in the column {self.name!r} may have the day or the month first: say which, "
                'dates="day-first" or dates="month-first"'
            )
        order = orders[0] if len(orders) == 1 else self.dates
        days = [np.nan if cell is None else days_since(cell, EPOCH, order) for cell in cells]
        return np.array(days, dtype=float)

    def _values(self, values: Sequence[set[str]], what: str) -> tuple[dict[str, list[float]], str]:
        """A column of 0 and 1 for each of the most frequent values."""
        items = Counter(value for each in values for value in each)
        telling = [value for value, number in items.items() if number < len(values)]
        chosen = sorted(telling, key=lambda value: (-items[value], value))[:MAX_VALUE_COLUMNS]
        rest = len(items) - len(chosen)
        columns = {f"{self.name}={value}": [float(value in each) for each in values] for value in chosen}
        others = f", the most frequent; {count(rest, 'other')} left out" if rest else ""
        return columns, f"{self.name}, {what}, becomes {count(len(chosen), 'column')} ({first_few(chosen)}){others}"


def _parts(cell: Any) -> set[str]:
    return {part.strip() for part in cell_text(cell).split(SEPARATOR)} - {""}


def _scaled(numbers: Array) -> list[float]:
    """About 0, of standard deviation 1; 0 where one is missing."""
    scaled = (numbers - np.nanmean(numbers)) / (np.nanstd(numbers) or 1.0)
    return [float(f"{number:.{FEATURE_DIGITS}g}") + 0.0 for number in np.nan_to_num(scaled, nan=0.0)]
