"""An active client's coefficients a (dual, or representer weights) and its folded examples, as the server sends them.

Reading trusts nothing: whatever is not a client's coefficients is refused as ``InvalidRelease``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from motet.arrays import Array, is_finite, numbers, outputs
from motet.errors import InvalidRelease, MotetError
from motet.kernels.classes import check_dimension
from motet.kernels.spec import from_spec, to_spec
from motet.model.tasks import Task

UNREADABLE = (MotetError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


@dataclass(frozen=True, eq=False)
class Coefficients:
    """An active client's folded examples and their coefficients aʲ.

    ``released`` are its examples in the release, if they have changed since; None if they have not.
    """

    release: str  # its digest
    inputs: Array
    y: Array
    noise: Array
    a: Array
    kernel: Kernel
    released: Task | None = None

    @property
    def task(self) -> Task:
        return Task(self.inputs, self.y, self.noise)

    def to_dict(self) -> dict[str, Any]:
        return {
            "release": self.release,
            **_to_lists(self.task),
            "a": self.a.tolist(),
            "kernel": to_spec(self.kernel),
            "released": None if self.released is None else _to_lists(self.released),
        }

    @classmethod
    def from_dict(cls, data: Any, dimension: int) -> Coefficients:
        """What ``to_dict`` wrote; ``dimension`` is the number of columns of the release's inputs."""
        try:
            task = _task(data, dimension)
            released = None if data["released"] is None else _task(data["released"], dimension)
            a = _table(data["a"], (len(task.y),), "a")
            kernel = from_spec(data["kernel"])
            check_dimension(kernel, dimension)
            return cls(release_digest(data), task.X, task.y, task.noise, a, kernel, released)
        except UNREADABLE as error:
            what = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise InvalidRelease(f"not a client's coefficients: {what:.200}; ask the server's operator") from None


def release_digest(data: Any) -> str:
    """The digest of the release that the coefficients, as JSON, belong to."""
    digest = data.get("release") if isinstance(data, dict) else None
    if not isinstance(digest, str):
        raise InvalidRelease(f"not a client's coefficients: expected a release's digest, got {digest!r:.60}")
    return digest


def _to_lists(task: Task) -> dict[str, Any]:
    return {"inputs": task.X.tolist(), "y": task.y.tolist(), "noise": task.noise.tolist()}


def _task(data: Any, dimension: int) -> Task:
    if not isinstance(data, dict) or not all(isinstance(data[name], list) for name in ("inputs", "y", "noise")):
        raise InvalidRelease("expected lists of inputs, y and noise")
    n = len(data["y"])
    X = _table(data["inputs"], (n, dimension), "inputs") if n or data["inputs"] else np.empty((0, dimension))
    return Task(X, *outputs(data["y"], data["noise"], n))


def _table(values: Any, shape: tuple[int, ...], name: str) -> Array:
    table = numbers(values, name)
    if table.shape != shape or not is_finite(table).all():
        raise InvalidRelease(f"expected {name} as finite numbers of shape {shape}, got {values!r:.60}")
    return table
