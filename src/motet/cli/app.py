"""The command line: ``motet COMMAND --help``.

Errors are one line: what was expected, what came, what to do. ``--json`` is for programs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from motet import __version__
from motet.cli.clients import clients, enroll
from motet.cli.demo import demo
from motet.cli.init import init
from motet.cli.operate import backup, export, restore, serve, verify
from motet.cli.predict import predict
from motet.cli.remote import download, release, send, status
from motet.cli.science import audit, reproduce
from motet.cli.terminal import write_any_text

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


COMMANDS: list[tuple[Callable[..., None], str]] = [  # in the order of the help, each with an example or two
    (demo, "motet demo --clients 500 --seconds 60"),
    (init, 'motet init music.toml --name "Music taste" --catalogue artists.csv'),
    (serve, "motet serve study.toml"),
    (enroll, "motet enroll ann bob --out tokens.csv"),
    (clients, "motet clients --rotate ann"),
    (status, "motet status --url https://study.example.org"),
    (release, "motet release"),
    (send, "motet send ratings.csv\nmotet send visits.csv --tokens tokens.csv"),
    (predict, "motet predict --own private.csv --top 10\nmotet predict hours.csv --own visits.csv --each"),
    (download, "motet download --out monday.safetensors"),
    (export, "motet export study.toml ann --out ann.json"),
    (verify, "motet verify study.toml"),
    (backup, "motet backup study.toml monday.zip"),
    (restore, "motet restore monday.zip restored"),
    (audit, "motet audit monday.safetensors http://127.0.0.1:8000"),
    (reproduce, "motet reproduce --users 600 --out report"),
]
for command, example in COMMANDS:
    app.command(epilog="Example: " + "\n\nor ".join(example.splitlines()))(command)


def main() -> None:
    """The program ``motet``."""
    write_any_text()
    app(prog_name="motet")
