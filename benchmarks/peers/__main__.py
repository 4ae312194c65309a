"""``python -m benchmarks.peers [--install [NAME …]] [--only NAME …]``: compares, and writes PEERS.md and a figure."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.peers.comparisons import TABLE, Comparison, Result, results
from benchmarks.peers.environments import PINS, ROOT, install
from benchmarks.peers.report import draw, markdown, table, wins
from benchmarks.peers.run import Limits

RESULTS = ROOT / "benchmarks" / "PEERS.md"
FIGURE = ROOT / "docs" / "img" / "peers.png"


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.peers", description="Motet beside other programs.")
    parser.add_argument("--install", nargs="*", metavar="NAME", help=f"make environments, and end: {', '.join(PINS)}")
    parser.add_argument("--only", nargs="+", choices=list(TABLE), help="these comparisons alone; nothing is written")
    parser.add_argument("--seconds", type=float, default=Limits.seconds, help="limit of processor time for each")
    parser.add_argument("--megabytes", type=float, default=Limits.megabytes, help="limit of memory for each")
    chosen = parser.parse_args()
    console = Console()
    if chosen.install is not None:
        if unknown := [name for name in chosen.install if name not in PINS]:
            parser.error(f"no environment {', '.join(unknown)}: expected {', '.join(PINS)}")
        for name in chosen.install or PINS:
            with console.status(f"installing {name}"):
                console.print(f"{name}: {install(name) or 'installed'}")
        return
    limits = Limits(chosen.seconds, chosen.megabytes)
    _one_core()
    names = chosen.only or list(TABLE)
    measured = {name: (TABLE[name], _measure(TABLE[name], limits, console)) for name in names}
    if not chosen.only:
        write(measured, limits)


def _one_core() -> None:
    """The same for all programs, also for those that count cores; processes that are started inherit it."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def _measure(comparison: Comparison, limits: Limits, console: Console) -> list[Result]:
    measured = []
    with console.status(comparison.title) as status:
        for result in results(comparison, limits):
            measured.append(result)
            status.update(f"{comparison.title}: {result.program.name} at {result.size:,} done")
    console.print(table(comparison, measured).rich())
    for line in wins(measured):
        console.print(line, style="dim")
    return measured


def write(
    measured: Mapping[str, tuple[Comparison, Sequence[Result]]],
    limits: Limits,
    path: Path = RESULTS,
    figure: Path = FIGURE,
) -> None:
    path.write_text(markdown(measured, limits), encoding="utf-8")
    draw(measured, figure)


if __name__ == "__main__":
    main()
