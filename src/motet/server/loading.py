"""An operator's own table as examples of a study: its clients are enrolled and their rows stored before it is served.

All of a table is stored, or nothing. If the study's settings come from a pilot, its clients are left out, unless they
join, and so are rows of others outside the pilot's limits. A row that is stored already changes nothing, so a start may
be repeated, and a longer table adds what is new. The first release then comes at once: it is of a table that was there
before.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from motet.client.responses import ExamplePlace
from motet.client.site import located
from motet.client.tables import Examples, read_clients
from motet.errors import InvalidData, MotetError
from motet.planning.fitting import fitting_rows
from motet.store import clients, pins, releases
from motet.store.examples import Addition, add, columns
from motet.store.store import Connection, Store
from motet.study.limits import check_examples
from motet.study.pins import Since
from motet.study.study import Study
from motet.tables.files import Table, cell_text, new_file, read
from motet.tables.missing import is_missing
from motet.tables.roles import Layout
from motet.text import count


@dataclass
class Loaded:
    """What a table added: ``enrolled`` new clients, whose tokens are in ``tokens``, and examples."""

    file: str
    clients: int
    left_out: int  # rows with missing values
    tokens: Path
    pilot: int = 0  # clients who are left out because the settings come from their rows
    outside: dict[str, int] = field(default_factory=dict)  # rows that are left out, by reason
    enrolled: int = 0
    accepted: int = 0
    duplicates: int = 0
    fixed: Since = field(default_factory=Since)  # what fixes settings by now

    @property
    def text(self) -> str:
        parts = [f"{self.file}: {count(self.accepted, 'example')} of {count(self.clients, 'client')} stored"]
        parts += [f"{self.duplicates} were stored already"] * bool(self.duplicates)
        parts += [f"{count(self.left_out, 'row')} with missing values left out"] * bool(self.left_out)
        parts += [f"{count(rows, 'row')} left out ({reason})" for reason, rows in self.outside.items()]
        parts += [f"{count(self.pilot, 'client')} of the pilot left out"] * bool(self.pilot)
        parts += [f"tokens of {count(self.enrolled, 'new client')} are in {self.tokens}"] * bool(self.enrolled)
        return "; ".join(parts) + "."


def load_table(
    store: Store, study: Study, path: Path, tokens: Path, *, now: float, encoding: str | None = None
) -> Loaded:
    """Enroll the clients of a table, writing their tokens to a new file, and store their rows."""
    layout = study.model.layout(study.dimension)
    layout = layout.changed(**study.table.model_dump(), unit=study.output.unit, skip_missing=True)
    table, pilot, outside = _protected(study, read(path, encoding=encoding), layout)
    examples = read_clients(table, layout)
    additions = {client: _columns(study, client, one) for client, one in examples.items()}
    left_out = next(iter(examples.values())).table.left_out
    loaded = Loaded(path.name, len(examples), left_out, tokens, pilot, outside)
    with _removed_on_failure(tokens), store.transaction() as connection:
        ids = _enroll(connection, list(examples), loaded)
        for client, new in additions.items():
            limit = study.limits.examples_per_client
            added = add(connection, Addition(ids[client], new, limit, terms=study.terms))
            loaded.accepted += added.accepted
            loaded.duplicates += added.duplicates
        loaded.fixed = pins.since(connection)
        if loaded.accepted and not loaded.fixed.promise:  # no restoration counts releases by the clock yet
            releases.set_next_release(connection, now)
    return loaded


def _protected(study: Study, table: Table, layout: Layout) -> tuple[Table, int, dict[str, int]]:
    """The rows of those who take part and that the study takes, how many clients are left out, and rows by reason."""
    if study.pilot is None:
        return table, 0, {}
    layout.needed(table, client=True, target=True)
    cells = table.cells(layout.client)
    names = {cell: cell_text(cell) for cell in set(cells) if not is_missing(cell)}
    pilot = {cell for cell, name in names.items() if not study.pilot.joins and study.pilot.has(name)}
    rows, outside = fitting_rows(study, table.only(k for k, cell in enumerate(cells) if cell not in pilot))
    if not rows.rows:
        left = f"{count(len(pilot), 'client')} of the pilot are left out"
        reasons = "".join(f", {count(number, 'row')} ({reason})" for reason, number in outside.items())
        raise InvalidData(
            f"{table.file}: {left}{reasons}, so no row is left: serve without data=, so that others send their rows, "
            "or write the study anew with a pilot that takes part (pilot.joins)"
        )
    return rows, len(pilot), outside


def _columns(study: Study, client: str, examples: Examples) -> Sequence[Sequence[Any]]:
    """Ids, inputs, outputs and noise, checked; an error names file, row and column."""
    try:
        X, y, noise = check_examples(study, *examples.triples)
    except MotetError as error:
        place = ExamplePlace.parse(error.where)
        raise located(error, examples, place, client, "; nothing was stored") from None
    return columns(study.model, examples.ids, X, y, noise)


def _enroll(connection: Connection, names: list[str], loaded: Loaded) -> dict[str, str]:
    """The ids of all clients by name; new ones are enrolled, and their tokens written."""
    ids = {row["name"]: row["id"] for row in clients.all_clients(connection)}
    new = [name for name in names if name not in ids]
    if new:
        with new_file(loaded.tokens, InvalidData, text=True) as file:
            enrolled = clients.enroll(connection, new)
            rows = [("client", "id", "token"), *((client.name, client.id, client.token) for client in enrolled)]
            csv.writer(file, lineterminator="\n").writerows(rows)
        ids |= {client.name: client.id for client in enrolled}
        loaded.enrolled = len(new)
    return ids


@contextmanager
def _removed_on_failure(tokens: Path) -> Iterator[None]:
    """A file of tokens that nobody was enrolled with is removed."""
    there = tokens.exists()
    try:
        yield
    except BaseException:
        if not there:
            tokens.unlink(missing_ok=True)
        raise
