"""What commands share: one-line errors, progress bars, tokens, and the options that several of them have."""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from motet.errors import InvalidData, MotetError, Unauthorized
from motet.text import printable

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Url = Annotated[str, typer.Option("--url", envvar="MOTET_URL", help="The address of the study's server.")]
OfClient = Annotated[str | None, typer.Option(help="Only this client's rows, where the table has a column client.")]
Tokens = Annotated[
    Path | None,
    typer.Option(help="For many clients, each under its own: a table of names and tokens, as enroll --out writes it."),
]
LOCAL = "http://127.0.0.1:8000"
WIDEST = 10_000
ASCII = {"ε": "epsilon", "δ": "delta", "α": "alpha", "λ": "lambda", "σ": "sigma", "²": "2", "³": "3", "±": "+/-"} | {
    "×": "x", "·": "*", "…": "...", "–": "-", "—": "-", "→": "->", "≤": "<=", "≥": ">=", "━": "-", "│": "|", "●": "*"
}  # fmt: skip


def write_any_text() -> None:
    """Let standard output and error take every character: one that their encoding lacks is written in ASCII."""
    codecs.register_error("motet", _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="motet")


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    """ "epsilon" for ε; for a character that is not in ``ASCII`` an escape such as \\u0142, so that nothing is lost."""
    assert isinstance(error, UnicodeEncodeError)
    characters = error.object[error.start : error.end]
    return "".join(ASCII.get(c) or c.encode("ascii", "backslashreplace").decode() for c in characters), error.end


@contextmanager
def one_line_errors() -> Iterator[None]:
    """What the package or the system refuses is one line and exit code 1."""
    try:
        yield
    except MotetError as error:
        line = str(error)
    except BrokenPipeError:  # whoever read our output has enough of it
        raise
    except OSError as error:
        path = error.filename
        line = f"cannot use {path}: {error.strerror}; check the path and who may use it" if path else str(error)
    else:
        return
    sys.stderr.write(f"motet: {printable(line)}\n")
    raise typer.Exit(1)


@contextmanager
def progress_bar(console: Console, unit: str, total: int, doing: str = "Learning") -> Iterator[Callable[..., None]]:
    """A bar with the time left, gone when done; gives what moves it on, by one or by so many."""
    columns = (TextColumn(doing), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=total)
        yield lambda many=1: progress.advance(bar, many)


def token(whose: str, *variables: str, why: str = "") -> str:
    """A token from the first of these variables that is set, or asked for where there is somebody to ask."""
    for variable in variables:
        if found := os.environ.get(variable, "").strip():
            return found
    if not sys.stdin.isatty():
        raise Unauthorized(f"expected {whose} token{why}, got none: set {' or '.join(variables)}")
    return str(typer.prompt(f"{whose[0].upper()}{whose[1:]} token{why}", hide_input=True, err=True)).strip()


def show(what: dict[str, Any] | str) -> None:
    """A line, or an object as JSON."""
    sys.stdout.write(f"{printable(what) if isinstance(what, str) else json.dumps(what, default=str)}\n")


@contextmanager
def private_file(path: Path) -> Iterator[TextIO]:
    """A new file that only its owner may read; it is gone again where nothing was written."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InvalidData(f"{path} is there already and is not overwritten: give --out another name") from None
    with open(descriptor, "w", encoding="utf-8", newline="") as file:
        try:
            yield file
        finally:
            if not file.tell():
                path.unlink()


def show_table(columns: dict[str, str], rows: Iterable[Iterable[object]]) -> None:
    """A table as wide as it needs to be, so that nothing of it is cut off; ``columns`` have a style each."""
    table = Table()
    for name, style in columns.items():
        table.add_column(name, style=style, no_wrap=True)
    for row in rows:
        texts = [Text(printable(str(cell)), justify="right" if isinstance(cell, int) else "left") for cell in row]
        table.add_row(*texts)
    console = Console()
    console.width = max(console.width, console.measure(table, options=console.options.update(width=WIDEST)).maximum)
    console.print(table, crop=False)
