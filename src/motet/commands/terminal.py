"""What commands share: one-line errors, progress bars, and the options that several of them have."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from motet.errors import MotetError

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


@contextmanager
def one_line_errors() -> Iterator[None]:
    """What the package refuses is one line and exit code 1."""
    try:
        yield
    except MotetError as error:
        sys.stderr.write(f"motet: {error}\n")
        raise typer.Exit(1) from None


@contextmanager
def progress_bar(console: Console, unit: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar with the time left, gone when done; gives what moves it on."""
    columns = (TextColumn("Learning"), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("", total=total)
        yield lambda: progress.advance(bar)
