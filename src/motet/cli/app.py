"""The command line: ``motet COMMAND --help``.

Errors are one line: what was expected, what was received, what to do. ``--json`` is for programs.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from motet import __version__
from motet.cli.check import check
from motet.cli.clients import clients, enroll, forget
from motet.cli.command import Command
from motet.cli.demo import demo
from motet.cli.evaluate import evaluate
from motet.cli.examples import remove, replace, send
from motet.cli.fit import fit, tune
from motet.cli.init import init
from motet.cli.operate import backup, export, migrate, restore, serve, verify
from motet.cli.predict import predict
from motet.cli.releases import audit, download, release, status
from motet.cli.reproduce import reproduce
from motet.cli.terminal import write_any_text

app = typer.Typer(
    no_args_is_help=True,
    options_metavar="",
    subcommand_metavar="COMMAND [OPTIONS]",
    epilog="motet COMMAND --help shows what a command does, with examples.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def show_version(show: bool = True) -> None:
    if show:
        sys.stdout.write(f"motet {__version__}\n")
        raise typer.Exit


@app.callback()
def motet(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Many clients learn together without handing their data to each other."""


COMMANDS: list[tuple[Callable[..., None], str]] = [  # in the order of the help, each with an example or two
    (demo, "motet demo --clients 500 --seconds 60"),
    (
        init,
        "motet init --from visits.csv --client patient --target glucose --inputs hours\n"
        'motet init music.toml --title "Music taste" --catalogue artists.csv',
    ),
    (check, "motet check study.toml --clients 500\nmotet check study.toml visits.csv --plot forecast.png"),
    (serve, "motet serve study.toml"),
    (enroll, "motet enroll ann bob --out tokens.csv\nmotet enroll --names visits.csv --out tokens.csv"),
    (clients, "motet clients\nmotet clients rotate ann"),
    (status, "motet status --url https://study.example.org"),
    (release, "motet release"),
    (send, "motet send ratings.csv\nmotet send visits.csv --client patient --skip-missing --tokens tokens.csv"),
    (replace, "motet replace corrected.csv"),
    (remove, "motet remove visit-3 visit-4\nmotet remove --examples wrong.csv"),
    (forget, "motet forget\nmotet forget ann --yes"),
    (
        predict,
        "motet predict --own private.csv --top 10\n"
        "motet predict hours.csv --own visits.csv --each\n"
        "motet predict hours.csv --average --plot average.png",
    ),
    (download, "motet download --out monday.safetensors"),
    (export, "motet export study.toml ann --out ann.json"),
    (verify, "motet verify study.toml"),
    (backup, "motet backup study.toml monday.zip"),
    (restore, "motet restore monday.zip restored"),
    (migrate, "motet migrate study.toml postgresql+psycopg://motet@db.example.org/study"),
    (audit, "motet audit monday.safetensors http://127.0.0.1:8000"),
    (tune, "motet tune visits.csv\nmotet tune pupils.parquet --client school --target score --inputs age,hours"),
    (
        fit,
        "motet fit visits.csv --out visits.safetensors\n"
        "motet fit ratings.parquet --client user --target y --predictions all.parquet",
    ),
    (evaluate, "motet evaluate study.toml pilot.csv --plot pilot.png\nmotet evaluate monday.safetensors visits.csv"),
    (reproduce, "motet reproduce --clients 600 --out report"),
]
NOTES = {  # what a signature does not have: the token that a command needs, and exit codes
    **dict.fromkeys(("enroll", "clients", "release"), "It needs the operator's token, MOTET_OPERATOR_TOKEN."),
    **dict.fromkeys(("send", "replace", "remove"), "Without --tokens it needs a client's token, MOTET_TOKEN."),
    "demo": "Exit code 0 also if Ctrl-C ended it.",
    "serve": "MOTET_OPERATOR_TOKEN sets the operator's token; otherwise the first start makes one and shows it once. "
    "Exit code 0 if Ctrl-C or a signal stopped it.",
    "forget": "It needs the client's token, MOTET_TOKEN; with NAME alone the operator's, MOTET_OPERATOR_TOKEN.",
    "predict": "Without --own, --average or --tokens it needs a client's token, MOTET_TOKEN.",
    "export": "With a server's address it needs the client's token, MOTET_TOKEN.",
    "verify": "Exit code 1 also if a check failed.",
}
for command, examples in COMMANDS:
    paragraphs = [inspect.getdoc(command) or "", NOTES.get(command.__name__, "")]
    first_sentence = " ".join(paragraphs[0].split("\n\n")[0].split()).split(". ")[0].rstrip(".") + "."
    text = "\n\n".join(filter(None, paragraphs))
    app.command(cls=Command, help=text, short_help=first_sentence, epilog=examples)(command)
app.command("version", hidden=True)(show_version)


def main() -> None:
    """The program ``motet``."""
    write_any_text()
    app(prog_name="motet")
