"""What a budget costs by another library: Google's Rényi accountant."""

from __future__ import annotations

from functools import cache

import dp_accounting
import numpy as np
from dp_accounting import rdp


@cache
def promised(epsilon: float, delta: float, releases: int) -> float:
    """The noise scale that another library asks for: the least whose Rényi accountant stays within ε."""
    low, high = 0.1, 1e3
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if accountant(middle, delta, releases) > epsilon else (low, middle)
    return high


def accountant(scale: float, delta: float, releases: int) -> float:
    orders = [1 + k / 20 for k in range(1, 400)] + list(range(21, 400)) + np.geomspace(400, 1e6, 400).tolist()
    found = rdp.RdpAccountant(orders=orders).compose(dp_accounting.GaussianDpEvent(scale), releases)
    return float(found.get_epsilon(delta))
