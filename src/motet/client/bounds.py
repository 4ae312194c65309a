"""Rows of a table outside of what the study was made for: inputs beyond its bounds, outputs beyond its limits.

A server refuses such examples. Predictions may be asked for anywhere, so there these are only warned of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from motet.arrays import Array
from motet.client.layout import Interval
from motet.client.tables import Examples, Inputs
from motet.model.columns import Column
from motet.text import count


def outside_bounds(inputs: Inputs) -> tuple[int, str]:
    """How many rows have an input outside its bounds, and a sentence about them."""
    outside, parts = np.zeros(len(inputs.X), dtype=bool), []
    for column, values, (low, high) in _bounded(inputs):
        beyond = (values < low) | (values > high)
        if beyond.any():
            outside |= beyond
            parts.append(f"{column.name} {_excess(values[beyond], (low, high), column.text, 'bounds')}")
    number = int(outside.sum())
    where = f"{inputs.table.file}: {_rows(number)} outside the bounds of the study ({'; '.join(parts)})"
    return number, f"{where}: predictions there are extrapolated"


def outside_limits(examples: Sequence[Examples]) -> tuple[int, str]:
    """How many rows have an output outside the limits, and a sentence about them."""
    layout, table = examples[0].layout, examples[0].table
    if layout.limits is None:
        return 0, ""
    y, (low, high) = np.concatenate([one.y for one in examples]), layout.limits
    beyond = y[(y < low) | (y > high)]
    span = _excess(beyond, layout.limits, "{:g}".format, "limits") if len(beyond) else ""
    where = f"{table.file}: {_rows(len(beyond))} outside the limits of the study ({layout.target} {span})"
    return len(beyond), f"{where}: check the units"


def _bounded(inputs: Inputs) -> Iterator[tuple[Column, Array, Interval]]:
    """Columns that have bounds, with the numbers of all rows."""
    layout = inputs.layout
    if layout.columns is not None:
        for column in layout.columns:
            if column.bounds is not None:
                yield column, np.array([column.number(x[column.name]) for x in inputs.X]), column.bounds
    elif layout.catalogue is None:
        for k, (name, bounds) in enumerate(zip(layout.inputs(inputs.table), layout.bounds)):
            if bounds is not None:
                yield Column(name=name), np.array([x[k] for x in inputs.X]), bounds


def _excess(beyond: Array, limits: Interval, text: Callable[[float], str], noun: str) -> str:
    """How far numbers go beyond limits: "up to 40, bounds 0 to 24"."""
    (low, high), least, most = limits, float(beyond.min()), float(beyond.max())
    ends = [f"down to {text(least)}"] * (least < low) + [f"up to {text(most)}"] * (most > high)
    return f"{' and '.join(ends)}, {noun} {text(low)} to {text(high)}"


def _rows(number: int) -> str:
    return f"{count(number, 'row')} {'is' if number == 1 else 'are'}"
