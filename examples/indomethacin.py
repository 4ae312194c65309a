"""Indomethacin: its concentration in the blood of six people over eight hours (R's Indometh)."""

from __future__ import annotations

from examples.report import study
from examples.rows import load

if __name__ == "__main__":
    rows = load("datasets", "Indometh", ["time"], "conc", "Subject")
    study("indomethacin", rows, ("hours", "indomethacin (µg/mL)"))
