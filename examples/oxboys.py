"""Heights of 26 boys of Oxford at nine ages (nlme's Oxboys)."""

from __future__ import annotations

from examples.report import study
from examples.rows import load

if __name__ == "__main__":
    rows = load("nlme", "Oxboys", ["age"], "height", "Subject")
    study("oxboys", rows, ("age, standardised", "height (cm)"))
