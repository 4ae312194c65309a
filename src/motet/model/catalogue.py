"""A public list of named inputs.

A row is the item's index and then its features, so that ``Identity`` can tell items apart and other kernels read
their features. Rows may be appended, never changed: whatever was learned stays about the same items.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from motet.arrays import Array, numbers
from motet.errors import EmptyData, InvalidData, NotFinite, UnknownName, WrongDimension


class Catalogue:
    """``names`` and, where items have features, one row of ``vectors`` for each."""

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
            raise InvalidData(f"catalogue names must be unique: {twice!r} comes twice")

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"Catalogue({len(self)} names, {self.vectors.shape[1]} features)"

    @property
    def rows(self) -> Array:
        """Every item as an input: (index, features)."""
        return np.column_stack([np.arange(len(self), dtype=float), self.vectors])

    @property
    def features(self) -> list[int]:
        """The columns of a row that hold features."""
        return list(range(1, 1 + self.vectors.shape[1]))

    @property
    def digest(self) -> str:
        """SHA-256 of names and vectors, the same on every machine."""
        names = json.dumps([self.names, self.vectors.shape]).encode()
        return hashlib.sha256(names + self.vectors.astype("<f8").tobytes()).hexdigest()

    def __contains__(self, name: str) -> bool:
        return name in self._index

    def look_up(self, names: Iterable[str]) -> Array:
        """The rows of some names."""
        index = [self._find(name) for name in names]
        return np.column_stack([np.asarray(index, dtype=float), self.vectors[index]])

    def _find(self, name: str) -> int:
        if name in self._index:
            return self._index[name]
        near = difflib.get_close_matches(str(name), self.names, n=3)
        hint = f"; did you mean {', '.join(map(repr, near))}?" if near else ""
        raise UnknownName(f"{name!r} is not among the catalogue's {len(self)} names{hint}")

    def name_rows(self, rows: Array) -> list[str]:
        """The names of some rows."""
        index = rows[:, 0]
        known = (index == np.floor(index)) & (index >= 0) & (index < len(self))
        at = np.where(known, index, 0).astype(np.intp)
        known &= (self.vectors[at] == rows[:, 1:]).all(axis=1)
        if not known.all():
            raise UnknownName(f"row {int(np.argmin(known))} is not one of the catalogue's {len(self)}, so has no name")
        return [self.names[i] for i in at]

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


def _vectors(vectors: Any, n: int) -> Array:
    array = np.empty((n, 0)) if vectors is None else numbers(vectors, "catalogue vectors") + 0.0
    if array.ndim != 2 or len(array) != n:
        raise WrongDimension(f"a catalogue of {n} names needs {n} rows of vectors, got an array of shape {array.shape}")
    if not np.isfinite(array).all():
        raise NotFinite(f"catalogue vectors must be finite; row {int(np.argwhere(~np.isfinite(array))[0, 0])} is not")
    array.flags.writeable = False
    return array
