"""``python -m benchmarks [--only NAME …] [--no-figure]``: measures, prints, and writes RESULTS.md."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks import jobs
from benchmarks.measure import Row, machine

THREADS = 1
RESULTS = Path(__file__).parent / "RESULTS.md"
HEADER = ("job", "takes", "ratio", "to", "goal", "met")


def cells(row: Row) -> tuple[str, ...]:
    sign = "≤" if row.at_most else "≥"
    return row.job, row.takes, f"{row.ratio:.2f}", row.against, f"{sign} {row.goal:g}", "yes" if row.met else "no"


def markdown(rows: list[Row], growth: list[str]) -> str:
    lines = ["# Results", "", "Written by `make bench`: medians of several runs, both sides of a ratio in turn.", ""]
    lines += ["<!-- --8<-- [start:table] -->", ""]  # the docs show what is between these marks
    lines += [machine(THREADS), "BLAS threads are the same on both sides; Motet inverts large stacks on all cores.", ""]
    lines += ["| " + " | ".join(HEADER) + " |", "|---" * len(HEADER) + "|"]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in rows]
    lines += ["", *(f"- {row.job}: {row.note}." for row in rows if row.note)]
    lines += ["", "How the time of a fit grows:", "", *(f"- {line}." for line in growth)] if growth else []
    return "\n".join([*lines, "", "<!-- --8<-- [end:table] -->"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description="Ratios to floors and peers.")
    names = [job.__name__ for job in jobs.TABLE]
    parser.add_argument("--only", nargs="+", choices=names, help="these jobs alone; nothing is written")
    parser.add_argument("--no-figure", action="store_true", help="leave the figure of growth as it is")
    chosen = parser.parse_args()
    console, rows, failed = Console(), list[Row](), list[str]()
    with threadpool_limits(THREADS):
        for job in jobs.TABLE:
            if not chosen.only or job.__name__ in chosen.only:
                try:
                    with console.status(job.__name__):
                        rows += job()
                except Exception:  # the others took long to measure
                    console.print_exception()
                    failed.append(job.__name__)
        growth = []
        if not chosen.only and not chosen.no_figure:
            from benchmarks.growth import draw

            with console.status("growth"):
                growth = draw()
    table = Table(*HEADER)
    for row in rows:
        table.add_row(*cells(row), style="" if row.met else "bold red")
    console.print(table)
    for line in [f"{row.job}: {row.note}" for row in rows if row.note] + growth:
        console.print(line, style="dim")
    if not chosen.only and not chosen.no_figure:
        RESULTS.write_text(markdown(rows, growth), encoding="utf-8")
    if failed:
        sys.exit(f"without {', '.join(failed)}, which failed")


if __name__ == "__main__":
    main()
