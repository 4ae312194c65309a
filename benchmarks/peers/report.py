"""The results as tables of PEERS.md, with the lines that a user writes, and as a figure of growth."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from experiments.tables import Table

from benchmarks.measure import duration, machine
from benchmarks.peers.comparisons import Comparison, Program, Result
from benchmarks.peers.environments import PINS, R, versions
from benchmarks.peers.run import SNIPPETS, Limits

mpl.use("Agg")
import matplotlib.pyplot as plt

HEADER = ("program", "time", "peak memory", "RMSE", "difference to Motet", "lines", "remark")
NONE = "–"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")
NEAR = 0.005  # of the RMSE: not called better


def lines(snippets: str, program: Program) -> int:
    """Of the program's snippet, without its signature, docstring and blank lines."""
    if program.environment == R:
        text = (SNIPPETS / f"{snippets}.R").read_text(encoding="utf-8")
        body = re.split(rf"^{program.function} <- function.*\{{$", text, flags=re.M)[1].split("\n}")[0].splitlines()
    else:
        text = (SNIPPETS / f"{snippets}.py").read_text(encoding="utf-8")
        functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
        (function,) = (node for node in functions if node.name == program.function)
        body = text.splitlines()[function.body[0].lineno - 1 : function.end_lineno]
    return sum(bool(line.strip()) for line in body)


def table(comparison: Comparison, results: Sequence[Result]) -> Table:
    rows = [(f"{result.size:,}", *_cells(comparison, result)) for result in results]
    return Table(comparison.text, (comparison.size, *HEADER), rows)


def _cells(comparison: Comparison, result: Result) -> tuple[str, ...]:
    program, outcome = result.program, result.outcome
    written = str(lines(comparison.snippets, program))
    if outcome.reason:
        return program.name, NONE, NONE, NONE, NONE, written, f"**no result**: {outcome.reason}"
    rmse = NONE if result.rmse is None else f"{result.rmse:.4g}"
    difference = NONE if result.difference is None else f"{result.difference:.1e}"
    remark = f"another model: {program.differs}" if program.differs else program.remark
    memory = f"{outcome.megabytes:,.0f} MB"
    return program.name, duration(outcome.seconds), memory, rmse, difference, written, remark


def wins(results: Sequence[Result]) -> list[str]:
    """A line for each size at which a peer is ahead of Motet, in whatever it is."""
    said = []
    for size in dict.fromkeys(result.size for result in results):
        ours, *others = (result for result in results if result.size == size)
        if ours.rmse is None:
            continue
        ahead = [text for other in others if (text := _ahead(ours, other))]
        said.append(f"{size:,}: " + ("; ".join(ahead) if ahead else "no peer is ahead of Motet"))
    return said


def _ahead(ours: Result, other: Result) -> str:
    if other.rmse is None or ours.rmse is None:
        return ""
    parts = []
    if other.outcome.seconds < ours.outcome.seconds:
        parts.append(f"{ours.outcome.seconds / other.outcome.seconds:.2g} times faster")
    if other.outcome.megabytes < ours.outcome.megabytes:
        parts.append(f"{ours.outcome.megabytes - other.outcome.megabytes:,.0f} MB less")
    if other.rmse < (1 - NEAR) * ours.rmse:
        parts.append(f"error {100 * (1 - other.rmse / ours.rmse):.0f} % smaller")
    return f"{other.program.name} {' and '.join(parts)}" if parts else ""


def shorter(comparison: Comparison) -> str:
    """The programs that need fewer lines than Motet."""
    ours, *others = ((program.name, lines(comparison.snippets, program)) for program in comparison.programs)
    fewer = [f"{name} ({count})" for name, count in others if count < ours[1]]
    return f"In fewer lines than Motet's {ours[1]}: {', '.join(fewer) or 'none'}."


def section(comparison: Comparison, results: Sequence[Result]) -> list[str]:
    text = [f"### {comparison.title}", "", *table(comparison, results).markdown()]
    text += [f"Ahead of Motet, by {comparison.size}:", "", *(f"- {line}." for line in wins(results)), ""]
    return [*text, shorter(comparison), "", comparison.why, ""]


def markdown(measured: Mapping[str, tuple[Comparison, Sequence[Result]]], limits: Limits) -> str:
    text = ["# Peers", "", "Written by `python -m benchmarks.peers`.", ""]
    text += ["<!-- --8<-- [start:table] -->", ""]  # the docs show what is between these marks
    text += [machine(1), "Beside these: " + "; ".join(_versions()) + ".", ""]
    text += [
        "Time is that of the processor for fit and prediction, all programs on one core and with one thread, without "
        "imports and reading: the median of up to three runs after a first, or one run if it takes more than two "
        "seconds. Peak memory is the whole process with its libraries; RMSE is of rows that were held out; the "
        "difference is the root mean square of that to Motet's predictions; lines are those of the snippet that was "
        "run, in "
        f"`benchmarks/peers/snippets`. Limits: {limits.seconds:g} s, {limits.megabytes:,.0f} MB.",
        "",
    ]
    for comparison, results in measured.values():
        text += section(comparison, results)
    return "\n".join([*text, "<!-- --8<-- [end:table] -->"]) + "\n"


def _versions() -> Iterable[str]:
    for name in (*PINS, R):
        found = versions(name)
        yield (
            ", ".join(f"{package} {number}".strip() for package, number in found.items()) or f"{name} is not installed"
        )


# --- the figure ---


def slope(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def draw(measured: Mapping[str, tuple[Comparison, Sequence[Result]]], path: Path) -> None:
    """Seconds against sizes, with the fitted slope of every program that did more than one size."""
    shown = [pair for pair in measured.values() if len(pair[0].sizes) > 1]
    figure, grid = plt.subplots(
        -(-len(shown) // 3), min(3, len(shown)), figsize=(12, 7.5), squeeze=False, layout="constrained"
    )
    for ax, (comparison, results) in zip(grid.flat, shown):
        for program, colour in zip(comparison.programs, COLOURS):
            points = [
                (one.size, one.outcome.seconds) for one in results if one.program is program and one.rmse is not None
            ]
            if points:
                sizes, seconds = zip(*points)
                fitted = f", slope {slope(sizes, seconds):.2f}" if len(points) > 1 else ""
                ax.loglog(sizes, seconds, "o-", color=colour, label=program.name + fitted)
        ax.set(title=comparison.title, xlabel=comparison.size, ylabel="seconds")
        ax.set_xticks(comparison.sizes, [f"{size:,}" for size in comparison.sizes])
        ax.xaxis.minorticks_off()
        ax.title.set_fontsize(10)
        bottom, top = ax.get_ylim()
        ax.set_ylim(bottom, bottom * (top / bottom) ** 1.35)  # room for the legend
        ax.legend(frameon=False, fontsize="small", loc="upper left")
        ax.spines[["top", "right"]].set_visible(False)
    for ax in grid.flat[len(shown) :]:
        ax.set_axis_off()
    figure.savefig(path, dpi=110)
    plt.close(figure)
