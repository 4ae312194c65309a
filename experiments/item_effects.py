"""``python -m experiments.item_effects [--seeds N]``: what an effect of each item beside its features gives in private.

Ratings of films with genres and a quality of their own, by 600 users of whom a fifth is the pilot; ε = 3, the last of
ten releases. Error and log score of those who take part, without and with the effect, and what ``init`` chooses. Writes
ITEM_EFFECTS.md.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console

from experiments.tables import Table
from motet.planning.choice import choose
from motet.planning.evaluation import Evaluation, evaluate
from motet.planning.fitting import arrays_of, fitting_rows
from motet.planning.pilot import read_pilot
from motet.planning.proposal import Proposal
from motet.planning.sections import StudyFile
from motet.study.template import Promise
from motet.tables.files import Table as Rows
from motet.tables.frames import table_of

RESULTS = Path(__file__).parent / "ITEM_EFFECTS.md"
USERS, GENRES, RATINGS = 600, 6, 18
CASES = ((100, 0.4), (400, 0.4), (100, 0.0))  # films, and the deviation of their own qualities


def films(seed: int, items: int, own: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Ratings, of some films far more than of others, and the films' genres."""
    rng = np.random.default_rng(seed)
    genres, names = (rng.random((items, GENRES)) < 0.3).astype(int), np.array([f"film {k}" for k in range(items)])
    quality = genres @ rng.normal(0, 0.3, size=GENRES) + own * rng.normal(size=items)
    popularity = rng.gamma(1.0, size=items)
    parts = []
    for user in range(USERS):
        size = min(items, 3 + rng.poisson(RATINGS - 3))
        seen = rng.choice(items, size=size, replace=False, p=popularity / popularity.sum())
        taste = 0.35 * rng.normal() + genres[seen] @ rng.normal(0, 0.3, size=GENRES)
        stars = np.clip(np.round(3.5 + taste + quality[seen] + 0.8 * rng.normal(size=size)), 1, 5)
        parts.append(pd.DataFrame({"client": f"u{user}", "name": names[seen], "y": stars}))
    catalogue = pd.DataFrame(genres, columns=[f"genre {k}" for k in range(GENRES)])
    catalogue.insert(0, "name", names)
    return pd.concat(parts, ignore_index=True), catalogue


def served(proposal: Proposal, table: Rows) -> Evaluation:
    """Of those who take part."""
    study, drawn = StudyFile(proposal).study(), proposal.pilot.drawn
    assert drawn is not None
    rows, _ = fitting_rows(study, drawn.served(table, "client"))
    return evaluate(study, *arrays_of(study, rows), folds=2, releases=proposal.promise.releases)


def compared(seed: int, items: int, own: float) -> list[tuple[str, ...]]:
    """A row of the results for each structure."""
    ratings, catalogue = films(seed, items, own)
    with tempfile.TemporaryDirectory() as folder:
        catalogue.to_csv(Path(folder) / "films.csv", index=False)
        table = table_of(ratings)
        pilot = read_pilot(table, catalogue=Path(folder) / "films.csv")
    without = Proposal.of(pilot, Promise())
    more = without.with_items()
    chosen = choose(pilot, Promise()).proposal.has_item_effects
    rows = []
    for proposal in (without, *([more] if more is not None else [])):
        found = served(proposal, table)
        cells = [f"{items}", f"{own:g}", f"{seed}", "with" if proposal.has_item_effects else "without"]
        for group in found.groups:
            best = group.baseline_scores[group.best_baseline].error
            cells += [f"{group.score.error:.4f}", f"{best:.4f} ({group.best_baseline})"]
        rows.append((*cells, f"{found.log_score:.4f}", "yes" if proposal.has_item_effects == chosen else "no"))
        Console().print(rows[-1])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1)
    seeds = parser.parse_args().seeds
    rows = [row for items, own in CASES for seed in range(seeds) for row in compared(seed, items, own)]
    text = (
        f"{USERS} users of whom a fifth, at random, is the pilot, about {RATINGS} ratings each of films with {GENRES} "
        "genres; private, ε = 3, the last of ten releases. Errors and log score are of those who take part; the best "
        "baseline has the same rows without noise. Where one row is shown, the pilot asks for no effect of items."
    )
    header = ("films", "own quality", "seed", "effect of items", "error, known", "baseline", "error, new", "baseline",
              "log score", "chosen")  # fmt: skip
    shown = Table("Films with genres", header, rows)
    lines = ["# Effects of items", "", "Written by `python -m experiments.item_effects`.", "", text, ""]
    RESULTS.write_text("\n".join([*lines, *shown.markdown()]), encoding="utf-8")


if __name__ == "__main__":
    main()
