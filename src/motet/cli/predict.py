"""``motet predict``: of one client or many, from examples that were sent or that stay here; or of the average."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from motet.cli.connect import await_first_release, client_token, current_release, layout_at, release_at, server_at
from motet.cli.terminal import (
    LOCAL,
    AsJson,
    ClientColumn,
    Encoding,
    Force,
    NameColumn,
    Only,
    SkipMissing,
    TargetColumn,
    Tokens,
    Url,
    check_plot,
    note,
    progress_bar,
    show,
)
from motet.errors import InvalidData, NotReleased
from motet.tables.arrow import unfinished
from motet.tables.files import check_new
from motet.tables.large import table_parts, whole_table
from motet.text import count, first_few

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
    client: ClientColumn = None,
    target: TargetColumn = None,
    name: NameColumn = None,
    only: Only = None,
    each: Annotated[bool, typer.Option("--each", help="Every client of --own, by its column of clients.")] = False,
    average: Annotated[
        bool, typer.Option("--average", help="The average of all clients, instead of one client's function.")
    ] = False,
    tokens: Tokens = None,
    release: Annotated[
        str | None,
        typer.Option(help="A release's file, to work offline; with --own or --average.", metavar="FILE"),
    ] = None,
    skip_missing: SkipMissing = False,
    encoding: Encoding = None,
    out: Annotated[Path | None, typer.Option(help="A CSV file to write; by default predictions are printed.")] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="A picture to write, PNG, SVG or PDF: curves, the best items, or all rows, with 90 % bands."),
    ] = None,
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

    With --own and --each, or with --tokens, many clients are predicted, and their column is the first: each at all
    INPUTS, or at its own rows if INPUTS has a column of clients. A client without examples is predicted as a new one:
    the average, with the full uncertainty. Rows outside the bounds of the study are warned of. A large table of INPUTS,
    or a folder of Parquet or CSV files, is read and, with --out, written in parts.
    """
    _check_options(own, only, each, average, tokens, release)
    if out is not None:  # before the work, so that none is lost
        if out.suffix.lower() not in (".csv", ".txt", ""):
            raise InvalidData(f"predictions are written as CSV: give --out a name such as predictions.csv, not {out}")
        check_new(out, force=force)
    check_plot(plot, force=force)
    from motet.client import predictions, tables
    from motet.client.site import Site
    from motet.release.names import Names

    mine = client_token() if own is None and tokens is None and not average else ""
    parts = iter(()) if inputs is None else table_parts(inputs, encoding=encoding)
    streamed = out is not None and top is None and plot is None
    at = None if inputs is None else next(parts) if streamed else whole_table(parts)

    def ask() -> Query:
        disclosed = None
        if own is not None or average:
            disclosed = current_release(url) if release is None else release_at(release)
        layout = layout_at(url if release is None else release, disclosed).changed(
            client=client, target=target, name=name, skip_missing=skip_missing, encoding=encoding
        )
        if tokens is not None:
            site_tokens = tables.read_tokens(tokens)
            bar = progress_bar(Console(stderr=True), "clients", len(site_tokens), "Fetching")
            with server_at(url, "") as server, bar as advance:
                return predictions.from_site(Site(server, site_tokens, tokens.name), at, layout, advance)
        if disclosed is None:
            with server_at(url, mine) as server:
                return predictions.from_sent(server, at, layout)
        if own is None:
            return predictions.from_average(disclosed, at, layout)
        if each:
            return predictions.from_clients(disclosed, own, at, layout)
        return predictions.from_examples(disclosed, own, at, layout, only)

    try:
        query = ask()
    except NotReleased:
        if not await_first_release(url):
            raise
        query = ask()
    about = _notes(query, as_json)
    if release is not None and (names := query.release.names) is not None:
        about |= {"output": names.output or names.target, "unit": names.unit}
        if names.text != Names().text:  # somebody chose it
            note(f"predicted: {names.text}{f', of {names.study}' * bool(names.study)}", as_json=as_json)
    further = (predictions.at_part(query, part, only) for part in parts)
    all_parts = _in_parts(chain([query], further), top, observation)
    predicted = next(all_parts)
    if top is not None and (rated := len(query.rows) - len({one.client for one in predicted.predictions})):
        who = f"{rated} of {count(len(query.rows), 'client')} rated" if query.file else "the client rated"
        note(f"{who} every item already, so none is left for --top", as_json=as_json)
    if plot is not None:
        from motet.plots.predictions import save

        save(predicted, plot, observation=observation)
        about["plot"] = str(plot)
    if out is not None:
        _write_parts(chain([predicted], all_parts), out, about, as_json)
    elif as_json:
        show({**about, "predictions": predicted.to_list()})
    elif plot is None:
        predicted.write(sys.stdout)
    else:
        show(f"{_summary(query, len(predicted.predictions), len(query.rows))}, drawn in {plot}.")


