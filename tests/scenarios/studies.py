"""The studies that faults are tried on: one without noise whose sums are compared, one with a budget."""

from __future__ import annotations

from tests.scenarios.harness import CURVES

BASIS = """
[basis]
kind = "landmarks"
grid = { from = 0.0, to = 1.0, count = 4 }
"""
LIMITS = """
bounds = [0.0, 1.0]
[limits]
y = [-10.0, 10.0]
examples_per_client = 2000
"""
STUDY = CURVES + LIMITS
GROWING = STUDY + '[release]\npolicy = "exact"\nevery = "1d"\n'
EXACT = STUDY + BASIS + '[release]\npolicy = "exact"\nevery = "1s"\n'


def private(releases: int) -> str:
    """With a budget for so many releases, one a second."""
    return STUDY + BASIS + f'[release]\npolicy = "private"\nevery = "1s"\nepsilon = 3.0\nreleases = {releases}\n'
