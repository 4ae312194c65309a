"""A client's coefficients, between it and its server as JSON.

Reading trusts nothing: whatever is not a client's coefficients is refused as ``InvalidRelease``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from motet.arrays import BOUND, Array, numbers, outputs
from motet.errors import InvalidRelease, MotetError
from motet.kernels import check_dimension
from motet.model.spec import from_spec, to_spec
from motet.model.tasks import Own
from motet.release.disclosed import Coefficients

BROKEN = (MotetError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


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
