"""A pilot: rows of some clients of a table such as people have it, read to find the settings of a study.

If the study is private, nothing here or in what follows looks at the row of another client: all others are protected.
Rows that cannot be used are left out, and counted with the reason.

A client's *place* is SHA-256 of a random salt and its name, read as a number from 0 to 1. The pilot is everybody whose
place is at most a threshold: the share asked for, or the place of the 30th client if that is higher, and never higher
than that of the 2,000th. A protected client lies above the threshold, so it is none of these, and without it the
threshold is the same: the pilot, and all that is computed from it alone, does not depend on whether any protected
client is in the table, nor on how many are. Nobody learns anything of them from a study file, whatever else is known.
A client counts by its own rows alone: if one of them has a name and an output.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from motet.arrays import Array, Index
from motet.errors import EmptyData, InvalidData
from motet.planning.gains import Gain, Together, gain_together, gains_of, without_inputs
from motet.planning.inputs import (
    MIN_PILOT_ROWS,
    PilotRoles,
    column_of,
    log_scaled,
    order_notes,
    outward,
    unused,
    uses_of,
)
from motet.study.schema import DIGEST_LETTERS, SALT_LETTERS, PilotSection, TableSection, digest_of
from motet.tables.catalogue import Catalogue
from motet.tables.cells import NO_OUTCOMES
from motet.tables.columns import Columns
from motet.tables.dates import DateOrder
from motet.tables.files import Table, cell_text
from motet.tables.grouping import ONE_ROW_EACH
from motet.tables.items import Items
from motet.tables.missing import Missing, is_missing
from motet.tables.readings import check_outliers, one_value, reading_notes
from motet.tables.rows import Sample
from motet.text import count, first_few
from motet.tuning.defaults import MAX_SEARCHED_INPUTS

PILOT_SHARE = 0.2
MIN_SERVED = 5  # clients beside it that a study can be evaluated on
MIN_PILOT, MAX_PILOT = 30, 2000  # clients of a pilot, if the table has as many
MIN_PILOT_CLIENTS = 4
MAX_SEARCHED_ROWS = 6000  # for settings; above, those of some of the clients
DATE_ORDERS: dict[str | None, DateOrder] = {None: "", "day-first": "day first", "month-first": "month first"}
OUTPUT_MARGIN = 0.5  # beyond the outputs of the pilot, as a share of their range, for those of others
MAX_LEVELS = 12  # different whole or half numbers, up to which outputs are a scale such as stars
ONE_ROW_ADVICE = "or say which column has the clients with client="


@dataclass(frozen=True, kw_only=True)
class PilotClients:
    """The pilot by name, out of so many ``others``; ``joins`` if its clients take part in the study too."""

    names: frozenset[str]
    others: int
    share: float
    salt: str
    threshold: float
    joins: bool = False

    @classmethod
    def draw(
        cls,
        table: Table,
        client: str,
        target: str,
        *,
        share: float = PILOT_SHARE,
        joins: bool = False,
        salt: str | None = None,
    ) -> PilotClients:
        """Of a table whose columns are these. A ``salt`` is for tests: who knows it beforehand can choose names."""
        if not 0 < share <= 1:
            raise InvalidData(f"expected a share of the clients above 0 and at most 1 for the pilot, got {share:g}")
        salt = secrets.token_hex(SALT_LETTERS // 2) if salt is None else salt
        names = names_in(table, client, target)
        digests = {name: digest_of(salt, name) for name in names}
        threshold = _threshold(sorted(map(_place, digests.values())), share)
        chosen = frozenset(name for name, digest in digests.items() if _place(digest) <= threshold)
        others = len(names) - len(chosen)
        return cls(names=chosen, others=others, share=share, salt=salt, threshold=threshold, joins=joins)

    @property
    def expected(self) -> int:
        """How many will take part, by the size of the pilot and its share alone: the others are not counted here."""
        total = len(self.names) / self.threshold
        served = total if self.joins else total - len(self.names)
        return int(float(f"{served:.2g}")) or len(self.names)

    def section(self) -> PilotSection:
        """What the study file has of it."""
        digests = sorted(digest_of(self.salt, name) for name in self.names)
        return PilotSection(
            clients=len(digests), share=self.share, salt=self.salt, joins=self.joins, digests=tuple(digests)
        )

    def rows(self, table: Table, client: str) -> Table:
        """The rows of the pilot."""
        return _only(table, client, self.names, inside=True)

    def served(self, table: Table, client: str) -> Table:
        """The rows of those who take part; of the pilot too, if hardly anybody else is there."""
        return table if self.joins or self.others < MIN_SERVED else _only(table, client, self.names, inside=False)


def names_in(table: Table, client: str, target: str) -> list[str]:
    """The clients who have a row with an output, each once, in the order of the table."""
    cells = zip(table.cells(client), table.cells(target))
    return list(dict.fromkeys(cell_text(cell) for cell, y in cells if not is_missing(cell) and not is_missing(y)))


def _only(table: Table, client: str, names: frozenset[str], *, inside: bool) -> Table:
    cells = table.cells(client)
    return table.only(
        k for k, cell in enumerate(cells) if (not is_missing(cell) and cell_text(cell) in names) == inside
    )


def _place(digest: str) -> float:
    return int(digest, 16) / 16**DIGEST_LETTERS


def _threshold(places: list[float], share: float) -> float:
    """That leaves the pilot the same without any client above it."""
    fewest = places[MIN_PILOT - 1] if len(places) >= MIN_PILOT else 1.0
    most = places[MAX_PILOT - 1] if len(places) >= MAX_PILOT else 1.0
    return min(max(share, fewest), most)


# --- their rows ---


def read_pilot(
    table: Table,
    *,
    client: str | None = None,
    target: str | None = None,
    name: str | None = None,
    catalogue: str | Path | None = None,
    inputs: Sequence[str] | str | None = None,
    units: Mapping[str, str] | None = None,
    logarithms: Sequence[str] | str | None = None,
    dates: Literal["day-first", "month-first"] | None = None,
    encoding: str | None = None,
    policy: str = "private",
    share: float | None = None,
    joins: bool = False,
) -> Pilot:
    """Of a table whose columns have these roles; drawn at random if the study is private, else all clients.

    Columns that are called client, y, and beside a catalogue name, need not be named.
    """
    usual = {"client": (client, "client"), "target": (target, "y")}
    columns = {role: given or column for role, (given, column) in usual.items() if given or column in table.columns}
    if missing := [f"{role}=" for role in usual if role not in columns]:
        raise InvalidData(
            f"{table.file} has {first_few(table.columns)}: say which column is which with {' and '.join(missing)}"
        )
    if name is None and catalogue is not None and "name" in table.columns:
        name = "name"
    roles = PilotRoles(
        task=columns["client"],
        target=columns["target"],
        inputs=_column_names(inputs or ()),
        name=name,
        catalogue=None if catalogue is None else Path(catalogue),
        units=units,
        logarithms=None if logarithms is None else _column_names(logarithms),
        dates=DATE_ORDERS[dates],
        encoding=encoding,
    )
    if policy == "private":
        share = PILOT_SHARE if share is None else share
        return Pilot.read(table, roles, PilotClients.draw(table, **columns, share=share, joins=joins))
    if share is not None or joins:
        raise InvalidData('share= and joins= need a private study; with policy="exact", which uses all rows, omit them')
    return Pilot.read(table, roles)


def _column_names(names: Sequence[str] | str) -> tuple[str, ...]:
    """Those that commas separate, if they are one text."""
    parts = names.split(",") if isinstance(names, str) else names
    return tuple(part.strip() for part in parts if part.strip())


@dataclass(frozen=True, eq=False, kw_only=True)
class Pilot:
    """The rows that can be used: clients, inputs as a model reads them, and outputs; ``notes`` say what is left out."""

    file: str
    roles: PilotRoles
    clients: list[str]
    X: Array
    y: Array
    columns: Columns | None = None
    catalogue: Catalogue | None = None
    notes: tuple[str, ...] = ()
    drawn: PilotClients | None = None
    unit: str = ""  # of outputs, if their cells have one
    items: Items | None = None  # the catalogue, with what its file says
    gains: tuple[Gain, ...] = ()

    @classmethod
    def read(cls, table: Table, roles: PilotRoles, drawn: PilotClients | None = None) -> Pilot:
        """The rows of the clients that were ``drawn``; of all, without a promise to anybody, if none were."""
        roles.check_table(table)
        if drawn is not None:
            return replace(cls.read(drawn.rows(table, roles.task), roles), drawn=drawn)
        if roles.name is not None:
            items, cells, notes = _items(table, roles)
            return replace(cls._of(table, roles, cells, notes, catalogue=items.catalogue), items=items)
        if not roles.inputs:
            uses = uses_of(table, roles.task, roles.target)
            roles = replace(roles, inputs=tuple(column for column, why_not in uses.items() if not why_not))
            if not roles.inputs:
                raise InvalidData(f"{table.file}: no column beside {roles.task} and {roles.target} can be an input")
            return cls._with_inputs(table, roles)._without_giveaways(table)
        return cls._with_inputs(table, roles)

    @classmethod
    def _with_inputs(cls, table: Table, roles: PilotRoles) -> Pilot:
        columns = Columns(column_of(table, column, roles) for column in roles.inputs)
        cells = {column: table.cells(column) for column in roles.inputs}
        pilot = cls._of(table, roles, cells, [unused(table, roles), *order_notes(table, columns)], columns=columns)
        return replace(pilot, gains=gains_of(pilot.clients, columns, pilot.X, pilot.y)).by_logarithms()

    def _without_giveaways(self, table: Table) -> Pilot:
        """The same, read anew without inputs that give the output away."""
        columns = [gain.input for gain in self.gains if gain.is_giveaway]
        if not columns:
            return self
        rest = tuple(column for column in self.roles.inputs if column not in columns)
        if not rest:
            raise without_inputs(columns, table.file, self.roles.target)
        pilot = self._with_inputs(table, replace(self.roles, inputs=rest))
        return replace(pilot, gains=tuple(replace(gain, left_out=gain.is_giveaway) for gain in self.gains))

    @classmethod
    def _of(
        cls,
        table: Table,
        roles: PilotRoles,
        inputs: Mapping[str, Sequence[Any]],
        notes: Sequence[str],
        *,
        columns: Columns | None = None,
        catalogue: Catalogue | None = None,
    ) -> Pilot:
        needed = {roles.task: table.cells(roles.task), roles.target: table.cells(roles.target), **inputs}
        missing = Missing.of({column: list(map(is_missing, cells)) for column, cells in needed.items()})
        complete = missing.complete.tolist()
        clients = [cell_text(needed[roles.task][k]) for k in complete]
        if len(set(clients)) < MIN_PILOT_CLIENTS or len(complete) < MIN_PILOT_ROWS:
            expected = f"expected at least {MIN_PILOT_ROWS} complete rows of {MIN_PILOT_CLIENTS} clients"
            got = f"{count(len(complete), 'complete row')} of {count(len(set(clients)), 'client')}"
            raise EmptyData(f"{table.file}: {expected}, got {got}: add rows, or write a study without a table")
        y, unit = _outputs(table.only(complete), roles.target)
        if catalogue is not None and roles.name is not None:
            X = catalogue.look_up(str(inputs[roles.name][k]) for k in complete)
        else:
            assert columns is not None
            X = columns.rows({column: [cells[k] for k in complete] for column, cells in inputs.items()})
        check_outliers(table, complete, roles.target, y)
        numeric = [one for one in columns or () if one.is_numeric and one.name not in (roles.logarithms or ())]
        for column in numeric:
            check_outliers(table, complete, column.name, [column.number(inputs[column.name][k]) for k in complete])
        read = reading_notes(table.only(complete), columns or (), roles.target, unit)
        lines = [*filter(None, notes), *read]
        if missing.left_out:
            lines.insert(0, f"{count(missing.left_out, 'row')} with missing values left out: {missing.words}")
        if len(set(clients)) == len(clients):
            lines.append(f"{ONE_ROW_EACH.format('client')}, {ONE_ROW_ADVICE}")
        return cls(
            file=table.file,
            roles=roles,
            clients=clients,
            X=X,
            y=y,
            columns=columns,
            catalogue=catalogue,
            notes=tuple(lines),
            unit=unit,
        )

    def by_logarithms(self) -> Pilot:
        """With inputs of very different sizes read by their logarithms."""
        assert self.columns is not None
        columns, X = log_scaled(self.columns, self.X, self.y, self.client, self.roles.logarithms)
        read = [f"{column.name} above {column.log_above:g}" for column in columns if column.log_above is not None]
        note = f"read by their logarithms: {', '.join(read)}; logarithms= names others, or none"
        return replace(self, columns=columns, X=X, notes=(*self.notes, *[note] * bool(read)))

    # --- what a study file says of them ---

    @property
    def table(self) -> TableSection:
        return TableSection(client=self.roles.task, target=self.roles.target, name=self.roles.name or "name")

    @cached_property
    def client(self) -> Index:
        """The number of each row's client."""
        return np.unique(self.clients, return_inverse=True)[1]

    @property
    def sizes(self) -> Array:
        """How many rows each client has."""
        return np.array(list(Counter(self.clients).values()))

    @property
    def labels(self) -> list[str]:
        """The names of the numbers in a row."""
        if self.columns is not None:
            return self.columns.labels
        return [] if self.catalogue is None else ["item", *(f"feature {k}" for k in self.catalogue.features)]

    @cached_property
    def together(self) -> Together | None:
        """What all inputs tell, if they are columns."""
        return None if self.columns is None else gain_together(self.clients, self.columns, self.X, self.y)

    @cached_property
    def sample(self) -> Sample:
        """The rows that settings are searched on."""
        max_items = None if self.catalogue is None else MAX_SEARCHED_INPUTS
        return Sample.of(self.clients, self.X, max_rows=MAX_SEARCHED_ROWS, max_items=max_items)

    @property
    def range_y(self) -> tuple[float, float]:
        return float(self.y.min()), float(self.y.max())

    @property
    def limits_y(self) -> tuple[float, float]:
        """Wide enough for others: of a scale such as stars its ends, else half a range more; not below 0 if none is."""
        low, high = self.range_y
        halves = 2 * np.unique(self.y)
        if len(halves) <= MAX_LEVELS and (halves == np.round(halves)).all():
            return low, high
        return outward(low, high, OUTPUT_MARGIN)


