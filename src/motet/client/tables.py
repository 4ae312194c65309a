"""Tables of examples, of inputs and of predictions, as a client has them.

The columns are ``name`` in a study with a catalogue, else the inputs' numbers in their order; ``y``; and optionally
``noise``, ``id`` and ``client``. An error names file, row and column.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from motet.client.payload import check_id
from motet.errors import InvalidData, UnknownName
from motet.files import Table, cell_number, lines, read
from motet.model.catalogue import Catalogue
from motet.text import count, first_few

RESERVED = ("client", "id", "y", "noise")  # columns that are not inputs
PREDICTED = ("mean", "std")


@dataclass(frozen=True, eq=False)
class Inputs:
    table: Table
    X: list[Any]  # names, or lists of numbers

    @property
    def columns(self) -> list[str]:
        """The columns of the inputs' numbers; none if inputs are names."""
        return [] if any(isinstance(x, str) for x in self.X) else input_columns(self.table)


@dataclass(frozen=True, eq=False)
class Examples(Inputs):
    """An example without an id in the table gets one from its content and from how many equal rows are above it."""

    y: list[float]
    noise: list[float]
    ids: list[str]

    @property
    def triples(self) -> tuple[list[Any], list[float], list[float]]:
        return self.X, self.y, self.noise


def input_columns(table: Table) -> list[str]:
    return [column for column in table.columns if column not in RESERVED]


# --- reading ---


def read_examples(
    path: Path, catalogue: Catalogue | None, dimension: int | None = None, client: str | None = None
) -> Examples:
    """Examples of one client; ``client`` is its name, needed if the table has several."""
    table = read(path)
    if client is not None or "client" in table.columns:
        table = table.only(_rows_of(table, client))
    return _examples(table, catalogue, dimension)


def read_clients(path: Path, catalogue: Catalogue | None, dimension: int | None = None) -> dict[str, Examples]:
    """Examples of every client of a table."""
    table = read(path)
    table.require("client")
    clients = table.groups("client")
    return {client: _examples(table.only(rows), catalogue, dimension) for client, rows in clients.items()}


def read_tokens(path: Path) -> dict[str, str]:
    """Tokens by their clients' names; no error shows a cell that may be a token."""
    table = read(path)
    names = "client" if "client" in table.columns else "name"
    if not {names, "token"} <= set(table.columns):
        raise InvalidData(f"{table.file}: expected the columns name and token, as motet enroll --out writes them")
    return dict(zip(table.names(names), table.texts("token")))


def read_names(path: Path) -> list[str]:
    """Clients' names: each client of a column ``client``, a column ``name``, or the lines of a file *.txt."""
    if path.suffix.lower() == ".txt":
        return lines(path)
    table = read(path)
    return list(table.groups("client")) if "client" in table.columns else table.texts("name")


def read_inputs(
    path: Path, catalogue: Catalogue | None, dimension: int | None = None, client: str | None = None
) -> Inputs:
    """Inputs to predict at, all or those of a ``client``; the table may have other columns."""
    table = read(path)
    if client is not None and "client" in table.columns:
        table = table.only(_rows_of(table, client))
    for column in PREDICTED:
        if column in table.columns:
            raise InvalidData(f"{table.file}: it has a column {column!r} already; leave it out, or rename it")
    return Inputs(table, _inputs(table, catalogue, dimension))


def catalogue_inputs(catalogue: Catalogue) -> Inputs:
    """All items of a catalogue, as a table."""
    names = list(catalogue.names)
    return Inputs(Table("the catalogue", ["name"], [[name] for name in names], list(range(1, len(names) + 1))), names)


def _rows_of(table: Table, client: str | None) -> list[int]:
    """The rows of a client; without a name all rows, if they are of one client."""
    clients = table.groups("client")
    if client is None and len(clients) > 1:
        choose = "choose one, --client NAME, or all of them: send with --tokens, predict with --each"
        raise InvalidData(f"{table.file} has {len(clients)} clients, {first_few(clients)}: {choose}")
    if client is not None and client not in clients:
        raise InvalidData(f"{table.file}: no row is of client {client!r}; expected one of {first_few(clients)}")
    return next(iter(clients.values())) if client is None else clients[client]


