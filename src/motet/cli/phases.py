"""Phases of a long command on standard error: bars at a terminal; elsewhere lines, one every few seconds, that say how
far it is, and about when it ends. A program that wants JSON gets none."""

from __future__ import annotations

import itertools
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from motet.cli.terminal import note
from motet.text import count, printable

if TYPE_CHECKING:
    from motet.planning.evaluation import Advance, Begin
    from motet.tuning.search import Step

LINE_SECONDS = 10.0  # seconds between lines
FRAMES_PER_SECOND = 2.0  # of the bar


@contextmanager
def phases_shown(
    console: Console, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic
) -> Iterator[Begin]:
    """Yields what begins a phase; the one before it has then ended."""
    if not console.is_terminal:
        yield _in_lines(clock, quiet=quiet)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[unit]}"))
    with Progress(
        *columns, TimeElapsedColumn(), console=console, transient=True, refresh_per_second=FRAMES_PER_SECOND
    ) as progress:

        def begin(name: str, unit: str, most: int) -> Advance:
            for bar in progress.task_ids:
                progress.remove_task(bar)
            bar = progress.add_task(name, total=most, unit=f"{unit}s")
            return lambda: progress.advance(bar)

        yield begin


def _in_lines(clock: Callable[[], float], *, quiet: bool) -> Begin:
    """Each line has the minutes and seconds since now."""
    from motet.tuning.phases import Phases

    first = clock()

    def write(text: str) -> None:
        minutes, seconds = divmod(int(clock() - first), 60)
        if not quiet:
            sys.stderr.write(f"[{minutes}:{seconds:02}] {printable(text)}\n")
            sys.stderr.flush()

    phases = Phases(write, LINE_SECONDS, clock)

    def begin(name: str, unit: str, most: int) -> Advance:
        began, steps = clock(), itertools.count(1)
        phases.begin(f"{name}: at most {count(most, unit)}")

        def advance() -> None:
            if (done := next(steps)) < most:
                left = (clock() - began) / done * (most - done)
                phases.tell(f"{name}: {done} of at most {count(most, unit)}, at most {left:.0f} s more")

        return advance

    return begin


@contextmanager
def fit_shown(rows: int, as_json: bool) -> Iterator[tuple[Callable[[str, int], None], Callable[[Step], None]]]:
    """Yields what tells of a stage's rows, of about so many, and what tells of the last step of a search.

    A bar has rows a second. Off a terminal there is nothing of what ends within some seconds. Warnings are told as
    notes instead.
    """
    from motet.tuning.phases import Phases

    console = Console(stderr=True)
    shown: dict[str, Any] = {"transient": True, "disable": not console.is_terminal}
    speed = TextColumn("rows, {task.fields[speed]} a second")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), speed, TimeRemainingColumn())
    stages = Progress(*columns, console=console, **shown)
    columns_of_search = (SpinnerColumn(), TextColumn("Tuning: {task.description}"), TimeElapsedColumn())
    search = Progress(*columns_of_search, console=Console(stderr=True), **shown)
    lines, lines_of_search = (Phases(partial(note, as_json=as_json or console.is_terminal)) for _ in range(2))
    bars: dict[str, TaskID] = {}

    def report(stage: str, more: int) -> None:
        if stage not in bars:
            bars[stage] = stages.add_task(stage, total=rows, speed="?")
        stages.advance(bars[stage], more)
        task = stages.tasks[bars[stage]]
        stages.update(task.id, speed="?" if task.speed is None else f"{task.speed:,.0f}")
        lines.tell(f"{stage}: {task.completed:,.0f} of about {rows:,} rows")

    def report_step(step: Step) -> None:
        if not search.tasks:
            search.add_task("")
            search.start()
        evaluations = f"{step.evaluation + 1} evaluations, log evidence {step.log_evidence:.2f}"
        search.update(search.task_ids[0], description=evaluations)
        lines_of_search.step(step)

    with stages, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield report, report_step
        finally:
            if not search.disable:
                search.stop()
