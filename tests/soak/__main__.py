"""``python -m tests.soak [--minutes 30] [--kills 200] [--only NAME] [--write]``."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from benchmarks.measure import machine
from rich.console import Console

from tests.postgres import binaries, cluster
from tests.soak.leg import Figures, Leg

POLICIES, DATABASES = ("exact", "private"), ("SQLite", "PostgreSQL")
PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- soak: begin -->\n", "<!-- soak: end -->\n"
CALLS = ("send", "replace", "remove", "forget", "download", "stream", "release", "verify")


def soak(minutes: float, kills: int, databases: Sequence[str], console: Console) -> list[Figures]:
    """Each policy on each database in turn, each with as much of the time and, of its database, half of the kills."""
    folder, done = Path(tempfile.mkdtemp(prefix="motet-soak-")), []
    bin = binaries()
    assert bin is not None, "there is no PostgreSQL: install Debian's postgresql"
    try:
        with cluster(bin) as postgres:
            for k, (database, policy) in enumerate((d, p) for d in databases for p in POLICIES):
                own = folder / f"{database}-{policy}"
                own.mkdir()
                url = postgres.url(postgres.create()) if database == "PostgreSQL" else ""
                seconds = minutes * 60 / len(databases) / len(POLICIES)
                leg = Leg(own, policy, seconds, cluster=postgres if url else None, url=url, seed=1000 * k)
                with console.status(f"{database}, {policy}"):
                    leg.run(kills // 2)
                done.append(leg.figures)
                console.print(f"{database}, {policy}: {leg.figures.kills.total()} kills, nothing lost or counted twice")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return done


def table(done: list[Figures]) -> str:
    """The figures of all legs, each in a column."""
    rows: dict[str, list[str]] = {
        "minutes": [f"{one.seconds / 60:.1f}" for one in done],
        "kills (kill -9) of the server": [_kills(one, "server") for one in done],
        "kills of the publisher": [_kills(one, "publisher") for one in done],
        "crashes of PostgreSQL": [str(one.kills["PostgreSQL"]) if one.database != "SQLite" else "" for one in done],
        "acknowledged and lost": ["0"] * len(done),  # a leg with any other number has ended with an error
        "counted twice": ["0"] * len(done),
    }
    for call in CALLS:
        rows[NAMES[call]] = [f"{one.calls[call]:,}" for one in done]
    rows["seconds from a kill to `/readyz`: median, longest"] = [_absences(one) for one in done]
    rows["server's memory, at first and at last"] = ["{:.0f}, {:.0f} MB".format(*one.megabytes) for one in done]
    head = ["", *(f"{one.database}, {one.policy}" for one in done)]
    lines = [head, ["---"] * len(head), *([name, *values] for name, values in rows.items())]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


NAMES = {
    "send": "requests that sent examples",
    "replace": "examples replaced",
    "remove": "examples removed",
    "forget": "clients forgotten",
    "download": "downloads, each compared with those of its version",
    "stream": "events of the stream",
    "release": "releases",
    "verify": "runs of `motet verify` beside the load",
}


def _kills(one: Figures, victim: str) -> str:
    return f"{one.kills[victim]}, and {one.kills[f'{victim} at a named point']} at a named point"


def _absences(one: Figures) -> str:
    return f"{np.median(one.absences):.2f}, {max(one.absences):.2f}" if one.absences else ""


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.soak", description="Mixed load with kills on both databases.")
    parser.add_argument("--minutes", type=float, default=30.0, help="in all")
    parser.add_argument("--kills", type=int, default=200, help="on each database; fewer if they take long")
    parser.add_argument("--only", choices=DATABASES, help="one database, which gets all of the time")
    parser.add_argument("--write", action="store_true", help="into docs/reliability.md; both databases")
    chosen, console = parser.parse_args(), Console()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left of its processes
    databases = DATABASES if chosen.only is None else (chosen.only,)
    done = soak(chosen.minutes, chosen.kills, databases, console)
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    total = {name: sum(one.kills.total() for one in done if one.database == name) for name in databases}
    kills = ", ".join(f"{number} kills on {name}" for name, number in total.items())
    text = (
        f"`make soak MINUTES={chosen.minutes:g}`, {today}: {kills}. {platform.system()}, {machine(1)}\n\n{table(done)}"
    )
    console.print(text, markup=False, highlight=False, soft_wrap=True)
    if chosen.write and chosen.only is None:
        before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}{text}{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
