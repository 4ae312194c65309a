"""Tables of examples and of inputs, as a client has them; a ``Layout`` says what their columns are.

An error names file, row and column. A row without an id gets one from its content, so a table may be sent again.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from motet.client.payload import check_id
from motet.errors import InvalidData, UnknownName
from motet.tables.catalogue import Catalogue
from motet.tables.columns import Columns
from motet.tables.files import Table, lines, read
from motet.tables.roles import ID, NOISE, Layout
from motet.text import count, first_few

PREDICTED = ("mean", "std")


@dataclass(frozen=True, eq=False)
class Inputs:
    table: Table
    X: list[Any]  # names, lists of numbers, or cells by column
    layout: Layout

    @property
    def numeric(self) -> list[str]:
        """The columns of the inputs whose cells are numbers."""
        if self.layout.columns is not None:
            return [column.name for column in self.layout.columns if column.is_numeric]
        return [] if self.layout.catalogue is not None else self.layout.inputs(self.table)


@dataclass(frozen=True, eq=False)
class Examples(Inputs):
    """An example without an id in the table gets one from its content and from how many equal rows are above it."""

    y: list[float]
    noise: list[float]
    ids: list[str]

    @property
    def triples(self) -> tuple[list[Any], list[float], list[float]]:
        return self.X, self.y, self.noise

    def column(self, field: str) -> str | None:
        """The column of a field of an example: of "x.0", "x.hours", "y" or "noise"."""
        kind, _, part = field.partition(".")
        columns = self.layout.inputs(self.table)
        if kind == "x" and self.layout.columns is None and part.isdecimal():
            return columns[int(part)] if int(part) < len(columns) else None
        return part if kind == "x" and part in columns else {"y": self.layout.target, NOISE: NOISE}.get(field)


# --- reading ---


def read_examples(path: Path, layout: Layout, only: str | None = None, *, may_be_empty: bool = False) -> Examples:
    """Examples of one client; ``only`` is its name, needed if the table has several."""
    table = _read(path, layout, may_be_empty=may_be_empty)
    layout = layout.of_table(table)
    if only is not None or layout.client_is_given or (layout.client in table.columns and table.rows):
        table = _of_client(table, layout, only)
    table = _complete(table, layout, layout.needed(table, target=True), may_be_empty=may_be_empty)
    return _examples(table, layout)


def read_clients(path: Path | Table, layout: Layout, *, may_be_empty: bool = False) -> dict[str, Examples]:
    """Examples of every client of a table."""
    table = path if isinstance(path, Table) else _read(path, layout, may_be_empty=may_be_empty)
    layout = layout.of_table(table)
    table = _complete(table, layout, layout.needed(table, client=True, target=True), may_be_empty=may_be_empty)
    return {client: _examples(table.only(rows), layout) for client, rows in table.groups(layout.client).items()}


def read_tokens(path: Path) -> dict[str, str]:
    """Tokens by their clients' names; no error shows a cell that may be a token."""
    table = read(path)
    clients = "client" if "client" in table.columns else "name"
    if not {clients, "token"} <= set(table.columns):
        raise InvalidData(f"{table.file}: expected the columns client and token, as motet enroll writes them")
    return dict(zip(table.names(clients), table.texts("token")))


def read_names(path: Path, columns: Sequence[str] = ("client", "name"), *, encoding: str | None = None) -> list[str]:
    """Clients' names: each client of the first of these columns that a table has, or the lines of a file *.txt."""
    if path.suffix.lower() == ".txt":
        return lines(path, encoding)
    table = read(path, encoding=encoding)
    layout = Layout(client=next((column for column in columns if column in table.columns), columns[0]))
    layout.require_client(table)
    return list(table.groups(layout.client))


def read_inputs(path: Path | Table | None, layout: Layout, only: str | None = None) -> Inputs:
    """Inputs to predict at, all or those of a client; the table may have other columns. Without one: the catalogue."""
    if path is None:
        return catalogue_inputs(layout)
    table = path if isinstance(path, Table) else _read(path, layout)
    layout = layout.of_table(table)
    if only is not None and layout.client in table.columns:
        table = _of_client(table, layout, only)
    for column in PREDICTED:
        if column in table.columns:
            raise InvalidData(f"{table.file}: it has a column {column!r} already; leave it out, or rename it")
    table = _complete(table, layout, layout.needed(table, client=layout.client in table.columns))
    return Inputs(table, cells_of_inputs(table, layout), layout)


