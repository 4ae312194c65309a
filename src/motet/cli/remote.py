"""Commands over HTTP that need no file of the study: releases, and clients' examples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from motet.cli.connect import PATIENT, client_token, fetched, inputs_of, operator_at, server_at
from motet.cli.terminal import LOCAL, AsJson, OfClient, Tokens, Url, one_line_errors, progress_bar, show
from motet.errors import InvalidData, ServerError
from motet.text import count


def release(url: Url = LOCAL, as_json: AsJson = False) -> None:
    """Ask for a release now, where the study's policy allows that."""
    with one_line_errors():
        with operator_at(url) as server:
            version = server.release_now()
        show({"version": version} if as_json else f"Release {version} is out.")


def status(url: Url = LOCAL, as_json: AsJson = False) -> None:
    """Show what anyone may know of a study: its policy and budget, its release, and when the next one is due."""
    with one_line_errors():
        from motet.server.pages import facts

        with server_at(url, "") as anyone:
            study = anyone.study()
        try:
            told = {"study": study["name"], **facts(study)}
        except (LookupError, TypeError, ValueError, OverflowError):
            raise ServerError(f"{url} does not tell of a study as this version of motet expects: upgrade one") from None
        if as_json:
            show(study)
        else:
            for key, value in told.items():
                show(f"{key:<14}{value}")


def download(
    out: Annotated[Path | None, typer.Option(help="The file to write; else release-VERSION.safetensors, here.")] = None,
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Download the current release to a file, to audit it or to work offline."""
    with one_line_errors():
        found = fetched(url)
        path = Path(f"release-{found.version}.safetensors") if out is None else out
        found.save(path)
        about = {"version": found.version, "policy": found.policy, "out": str(path)}
        show(about if as_json else f"Release {found.version}, {found.policy}, is in {path}.")


def send(
    file: Annotated[
        Path, typer.Argument(help="CSV or Parquet: name or the inputs' numbers, y; also noise, id and client.")
    ],
    client: OfClient = None,
    tokens: Tokens = None,
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Send a table of examples. Rows that were sent before change nothing; a row that was edited is a new example.

    With --tokens, each client's rows, by the column client, are sent under its own token.
    """
    with one_line_errors():
        if tokens is None:
            _send_own(file, client, url, as_json)
        elif client is not None:
            raise InvalidData("expected --client NAME, with MOTET_TOKEN, or --tokens FILE, for all clients, got both")
        else:
            _send_all(file, tokens, url, as_json)


def _send_own(file: Path, client: str | None, url: str, as_json: bool) -> None:
    from motet.client import site, tables

    mine = client_token()
    with server_at(url, mine) as server:
        catalogue, dimension = inputs_of(server.study())
    examples = tables.read_examples(file, catalogue, dimension, client)
    bar = progress_bar(Console(stderr=True), "examples", len(examples.X), "Sending")
    with server_at(url, mine, retries=PATIENT) as server, bar as advance:
        sent = site.send(server, examples, advance)
    told = f"{sent.accepted} accepted, {sent.duplicates} were there already; {sent.count} in all."
    show(vars(sent) if as_json else told)


def _send_all(file: Path, tokens: Path, url: str, as_json: bool) -> None:
    from motet.client import site as sites
    from motet.client import tables

    known = tables.read_tokens(tokens)
    with server_at(url, "") as server:
        catalogue, dimension = inputs_of(server.study())
    examples = tables.read_clients(file, catalogue, dimension)
    rows = sum(len(own.X) for own in examples.values())
    with server_at(url, "", retries=PATIENT) as server:
        site = sites.Site(server, known, tokens.name)
        site.check(examples, file.name)
        with progress_bar(Console(stderr=True), "examples", rows, "Sending") as advance:
            sent = site.send(examples, advance)
    total = {key: sum(getattr(one, key) for one in sent.values()) for key in ("accepted", "duplicates")}
    told = f"{count(len(sent), 'client')}: {total['accepted']} accepted, {total['duplicates']} were there already."
    show({**total, "clients": [{"client": name, **vars(one)} for name, one in sent.items()]} if as_json else told)
