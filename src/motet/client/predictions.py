"""Predictions at a table of inputs: of one client, of many clients, or of the average. ``motet predict`` prints them.

A query holds what is asked for: clients, each with what it is predicted from, and the rows of the inputs for each.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from motet.arrays import Array, outputs, slices
from motet.client import tables
from motet.client.client import Client
from motet.client.site import Site, check_owner
from motet.client.tables import PREDICTED, Examples, Inputs, read_inputs
from motet.errors import InvalidData
from motet.model.tasks import Task
from motet.release import clients as release_clients
from motet.release.clients import ClientData
from motet.release.coefficients import Coefficients
from motet.release.disclosed import Disclosed
from motet.tables.columns import Column
from motet.tables.files import Table, cell_number
from motet.tables.roles import NOISE, Interval, Layout
from motet.text import count

INPUTS_PER_STEP = 2000  # that are predicted at once, to bound the memory
THE_CLIENT = ""  # the name of the only client


@dataclass(frozen=True, eq=False)
class Source:
    """What a client is predicted from: a release, and its examples, kept here (a task) or sent (coefficients)."""

    release: Disclosed
    examples: ClientData

    @property
    def inputs(self) -> Array:
        return self.examples.inputs if isinstance(self.examples, Coefficients) else self.examples.X


@dataclass(frozen=True)
class Prediction:
    client: str
    row: int  # its place in the table of inputs
    mean: float
    std: float


@dataclass(frozen=True, eq=False)
class Query:
    """Clients to predict, and at which rows of the inputs; a client without a source is predicted as a new one.

    With ``average`` the one and only "client" is the average of all.
    """

    release: Disclosed
    inputs: Inputs
    sources: Mapping[str, Source]
    rows: Mapping[str, Sequence[int]]  # for each client
    file: str = ""  # the table of the clients, if there are many
    average: bool = False
    own: Mapping[str, Examples] = field(default_factory=dict)  # examples that stay here, by client

    @property
    def new_clients(self) -> list[str]:
        return [] if self.average else [client for client in self.rows if client not in self.sources]

    @property
    def size(self) -> int:
        return sum(map(len, self.rows.values()))

    @property
    def version(self) -> int:
        """The newest release that is used."""
        return max((source.release.version for source in self.sources.values()), default=self.release.version)


@dataclass(frozen=True, eq=False)
class Predictions:
    """The rows of the inputs' table that were asked for, with means and standard deviations.

    They are in the order of the table if each row is of one client, else client by client.
    """

    query: Query
    predictions: list[Prediction]

    @property
    def table(self) -> Table:
        """With the clients in the first column, if there are many."""
        table, client = self.query.inputs.table, self.query.inputs.layout.client
        if not self.query.file:
            return table.only(one.row for one in self.predictions)
        others = [place for place, name in enumerate(table.columns) if name != client]
        cells = [[one.client, *(table.rows[one.row][place] for place in others)] for one in self.predictions]
        columns = [client, *(table.columns[place] for place in others)]
        return Table(table.file, columns, cells, [table.numbers[one.row] for one in self.predictions])

    @property
    def mean(self) -> list[float]:
        return [one.mean for one in self.predictions]

    @property
    def std(self) -> list[float]:
        return [one.std for one in self.predictions]

    def write(self, out: TextIO, *, header: bool = True) -> None:
        """As CSV: the table as it was read, with two more columns."""
        table, writer = self.table, csv.writer(out, lineterminator="\n")
        if header:
            writer.writerow([*table.columns, *PREDICTED])
        cells = ((f"{one.mean:.10g}", f"{one.std:.10g}") for one in self.predictions)
        writer.writerows([*row, *predicted] for row, predicted in zip(table.rows, cells))

    def to_list(self) -> list[dict[str, Any]]:
        """For JSON: inputs, outputs and noise are numbers if the table has numbers there."""
        table, inputs = self.table, self.query.inputs
        numeric = [column in {*inputs.numeric, inputs.layout.target, NOISE} for column in table.columns]
        cells = ([_number(cell) if number else cell for cell, number in zip(row, numeric)] for row in table.rows)
        columns = [*table.columns, *PREDICTED]
        return [dict(zip(columns, [*row, one.mean, one.std])) for row, one in zip(cells, self.predictions)]


def _number(cell: Any) -> Any:
    """A cell as a number if it is one; None if it is empty or NaN, which JSON does not have."""
    number = cell_number(cell)
    return number if number is not None else None if cell != cell or cell == "" else cell


# --- queries ---


def from_sent(server: Client, path: Path | Table | None, layout: Layout) -> Query:
    """One client, from the examples that it sent; at the inputs of a table, or at the whole catalogue."""
    release, coefficients = server.coefficients()
    inputs = read_inputs(path, layout)
    check_owner(server, inputs)
    return Query(release, inputs, {THE_CLIENT: Source(release, coefficients)}, {THE_CLIENT: range(len(inputs.X))})


def from_site(site: Site, path: Path | Table | None, layout: Layout, advance: Callable[[], object]) -> Query:
    """Many clients, from the examples that they sent."""
    release = site.disclosed()
    inputs = read_inputs(path, layout)
    rows = client_rows(inputs, site.clients)
    clients = [client for client in rows if client in site.clients]
    coefficients = site.coefficients(clients, advance)
    sources = {client: Source(of, examples) for client, (of, examples) in coefficients.items()}
    return Query(release, inputs, sources, rows, site.file)


def from_examples(
    release: Disclosed, own: Path, path: Path | Table | None, layout: Layout, only: str | None = None
) -> Query:
    """One client, from a table of private examples; ``only`` is its name, needed if the table has several."""
    inputs = read_inputs(path, layout, only)
    examples = tables.read_examples(own, layout, only, may_be_empty=True)
    sources = private_sources(release, {THE_CLIENT: examples})
    return Query(release, inputs, sources, {THE_CLIENT: range(len(inputs.X))}, own={THE_CLIENT: examples})


def from_clients(release: Disclosed, own: Path, path: Path | Table | None, layout: Layout) -> Query:
    """Every client of a table of private examples."""
    inputs = read_inputs(path, layout)
    examples = tables.read_clients(own, layout, may_be_empty=True)
    rows = client_rows(inputs, examples)
    return Query(release, inputs, private_sources(release, examples), rows, own.name, own=examples)


def from_average(release: Disclosed, path: Path | Table | None, layout: Layout) -> Query:
    """The average function of all clients, with the uncertainty of the average alone."""
    inputs = read_inputs(path, layout)
    return Query(release, inputs, {}, {THE_CLIENT: range(len(inputs.X))}, average=True)


def private_sources(release: Disclosed, examples: Mapping[str, Examples]) -> dict[str, Source]:
    """Clients whose examples stay here; one without any is new."""
    sources = {}
    for client, one in examples.items():
        if not one.X:
            continue
        X = release.rows(one.X)
        sources[client] = Source(release, Task.of(X, *outputs(one.y, one.noise, len(X))))
    return sources


def client_rows(inputs: Inputs, clients: Iterable[str]) -> dict[str, Sequence[int]]:
    """The rows at which each client is predicted: its own if the table has a column of clients, else all."""
    if inputs.layout.client in inputs.table.columns:
        return dict(inputs.table.groups(inputs.layout.client))
    return dict.fromkeys(clients, range(len(inputs.X)))


def at_part(query: Query, part: Table, only: str | None = None) -> Query:
    """The same clients at another part of the table of inputs."""
    inputs = read_inputs(part, query.inputs.layout, only)
    rows = client_rows(inputs, query.sources) if query.file else {THE_CLIENT: range(len(inputs.X))}
    return replace(query, inputs=inputs, rows=rows)


# --- their answers ---


def predict(
    query: Query, advance: Callable[[int], object], *, top: int | None = None, observation: bool = False
) -> Predictions:
    """Every client at its rows, or at the ``top`` of them that it has not rated."""
    if top is not None and query.release.model.catalogue is None:
        raise InvalidData("top= ranks the items of a catalogue, and this study has none: leave it out")
    X = query.release.rows(query.inputs.X)
    new = Source(query.release, Task.empty(X.shape[1]))
    sources = {client: query.sources.get(client, new) for client in query.rows}
    predictions: list[Prediction] = []
    for client, (mean, std) in _estimates(query, sources, X, advance, observation).items():
        rows = query.rows[client]
        best = range(len(rows)) if top is None else _top(query.inputs, rows, mean, sources[client], top)
        predictions += (Prediction(client, rows[k], float(mean[k]), float(std[k])) for k in best)
    if top is None and not any(isinstance(rows, range) for rows in query.rows.values()):
        predictions.sort(key=lambda one: one.row)
    return Predictions(query, predictions)


def _estimates(
    query: Query, sources: Mapping[str, Source], X: Array, advance: Callable[[int], object], observation: bool
) -> dict[str, Array]:
    """Means and standard deviations of each client at its rows of X."""
    rows = query.rows
    if query.average:
        return {THE_CLIENT: _average(query.release, X, advance, observation)}
    results = {client: np.empty((2, len(rows[client]))) for client in sources}
    for part in slices(max(map(len, rows.values()), default=0), INPUTS_PER_STEP):
        shared = X[part]  # one array for all clients that are predicted at all inputs
        for release, clients in _by_release(sources, (c for c in sources if part.start < len(rows[c]))):
            inputs = (shared if isinstance(rows[c], range) else X[rows[c][part]] for c in clients)
            pairs = zip((sources[c].examples for c in clients), inputs)
            for client, estimate in zip(clients, release_clients.predict(release, pairs, observation)):
                results[client][:, part] = estimate
                advance(len(estimate[0]))
    return results


def _average(release: Disclosed, X: Array, advance: Callable[[int], object], observation: bool) -> Array:
    result = np.empty((2, len(X)))
    for part in slices(len(X), INPUTS_PER_STEP):
        result[:, part] = release.average(X[part], return_std=True, observation=observation)
        advance(len(X[part]))
    return result


def _by_release(sources: Mapping[str, Source], clients: Iterable[str]) -> Iterable[tuple[Disclosed, list[str]]]:
    """Clients by the release that they are predicted from."""
    groups: dict[str, tuple[Disclosed, list[str]]] = {}
    for client in clients:
        release = sources[client].release
        groups.setdefault(release.digest, (release, []))[1].append(client)
    return groups.values()


def _top(inputs: Inputs, rows: Sequence[int], mean: Array, source: Source, top: int) -> list[int]:
    """Which of the rows are the best: each item once, and none that the client has rated."""
    catalogue = source.release.model.catalogue
    assert catalogue is not None
    seen = set(catalogue.name_rows(source.inputs))
    best: list[int] = []
    for k in np.argsort(-mean, kind="stable").tolist():
        if len(best) < top and inputs.X[rows[k]] not in seen:
            seen.add(inputs.X[rows[k]])
            best.append(k)
    return best


# --- rows outside of what the study was made for ---
# A server refuses such examples. Predictions may be asked for anywhere, so there these are only warned of.


def outside_bounds(inputs: Inputs) -> tuple[int, str]:
    """How many rows have an input outside its bounds, and a sentence about them."""
    outside, parts = np.zeros(len(inputs.X), dtype=bool), []
    for column, values, (low, high) in _bounded(inputs):
        beyond = (values < low) | (values > high)
        if beyond.any():
            outside |= beyond
            parts.append(f"{column.name} {_excess(values[beyond], (low, high), column.text, 'bounds')}")
    number = int(outside.sum())
    where = f"{inputs.table.file}: {_rows(number)} outside the bounds of the study ({'; '.join(parts)})"
    return number, f"{where}: predictions there are extrapolated"


def outside_limits(examples: Sequence[Examples]) -> tuple[int, str]:
    """How many rows have an output outside the limits, and a sentence about them."""
    layout, table = examples[0].layout, examples[0].table
    if layout.limits is None:
        return 0, ""
    y, (low, high) = np.concatenate([one.y for one in examples]), layout.limits
    beyond = y[(y < low) | (y > high)]
    span = _excess(beyond, layout.limits, "{:g}".format, "limits") if len(beyond) else ""
    where = f"{table.file}: {_rows(len(beyond))} outside the limits of the study ({layout.target} {span})"
    return len(beyond), f"{where}: check the units"


def _bounded(inputs: Inputs) -> Iterator[tuple[Column, Array, Interval]]:
    """Columns that have bounds, with the numbers of all rows."""
    layout = inputs.layout
    if layout.columns is not None:
        for column in layout.columns:
            if column.bounds is not None:
                yield column, np.array([column.number(x[column.name]) for x in inputs.X]), column.bounds
    elif layout.catalogue is None:
        for k, (name, bounds) in enumerate(zip(layout.inputs(inputs.table), layout.bounds)):
            if bounds is not None:
                yield Column(name=name), np.array([x[k] for x in inputs.X]), bounds


def _excess(beyond: Array, limits: Interval, text: Callable[[float], str], noun: str) -> str:
    """How far numbers go beyond limits: "up to 40, bounds 0 to 24"."""
    (low, high), least, most = limits, float(beyond.min()), float(beyond.max())
    ends = [f"down to {text(least)}"] * (least < low) + [f"up to {text(most)}"] * (most > high)
    return f"{' and '.join(ends)}, {noun} {text(low)} to {text(high)}"


def _rows(number: int) -> str:
    return f"{count(number, 'row')} {'is' if number == 1 else 'are'}"
