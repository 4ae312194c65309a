"""``motet predict``: one client or many, from examples that were sent or from those that stay here."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import Console

from motet.cli.connect import client_token, current_release, release_at, server_at
from motet.cli.terminal import (
    LOCAL,
    AsJson,
    OfClient,
    Tokens,
    Url,
    one_line_errors,
    progress_bar,
    show,
)
from motet.errors import InvalidData
from motet.text import count, first_few, printable

if TYPE_CHECKING:
    from motet.client.predictions import Known, Prediction
    from motet.client.tables import Inputs
    from motet.release.disclosed import Disclosed

ME = ""  # the only client there is


class Asked(NamedTuple):
    """Who is to be predicted, and at which rows; ``known`` is what there is of each client."""

    release: Disclosed
    known: Mapping[str, Known]
    at: Inputs
    rows: Mapping[str, Sequence[int]]
    file: str = ""  # that has the clients, where there are many

    @property
    def version(self) -> int:
        return max((release.version for release, _ in self.known.values()), default=self.release.version)

    @property
    def new(self) -> list[str]:
        return [client for client in self.rows if client not in self.known]


def predict(
    inputs: Annotated[
        Path | None,
        typer.Argument(metavar="INPUTS", help="A table of inputs; without it, the study's whole catalogue."),
    ] = None,
    own: Annotated[
        Path | None, typer.Option(help="A table of private examples, none of them ever sent: it stays here.")
    ] = None,
    client: OfClient = None,
    each: Annotated[
        bool, typer.Option("--each", help="Every client of --own, by its column client; see above for INPUTS.")
    ] = False,
    tokens: Tokens = None,
    release: Annotated[str | None, typer.Option(help="A release's file, to work offline; with --own.")] = None,
    out: Annotated[Path | None, typer.Option(help="A CSV file to write; else predictions are printed.")] = None,
    top: Annotated[int | None, typer.Option(min=1, help="Only so many, the best of those that are not rated.")] = None,
    observation: Annotated[
        bool, typer.Option("--observation", help="The std of an observation, not of the function.")
    ] = False,
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Predict one's own function, mean and std: from the examples sent, or with --own from those that stay here.

    With --own and --each, or with --tokens, there are many clients, and a column client comes first. Each is predicted
    at all of INPUTS, or at its own rows where INPUTS has a column client; one of whom nothing is known is then a new
    individual.
    """
    with one_line_errors():
        from motet.client import predictions as forecasts

        _check(own, client, each, tokens, release, out)
        if tokens is not None:
            asked = _of_tokens(tokens, inputs, url, top)
        elif own is not None:
            of = current_release(url) if release is None else release_at(release)
            asked = _of_examples(own, client, each, inputs, of, top)
        else:
            asked = _of_sender(inputs, url, top)
        total = sum(map(len, asked.rows.values()))
        with progress_bar(Console(stderr=True), "predictions", total, "Predicting") as advance:
            found = forecasts.predict(*asked[:4], advance, top=top, observation=observation)
        _show(asked, found, out, as_json)


def _check(
    own: Path | None, client: str | None, each: bool, tokens: Path | None, release: str | None, out: Path | None
) -> None:
    """Raises where options do not go together."""
    if out is not None and out.suffix.lower() not in (".csv", ".txt", ""):
        raise InvalidData(f"predictions are written as CSV: give --out a name such as predictions.csv, not {out}")
    if own is not None and tokens is not None:
        raise InvalidData("expected --own (examples that stay here) or --tokens (examples that were sent), got both")
    if own is None and (release or client):
        raise InvalidData("--release and --client are about private examples: give them with --own FILE")
    if each and client is not None:
        raise InvalidData("expected --client NAME, for one of them, or --each, for all, got both")
    if each and own is None and tokens is None:
        raise InvalidData("--each is for a table of several clients: give it with --own FILE, or give --tokens FILE")


def _of_sender(path: Path | None, url: str, top: int | None) -> Asked:
    with server_at(url, client_token()) as server:
        release, own = server.coefficients()
    at = _inputs(release, path, top)
    return Asked(release, {ME: (release, own)}, at, {ME: range(len(at.X))})


def _of_examples(
    own: Path, client: str | None, each: bool, path: Path | None, release: Disclosed, top: int | None
) -> Asked:
    from motet.client import predictions as forecasts
    from motet.client import tables

    about = release.model.catalogue, release.landmarks.shape[1]
    examples = tables.read_clients(own, *about) if each else {ME: tables.read_examples(own, *about, client)}
    at = _inputs(release, path, top, client)
    rows = forecasts.rows_of(at, examples) if each else {ME: range(len(at.X))}
    return Asked(release, forecasts.passive(release, examples), at, rows, own.name if each else "")


def _of_tokens(file: Path, path: Path | None, url: str, top: int | None) -> Asked:
    from motet.client import predictions as forecasts
    from motet.client import site as sites
    from motet.client import tables

    tokens = tables.read_tokens(file)
    with server_at(url, "") as server:
        site = sites.Site(server, tokens, file.name)
        release = site.disclosed()
        at = _inputs(release, path, top)
        rows = forecasts.rows_of(at, tokens)
        clients = [client for client in rows if client in tokens]
        with progress_bar(Console(stderr=True), "clients", len(clients), "Asking") as advance:
            return Asked(release, site.coefficients(clients, advance), at, rows, file.name)


def _inputs(release: Disclosed, path: Path | None, top: int | None, client: str | None = None) -> Inputs:
    """What to predict at."""
    from motet.client import tables

    catalogue, dimension = release.model.catalogue, release.landmarks.shape[1]
    if catalogue is None and top is not None:
        raise InvalidData("--top ranks the items of a catalogue, and this study has none: leave it out")
    if path is not None:
        return tables.read_inputs(path, catalogue, dimension, client)
    if catalogue is not None:
        return tables.inputs_of(catalogue)
    wanted = f"a table with {count(dimension, 'column')} of numbers to predict at"
    raise InvalidData(f"expected {wanted}, got none, and this study has no catalogue: give INPUTS")


def _show(asked: Asked, found: list[Prediction], out: Path | None, as_json: bool) -> None:
    """Predictions in a file, with a line that tells of them, or all of them here."""
    from motet.client import tables

    about: dict[str, Any] = {"release": asked.version}
    table, whose = asked.at.table, ""
    if asked.file:
        table, whose = tables.for_clients(table, (one[:2] for one in found)), f" for {count(len(asked.rows), 'client')}"
        about |= {"clients": len(asked.rows), "new": asked.new}
    else:
        table = table.only(one.row for one in found)
    if asked.new and not as_json:
        _note(asked)
    predicted = table, [one.mean for one in found], [one.std for one in found]
    if out is not None:
        with out.open("w", encoding="utf-8", newline="") as file:
            tables.write_predictions(file, *predicted)
        told = f"{count(len(found), 'prediction')}{whose}, with release {asked.version}, in {out}."
        show({**about, "count": len(found), "out": str(out)} if as_json else told)
    elif as_json:
        show({**about, "predictions": tables.predictions_to_list(*predicted)})
    else:
        tables.write_predictions(sys.stdout, *predicted)


def _note(asked: Asked) -> None:
    """Beside the output: some of the new individuals may be known ones, misspelled."""
    who = f"{len(asked.new)} of {count(len(asked.rows), 'client')} not in {asked.file} ({first_few(asked.new)})"
    line = f"{who}: predicted as new individuals, the average with the full individual variance."
    sys.stderr.write(f"{printable(line)}\n")