def _read(path: Path, layout: Layout, *, may_be_empty: bool = False) -> Table:
    return read(path, may_be_empty=may_be_empty, encoding=layout.encoding)


def catalogue_inputs(layout: Layout) -> Inputs:
    """All items of the study's catalogue, as a table."""
    if layout.catalogue is None:
        columns = [] if layout.columns is None else layout.columns.names
        described = f" ({first_few(columns)})" if columns else " of numbers"
        expected = f"a table with {count(len(columns) or layout.dimension or 1, 'column')}{described} to predict at"
        raise InvalidData(f"expected {expected}, got none, and this study has no catalogue: give INPUTS")
    names = list(layout.catalogue.names)
    table = Table("the catalogue", [layout.name], [[name] for name in names], list(range(1, len(names) + 1)))
    return Inputs(table, names, layout)


def _of_client(table: Table, layout: Layout, only: str | None) -> Table:
    """The rows of one client; of the only one, if no name is given."""
    layout.require_client(table)
    table = layout.complete(table, [layout.client])
    clients = table.groups(layout.client)
    if only is None and len(clients) > 1:
        message = f"{table.file} has {len(clients)} clients, {first_few(clients)}: choose one with only="
        raise InvalidData(message, where="only")
    if only is not None and only not in clients:
        raise InvalidData(f"{table.file}: no row is of client {only!r}; expected one of {first_few(clients)}")
    return table.only(next(iter(clients.values()), []) if only is None else clients[only])


def _complete(table: Table, layout: Layout, needed: list[str], *, may_be_empty: bool = False) -> Table:
    """The rows that have a value in every needed column."""
    complete = layout.complete(table, needed)
    if not complete.rows and not may_be_empty:
        raise InvalidData(f"{table.file}: every row has a missing value, so none is left")
    return complete


def _examples(table: Table, layout: Layout) -> Examples:
    y, noise = table.floats(layout.target, unit=layout.unit), table.floats(NOISE, default=1.0)
    for k, variance in enumerate(noise):
        if variance <= 0:
            raise table.refusal(k, NOISE, f"expected a variance above 0, got {variance:g}")
    X = cells_of_inputs(table, layout)
    return Examples(table, X, layout, y, noise, _ids(table, layout, X, y, noise))


def cells_of_inputs(table: Table, layout: Layout) -> list[Any]:
    """Every row's input: a name, cells by column, or numbers; an error names the row and the column."""
    if layout.catalogue is not None:
        return _names(table, layout.name, layout.catalogue)
    if layout.columns is not None:
        return _cells(table, layout.columns)
    units = {column: layout.units.get(column, "") for column in layout.inputs(table)}
    return [list(row) for row in zip(*(table.floats(column, unit=unit) for column, unit in units.items()))]


def _cells(table: Table, columns: Columns) -> list[dict[str, Any]]:
    """Cells by column, in the columns' order and of one form, whatever the order and form in the table."""
    read_columns = []
    for column in columns:
        cells = []
        for k, cell in enumerate(table.cells(column.name)):
            try:
                cells.append(column.cell(column.number(cell)))
            except InvalidData as error:
                raise table.refusal(k, column.name, str(error)) from None
        read_columns.append(cells)
    return [dict(zip(columns.names, row)) for row in zip(*read_columns)]


def _names(table: Table, column: str, catalogue: Catalogue) -> list[str]:
    names = table.texts(column)
    for k, name in enumerate(names):
        if name not in catalogue:
            try:
                catalogue.look_up([name])
            except UnknownName as error:
                raise table.refusal(k, column, str(error)) from None
    return names


def _ids(table: Table, layout: Layout, X: Sequence[Any], y: Sequence[float], noise: Sequence[float]) -> list[str]:
    """The same for the same rows, so that a table which is sent again changes nothing."""
    own = [None] * len(table.rows) if layout.id is None else table.cells(layout.id)
    repeats = Counter[str]()
    rows: dict[str, int] = {}
    for k, (cell, *content) in enumerate(zip(own, X, y, noise)):
        text = json.dumps(content)
        id = hashlib.sha256(f"{repeats[text]} {text}".encode()).hexdigest()[:16] if cell is None else str(cell)
        repeats[text] += 1
        try:
            check_id(id)
        except InvalidData as error:
            raise table.refusal(k, ID, str(error)) from None
        if id in rows:
            raise table.refusal(k, ID, f"{id!r:.60} is in row {rows[id]} already; give each example its own, or none")
        rows[id] = table.numbers[k]
    return list(rows)
