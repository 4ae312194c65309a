"""Tables of examples, of inputs and of predictions.

The columns are ``name`` for a study with a catalogue, or else the inputs' numbers in their order; ``y``; and, where
wanted, ``noise``, ``id`` and ``client``. A refusal names file, row and column.
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
from motet.model.catalogue import Catalogue
from motet.tablefile import Table, lines, read
from motet.text import first_few

NO_INPUTS = ("client", "id", "y", "noise")
PREDICTED = ("mean", "std")


@dataclass(frozen=True, eq=False)
class Inputs:
    table: Table
    X: list[Any]  # names, or lists of numbers


@dataclass(frozen=True, eq=False)
class Examples(Inputs):
    """The id of one that has none in the table is made of its content, and of how often that came before."""

    y: list[float]
    noise: list[float]
    ids: list[str]

    @property
    def triples(self) -> tuple[list[Any], list[float], list[float]]:
        return self.X, self.y, self.noise


def read_examples(
    path: Path, catalogue: Catalogue | None, dimension: int | None = None, client: str | None = None
) -> Examples:
    """Examples of one client; ``client`` says whose, where the table has several."""
    table = read(path)
    if client is not None or "client" in table.columns:
        table = table.only(_rows_of(table, client))
    return _examples(table, catalogue, dimension)


def read_clients(path: Path, catalogue: Catalogue | None, dimension: int | None = None) -> dict[str, Examples]:
    """Examples of every client of a table."""
    table = read(path)
    if "client" not in table.columns:
        raise InvalidData(
            f"{table.file}: no column 'client', to say whose each row is; got {', '.join(table.columns):.80}"
        )
    clients = table.groups("client")
    return {client: _examples(table.only(rows), catalogue, dimension) for client, rows in clients.items()}


def read_tokens(path: Path) -> dict[str, str]:
    """Tokens by their clients' names; no refusal shows what may be one."""
    table = read(path)
    if not {"name", "token"} <= set(table.columns):
        raise InvalidData(f"{table.file}: expected the columns name and token, as motet enroll --out writes them")
    return dict(zip(table.names("name"), table.texts("token")))


def read_inputs(
    path: Path, catalogue: Catalogue | None, dimension: int | None = None, client: str | None = None
) -> Inputs:
    """Inputs to predict at, all or a ``client``'s; other columns may be there and are kept."""
    table = read(path)
    if client is not None and "client" in table.columns:
        table = table.only(_rows_of(table, client))
    for column in PREDICTED:
        if column in table.columns:
            raise InvalidData(f"{table.file}: column {column!r} is there already; leave it out, or rename it")
    return Inputs(table, _inputs(table, catalogue, dimension))


def inputs_of(catalogue: Catalogue) -> Inputs:
    """All items of a catalogue, as if they were a table."""
    names = list(catalogue.names)
    return Inputs(Table("the catalogue", ["name"], [[name] for name in names], list(range(1, len(names) + 1))), names)


def read_names(path: Path) -> list[str]:
    """A column ``name``, or the lines of a file that ends in .txt."""
    return lines(path) if path.suffix.lower() == ".txt" else read(path).texts("name")


def write_predictions(out: TextIO, table: Table, mean: Iterable[float], std: Iterable[float]) -> None:
    """The table as it was read, with two columns more."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*table.columns, *PREDICTED])
    writer.writerows([*row, f"{m:.10g}", f"{s:.10g}"] for row, m, s in zip(table.rows, mean, std))


def predictions_to_list(table: Table, mean: Iterable[float], std: Iterable[float]) -> list[dict[str, Any]]:
    """The same for programs."""
    columns = [*table.columns, *PREDICTED]
    rows = [[None if cell != cell else cell for cell in row] for row in table.rows]  # JSON has no NaN
    return [dict(zip(columns, [*row, m, s])) for row, m, s in zip(rows, mean, std)]


def for_clients(table: Table, rows: Iterable[tuple[str, int]]) -> Table:
    """Rows of a table by their number, each for a client, whose column comes first."""
    kept = [at for at, column in enumerate(table.columns) if column != "client"]
    rows = list(rows)
    columns = ["client", *(table.columns[at] for at in kept)]
    cells = [[client, *(table.rows[k][at] for at in kept)] for client, k in rows]
    return Table(table.file, columns, cells, [table.numbers[k] for _, k in rows])


def _rows_of(table: Table, client: str | None) -> list[int]:
    """The rows of a client; all of them where it is not said whose, and there is only one."""
    known = table.groups("client")
    if client is None and len(known) > 1:
        choose = "choose one, --client NAME, or all of them: send with --tokens, predict with --each"
        raise InvalidData(f"{table.file} has {len(known)} clients, {first_few(known)}: {choose}")
    if client is not None and client not in known:
        raise InvalidData(f"{table.file}: no row is of client {client!r}; expected one of {first_few(known)}")
    return next(iter(known.values())) if client is None else known[client]


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
    columns = [column for column in table.columns if column not in NO_INPUTS]
    if not columns or (dimension is not None and len(columns) != dimension):
        wanted = "the inputs' columns" if dimension is None else f"as many columns as inputs have numbers, {dimension},"
        got = f"{len(columns)}: {', '.join(columns)}" if columns else "none"
        raise InvalidData(f"{table.file}: expected {wanted} beside {', '.join(NO_INPUTS)}; got {got:.80}")
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
    before = Counter[str]()
    rows: dict[str, int] = {}
    for k, (given, *content) in enumerate(zip(table.cells("id"), X, y, noise)):
        text = json.dumps(content)
        id = hashlib.sha256(f"{before[text]} {text}".encode()).hexdigest()[:16] if given is None else str(given)
        before[text] += 1
        try:
            check_id(id)
        except InvalidData as error:
            raise table.refusal(k, "id", str(error)) from None
        if id in rows:
            raise table.refusal(k, "id", f"{id!r:.60} is in row {rows[id]} already; give each example its own, or none")
        rows[id] = table.numbers[k]
    return list(rows)
