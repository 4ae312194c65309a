"""``motet reproduce``: the article's music study, run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from motet.cli.terminal import AsJson, progress_bar, show
from motet.tables.files import check_new


def reproduce(
    clients: Annotated[
        int, typer.Option("--clients", "--users", min=50, max=100_000, help="How many listeners to simulate.")
    ] = 3000,
    examples: Annotated[int, typer.Option(min=1, max=400, help="How many artists each listener rates.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation.")] = 0,
    catalogue: Annotated[
        Path | None,
        typer.Option("--catalogue", "--artists", help="A CSV file of artists and tags to use instead of Motet's."),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="A folder for report.html, results.json and the figures.", metavar="FOLDER")
    ] = Path("report"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite a report that is in the folder.")] = False,
    as_json: AsJson = False,
) -> None:
    """Repeat the article's music study, and write a report that compares the numbers with the article's."""
    check_new(out / "report.html", force=force)
    from motet.music import simulation
    from motet.music.report import write
    from motet.music.reproduce import ALPHAS, LAMS, run

    artists = simulation.artists(catalogue)
    console = Console(stderr=as_json)
    with progress_bar(console, "points", len(ALPHAS) * len(LAMS)) as advance:
        reproduction = run(artists, clients, examples, seed, advance)
    written = write(reproduction, out)
    results = reproduction.to_dict()
    if as_json:
        show(results)
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
