"""Predictions at a table of inputs: of one client, of many clients, or of the average. ``motet predict`` prints them.

A query holds what is asked for: clients, each with what it is predicted from, and the rows of the inputs for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from motet.arrays import Array, outputs, slices
from motet.client import tables
from motet.client.client import Client
from motet.client.layout import Layout
from motet.client.site import Site, check_owner
from motet.client.tables import Examples, Inputs
from motet.errors import InvalidData
from motet.files import Table
from motet.model.tasks import Task
from motet.release import clients as release_clients
from motet.release.clients import ClientData
from motet.release.coefficients import Coefficients
from motet.release.disclosed import Disclosed
from motet.text import count, first_few

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
        if self.query.file:
            rows = ((one.client, one.row) for one in self.predictions)
            return tables.for_clients(self.query.inputs.table, rows, self.query.inputs.layout.client)
        return self.query.inputs.table.only(one.row for one in self.predictions)

    @property
    def mean(self) -> list[float]:
        return [one.mean for one in self.predictions]

    @property
    def std(self) -> list[float]:
        return [one.std for one in self.predictions]

    def write(self, out: TextIO, *, header: bool = True) -> None:
        """As CSV."""
        tables.write_predictions(out, self.table, self.mean, self.std, header=header)

    def to_list(self) -> list[dict[str, Any]]:
        """For JSON."""
        return tables.predictions_to_list(self.query.inputs, self.table, self.mean, self.std)


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


def at_part(query: Query, part: Table, layout: Layout, only: str | None = None) -> Query:
    """The same clients at another part of the table of inputs."""
    inputs = tables.read_inputs(part, layout, only)
    many = bool(query.file)
    rows = client_rows(inputs, query.sources) if many else {THE_CLIENT: range(len(inputs.X))}
    return replace(query, inputs=inputs, rows=rows)


def read_inputs(path: Path | Table | None, layout: Layout, only: str | None = None) -> Inputs:
    """The inputs of a table, or without one the whole catalogue."""
    if path is not None:
        return tables.read_inputs(path, layout, only)
    if layout.catalogue is not None:
        return tables.catalogue_inputs(layout)
    names = f" ({first_few(layout.columns.names)})" if layout.columns is not None else ""
    number = len(layout.columns) if layout.columns is not None else layout.dimension or 1
    expected = f"a table with {count(number, 'column')}{names or ' of numbers'} to predict at"
    raise InvalidData(f"expected {expected}, got none, and this study has no catalogue: give INPUTS")


# --- their answers ---


def predict(
    query: Query, advance: Callable[[int], object], *, top: int | None = None, observation: bool = False
) -> Predictions:
    """Every client at its rows, or at the ``top`` of them that it has not rated."""
    if top is not None and query.release.model.catalogue is None:
        raise InvalidData("--top ranks the items of a catalogue, and this study has none: leave it out")
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
