"""What a model is without any setting: structure, scales and landmarks from the inputs alone, numbers to start from.

The average is smooth beside a linear bias; a shift is an intercept, slopes and a smooth part. What lies high often
rises fast, so intercept and slopes may correlate. All kernels read inputs that are scaled inside, so that units do not
matter and nobody else need know them. Which of these parts the data ask for, and how large they are, is for the
evidence to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from motet.arrays import Array
from motet.errors import InvalidModel
from motet.kernels import RBF, ConstantKernel, DotProduct, Identity, Kernel, Linear, Scaled
from motet.learning.components import leaves
from motet.model.basis import BasisSpec, Bias, Features, Landmarks
from motet.model.gram import linear_factor
from motet.model.own_landmarks import spread
from motet.model.spec import from_spec
from motet.text import first_few, suggestion

Auto: TypeAlias = Literal["auto"]
NAMED_KERNELS = {"dot_product": {"sigma_0": 0.0}}  # parameters of a kernel given by its name, if not the defaults
MAX_ARD_COLUMNS = 6  # up to which every column has a length scale of its own
MAX_CORRELATED_COLUMNS = 3  # up to which a shift's slopes may correlate with each other and with its intercept
MAX_GROWING_INPUTS = 1500  # different inputs, above which a basis that grows would take long
MAX_SEARCHED_INPUTS = 500  # the same, for a search over many fits
LANDMARKS, SAMPLED_INPUTS = 200, 1500  # chosen among so many
MAX_SMOOTH_ROWS = 2**18  # of all tasks, if some are so long that each has landmarks: above, shifts have no smooth part
MAX_SMOOTH_INPUTS = 2**19  # different ones, above which the average of such tasks has none: 200 landmarks at each, 1 GB
ROWS_PER_SLOPE = 3  # at least, for a linear bias


@dataclass(frozen=True, eq=False)
class Scaling:
    """Where the inputs are, and how far they spread; rows count by their weight."""

    center: Array
    scale: Array
    is_constant: bool

    @classmethod
    def of(cls, X: Array, weight: Array) -> Scaling:
        total = weight.sum()
        center = weight @ X / total
        square = X - center
        square *= square
        spread = np.where((X[0] != X).any(axis=0), np.sqrt(weight @ square / total), 0.0)
        return cls(center, np.where(spread > 0, spread, 1.0), not spread.any())

    def kernel(self, kernel: Kernel) -> Kernel:
        """A kernel that reads inputs without their units."""
        return Scaled(kernel, self.center.tolist(), self.scale.tolist())

    @property
    def smooth(self) -> Kernel:
        """RBF, with a length scale for every column if these are few."""
        columns = len(self.scale)
        return self.kernel(RBF(np.ones(columns) if 1 < columns <= MAX_ARD_COLUMNS else float(np.sqrt(columns))))


def average(scaling: Scaling) -> Kernel:
    """A smooth function."""
    return scaling.smooth


def shift(scaling: Scaling, slopes: Scaling | None = None, *, smooth: bool = True) -> Kernel:
    """An intercept and slopes, correlated if columns are few, otherwise of a scaling of their own if that is given; and
    a ``smooth`` function."""
    if scaling.is_constant:
        return ConstantKernel(1.0)
    columns = len(scaling.scale)
    if columns > MAX_CORRELATED_COLUMNS:
        linear = ConstantKernel(1.0) + (slopes or scaling).kernel(DotProduct(0.0))
    else:
        linear = scaling.kernel(Linear(np.eye(1 + columns).tolist()))
    return linear + ConstantKernel(1.0) * scaling.smooth if smooth else linear


def kernel(given: Kernel | str | None, scaling: Scaling, auto: Kernel | None) -> Kernel | None:
    """The kernel that a setting means: an object as it is, a name on scaled inputs, or ``auto``."""
    if not isinstance(given, str):
        return given
    if given == "auto":
        return auto
    if given == "linear":
        return scaling.kernel(Linear(np.eye(1 + len(scaling.scale)).tolist()))
    return scaling.kernel(from_spec({"kernel": given, **NAMED_KERNELS.get(given, {})}))


def bias(given: Any, X: Array, names: Sequence[str] = ()) -> Bias:
    """Linear, if there are rows enough for a slope in every column; columns may be given by their names."""
    if isinstance(given, (list, tuple)):
        for name in given:
            if isinstance(name, str) and name not in names:
                listed = f"{first_few(names) or 'no names'}{suggestion(name, names)}"
                raise InvalidModel(f"bias has the column {name!r}, the inputs have {listed}")
        return [names.index(name) if isinstance(name, str) else name for name in given]
    if given != "auto":
        return given
    return "linear" if len(X) >= ROWS_PER_SLOPE * (X.shape[1] + 1) else "constant"


def basis(
    given: Any, common: Kernel | None, inputs: Array, *, most: int = MAX_GROWING_INPUTS, count: int = LANDMARKS
) -> BasisSpec | None:
    """The one that grows, up to ``most`` different inputs; above, a linear kernel's columns, or ``count`` landmarks.

    Levels that only have a name always grow: none of them tells of another.
    """
    if given != "auto":
        return given
    if common is None or len(inputs) <= most or has_levels(common):
        return None
    return Features() if linear_factor(common, inputs.shape[1]) is not None else Landmarks(landmarks(inputs, count))


def has_levels(*kernels: Kernel | None) -> bool:
    """Whether some inputs only have a name, so that none of them tells of another."""
    return any(type(leaf) is Identity for kernel in kernels if kernel is not None for leaf, _ in leaves(kernel))


def landmarks(inputs: Array, count: int = LANDMARKS) -> Array:
    """Some of the inputs, spread as they are: the pivots of a smooth kernel over a sample."""
    smooth = Scaling.of(inputs, np.ones(len(inputs))).kernel(RBF(0.3 * np.sqrt(inputs.shape[1])))
    return spread(inputs, count, smooth, SAMPLED_INPUTS)
