"""Phases of a long command on standard error: a bar at a terminal; elsewhere a line at the start of each, and one every
ten seconds that says how far it is, and when it ends at the latest. A program that wants JSON gets none."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from motet.text import count, printable

if TYPE_CHECKING:
    from motet.study.phases import Advance, Begin

PAUSE = 10.0  # seconds between lines
FRAMES = 2.0  # of the bar, in a second


@contextmanager
def phases_shown(
    console: Console, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic
) -> Iterator[Begin]:
    """Yields what begins a phase; the one before it has then ended."""
    if not console.is_terminal:
        yield _Lines(clock, quiet=quiet).begin
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[unit]}"))
    with Progress(
        *columns, TimeElapsedColumn(), console=console, transient=True, refresh_per_second=FRAMES
    ) as progress:

        def begin(name: str, unit: str, most: int) -> Advance:
            for bar in progress.task_ids:
                progress.remove_task(bar)
            bar = progress.add_task(name, total=most, unit=f"{unit}s")
            return lambda: progress.advance(bar)

        yield begin


class _Lines:
    """Each has the minutes and seconds since the first phase began."""

    def __init__(self, clock: Callable[[], float], *, quiet: bool) -> None:
        self._clock, self._quiet = clock, quiet
        self._first = self._last = clock()

    def begin(self, name: str, unit: str, most: int) -> Advance:
        began, done = self._clock(), 0
        self._write(f"{name}: at most {count(most, unit)}")

        def advance() -> None:
            nonlocal done
            done, now = done + 1, self._clock()
            if done < most and now >= self._last + PAUSE:
                left = (now - began) / done * (most - done)
                self._write(f"{name}: {done} of at most {count(most, unit)}, at most {left:.0f} s more")

        return advance

    def _write(self, text: str) -> None:
        self._last = self._clock()
        minutes, seconds = divmod(int(self._last - self._first), 60)
        if not self._quiet:
            sys.stderr.write(f"[{minutes}:{seconds:02}] {printable(text)}\n")
            sys.stderr.flush()
