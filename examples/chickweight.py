"""Weights of fifty chicks over three weeks (R's ChickWeight)."""

from __future__ import annotations

from examples.report import study
from examples.rows import load

if __name__ == "__main__":
    rows = load("datasets", "ChickWeight", ["Time"], "weight", "Chick")
    study("chickweight", rows, ("days", "weight (g)"), seeds=3, folds=4)
