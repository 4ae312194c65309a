"""Reaction times of eighteen people over ten days of little sleep (lme4's sleepstudy)."""

from __future__ import annotations

from examples.report import study
from examples.rows import load

if __name__ == "__main__":
    rows = load("lme4", "sleepstudy", ["Days"], "Reaction", "Subject")
    study("sleepstudy", rows, ("days", "reaction time (ms)"))
