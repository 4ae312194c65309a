"""Examples as a client sends them: checked, and each with an id by which the server counts it once."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from motet.arrays import MAX_MAGNITUDE, is_finite, numbers, outputs
from motet.errors import EmptyData, InvalidData, NotFinite, WrongDimension


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


def _inputs(X: Any) -> list[str | list[float]]:
    X = X.to_numpy() if hasattr(X, "to_numpy") else X  # iterating a data frame gives the names of its columns
    if isinstance(X, (str, bytes, Mapping)) or not np.iterable(X):
        raise InvalidData(f"expected a list of inputs, each a name or a list of numbers, got {X!r:.60}")
    return [str(x) if isinstance(x, str) else _vector(x) for x in X]


def _vector(x: Any) -> list[float]:
    vector = numbers(x, "inputs")
    if vector.ndim != 1 or not vector.size:
        raise WrongDimension(f"an input must be a name or a list of numbers, got {x!r:.60}")
    if not is_finite(vector).all():
        raise NotFinite(f"inputs must be finite (below {MAX_MAGNITUDE:g}), got {x!r:.60}")
    return vector.tolist()
