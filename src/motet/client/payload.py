"""Examples as a client sends them: checked, and each with an id by which the server counts it once."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np

from motet.arrays import MAX_MAGNITUDE, finite_number, is_finite, numbers, outputs
from motet.errors import EmptyData, InvalidData, NotFinite, WrongDimension
from motet.tables.columns import doubled
from motet.tables.missing import is_missing


def examples_to_list(X: Any, y: Any, noise: Any = None, ids: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Examples as the objects of a request; without ``ids`` each gets a random one."""
    inputs = _inputs(X)
    y, noise = outputs(y, noise, len(inputs))
    if not inputs:
        raise EmptyData("nothing to send: expected at least one example")
    ids = [uuid.uuid4().hex for _ in inputs] if ids is None else _checked_ids(ids, len(inputs))
    rows = zip(ids, inputs, y.tolist(), noise.tolist())
    return [{"id": id, "x": x, "y": y, "noise": w} for id, x, y, w in rows]


def check_id(id: Any) -> str:
    """An id is a part of an address, so it must not lead to another one."""
    if not isinstance(id, str) or not id.isprintable() or id in ("", ".", "..") or "/" in id or "\\" in id:
        raise InvalidData(f"an id is a text without slashes or line ends, and not only dots, got {id!r:.60}")
    return id


def _checked_ids(ids: Sequence[str], n: int) -> list[str]:
    checked = [] if isinstance(ids, str) else [check_id(id) for id in ids]
    if len(checked) != n:
        raise WrongDimension(f"expected a list of {n} ids, one for each input, got {ids!r:.60}")
    return checked


def _inputs(X: Any) -> list[str | list[float] | dict[str, Any]]:
    """Inputs as the server takes them: names, lists of numbers, or objects of cells by column."""
    if isinstance(X, Mapping) or hasattr(X, "columns"):
        X = _records(X)
    X = X.to_numpy() if hasattr(X, "to_numpy") else X
    if isinstance(X, (str, bytes)) or not np.iterable(X):
        raise InvalidData(f"expected a list of inputs, each a name, numbers, or cells by column, got {X!r:.60}")
    return [
        str(x) if isinstance(x, str) else _object(x, k) if isinstance(x, Mapping) else _vector(x)
        for k, x in enumerate(X)
    ]


def _records(X: Any) -> list[dict[str, Any]]:
    """The rows of a data frame, or of a mapping of columns."""
    names = [str(name) for name in (X.columns if hasattr(X, "columns") else X)]
    for name in names:
        if names.count(name) > 1:
            raise doubled(name)
    columns = {name: X[name] for name in names}
    for name, cells in columns.items():
        if isinstance(cells, (str, Mapping)) or not np.iterable(cells):
            raise InvalidData(f"expected a column of cells for each input, got {cells!r:.60} for {name!r}")
    columns = {name: list(cells) for name, cells in columns.items()}
    lengths = sorted(set(map(len, columns.values())))
    if len(lengths) > 1:
        raise WrongDimension(f"expected columns of equal length, got {lengths[0]} and {lengths[-1]} cells")
    return [dict(zip(names, row)) for row in zip(*columns.values())]


def _object(x: Mapping[Any, Any], k: int) -> dict[str, Any]:
    return {str(name): _cell(cell, f"input {k}, {name}") for name, cell in x.items()}


def _cell(cell: Any, where: str) -> str | float | bool:
    """A cell for JSON: text, a truth value, a finite number, or a date in ISO 8601."""
    if is_missing(cell):
        raise InvalidData(f"{where}: expected a value, got nothing: fill it in, or leave the input out")
    if isinstance(cell, (str, bool, np.bool_)):
        return str(cell) if isinstance(cell, str) else bool(cell)
    if isinstance(cell, np.datetime64):
        return str(np.datetime_as_string(cell, unit="s"))
    if isinstance(cell, date):
        return cell.isoformat()
    if (number := finite_number(cell)) is None:
        raise InvalidData(f"{where}: expected a number, a text or a date, got {cell!r:.60}")
    return number


def _vector(x: Any) -> list[float]:
    vector = numbers(x, "inputs")
    if vector.ndim != 1 or not vector.size:
        raise WrongDimension(f"an input must be a name or a list of numbers, got {x!r:.60}")
    if not is_finite(vector).all():
        raise NotFinite(f"inputs must be finite (below {MAX_MAGNITUDE:g}), got {x!r:.60}")
    return vector.tolist()
