"""``motet init`` on a table of many ratings and items: how much of a core it takes, and what each phase takes.

The table has the shape of those that people bring: 610 people with 20 to 2,698 ratings each, in half stars, and 8,968
films, of which few have most of the ratings; 19 genres are their features.
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.measure import Row, duration

PEOPLE, FILMS, RATINGS, GENRES = 610, 8_968, 80_726, 19
FEWEST, MOST = 20, 2_698  # ratings of a person
GOAL_SECONDS = 180.0
PHASE = re.compile(r"^\[(\d+):(\d\d)\] ([^:]+): at most", re.MULTILINE)
ROLES = ["--client", "person", "--target", "stars", "--name", "film"]


def proposals() -> list[Row]:
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder)
        for items, options in (("names", []), (f"{GENRES} features", ["--catalogue", str(folder / "films.csv")])):
            for policy in ("private", "exact"):
                seconds, phases = _run(folder, [*options, "--policy", policy])
                job = f"init --policy {policy}, {RATINGS:,} ratings of {FILMS:,} films ({items}), seconds of a core"
                rows.append(
                    Row(job, duration(seconds), f"{GOAL_SECONDS:.0f} s", seconds / GOAL_SECONDS, 1.0, note=phases)
                )
    return rows


def _run(folder: Path, options: list[str]) -> tuple[float, str]:
    """Seconds of a core, and how long each phase took by the clock."""
    command = [sys.executable, "-m", "motet", "init", str(folder / "study.toml"), "--force"]
    command += ["--from", str(folder / "ratings.csv"), *ROLES, *options]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=3600)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = [(60 * int(minutes) + int(seconds), name) for minutes, seconds, name in PHASE.findall(done.stderr)]
    phases = [f"{name} {end - start} s" for (start, name), (end, _) in pairwise(begun)]
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, ", ".join([*phases, begun[-1][1]])


def write(folder: Path) -> None:
    """``ratings.csv``, and ``films.csv`` with the genres."""
    rng = np.random.default_rng(0)
    counts, weight = _counts(rng), (np.arange(FILMS) + 20.0) ** -0.7
    genres = (rng.random((FILMS, GENRES)) < np.linspace(0.4, 0.03, GENRES)).astype(int)
    quality = 3.5 + 0.4 * rng.normal(size=FILMS) + genres @ (0.15 * rng.normal(size=GENRES))
    lines = ["person,film,stars"]
    for person, count in enumerate(counts):
        films = rng.choice(FILMS, count, replace=False, p=weight / weight.sum())
        score = quality[films] + 0.4 * rng.normal() + genres[films] @ (0.25 * rng.normal(size=GENRES))
        stars = np.clip(np.round(2 * (score + 0.8 * rng.normal(size=count))) / 2, 0.5, 5.0)
        lines += [f"{person},film {film},{y}" for film, y in zip(films, stars)]
    (folder / "ratings.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    header = ",".join(["film", *(f"genre {k}" for k in range(GENRES))])
    listed = [f"film {film}," + ",".join(map(str, row)) for film, row in enumerate(genres)]
    (folder / "films.csv").write_text("\n".join([header, *listed]) + "\n", encoding="utf-8")


def _counts(rng: np.random.Generator) -> list[int]:
    """Of every person's ratings: many have few."""
    sizes = np.exp(rng.normal(size=PEOPLE))
    counts = np.clip(sizes * RATINGS / sizes.sum(), FEWEST, MOST).astype(int)
    while rest := RATINGS - int(counts.sum()):
        some = rng.choice(PEOPLE, min(abs(rest), PEOPLE), replace=False)
        counts[some] = np.clip(counts[some] + np.sign(rest), FEWEST, MOST)
    return [int(count) for count in counts]
