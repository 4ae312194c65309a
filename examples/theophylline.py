"""Theophylline: its concentration in the blood of twelve people over a day (R's Theoph)."""

from __future__ import annotations

from examples.report import study
from examples.rows import load

if __name__ == "__main__":
    rows = load("datasets", "Theoph", ["Time"], "conc", "Subject")
    study("theophylline", rows, ("hours", "theophylline (mg/L)"))
