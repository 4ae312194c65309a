"""What goes between a client and its server as JSON: examples one way, coefficients the other.

Both are checked here: examples before they are sent, coefficients when they are read. Reading trusts nothing:
whatever is not a client's coefficients is refused as ``InvalidRelease``.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from motet.arrays import BOUND, Array, numbers
from motet.disclosed import Coefficients
from motet.errors import EmptyData, InvalidData, InvalidRelease, MotetError, NotFinite, WrongDimension
from motet.kernels import check_dimension, from_spec, to_spec
from motet.task import Own, outputs

BROKEN = (MotetError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


def examples_to_list(X: Any, y: Any, noise: Any = None, ids: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Examples as they are sent; without ``ids`` each gets one that nobody else has."""
    inputs = _inputs(X)
    y, noise = outputs(y, noise, len(inputs))
    if not inputs:
        raise EmptyData("nothing to send: expected at least one example")
    ids = [uuid.uuid4().hex for _ in inputs] if ids is None else _ids(ids, len(inputs))
    rows = zip(ids, inputs, y.tolist(), noise.tolist())
    return [{"id": id, "x": x, "y": y, "noise": w} for id, x, y, w in rows]


def check_id(id: Any) -> str:
    """An id is a part of an address, so it must be none that leads elsewhere."""
    if not isinstance(id, str) or not id.isprintable() or id in ("", ".", "..") or "/" in id or "\\" in id:
        raise InvalidData(f"an id is a text without slashes or line ends, and no mere dots, got {id!r:.60}")
    return id


def _ids(ids: Sequence[str], n: int) -> list[str]:
    found = [] if isinstance(ids, str) else [check_id(id) for id in ids]
    if len(found) != n:
        raise WrongDimension(f"expected a list of {n} ids, one for each input, got {ids!r:.60}")
    return found


def _inputs(X: Any) -> list[str | list[float]]:
    X = X.to_numpy() if hasattr(X, "to_numpy") else X  # a data frame alone would give the names of its columns
    if isinstance(X, (str, bytes, Mapping)) or not np.iterable(X):
        raise InvalidData(f"expected a list of inputs, each a name or a list of numbers, got {X!r:.60}")
    return [str(x) if isinstance(x, str) else _vector(x) for x in X]


def _vector(x: Any) -> list[float]:
    found = numbers(x, "inputs")
    if found.ndim != 1 or not found.size:
        raise WrongDimension(f"an input must be a name or a list of numbers, got {x!r:.60}")
    if not (np.abs(found) < BOUND).all():
        raise NotFinite(f"inputs must be finite (below {BOUND:g}), got {x!r:.60}")
    return found.tolist()


def coefficients_to_dict(coefficients: Coefficients) -> dict[str, Any]:
    released = coefficients.released
    return {
        "release": coefficients.release,
        **_to_lists(coefficients.own),
        "a": coefficients.a.tolist(),
        "kernel": to_spec(coefficients.kernel),
        "released": None if released is None else _to_lists(released),
    }


def coefficients_from_dict(data: Any, dimension: int) -> Coefficients:
    """What ``coefficients_to_dict`` wrote; ``dimension`` is the number of columns of the release's inputs."""
    try:
        own = _own(data, dimension)
        released = None if data["released"] is None else _own(data["released"], dimension)
        a = _table(data["a"], (len(own.y),), "a")
        kernel = from_spec(data["kernel"])
        check_dimension(kernel, dimension)
        return Coefficients(release_of(data), own.X, own.y, own.noise, a, kernel, released)
    except BROKEN as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise InvalidRelease(f"not a client's coefficients: {what:.200}; ask the server's operator") from None


def release_of(data: Any) -> str:
    """The digest of the release that the coefficients are of."""
    digest = data.get("release") if isinstance(data, dict) else None
    if not isinstance(digest, str):
        raise InvalidRelease(f"not a client's coefficients: expected a release's digest, got {digest!r:.60}")
    return digest


def _to_lists(own: Own) -> dict[str, Any]:
    return {"inputs": own.X.tolist(), "y": own.y.tolist(), "noise": own.noise.tolist()}


def _own(data: Any, dimension: int) -> Own:
    if not isinstance(data, dict) or not all(isinstance(data[name], list) for name in ("inputs", "y", "noise")):
        raise InvalidRelease("expected lists of inputs, y and noise")
    n = len(data["y"])
    X = _table(data["inputs"], (n, dimension), "inputs") if n or data["inputs"] else np.empty((0, dimension))
    return Own(X, *outputs(data["y"], data["noise"], n))


def _table(values: Any, shape: tuple[int, ...], name: str) -> Array:
    found = numbers(values, name)
    if found.shape != shape or not (np.abs(found) < BOUND).all():
        raise InvalidRelease(f"expected {name} as finite numbers of shape {shape}, got {values!r:.60}")
    return found
