"""TUNING.md: one section for each experiment on tuned settings, written by it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from experiments.tables import Table

RESULTS = Path(__file__).parent / "TUNING.md"
TITLES = {"coverage": "Intervals and bands", "music": "The article's study"}


def write(name: str, text: str, tables: Sequence[Table]) -> None:
    """Prints the tables, and puts them in their section of TUNING.md; the other sections stay."""
    console = Console()
    for table in tables:
        console.print(table.rich())
    sections = _sections()
    module = f"experiments.tuning_{name}"
    lines = [f"## {TITLES[name]}", "", f"Written by `python -m {module}`.", "", text, ""]
    for table in tables:
        lines += table.markdown()
    sections[name] = "\n".join(lines)
    listed = (sections[key] for key in TITLES if key in sections)
    RESULTS.write_text("# Tuned settings\n\n" + "\n".join(listed), encoding="utf-8")


def _sections() -> dict[str, str]:
    if not RESULTS.exists():
        return {}
    parts = re.split(r"^(?=## )", RESULTS.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {key: part for key, title in TITLES.items() for part in parts if part.startswith(f"## {title}\n")}
