"""Which column of a table is what: the task of each row (a client, in a study), its output, inputs, noise and name.

``Roles`` are of a table to fit or to plan with. ``Layout`` is what a study or a release says of its clients' tables:
these columns, and what inputs are. A release tells it in its ``names``, a server in ``GET /v1/study``; options of a
command name other columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from motet.errors import InvalidData
from motet.tables.catalogue import Catalogue
from motet.tables.columns import Columns
from motet.tables.files import Table
from motet.tables.missing import MISSING_VALUE, Missing, is_missing, missing_column
from motet.text import count

ID, NOISE = "id", "noise"  # columns that have the same name in every table
TABLE = {"client": "client", "target": "y", "name": "name"}  # other columns, of a study that names none
Interval: TypeAlias = tuple[float, float]


@dataclass(frozen=True)
class Roles:
    """``noise`` is each row's variance in units of the noise's, 1 if None; ``name`` an item's, instead of inputs."""

    task: str
    target: str
    inputs: tuple[str, ...] = ()
    noise: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", tuple(self.inputs))

    @classmethod
    def of_columns(
        cls,
        file: str,
        columns: Sequence[str],
        task: str,
        target: str,
        inputs: Iterable[str] | None = None,
        noise: str | None = None,
    ) -> Roles:
        """Inputs are by default all other columns but those of ids, and the noise is in the column of that name."""
        if noise is None and NOISE in columns and NOISE not in (inputs or ()):
            noise = NOISE
        if inputs is None:
            inputs = [column for column in columns if column and column not in (task, target, ID, noise)]
        roles = cls(task, target, tuple(inputs), noise)
        roles.check(file, columns)
        return roles

    @property
    def numbers(self) -> list[str]:
        """The columns of numbers."""
        return [*self.inputs, self.target, *([] if self.noise is None else [self.noise])]

    @property
    def names(self) -> list[str]:
        """All columns."""
        return [self.task, *([] if self.name is None else [self.name]), *self.numbers]

    @property
    def settings(self) -> list[tuple[str, str]]:
        """All columns but the task's, each with the setting that gives it its role."""
        roles = [("target", self.target), *(("inputs", one) for one in self.inputs)]
        return roles + [(role, one) for role, one in ((NOISE, self.noise), ("name", self.name)) if one is not None]

    def check(self, file: str, columns: Sequence[str], *, task: str = "task", chosen: bool = True) -> None:
        """Raises unless the columns are there, each in one role; inputs too, once they are ``chosen``. ``task`` is what
        the caller calls that one."""
        roles = [(task, self.task), *self.settings]
        for k, (role, column) in enumerate(roles):
            if column not in columns:
                raise missing_column(file, column, columns, role)
            if other := next((other for other, one in roles[:k] if one == column), None):
                message = f"{other}= and {role}= must be different columns, both are {column!r}"
                twice = f"{role}= must be different columns, {column!r} is there twice"
                raise InvalidData(twice if other == role else message, where=role)
        if chosen and not self.inputs:
            got = f"expected columns of inputs beside {self.task} and {self.target}, got none"
            raise InvalidData(f"{file}: {got}", where="inputs")


