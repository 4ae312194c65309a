"""The command line: ``motet COMMAND --help``.

Errors are one line: what was expected, what came, what to do. ``--json`` is for programs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from motet import __version__
from motet.errors import MotetError

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)


def _show_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"motet {__version__}\n")
        raise typer.Exit


@app.callback()
def motet(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Many clients learn together without handing their data to each other."""


@app.command(epilog="Example: motet demo --clients 300 --examples 4")
def demo(
    clients: Annotated[int, typer.Option(min=10, max=5000, help="How many clients the study has.")] = 200,
    examples: Annotated[int, typer.Option(min=1, max=40, help="How many samples each client has.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the errors as JSON and nothing else.")] = False,
) -> None:
    """Learn a small simulated study, and compare separate, pooled and mixed learning."""
    from motet.demo import run, simulate

    study = simulate(clients, examples, seed)
    console = Console(stderr=as_json)
    with progress_bar(console, "examples", len(study.y)) as advance:
        result = run(study, advance)
    if as_json:
        sys.stdout.write(json.dumps(result.to_dict()) + "\n")
        return
    table = Table(title=f"{clients} clients with {examples} noisy samples each", title_justify="left")
    for name, style in (("learned", "bold"), ("error", ""), ("what it is", "dim")):
        table.add_column(name, style=style, justify="right" if name == "error" else "left")
    for name, meaning in _MEANINGS.items():
        table.add_row(name, f"{result.to_dict()[name]:.4f}", meaning)
    console.print(table)
    console.print("error: root mean squared, against the clients' true curves", style="dim")


@app.command(epilog="Example: motet reproduce --users 600 --out report")
def reproduce(
    users: Annotated[int, typer.Option(min=50, max=100_000, help="How many listeners are simulated.")] = 3000,
    examples: Annotated[int, typer.Option(min=1, max=400, help="How many artists each listener rates.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation.")] = 0,
    artists: Annotated[Path | None, typer.Option(help="A CSV of artists and tags instead of ours.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for report.html, results.json and the figures.")] = Path("report"),
    as_json: Annotated[bool, typer.Option("--json", help="Print results.json as well, and nothing else.")] = False,
) -> None:
    """Repeat the article's music study, and write a report to hold beside it."""
    with one_line_errors():
        from motet import music
        from motet.reproduce import ALPHAS, LAMS, run

        write = _report_writer()
        catalogue = music.artists(artists)
        console = Console(stderr=as_json)
        with progress_bar(console, "points", len(ALPHAS) * len(LAMS)) as advance:
            found = run(catalogue, users, examples, seed, advance)
        written = write(found, out)
    results = found.to_dict()
    if as_json:
        sys.stdout.write(json.dumps(results) + "\n")
        return
    table = Table("", "article", "here")
    article = results["article"]
    table.add_row("α*", f"{article['alpha']:.4f}", f"{results['alpha']:.4f}")
    table.add_row("λ*", f"{article['lam']:.2e}", f"{results['lam']:.2e}")
    table.add_row("TOP20HITS", f"{article['top20hits']:.4f}", f"{results['top20hits']:.4f}")
    table.add_row("separate, pooled", "", f"{results['top20hits_separate']:.4f}, {results['top20hits_pooled']:.4f}")
    table.add_row("RMSE", "", f"{results['rmse']:.4f}")
    table.add_row("separate, pooled", "", f"{results['rmse_separate']:.4f}, {results['rmse_pooled']:.4f}")
    console.print(table)
    console.print(f"{results['seconds']:.0f} s; see {written[0]}")


@app.command(epilog="Example: motet audit monday.safetensors tuesday.safetensors")
def audit(
    file: Annotated[Path, typer.Argument(help="A release of a study.")],
    later: Annotated[Path | None, typer.Argument(help="Another release of the same study.")] = None,
    own: Annotated[
        Path | None,
        typer.Option(help="A CSV of what you sent in between: client, name (or the inputs' columns), y and noise."),
    ] = None,
    suspects: Annotated[Path | None, typer.Option(help="A CSV like that of clients who may be in.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all that was rebuilt as JSON, nothing else.")] = False,
) -> None:
    """Attack releases with nothing but their files, and show what can be rebuilt of the clients."""
    with one_line_errors():
        from motet.exposure import expose, load, read_clients

        releases = sorted((load(path) for path in (file, later) if path is not None), key=lambda r: r.version)
        if own is not None and later is None:
            raise MotetError("--own is what you sent between two releases: give the later file too")
        mine, others = ({} if path is None else read_clients(path, releases[-1]) for path in (own, suspects))
        exposed = expose(*releases, own=mine.values(), suspects=others)
    if as_json:
        sys.stdout.write(json.dumps(exposed.to_dict()) + "\n")
        return
    console = Console()
    table = Table("attack", "what was rebuilt", "certain", title=exposed.title, title_justify="left")
    for finding in exposed.shown:
        table.add_row(finding.attack, Text(finding.text), finding.certain)
    console.print(table)
    for note in exposed.notes:
        console.print(note, style="dim")


@app.command(epilog="Example: motet serve study.toml")
def serve(
    study: Annotated[Path, typer.Argument(help="The study's TOML file.")],
    certfile: Annotated[Path | None, typer.Option(help="A certificate, for TLS.")] = None,
    keyfile: Annotated[Path | None, typer.Option(help="Its private key.")] = None,
) -> None:
    """Serve a study until a signal ends it; the operator's token is made on the first start and shown once."""
    with one_line_errors():
        try:
            from motet.serving import serve as run
        except ImportError as error:
            raise MotetError(f"serving needs {error.name}: pip install 'motet[server]'") from None
        run(study, _show_token, certfile=certfile, keyfile=keyfile)


def _show_token(token: str) -> None:
    sys.stdout.write(f"operator token, shown once: {token}\n")
    sys.stdout.flush()


@contextmanager
def progress_bar(console: Console, unit: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar with the time left, gone when done; gives what moves it on."""
    columns = (TextColumn("Learning"), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("", total=total)
        yield lambda: progress.advance(bar)


def _report_writer() -> Callable[[Any, Path], list[Path]]:
    try:
        from motet.report import write
    except ImportError:
        raise MotetError("figures need matplotlib: pip install 'motet[plots]'") from None
    return write


@contextmanager
def one_line_errors() -> Iterator[None]:
    """What the package refuses is one line and exit code 1."""
    try:
        yield
    except MotetError as error:
        sys.stderr.write(f"motet: {error}\n")
        raise typer.Exit(1) from None


_MEANINGS = {
    "separate": "every client alone, α = 0",
    "pooled": "one curve for all, α = 1",
    "mixed": "the average of all plus each client's own shift",
    "passive": "the same for clients that sent nothing: a release and their own samples",
}
