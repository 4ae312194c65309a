"""Cells that people write among numbers: 26.5 kg, 26,500, <20, yes. Which of them are numbers, and what the others are.

Beyond doubt is a number with commas between its thousands, 26,500 (one between decimals, 26,5, is another), and one
with a unit that is known, or that all cells of a column have. Of others, what to do is for people to decide.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from motet.arrays import finite_number
from motet.text import brief, count

GROUPED = r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?"
NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
CURRENCY = r"[$€£¥]"
UNIT_TEXT = r"(?:[^\W\d_]|[%‰°$€£¥])(?:[^\W\d_]|[%‰°²³·*/^. -]){0,18}(?:(?<=[^\W\d_])[23])?"
THOUSANDS = re.compile(GROUPED)
MEASURED = re.compile(rf"(?P<number>{GROUPED}|{NUMBER})\s*(?P<unit>{UNIT_TEXT})")
PRICED = re.compile(rf"(?P<unit>{CURRENCY})\s*(?P<number>{GROUPED}|{NUMBER})")
MAX_KINDS, MAX_NAMED_ROWS = 3, 3  # of cells, in a refusal
DATE = r"(\d{4}([./-])\d{1,2}\2\d{1,2}|\d{1,2}([./-])\d{1,2}\3(\d{4}|\d\d))([ T,].*)?"
KINDS = [  # what a cell is that is no number, and what to do
    (re.compile(rf"[<≤].*|{NUMBER}\s*-"), "below a limit", "write a number, such as half of the limit"),
    (re.compile(rf"[>≥].*|{NUMBER}\s*\+"), "above a limit", "write a number, such as the limit"),
    (re.compile(rf"{NUMBER}\s*(-|–|to)\s*{NUMBER}"), "a range", "write one number, such as its middle"),
    (re.compile(r"[?.*-]+|unknown|missing|none|not .*|#.*", re.I), "a mark of a missing value", "empty the cell"),
    (re.compile(DATE), "a date", "write the days since one; motet init reads dates"),
    (
        re.compile(rf"[+-]?\d*,\d+\s*({UNIT_TEXT})?"),
        "a comma between decimals",
        "write 3.5, or all numbers so and semicolons between cells",
    ),
    (re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d+)?"), "points between thousands", "write the number without them"),
]
TEXT = "text", "write a number"
NO_OUTCOMES = "outcomes other than numbers are not modelled yet"


class Measure(NamedTuple):
    number: float
    unit: str


def written_number(text: str, unit: str = "") -> float | None:
    """A number with commas between its thousands, or with this unit; None if it is none."""
    if unit and (read := measure(text)) is not None and read.unit == unit:
        return read.number
    text = text.strip()
    return _finite(text.replace(",", "")) if THOUSANDS.fullmatch(text) else None


def measure(cell: Any) -> Measure | None:
    """The number that a text is, with the unit behind it or before it; None if it is something else."""
    if not isinstance(cell, str) or _finite(cell) is not None:
        return None
    if (found := MEASURED.fullmatch(cell.strip()) or PRICED.fullmatch(cell.strip())) is None:
        return None
    number = _finite(found["number"].replace(",", ""))
    return None if number is None else Measure(number, found["unit"].strip())


def common_unit(cells: Iterable[Any]) -> str:
    """The unit that every cell has; "" if one has none, or another."""
    unit = ""
    for cell in cells:
        read = measure(cell)
        if read is None or unit not in ("", read.unit):
            return ""
        unit = read.unit
    return unit


def exceptions(cells: Mapping[int, Any], total: int, unit: str = "", advice: str = "") -> str:
    """What the cells of a column of numbers in a unit are that are none, by their rows, and what to do; ``advice`` is
    for a column without any number."""
    different = Counter(str(cell).strip() for cell in cells.values())
    if len(cells) == total and len(different) == 2 and not any(map(measure, different)):
        values = " and ".join(f"{brief(text)} ({count(times, 'row')})" for text, times in sorted(different.items()))
        return f"two values, {values}: code them as 0 and 1{advice}"
    kinds: dict[tuple[str, str], dict[int, str]] = {}
    for row, cell in cells.items():
        kinds.setdefault(kind_of(str(cell).strip(), unit), {})[row] = str(cell).strip()
    if kinds.keys() == {TEXT} and len(cells) == total:
        texts = ", ".join(brief(text) for text, _ in different.most_common(MAX_KINDS))
        return f"{count(len(different), 'text')} such as {texts}, and no number: encode them as numbers{advice}"
    by_count = sorted(kinds.items(), key=lambda item: -len(item[1]))
    said = "; ".join(_said(*kind, rows) for kind, rows in by_count[:MAX_KINDS])
    more = f"; and {count(len(by_count) - MAX_KINDS, 'other kind')}" if len(by_count) > MAX_KINDS else ""
    empty = "; or empty the cells, so that their rows are left out"
    return f"{len(cells)} of {count(total, 'cell')} {'is' if len(cells) == 1 else 'are'} no number: {said}{more}{empty}"


def kind_of(text: str, unit: str = "") -> tuple[str, str]:
    """What a text is that is no number, and what to do."""
    for pattern, what, advice in KINDS:
        if pattern.fullmatch(text):
            return what, advice
    read = measure(text)
    wanted = f"write numbers in {unit}" if unit else "write numbers of one unit, without it or with it in every cell"
    return TEXT if read is None else (f"in {read.unit}", wanted)


def _said(what: str, advice: str, rows: Mapping[int, str]) -> str:
    numbers = list(rows)
    first = ", ".join(map(str, numbers[:MAX_NAMED_ROWS]))
    more = f" and {len(numbers) - MAX_NAMED_ROWS} more" if len(numbers) > MAX_NAMED_ROWS else ""
    return f"{brief(rows[numbers[0]])} in row{'s' * (len(numbers) > 1)} {first}{more}, {what}: {advice}"


def _finite(text: str) -> float | None:
    try:
        return finite_number(float(text))
    except ValueError:
        return None
