"""``python -m experiments.defaults``: the regressor without any setting against tuned peers, on forty tables.

``--only TABLE …``, ``--half chosen|reported``, ``--peers NAME …`` and ``--seeds N`` run less; ``--out FILE`` writes
elsewhere than DEFAULTS.md. What was computed before, with the same code and data, is read from ``--cache``. Peers that
need an environment of their own are installed by ``python -m benchmarks.peers --install gpboost boosting``.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from benchmarks.peers.environments import ROOT
from rich.console import Console

from experiments.defaults.methods import OURS, PEERS, Method
from experiments.defaults.outcomes import Trial, trial
from experiments.defaults.report import Run, failures, lost, markdown, verdicts
from experiments.defaults.tables import TABLES, Half, Table

RESULTS = Path(__file__).parents[1] / "DEFAULTS.md"
CACHE = ROOT / "build" / "defaults"  # which git ignores, and ``make clean`` removes
SEEDS = 3


def measure(
    tables: Sequence[Table], methods: Sequence[Method], seeds: int, *, out: Path, cache: Path, command: str
) -> Run:
    """All tables, one after another; what there is so far is written after each."""
    console, trials = Console(), dict[Table, Sequence[Trial]]()
    run = Run(command, seeds, methods, trials)
    with console.status("") as status:
        for table in tables:
            trials[table] = [trial(table, seed, tuple(methods), cache, status.update) for seed in range(seeds)]
            one = Run(command, seeds, methods, {table: trials[table]})
            console.print(f"{table.name}: {'; '.join(lost(one.cells())) or 'nothing lost'}", *failures(one), sep="\n")
            out.write_text(markdown(run), encoding="utf-8")
    console.print(verdicts(run).rich())
    return run


def main() -> None:
    parser = argparse.ArgumentParser(prog="experiments.defaults", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(TABLES), metavar="TABLE", help=", ".join(TABLES))
    parser.add_argument("--half", choices=get_args(Half), help="the tables on which one chooses, or the others")
    parser.add_argument("--peers", nargs="+", choices=[peer.name for peer in PEERS], help="these alone")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--cache", type=Path, default=CACHE)
    given = parser.parse_args()
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    tables = [TABLES[name] for name in given.only or TABLES if given.half in (None, TABLES[name].half)]
    methods = [OURS, *(peer for peer in PEERS if given.peers is None or peer.name in given.peers)]
    command = shlex.join(["python", "-m", "experiments.defaults", *sys.argv[1:]])
    measure(tables, methods, given.seeds, out=given.out, cache=given.cache, command=command)


if __name__ == "__main__":
    main()
