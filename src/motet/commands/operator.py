"""Commands for whoever runs a study on this machine, with its file and its database."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from motet.commands.terminal import one_line_errors
from motet.errors import MotetError


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
