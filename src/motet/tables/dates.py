"""Dates in cells: days since a fixed date, from ISO 8601 or from the forms that people write.

31.12.2020 and 12/31/2020 say which number is the day; 03.04.2020 does not. So the order of such dates is a property of
a whole column: it is the one that every cell allows, and a column that allows both has to be told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, TypeAlias

import numpy as np

DateOrder: TypeAlias = Literal["", "day first", "month first"]  # "": the year is, as in ISO 8601

ORDERS: tuple[DateOrder, ...] = ("", "day first", "month first")
EPOCH = date(2000, 1, 1)
ONE_DAY = timedelta(days=1)
DATE_LETTERS = 10
ISO_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T].*")
TIME_OF_DAY = r"(?:,?[ T]+(\d{1,2}):(\d\d)(?::(\d\d))?(?: ?([AaPp])\.?[Mm]\.?)?)?"
YEAR_FIRST = re.compile(rf"(\d{{4}})([./-])(\d{{1,2}})\2(\d{{1,2}}){TIME_OF_DAY}")
YEAR_LAST = re.compile(rf"(\d{{1,2}})([./-])(\d{{1,2}})\2(\d{{4}}|\d\d){TIME_OF_DAY}")
FIRST_SHORT_YEAR = 1969  # 69 to 99 are of that century, 00 to 68 of the next, as in POSIX


def days_since(cell: Any, since: date, order: DateOrder = "") -> float | None:
    """A date, or a time, in days; times with a zone are taken in UTC. None if it is no date.

    Text is ISO 8601, or has the year first in another form; with an ``order`` it may also have the year last.
    """
    if isinstance(cell, np.datetime64):
        cell = cell.astype("datetime64[us]").item()
    if isinstance(cell, str):
        cell = _date_or_time(cell.strip(), order)
    if isinstance(cell, datetime):
        if cell != cell:  # pandas' missing time
            return None
        try:
            cell = cell.astimezone(UTC).replace(tzinfo=None) if cell.tzinfo is not None else cell
        except OverflowError:  # in UTC it is before the year 1, or after 9999
            return None
        return (cell - datetime(since.year, since.month, since.day)) / ONE_DAY
    return float((cell - since).days) if isinstance(cell, date) else None


def orders_of(cells: Iterable[Any]) -> list[DateOrder]:
    """The orders in which every cell is a date: none, one, or for cells such as 03.04.2020 two.

    Dates with the year first have one order, "", and so have cells that are dates already.
    """
    different = list(set(cells))
    orders = [order for order in ORDERS if all(days_since(cell, date.min, order) is not None for cell in different)]
    return [""] if "" in orders else orders


def iso_date(days: float, since: date) -> str:
    """A date, with a time unless it is a whole day."""
    moment = datetime(since.year, since.month, since.day) + timedelta(seconds=round(86_400 * days))
    return moment.date().isoformat() if moment.time() == datetime.min.time() else moment.isoformat()


def _date_or_time(text: str, order: DateOrder) -> date | None:
    try:
        if len(text) == DATE_LETTERS and text[4] == text[7] == "-":
            return date.fromisoformat(text)
        if ISO_TIME.fullmatch(text):
            return datetime.fromisoformat(text)
        if found := YEAR_FIRST.fullmatch(text):
            return _moment(int(found[1]), int(found[3]), int(found[4]), found.groups()[4:])
        if not order or not (found := YEAR_LAST.fullmatch(text)):
            return None
        day, month = (found[1], found[3]) if order == "day first" else (found[3], found[1])
        year = int(found[4])
        if len(found[4]) == 2:
            year = FIRST_SHORT_YEAR + (year - FIRST_SHORT_YEAR) % 100
        return _moment(year, int(month), int(day), found.groups()[4:])
    except ValueError:
        return None


def _moment(year: int, month: int, day: int, time: tuple[str | None, ...]) -> date:
    """A date, at an hour and a minute if there are some."""
    hour, minute, second, half = time
    if hour is None or minute is None:
        return date(year, month, day)
    if half is not None and not 1 <= int(hour) <= 12:
        raise ValueError(hour)
    hours = int(hour) if half is None else int(hour) % 12 + 12 * (half in "Pp")
    return datetime(year, month, day, hours, int(minute), int(second or 0))
