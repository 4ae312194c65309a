"""``motet send``: examples of one client, or of many with a token each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from motet.cli.connect import PATIENT, client_token, inputs_of, server_at
from motet.cli.terminal import LOCAL, AsJson, OfClient, Tokens, Url, progress_bar, show
from motet.errors import InvalidData
from motet.text import count


def send(
    table: Annotated[
        Path,
        typer.Argument(
            help="A CSV or Parquet file of examples: name or the inputs' numbers, y; optional: noise, id, client.",
            metavar="FILE",
        ),
    ],
    client: OfClient = None,
    tokens: Tokens = None,
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Send a table of examples. Rows that were sent before change nothing; an edited row counts as a new example.

    With --tokens the rows of each client, by the column client, are sent under that client's token.
    """
    if tokens is None:
        _send_one(table, client, url, as_json)
    elif client is not None:
        raise InvalidData("expected --client NAME, with MOTET_TOKEN, or --tokens FILE, for all clients, got both")
    else:
        _send_many(table, tokens, url, as_json)


def _send_one(path: Path, client: str | None, url: str, as_json: bool) -> None:
    from motet.client import site, tables

    mine = client_token()
    with server_at(url, mine) as server:
        catalogue, dimension = inputs_of(server.study())
    examples = tables.read_examples(path, catalogue, dimension, client)
    bar = progress_bar(Console(stderr=True), "examples", len(examples.X), "Sending")
    with server_at(url, mine, retries=PATIENT) as server, bar as advance:
        sent = site.send(server, examples, advance)
    text = f"{sent.accepted} accepted, {sent.duplicates} already stored; {sent.count} in total."
    show(vars(sent) if as_json else text)


def _send_many(path: Path, tokens: Path, url: str, as_json: bool) -> None:
    from motet.client import tables
    from motet.client.site import Site

    token_of = tables.read_tokens(tokens)
    with server_at(url, "") as server:
        catalogue, dimension = inputs_of(server.study())
    examples = tables.read_clients(path, catalogue, dimension)
    rows = sum(len(one.X) for one in examples.values())
    with server_at(url, "", retries=PATIENT) as server:
        site = Site(server, token_of, tokens.name)
        site.check(examples, path.name)
        with progress_bar(Console(stderr=True), "examples", rows, "Sending") as advance:
            sent = site.send(examples, advance)
    total = {key: sum(getattr(one, key) for one in sent.values()) for key in ("accepted", "duplicates")}
    text = f"{count(len(sent), 'client')}: {total['accepted']} accepted, {total['duplicates']} already stored."
    show({**total, "clients": [{"client": name, **vars(one)} for name, one in sent.items()]} if as_json else text)