def _examples(table: Table, catalogue: Catalogue | None, dimension: int | None) -> Examples:
    table.require(*(["y"] if catalogue is None else ["name", "y"]))
    y, noise = table.floats("y"), table.floats("noise", default=1.0)
    for k, variance in enumerate(noise):
        if variance <= 0:
            raise table.refusal(k, "noise", f"expected a variance above 0, got {variance:g}")
    X = _inputs(table, catalogue, dimension)
    return Examples(table, X, y, noise, _ids(table, X, y, noise))


def _inputs(table: Table, catalogue: Catalogue | None, dimension: int | None) -> list[Any]:
    if catalogue is not None:
        return _names(table, catalogue)
    columns = input_columns(table)
    if not columns or (dimension is not None and len(columns) != dimension):
        expected = "input columns" if dimension is None else count(dimension, "input column")
        got = f"{len(columns)}: {', '.join(columns)}" if columns else "none"
        raise InvalidData(f"{table.file}: expected {expected} beside {', '.join(RESERVED)}, got {got:.80}")
    return [list(row) for row in zip(*(table.floats(column) for column in columns))]


def _names(table: Table, catalogue: Catalogue) -> list[str]:
    names = table.texts("name")
    for k, name in enumerate(names):
        if name not in catalogue:
            try:
                catalogue.look_up([name])
            except UnknownName as error:
                raise table.refusal(k, "name", str(error)) from None
    return names


def _ids(table: Table, X: Sequence[Any], y: Sequence[float], noise: Sequence[float]) -> list[str]:
    """The same for the same rows, so that a table which is sent again changes nothing."""
    repeats = Counter[str]()
    rows: dict[str, int] = {}
    for k, (cell, *content) in enumerate(zip(table.cells("id"), X, y, noise)):
        text = json.dumps(content)
        id = hashlib.sha256(f"{repeats[text]} {text}".encode()).hexdigest()[:16] if cell is None else str(cell)
        repeats[text] += 1
        try:
            check_id(id)
        except InvalidData as error:
            raise table.refusal(k, "id", str(error)) from None
        if id in rows:
            raise table.refusal(k, "id", f"{id!r:.60} is in row {rows[id]} already; give each example its own, or none")
        rows[id] = table.numbers[k]
    return list(rows)


# --- writing predictions ---


def for_clients(table: Table, rows: Iterable[tuple[str, int]]) -> Table:
    """Rows of a table by their place, each for a client, whose column comes first."""
    places = [place for place, column in enumerate(table.columns) if column != "client"]
    rows = list(rows)
    columns = ["client", *(table.columns[place] for place in places)]
    cells = [[client, *(table.rows[k][place] for place in places)] for client, k in rows]
    return Table(table.file, columns, cells, [table.numbers[k] for _, k in rows])


def write_predictions(out: TextIO, table: Table, mean: Iterable[float], std: Iterable[float]) -> None:
    """The table as it was read, with two more columns."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*table.columns, *PREDICTED])
    writer.writerows([*row, f"{m:.10g}", f"{s:.10g}"] for row, m, s in zip(table.rows, mean, std))


def predictions_to_list(
    inputs: Inputs, table: Table, mean: Iterable[float], std: Iterable[float]
) -> list[dict[str, Any]]:
    """Rows of the inputs' table for programs: inputs, y and noise are numbers if the table has numbers there."""
    columns = [*table.columns, *PREDICTED]
    numeric = [column in {*inputs.columns, "y", "noise"} for column in table.columns]
    rows = [[_number(cell) if number else cell for cell, number in zip(row, numeric)] for row in table.rows]
    return [dict(zip(columns, [*row, m, s])) for row, m, s in zip(rows, mean, std)]


def _number(cell: Any) -> Any:
    """A cell as a number if it is one; None if it is empty or NaN, which JSON does not have."""
    number = cell_number(cell)
    return number if number is not None else None if cell != cell or cell == "" else cell
