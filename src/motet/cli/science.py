"""Commands for whoever wants to look behind: the article's study again, and attacks on releases."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from motet.cli.connect import obtained
from motet.cli.terminal import one_line_errors, progress_bar
from motet.errors import MotetError


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
        from motet.music import simulation as music
        from motet.music.reproduce import ALPHAS, LAMS, run

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


def audit(
    release: Annotated[str, typer.Argument(help="A release's file, or the address of a server: its current one.")],
    later: Annotated[str | None, typer.Argument(help="Another release of the same study, file or address.")] = None,
    own: Annotated[
        Path | None,
        typer.Option(help="A table of what you sent in between: client, name (or the inputs' columns), y and noise."),
    ] = None,
    suspects: Annotated[
        Path | None, typer.Option(help="A table like --own, of clients that may have been added.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all results as JSON, nothing else.")] = False,
) -> None:
    """Attack releases with nothing but themselves, and show what can be reconstructed of the clients."""
    with one_line_errors():
        if own is not None and later is None:
            raise MotetError("--own is what you sent between two releases: give the later one too")
        releases = sorted((obtained(where) for where in (release, later) if where), key=lambda found: found.version)
        from motet.client.tables import read_clients
        from motet.privacy.audit import audit as attack  # heavy, and not needed for a refusal

        catalogue, dimension = releases[-1].model.catalogue, releases[-1].landmarks.shape[1]
        mine, others = ({} if path is None else read_clients(path, catalogue, dimension) for path in (own, suspects))
        report = attack(
            *releases,
            attacker_examples=[examples.triples for examples in mine.values()],
            suspects={client: examples.triples for client, examples in others.items()},
        )
    if as_json:
        sys.stdout.write(json.dumps(report.to_dict()) + "\n")
        return
    console = Console()
    table = Table("attack", "result", "certain", title=report.title, title_justify="left")
    for finding in report.rows:
        table.add_row(finding.attack, Text(finding.text), finding.certain)
    console.print(table)
    for note in report.notes:
        console.print(note, style="dim")


def _report_writer() -> Callable[[Any, Path], list[Path]]:
    try:
        from motet.music.report import write
    except ImportError:
        raise MotetError("figures need matplotlib: pip install 'motet[plots]'") from None
    return write