def _in_parts(queries: Iterable[Query], top: int | None, observation: bool) -> Iterator[Predictions]:
    """Of all parts of a table; rows a second and the time are shown by the part."""
    from motet.client import predictions

    for query in queries:
        with progress_bar(Console(stderr=True), "predictions", query.size, "Predicting") as advance:
            predicted = predictions.predict(query, advance, top=top, observation=observation)
        yield predicted


def _write_parts(parts: Iterable[Predictions], out: Path, about: dict[str, Any], as_json: bool) -> None:
    """Predictions in a file that is there at the end, or not at all, and a line about it."""
    number, clients, first = 0, set[str](), None
    with unfinished(out) as scratch, scratch.open("w", encoding="utf-8", newline="") as file:
        for predicted in parts:
            predicted.write(file, header=first is None)
            first = first or predicted
            number += len(predicted.predictions)
            clients |= set(predicted.query.rows)
    assert first is not None
    about |= {"count": number, "out": str(out)} | ({"clients": len(clients)} if first.query.file else {})
    drawn = f" and drawn in {about['plot']}" if "plot" in about else ""
    show(about if as_json else f"{_summary(first.query, number, len(clients))}, in {out}{drawn}.")


def _summary(query: Query, number: int, clients: int) -> str:
    of_clients = f" for {count(clients, 'client')}" if query.file else ""
    return f"{count(number, 'prediction')}{of_clients}, with release {query.version}"


def _check_options(
    own: Path | None, only: str | None, each: bool, average: bool, tokens: Path | None, release: str | None
) -> None:
    """Raise if options contradict each other."""
    if average and (own or only or each or tokens):
        raise InvalidData("--average is not of any client: leave out --own, --only, --each and --tokens")
    if own is not None and tokens is not None:
        raise InvalidData("expected --own (examples that stay here) or --tokens (examples that were sent), got both")
    if own is None and only is not None:
        raise InvalidData("--only chooses rows of private examples: give it with --own FILE")
    if own is None and release is not None and not average:
        raise InvalidData("--release is for private examples and for the average: give it with --own FILE or --average")
    if each and only is not None:
        raise InvalidData("expected --only NAME, for one of them, or --each, for all, got both")
    if each and own is None and tokens is None:
        raise InvalidData("--each is for a table of several clients: give it with --own FILE, or give --tokens FILE")


def _notes(query: Query, as_json: bool) -> dict[str, Any]:
    """What to know of a query, for JSON; and the same in lines on standard error."""
    from motet.client.predictions import outside_bounds, outside_limits

    inputs, own = query.inputs, list(query.own.values())
    tables = [inputs.table, *(one.table for one in own[:1])]
    about: dict[str, Any] = {"release": query.version}
    if query.file:
        about |= {"clients": len(query.rows), "new": query.new_clients}
    if new := query.new_clients:  # some of them may be misspelled names of others
        few = f"{len(new)} of {count(len(query.rows), 'client')} not in {query.file} ({first_few(new)})"
        who = f"{few}: predicted as new clients" if query.file else "no examples: predicted as a new client"
        note(f"{who}, the average with the full uncertainty", as_json=as_json)
    if own and (unused := own[0].layout.unused(own[0].table)):
        note(f"{own[0].table.file}: not used: {', '.join(unused)}", as_json=as_json)
    if inputs.layout.skip_missing:
        about["rows_left_out"] = sum(table.left_out for table in tables)
    for table in tables:
        if table.left_out:
            note(f"{table.file}: {count(table.left_out, 'row')} with missing values left out", as_json=as_json)
    for key, (number, line) in (
        ("outside_bounds", outside_bounds(inputs)),
        ("outside_limits", outside_limits(own) if own else (0, "")),
    ):
        if number:
            about[key] = number
            note(line, as_json=as_json)
    return about
