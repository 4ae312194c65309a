"""``motet demo``."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from motet.commands.terminal import progress_bar


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


_MEANINGS = {
    "separate": "every client alone, α = 0",
    "pooled": "one curve for all, α = 1",
    "mixed": "the average of all plus each client's own shift",
    "passive": "the same for clients that sent nothing: a release and their own samples",
}
