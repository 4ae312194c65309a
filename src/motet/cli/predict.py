"""``motet predict``: of one client or many, from examples that were sent or that stay here; or of the average."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from motet.cli.connect import client_token, current_release, release_at, server_at
from motet.cli.terminal import (
    LOCAL,
    AsJson,
    Force,
    OfClient,
    Tokens,
    Url,
    progress_bar,
    show,
)
from motet.errors import InvalidData
from motet.files import check_new
from motet.text import count, first_few, printable

if TYPE_CHECKING:
    from motet.client.predictions import Predictions, Query


def predict(
    inputs: Annotated[
        Path | None,
        typer.Argument(metavar="INPUTS", help="A table of inputs; by default the study's whole catalogue."),
    ] = None,
    own: Annotated[
        Path | None, typer.Option(help="A table of private examples, none of which was ever sent: they stay here.")
    ] = None,
    client: OfClient = None,
    each: Annotated[bool, typer.Option("--each", help="Every client of --own, by its column client.")] = False,
    average: Annotated[
        bool, typer.Option("--average", help="The average of all clients, instead of one client's function.")
    ] = False,
    tokens: Tokens = None,
    release: Annotated[
        str | None,
        typer.Option(help="A release's file, to work offline; with --own or --average.", metavar="FILE"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A CSV file to write; by default predictions are printed.")] = None,
    force: Force = False,
    top: Annotated[
        int | None, typer.Option(min=1, help="Only so many items: the best that the client has not rated.")
    ] = None,
    observation: Annotated[
        bool, typer.Option("--observation", help="The standard deviation of a new observation, noise included.")
    ] = False,
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Predict for one client, with standard deviations. From the examples it has sent, or, with --own, from a local
    file that is never sent.

    With --own and --each, or with --tokens, many clients are predicted, and the first column is client: each at all
    INPUTS, or at its own rows if INPUTS has a column client. A client without examples is predicted as a new one: the
    average, with the full uncertainty.
    """
    _check_options(own, client, each, average, tokens, release)
    _check_out(out, force=force)
    from motet.client import predictions

    if tokens is not None:
        query = _query_of_site(tokens, inputs, url)
    elif own is None and not average:
        with server_at(url, client_token()) as server:
            query = predictions.from_sent(server, inputs)
    else:
        disclosed = current_release(url) if release is None else release_at(release)
        if own is None:
            query = predictions.from_average(disclosed, inputs)
        elif each:
            query = predictions.from_clients(disclosed, own, inputs)
        else:
            query = predictions.from_examples(disclosed, own, inputs, client)
    with progress_bar(Console(stderr=True), "predictions", query.size, "Predicting") as advance:
        predicted = predictions.predict(query, advance, top=top, observation=observation)
    _show(predicted, out, as_json)


def _check_options(
    own: Path | None, client: str | None, each: bool, average: bool, tokens: Path | None, release: str | None
) -> None:
    """Raise if options contradict each other."""
    if average and (own or client or each or tokens):
        raise InvalidData("--average is not of any client: leave out --own, --client, --each and --tokens")
    if own is not None and tokens is not None:
        raise InvalidData("expected --own (examples that stay here) or --tokens (examples that were sent), got both")
    if own is None and client is not None:
        raise InvalidData("--client chooses rows of private examples: give it with --own FILE")
    if own is None and release is not None and not average:
        raise InvalidData("--release is for private examples and for the average: give it with --own FILE or --average")
    if each and client is not None:
        raise InvalidData("expected --client NAME, for one of them, or --each, for all, got both")
    if each and own is None and tokens is None:
        raise InvalidData("--each is for a table of several clients: give it with --own FILE, or give --tokens FILE")


def _check_out(out: Path | None, *, force: bool) -> None:
    if out is None:
        return
    if out.suffix.lower() not in (".csv", ".txt", ""):
        raise InvalidData(f"predictions are written as CSV: give --out a name such as predictions.csv, not {out}")
    check_new(out, force=force)


def _query_of_site(tokens: Path, inputs: Path | None, url: str) -> Query:
    from motet.client import predictions, tables
    from motet.client.site import Site

    site_tokens = tables.read_tokens(tokens)
    bar = progress_bar(Console(stderr=True), "clients", len(site_tokens), "Fetching")
    with server_at(url, "") as server, bar as advance:
        return predictions.from_site(Site(server, site_tokens, tokens.name), inputs, advance)


def _show(predicted: Predictions, out: Path | None, as_json: bool) -> None:
    """Predictions in a file and a line about it, or all predictions here."""
    query = predicted.query
    about: dict[str, Any] = {"release": query.version}
    if query.file:
        about |= {"clients": len(query.rows), "new": query.new_clients}
    if query.new_clients and not as_json:
        _note_new_clients(query)
    if out is not None:
        with out.open("w", encoding="utf-8", newline="") as file:
            predicted.write(file)
        number, clients = count(len(predicted.predictions), "prediction"), count(len(query.rows), "client")
        text = f"{number}{f' for {clients}' if query.file else ''}, with release {query.version}, in {out}."
        show({**about, "count": len(predicted.predictions), "out": str(out)} if as_json else text)
    elif as_json:
        show({**about, "predictions": predicted.to_list()})
    else:
        predicted.write(sys.stdout)


def _note_new_clients(query: Query) -> None:
    """On standard error: some of the new clients may be misspelled names of others."""
    new = query.new_clients
    line = f"{len(new)} of {count(len(query.rows), 'client')} not in {query.file} ({first_few(new)}): predicted as new "
    line += "clients, the average with the full uncertainty."
    sys.stderr.write(f"{printable(line)}\n")
