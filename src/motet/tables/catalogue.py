"""A public list of named inputs.

A row is the item's index and then its features, so that ``Identity`` can tell items apart and other kernels read
their features. Rows may be appended, never changed: all that was learned stays about the same items.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from motet.arrays import Array, Index, is_finite, numbers
from motet.errors import EmptyData, InvalidData, NotFinite, UnknownName, WrongDimension
from motet.tables.files import Table, cell_number, read
from motet.text import suggestion


class Catalogue:
    """``names`` and, if items have features, one row of ``vectors`` for each."""

    def __init__(self, names: Sequence[str], vectors: Any = None) -> None:
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise InvalidData(f"a catalogue needs a list of names, got {names!r:.60}")
        self.names = tuple(str(name) for name in names)
        self.vectors = _vectors(vectors, len(self.names))
        self._index = {name: i for i, name in enumerate(self.names)}
        if not self.names:
            raise EmptyData("a catalogue needs at least one name")
        if len(self._index) < len(self.names):
            twice = next(name for i, name in enumerate(self.names) if self._index[name] != i)
            raise InvalidData(f"catalogue names must be unique: {twice!r} is there twice")

    @classmethod
    def from_csv(cls, path: Path, *, normalise: bool = False) -> Catalogue:
        """A file with a header and a row for each item, its name first, then numeric features; see ``from_table``."""
        return cls.from_table(read(path, by_place=True), normalise=normalise)

    @classmethod
    def from_table(cls, table: Table, *, normalise: bool = False) -> Catalogue:
        """Items with their names in the first column; ``normalise`` scales each item's features to unit length."""
        features = range(1, len(table.columns))
        if features and all(cell_number(table.columns[at]) is not None for at in features):
            header = ",".join(table.columns)
            raise InvalidData(f"{table.file}, row 1: expected a header such as name, feature; got {header!r:.60}")
        names = table.names(0)
        if not features:
            return cls(names)
        try:
            columns = [table.floats(at) for at in features]
        except InvalidData as error:
            raise error.reworded(f"{error}; motet init makes columns of words and lists") from None
        Z = np.ascontiguousarray(np.array(columns).T)  # another order rounds differently
        if normalise:
            if not (nonzero := Z.any(axis=1)).all():
                where = f"{table.file}, row {table.numbers[int(np.argmin(nonzero))]}"
                raise InvalidData(f"{where}: expected a feature other than 0 to normalise, got none; correct the row")
            Z /= np.abs(Z).max(axis=1, keepdims=True)  # so that no square overflows
            Z /= np.linalg.norm(Z, axis=1, keepdims=True)
        return cls(names, Z)

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"Catalogue({len(self)} names, {self.vectors.shape[1]} features)"

    def __contains__(self, name: str) -> bool:
        return name in self._index

    @property
    def rows(self) -> Array:
        """Every item as an input: (index, features)."""
        return self._rows(np.arange(len(self)))

    @property
    def features(self) -> list[int]:
        """The columns of a row that hold features."""
        return list(range(1, 1 + self.vectors.shape[1]))

    @property
    def digest(self) -> str:
        """SHA-256 of names and vectors, the same on every machine."""
        names = json.dumps([self.names, self.vectors.shape]).encode()
        return hashlib.sha256(names + self.vectors.astype("<f8").tobytes()).hexdigest()

    def look_up(self, names: Iterable[str]) -> Array:
        """The rows of some names."""
        index = []
        for name in names:
            if name not in self._index:
                hint = suggestion(str(name), self.names, n=3)
                raise UnknownName(f"{name!r} is not among the catalogue's {len(self)} names{hint}")
            index.append(self._index[name])
        return self._rows(index)

    def name_rows(self, rows: Array) -> list[str]:
        """The names of some rows."""
        index = rows[:, 0]
        valid = (index == np.floor(index)) & (index >= 0) & (index < len(self))
        item = np.where(valid, index, 0).astype(np.intp)
        valid &= (self.vectors[item] == rows[:, 1:]).all(axis=1)
        if not valid.all():
            raise UnknownName(f"row {int(np.argmin(valid))} is not one of the catalogue's {len(self)}, so has no name")
        return [self.names[i] for i in item]

    def appended(self, names: Sequence[str], vectors: Any = None) -> Catalogue:
        """A longer catalogue whose first rows are these."""
        more = Catalogue(names, vectors)
        if more.vectors.shape[1] != self.vectors.shape[1]:
            raise WrongDimension(
                f"the catalogue has {self.vectors.shape[1]} features, the new rows have {more.vectors.shape[1]}"
            )
        return Catalogue(self.names + more.names, np.vstack([self.vectors, more.vectors]))

    def to_spec(self) -> dict[str, Any]:
        return {"names": list(self.names), "vectors": self.vectors.tolist()}

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> Catalogue:
        vectors = numbers(spec["vectors"], "catalogue vectors")
        return cls(spec["names"], vectors if vectors.size else None)

    def _rows(self, index: Sequence[int] | Index) -> Array:
        return np.column_stack([np.asarray(index, dtype=float), self.vectors[index]])


def _vectors(vectors: Any, n: int) -> Array:
    array = np.empty((n, 0)) if vectors is None else numbers(vectors, "catalogue vectors") + 0.0
    if array.ndim != 2 or len(array) != n:
        raise WrongDimension(f"a catalogue of {n} names needs {n} rows of vectors, got an array of shape {array.shape}")
    if not (good := is_finite(array)).all():
        raise NotFinite(f"catalogue vectors must be finite; row {int(np.argwhere(~good)[0, 0])} is not")
    array.flags.writeable = False
    return array
