"""What commands share at a terminal: options, tokens, progress bars and tables."""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from motet.cli.command import in_options
from motet.errors import InvalidData, NotAllowed, Unauthorized
from motet.tables.files import check_new
from motet.text import printable

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else; an error is JSON too.")]
Url = Annotated[
    str, typer.Option("--url", envvar="MOTET_URL", help="The address of the study's server.", metavar="URL")
]
Yes = Annotated[bool, typer.Option("--yes", help="Delete without asking; needed if there is no terminal.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the file if it exists.")]
Only = Annotated[
    str | None,
    typer.Option(help="Only this client's rows, if the table has several.", metavar="NAME"),
]
ClientColumn = Annotated[
    str | None,
    typer.Option("--client", help="The table's column of clients; by default the study's, client.", metavar="COLUMN"),
]
TargetColumn = Annotated[
    str | None,
    typer.Option("--target", help="The table's column of outputs; by default the study's, y.", metavar="COLUMN"),
]
NameColumn = Annotated[
    str | None,
    typer.Option("--name", help="The table's column of names in the catalogue; by default name.", metavar="COLUMN"),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding",
        help="The encoding of tables in CSV that are not in UTF-8, such as cp1252 or latin-1.",
        metavar="NAME",
    ),
]
SkipMissing = Annotated[
    bool,
    typer.Option("--skip-missing", help="Leave out rows that lack an input, an output or a client, and count them."),
]
Tokens = Annotated[
    Path | None,
    typer.Option(help="For many clients: a table of their names and tokens, as enroll --out writes it."),
]
LOCAL = "http://127.0.0.1:8000"
PICTURES = (".png", ".svg", ".pdf")
MAX_TABLE_COLUMNS = 10_000  # of letters
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


def split_commas(text: str | None) -> tuple[str, ...] | None:
    """What commas separate."""
    return None if text is None else tuple(part.strip() for part in text.split(",") if part.strip())


def check_plot(plot: Path | None, *, force: bool) -> None:
    """Refuse a picture that could not be written; before the work, so that none is lost."""
    if plot is None:
        return
    if plot.suffix.lower() not in PICTURES:
        raise InvalidData(f"a picture is PNG, SVG or PDF: give --plot a name such as curves.png, not {plot}")
    import matplotlib  # noqa: F401  # may be missing

    check_new(plot, force=force)


@contextmanager
def progress_bar(console: Console, unit: str, total: int, verb: str = "Learning") -> Iterator[Callable[..., None]]:
    """A bar with the time left, which disappears at the end; yields the function that moves it, by one or by n."""
    columns = (TextColumn(verb), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=total)
        yield lambda n=1: progress.advance(bar, n)


def token(whose: str, *variables: str, why: str = "") -> str:
    """A token from the first of these variables that is set; without one a terminal is asked."""
    for variable in variables:
        if value := os.environ.get(variable, "").strip():
            return value
    if not sys.stdin.isatty():
        raise Unauthorized(f"expected {whose} token{why}, got none: set {' or '.join(variables)}")
    return str(typer.prompt(f"{whose[0].upper()}{whose[1:]} token{why}", hide_input=True, err=True)).strip()


def confirm(question: str, *, yes: bool) -> None:
    """Raises unless the answer at a terminal is yes, or ``yes`` was given."""
    if not yes and not sys.stdin.isatty():
        raise InvalidData(f"expected --yes where there is no terminal to ask: {question}")
    if not yes:
        sys.stderr.write(f"{printable(question)} [y/N]: ")  # typer would write a part of it to standard output
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise NotAllowed("not confirmed, so nothing was deleted")


def show(text: dict[str, Any] | str) -> None:
    """Print a line, or an object as JSON."""
    sys.stdout.write(f"{printable(in_options(text)) if isinstance(text, str) else json.dumps(text, default=str)}\n")


def note(text: str, *, as_json: bool) -> None:
    """A line on standard error that is no error; left out for programs."""
    if not as_json:
        sys.stderr.write(f"motet: {printable(in_options(text))}\n")


def later(erased: bool) -> str:
    """What to add to the report of a removal of which the server has something left."""
    return "" if erased else " Their bytes leave the server's files, and a release without noise that has them, later."


def show_table(columns: dict[str, str], rows: Iterable[Iterable[object]]) -> None:
    """A table as wide as it needs to be, so that nothing is cut off; ``columns`` maps names to styles."""
    table = Table()
    for name, style in columns.items():
        table.add_column(name, style=style, no_wrap=True)
    for row in rows:
        texts = [Text(printable(str(cell)), justify="right" if isinstance(cell, int) else "left") for cell in row]
        table.add_row(*texts)
    Console(width=MAX_TABLE_COLUMNS).print(table)
