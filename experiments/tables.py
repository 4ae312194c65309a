"""Measurements as tables, for the terminal and for the docs: means over seeds, with their standard errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from rich.table import Table as RichTable

Key: TypeAlias = tuple[Any, ...]  # of a measurement
Measured: TypeAlias = dict[Key, list[float]]  # over seeds

GOALS = {"ε = 3": 0.95, "ε = 1": 0.91, "last of ten, total ε = 3": 0.93}
BAND = 0.85, 0.95
PLAIN = "as simulated"
SETTINGS = "0.0714, 0.6, 3.2e-4", "0.1, 0.625, 1.6e-4: the simulation's"
WITHOUT_NOISE, PASSIVE, ACTIVE, AVERAGE = "without noise", "new listeners", "listeners in the release", "the average"


@dataclass(frozen=True)
class Table:
    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def rich(self) -> RichTable:
        shown = RichTable(*self.header, title=self.caption, title_justify="left")
        for row in self.rows:
            shown.add_row(*row, style="bold red" if row[-1] == "no" else "")
        return shown

    def markdown(self) -> list[str]:
        rows = [self.header, ["---"] * len(self.header), *self.rows]
        return [self.caption, "", *("| " + " | ".join(row) + " |" for row in rows), ""]


def markdown(tables: Sequence[Table], seeds: int) -> str:
    lines = ["# Privacy and utility", "", "Written by `python -m experiments.privacy_utility`.", ""]
    lines += ["<!-- --8<-- [start:table] -->", ""]  # the docs show what is between these marks
    lines += [
        "Share kept: (RMSE separate − RMSE private) / (RMSE separate − RMSE without noise), of preferences for all 489 "
        "artists. δ = 1e-5; α = 0.0714, σ² = 0.6, λ = 3.2e-4 unless given; five ratings per listener; "
        "OpenDP's noise, so runs differ a little; "
        f"means of {seeds} simulated studies ± standard errors.",
        "",
    ]
    for one in tables:
        lines += one.markdown()
    return "\n".join([*lines, "<!-- --8<-- [end:table] -->"]) + "\n"


def all_tables(values: Measured, *, users: int) -> list[Table]:
    return [_goals(values, users), _grid(values), _robust(values, users), _bands(values, users)]


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean and its standard error, 0 if there is only one value."""
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return float(np.mean(values)), float(error)


def percent(values: Sequence[float] | None) -> str:
    if not values:
        return "–"
    mean, error = mean_and_error(values)
    return f"{100 * mean:.1f} ± {100 * error:.1f}"


def _goals(values: Measured, users: int) -> Table:
    rows = []
    for name, goal in GOALS.items():
        shares = values[PLAIN, name]
        rows.append((name, percent(shares), f"≥ {100 * goal:g}", "yes" if np.mean(shares) >= goal else "no"))
    caption = f"The goals: {users:,} listeners, rank 80; in the last row they join linearly over ten releases."
    return Table(caption, ("release", "share kept, %", "goal", "met"), rows)


def _grid(values: Measured) -> Table:
    keys = sorted(key[1:] for key in values if key[0] == "grid")
    ranks = sorted({rank for *_, rank in keys})
    rows = [
        (f"{epsilon:g}", f"{users:,}", *(percent(values["grid", epsilon, users, rank]) for rank in ranks))
        for epsilon, users in dict.fromkeys(key[:2] for key in keys)
    ]
    return Table("Share kept, %, by ε, listeners and rank.", ("ε", "listeners", *(f"rank {r}" for r in ranks)), rows)


def _robust(values: Measured, users: int) -> Table:
    cases = dict.fromkeys(key[0] for key in values if key[-1] in GOALS)
    rows = [(case, *(percent(values[case, goal]) for goal in GOALS)) for case in cases]
    caption = f"Share kept, %, if the study file is wrong about its listeners: {users:,} listeners, rank 80."
    return Table(caption, ("case", *GOALS), rows)


def _bands(values: Measured, users: int) -> Table:
    low, high = BAND
    rows = []
    for key in dict.fromkeys(key[:3] for key in values if key[0] == "bands"):
        fractions = [values.get((*key, who)) for who in (PASSIVE, ACTIVE, AVERAGE)]
        met = all(low <= np.mean(one) <= high for one in fractions if one)
        rows.append((*key[1:], *map(percent, fractions), "yes" if met else "no"))
    caption = (
        f"True values inside 90 % bands, %: {users:,} listeners, rank 80, the tastes of 200 others and of 200 of them, "
        f"and the average, for all artists. Goal: {100 * low:g} to {100 * high:g}."
    )
    return Table(caption, ("α, σ², λ", "release", PASSIVE, ACTIVE, AVERAGE, "met"), rows)