@dataclass(frozen=True, eq=False, kw_only=True)
class Layout:
    """Inputs are names in a ``catalogue``, cells of ``columns``, or ``dimension`` numbers in the order of the table.

    ``client``, ``target`` and ``name`` are columns, ``unit`` is that of outputs. ``bounds`` are of the inputs that are
    numbers without a name, ``limits`` of outputs, if they are known; ``units`` has such inputs by their names, if
    somebody named them. With ``skip_missing`` rows that lack a value are left out.
    """

    catalogue: Catalogue | None = None
    columns: Columns | None = None
    dimension: int | None = None
    client: str = "client"
    target: str = "y"
    name: str = "name"
    unit: str = ""
    units: Mapping[str, str] = field(default_factory=dict)
    bounds: tuple[Interval | None, ...] = ()
    limits: Interval | None = None
    skip_missing: bool = False
    encoding: str | None = None  # of tables that are not in UTF-8
    client_is_given: bool = False  # by whoever has the table, so it has to be there

    def changed(self, *, client: str | None = None, skip_missing: bool = False, **others: str | None) -> Layout:
        """With another ``client``, ``target``, ``name``, ``unit`` and ``encoding``, where they are given."""
        given: dict[str, Any] = {key: value for key, value in {"client": client, **others}.items() if value}
        return replace(self, **given, skip_missing=skip_missing, client_is_given=client is not None)

    # --- columns of a table ---

    def of_table(self, table: Table) -> Layout:
        """With ``client`` as the column of clients, if the table has that one and not the study's."""
        is_input = self.columns is not None and TABLE["client"] in self.columns.names
        if self.client in table.columns or TABLE["client"] not in table.columns or self.client_is_given or is_input:
            return self
        return replace(self, client=TABLE["client"])

    @property
    def id(self) -> str | None:
        """The column of the examples' ids; None if the column of that name is of clients or items."""
        taken = (self.client, self.name) if self.catalogue is not None else (self.client,)
        return None if ID in taken else ID

    @property
    def reserved(self) -> tuple[str, ...]:
        """Columns that are not inputs."""
        return self.client, ID, self.target, NOISE

    def inputs(self, table: Table) -> list[str]:
        """The columns of the inputs; raises unless the table has them."""
        if self.catalogue is not None:
            table.require(self.name, role="name")
            return [self.name]
        if self.columns is not None:
            for name in self.columns.names:
                table.require(name)
            return list(self.columns.names)
        if any(column in table.columns for column in self.units):
            table.require(*self.units)
            return list(self.units)
        columns = [column for column in table.columns if column not in self.reserved]
        if not columns or (self.dimension is not None and len(columns) != self.dimension):
            expected = "input columns" if self.dimension is None else count(self.dimension, "input column")
            got = f"{len(columns)}: {', '.join(columns)}" if columns else "none"
            raise InvalidData(f"{table.file}: expected {expected} beside {', '.join(self.reserved)}, got {got:.80}")
        return columns

    def needed(self, table: Table, *, client: bool = False, target: bool = False) -> list[str]:
        """The columns of inputs, and of clients and outputs if asked for; raises unless the table has them."""
        if client:
            self.require_client(table)
        if target:
            table.require(self.target, role="target")
        return [*[self.client] * client, *self.inputs(table), *[self.target] * target]

    def require_client(self, table: Table) -> None:
        table.require(self.client, role="client")

    def unused(self, table: Table) -> list[str]:
        """Columns of a table of examples that are of no use."""
        used = {*self.reserved, *self.inputs(table)}
        return [column for column in table.columns if column not in used]

    # --- missing values ---

    def complete(self, table: Table, needed: list[str]) -> Table:
        """The table without rows that lack a value in a needed column; raises if there is one, unless they may be
        left out."""
        missing = Missing.of({column: list(map(self._lacks(column), table.cells(column))) for column in needed})
        if not self.skip_missing:
            missing.check(lambda k, column: table.refusal(k, column, MISSING_VALUE))
        return table.only(missing.complete, left_out=missing.left_out) if missing.left_out else table

    def _lacks(self, column: str) -> Callable[[Any], bool]:
        """Which cells are missing there; a word for that may also be a name, of an item or, unless rows may be left
        out, of a client."""
        if column == self.client and not self.skip_missing:
            return lambda cell: is_missing(cell) and not isinstance(cell, str)
        if self.catalogue is not None and column == self.name:
            catalogue = self.catalogue
            return lambda cell: is_missing(cell) and (cell is None or str(cell) not in catalogue)
        columns = {one.name: one for one in self.columns or ()}
        return columns[column].lacks if column in columns else is_missing
