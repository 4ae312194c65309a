"""Fits without any setting, from small tables to large ones, beside LightGBM and GPBoost on the same rows.

Each is a process of its own, with one thread and a limit; time is that of the processor for fit and predictions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.measure import Row, duration
from benchmarks.peers import data
from benchmarks.peers.environments import OWN
from benchmarks.peers.run import Limits, Outcome, run

SIZES = {(200, 1): 0.5, (1_000, 5): 2.0, (10_000, 5): 10.0, (100_000, 10): 60.0, (1_000_000, 5): 300.0}  # seconds
PEERS = {"LightGBM": ("lightgbm", "boosting"), "GPBoost": ("gpboost", "gpboost")}  # snippet and environment
MAX_EXCESS = 3.0  # over the aim, until a process is ended


def defaults(sizes: Sequence[tuple[int, int]] = tuple(SIZES)) -> list[Row]:
    """The group is a category to LightGBM, and a random intercept to GPBoost."""
    return [_row(rows, columns, SIZES.get((rows, columns), 60.0)) for rows, columns in sizes]


def _row(rows: int, columns: int, seconds: float) -> Row:
    made, limits = data.defaults(rows, columns), Limits(60.0 + MAX_EXCESS * seconds)

    def outcome(snippet: str, environment: str) -> Outcome:
        return run("defaults", snippet, environment, made.given, limits)

    def told(of: Outcome) -> str:
        if of.predicted is None:
            return f"no result ({of.reason})"
        error = float(np.sqrt(np.mean((of.predicted - made.y_new) ** 2)))
        return f"{duration(of.seconds)}, {of.megabytes:,.0f} MB, RMSE {error:.3g}"

    ours = outcome("motet", OWN)
    note = "; ".join([f"Motet {told(ours)}", *(f"{name} {told(outcome(*where))}" for name, where in PEERS.items())])
    takes, ratio = (duration(ours.seconds), ours.seconds / seconds) if not ours.reason else ("no result", float("inf"))
    job = f"fit without settings, {rows:,} rows × {columns} columns, and {len(made.y_new):,} predictions"
    return Row(job, takes, f"{seconds:g} s", ratio, 1.0, note=note)
