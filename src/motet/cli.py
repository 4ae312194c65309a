"""The command line: ``motet COMMAND --help``.

Errors are one line: what was expected, what came, what to do. ``--json`` is for programs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from motet import __version__
from motet.commands.demo import demo
from motet.commands.operator import serve
from motet.commands.science import audit, reproduce

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


COMMANDS: list[tuple[Callable[..., None], str]] = [  # in the order of the help, each with an example
    (demo, "motet demo --clients 300 --examples 4"),
    (serve, "motet serve study.toml"),
    (audit, "motet audit monday.safetensors tuesday.safetensors"),
    (reproduce, "motet reproduce --users 600 --out report"),
]
for command, example in COMMANDS:
    app.command(epilog=f"Example: {example}")(command)