# --- items ---


def _items(table: Table, roles: PilotRoles) -> tuple[Items, dict[str, list[Any]], list[str]]:
    """The items, the names in each row, None for one that is not in it, and a note about those."""
    assert roles.name is not None
    names = [None if is_missing(cell) else cell_text(cell) for cell in table.cells(roles.name)]
    tally = Counter(name for name in names if name is not None)
    if len(tally) < 2:
        raise InvalidData(f"{table.file}: expected at least two different items in {roles.name}, got {len(tally)}")
    if roles.catalogue is None:
        return Items(Catalogue([name for name, _ in tally.most_common()])), {roles.name: names}, []
    items = Items.read(roles.catalogue, roles.name, dates=roles.dates, encoding=roles.encoding)
    catalogue = items.catalogue
    unknown = [name for name in tally if name not in catalogue]
    rows = sum(tally[name] for name in unknown)
    note = f"{count(rows, 'row')} of {count(len(unknown), 'item')} not in {roles.catalogue.name}: {first_few(unknown)}"
    known = [name if name is not None and name in catalogue else None for name in names]
    return items, {roles.name: known}, [*items.notes, *[note] * bool(unknown)]


# --- rows ---


def _outputs(table: Table, target: str) -> tuple[Array, str]:
    """All of them, and their unit."""
    unit = table.unit(target)
    try:
        y = np.array(table.floats(target, unit=unit))
    except InvalidData:
        raise table.not_numbers(target, unit, advice=f"; {NO_OUTCOMES}") from None
    if reason := one_value(y, target):
        raise EmptyData(f"{table.file}: {reason}: choose another column with target=")
    return y, unit
