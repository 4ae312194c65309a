"""How good the predictions of a page are, as the page prints it: Motet's figure beside those of baselines.

A line has it in words that are the same on every page, Motet first: ``error 0.39 mg/l with the release, 0.77 mg/l with
own samples``. Of errors the smaller is better, of ``hits`` the larger. ``the 95 % bands cover 94 % of …`` is about the
uncertainty. The table of ``motet evaluate`` and ``motet init --from`` has both; ``motet check`` has a forecast.
"""

from __future__ import annotations

import re
from typing import NamedTuple

LINE = re.compile(r"^(error|hits) (\d.* with .*, \d.* with .*)$", re.MULTILINE)
PART = re.compile(r"(\d[\d.]*)(?: [^,]*)? with ([^,]+)")
FORECAST = re.compile(r"with an error of (\d[\d.]*) alone, .* (\d[\d.]*) in this study")
BANDS = re.compile(r"\b(\d+) % bands cover (\d+) ?% of ")
ROW = re.compile(r"^│ (known|new) +│ (.+?) +│ (\d[\d.]*) +│ \S+ +│ (\d+) % +│$", re.MULTILINE)
OURS = ("this study", "this release")
TABLE_BANDS = 90  # per cent
TOLERANCE = 6  # per cent of a band's coverage, by chance
PILOT = "chosen at random"  # in what init prints: another pilot each time,
PILOT_TOLERANCE, PILOT_RATIO = (
    12,
    1.1,
)  # of which eight, of 30 clients, had 83 to 95 % in 90 % bands, and errors 8 % apart


class Figure(NamedTuple):
    """One comparison: Motet's figure, and that of each baseline."""

    measure: str
    ours: float
    baselines: dict[str, float]

    def is_within(self, ratio: float) -> bool:
        """Whether the figure is better than ``ratio`` times the baselines'."""
        if self.measure == "error":
            return all(self.ours < ratio * other for other in self.baselines.values())
        return all(self.ours > other / ratio for other in self.baselines.values())


def figures(text: str) -> list[Figure]:
    """All comparisons in a printed text, or in a page."""
    found = []
    for measure, rest in LINE.findall(text):
        (ours, _), *others = [(float(number), who) for number, who in PART.findall(rest)]
        found.append(Figure(measure, ours, {who: number for number, who in others}))
    found += [Figure("error", float(ours), {"alone": float(alone)}) for alone, ours in FORECAST.findall(text)]
    ours_in_table, baselines = 0.0, dict[str, float]()
    for _, who, error, _ in [*ROW.findall(text), ("", OURS[0], "0", "")]:
        if who not in OURS:
            baselines[who] = float(error)
            continue
        found += [Figure("error", ours_in_table, baselines)] * bool(baselines)
        ours_in_table, baselines = float(error), {}
    return found


def coverages(text: str) -> list[tuple[int, int]]:
    """All bands in a printed text: their level and what they cover, in per cent."""
    of_tables = [(TABLE_BANDS, int(inside)) for _, who, _, inside in ROW.findall(text) if who in OURS]
    return [(int(level), int(covered)) for level, covered in BANDS.findall(text)] + of_tables


def check_figures(text: str, *, shown: bool = True) -> None:
    """Motet's figures are better than the baselines', and its bands cover as much as they say; if that was printed just
    now, and not ``shown`` on a page, as much as pilots by chance allow."""
    by_chance = not shown and PILOT in text
    ratio, tolerance = (PILOT_RATIO, PILOT_TOLERANCE) if by_chance else (1.0, TOLERANCE)
    assert [figure for figure in figures(text) if not figure.is_within(ratio)] == []
    assert [pair for pair in coverages(text) if pair[1] < pair[0] - tolerance] == []
