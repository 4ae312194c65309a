"""The scale of an output: the lowest and the highest that people give, and the step between them.

Limits say what is accepted; they leave room, and nobody's output is at their ends.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from motet.arrays import Array

Scale: TypeAlias = tuple[float, float, float]  # lowest, highest, step

STEPS = (10.0, 5.0, 1.0, 0.5, 0.25, 0.2, 0.1)  # of outputs that people choose, such as stars
MAX_CHOICES = 50  # of them
TAIL_SHARE = 0.01  # of outputs that may be below the scale of a measurement, and as many above


def output_scale(y: Array, limits: tuple[float, float]) -> Scale:
    """Within the limits: the ends of outputs in even steps, such as half stars; else where nearly all of them are."""
    low, high = float(y.min()), float(y.max())
    for step in STEPS:
        if low < high <= low + MAX_CHOICES * step and np.allclose(y / step, np.round(y / step), rtol=0, atol=1e-9):
            return low, high, step
    low, high, step = even_scale(*map(float, np.quantile(y, [TAIL_SHARE, 1 - TAIL_SHARE])))
    low, high = max(low, limits[0]), min(high, limits[1])
    return (low, high, min(step, high - low)) if low < high else even_scale(*limits)


def even_scale(low: float, high: float) -> Scale:
    """Round numbers around a range, in at least 10 and at most 102 steps."""
    width = (high - low) or abs(low) or 1.0
    step = 10.0 ** (math.floor(math.log10(width) + 1e-9) - 1)
    ends = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    low, high, step = (float(f"{number:.12g}") for number in (*ends, step))
    return low, (high if low < high else low + 10 * step), step
