"""What the columns of a study's tables are: inputs, by their names or by their order, and client, output, noise and id.

A study tells it in ``GET /v1/study``, and a release in its ``names``, if it has any. Options of a command name other
columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from motet.client.responses import field_of
from motet.errors import InvalidData
from motet.files import Table, is_missing
from motet.model.catalogue import Catalogue
from motet.model.columns import Columns
from motet.text import count

if TYPE_CHECKING:
    from motet.model.model import Model
    from motet.release.disclosed import Disclosed

ID, NOISE = "id", "noise"  # columns that have the same name in every study
TABLE = {"client": "client", "target": "y", "name": "name"}  # other columns, of a study that names none
Interval = tuple[float, float]


@dataclass(frozen=True, eq=False, kw_only=True)
class Layout:
    """Inputs are names in a ``catalogue``, cells of ``columns``, or ``dimension`` numbers in the order of the table.

    ``client``, ``target`` and ``name`` are columns, ``unit`` is that of outputs. ``bounds`` are of the inputs that are
    numbers without a name, ``limits`` of outputs, if they are known; ``units``
    has such inputs by their names, if somebody named them. With ``skip_missing`` rows that lack a value are
    left out.
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

    @classmethod
    def of_study(cls, study: Mapping[str, Any]) -> Layout:
        """From the server's description of a study."""
        model, table = field_of(study, "model", dict), study.get("table", TABLE)
        bounds, limits, output = study.get("bounds"), study.get("limits"), study.get("output")
        spec = model.get("catalogue")
        vectors = {key: field_of(spec, key, list) for key in ("names", "vectors")} if spec is not None else None
        return cls(
            catalogue=None if vectors is None else Catalogue.from_spec(vectors),
            columns=Columns.from_spec(field_of(model, "columns", list)) if "columns" in model else None,
            dimension=field_of(study, "dimension", int),
            bounds=tuple(map(_interval, bounds)) if isinstance(bounds, list) else (),
            limits=_interval(limits.get("y")) if isinstance(limits, dict) else None,
            client=field_of(table, "client", str),
            target=field_of(table, "target", str),
            name=field_of(table, "name", str),
            unit=str(output.get("unit") or "") if isinstance(output, dict) else "",
        )

    @classmethod
    def of_model(cls, model: Model, dimension: int) -> Layout:
        """Of the inputs of a model; the other columns have their usual names."""
        return cls(catalogue=model.catalogue, columns=model.columns, dimension=dimension)

    @classmethod
    def of_release(cls, release: Disclosed) -> Layout:
        """With the columns that it names; else the usual ones."""
        layout = cls.of_model(release.model, release.dimension)
        if (names := release.names) is None:
            return layout
        about = {"client": names.client, "target": names.target, "name": names.item, "unit": names.unit}
        return replace(layout, **about, units=names.inputs)  # type: ignore[arg-type]

    def changed(
        self,
        *,
        client: str | None = None,
        target: str | None = None,
        name: str | None = None,
        unit: str | None = None,
        skip_missing: bool = False,
        encoding: str | None = None,
    ) -> Layout:
        """With other columns, if they are given."""
        return replace(
            self,
            client=client or self.client,
            target=target or self.target,
            name=name or self.name,
            unit=unit or self.unit,
            skip_missing=skip_missing,
            encoding=encoding or self.encoding,
            client_is_given=client is not None,
        )

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
            table.require(self.name, advice="name another: --name COLUMN")
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
            table.require(self.target, advice="name another: --target COLUMN")
        return [*[self.client] * client, *self.inputs(table), *[self.target] * target]

    def require_client(self, table: Table) -> None:
        table.require(self.client, advice="name another: --client COLUMN")

    def unused(self, table: Table) -> list[str]:
        """Columns of a table of examples that are of no use."""
        used = {*self.reserved, *self.inputs(table)}
        return [column for column in table.columns if column not in used]

    # --- missing values ---

    def complete(self, table: Table, needed: list[str]) -> Table:
        """The table without rows that lack a value in a needed column; raises if there is one, unless they may be
        left out."""
        lacking: dict[int, str] = {}
        for column in reversed(needed):
            lacks = self._lacks(column)
            lacking |= {k: column for k, cell in enumerate(table.cells(column)) if lacks(cell)}
        if not lacking:
            return table
        first = min(lacking)
        if not self.skip_missing:
            advice = "fill it in, or leave such rows out with --skip-missing"
            raise table.refusal(first, lacking[first], f"expected a value, got nothing: {advice}")
        return table.only((k for k in range(len(table.rows)) if k not in lacking), left_out=len(lacking))

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


def _interval(pair: Any) -> Interval | None:
    """Two numbers; None for anything else, as a server may have other limits."""
    right = isinstance(pair, list) and len(pair) == 2 and all(type(end) in (int, float) for end in pair)
    return (float(pair[0]), float(pair[1])) if right else None
