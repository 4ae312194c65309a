"""Settings as they are given, and defaults: the fullest structure, scales and landmarks from the inputs.

There the average is smooth beside a linear bias, and a shift is an intercept, slopes and a smooth part. What lies high
often rises fast, so intercept and slopes may correlate. All kernels read inputs that are scaled inside, so that units
do not matter and nobody else need know them. Which of these parts the rows ask for is chosen in ``structures``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from motet.arrays import Array
from motet.engine.condensation import is_linear
from motet.engine.system import MAX_OFFSET, Method, is_far
from motet.errors import InvalidModel, warn
from motet.kernels import algebra
from motet.kernels.classes import RBF, ConstantKernel, DotProduct, Kernel, Linear, Scaled
from motet.kernels.gram import linear_factor
from motet.kernels.nystrom import pivots
from motet.kernels.spec import from_spec
from motet.model.basis import BasisSpec, Bias, Features, Landmarks
from motet.model.model import Model
from motet.model.tasks import MAX_DENSE_ROWS
from motet.tables.catalogue import Catalogue
from motet.tables.columns import Columns
from motet.tables.rows import Rows
from motet.text import first_few, suggestion
from motet.tuning.components import SIDES, Side

Auto: TypeAlias = Literal["auto"]
NAMED_KERNELS = {"dot_product": {"sigma_0": 0.0}}  # parameters of a kernel given by its name, if not the defaults
MAX_ARD_COLUMNS = 6  # up to which every column has a length scale of its own
MAX_CORRELATED_COLUMNS = 3  # up to which a shift's slopes may correlate with each other and with its intercept
MAX_GROWING_INPUTS = 1500  # different inputs, above which a basis that grows would take long
MAX_SEARCHED_INPUTS = 500  # the same, for a search over many fits
LANDMARKS, CANDIDATE_INPUTS = 200, 1500  # chosen among so many
MAX_SMOOTH_ROWS = 2**18  # of all tasks, if some are so long that each has landmarks: above, shifts have no smooth part
MAX_SMOOTH_INPUTS = 2**19  # different ones, above which the average of such tasks has none: 200 landmarks at each, 1 GB
ROWS_PER_SLOPE = 3  # at least, for a linear bias
TUNING_ROWS = 20_000  # that settings are chosen on
OF_SIDE: dict[Side, str] = {"average": "the average", "individual": "the shifts"}
STRUCTURE_ROWS = 1_500  # that a structure is chosen on
TASK_ROWS = 300  # the same, of a long task whose model is not linear


@dataclass(frozen=True, eq=False, kw_only=True)
class Settings:
    """What a regressor is given, of which ``model`` makes a model for the rows at hand.

    Numbers of a model that is not linear are searched on about ``tuning_rows`` rows, and ``task_rows`` of a long task
    (None: on all), with at most ``evaluations``. A basis that is ``"auto"`` grows up to ``growing_inputs`` different
    inputs, and has so many ``landmarks`` above.
    """

    common: Kernel | str | None = "auto"
    individual: Kernel | str = "auto"
    alpha: float = 0.5
    lam: float = 0.1
    bias: Bias | Sequence[str] | Auto = "auto"
    basis: BasisSpec | Auto | None = "auto"
    sigma2: float | None = None
    catalogue: Catalogue | None = None
    columns: Columns | None = None
    names: Sequence[str] = ()  # of the inputs, by which a bias may name them
    optimizer: Literal["evidence"] | None = "evidence"
    method: Method = "REML"
    tuning_rows: int | None = TUNING_ROWS
    task_rows: int | None = field(default_factory=lambda: TASK_ROWS)
    evaluations: int | None = None
    growing_inputs: int = MAX_GROWING_INPUTS
    landmarks: int = LANDMARKS

    @classmethod
    def of(cls, model: Model, **others: Any) -> Settings:
        """Those of a model, and others."""
        return cls(**{one.name: getattr(model, one.name) for one in fields(model)} | others)

    def model(self, rows: Rows) -> Model:
        """The model to fit, or to start a search from; what would take long is made simpler, with a warning."""
        common, individual = self._kernels(rows)
        most = MAX_GROWING_INPUTS if self.optimizer is None else MAX_SEARCHED_INPUTS
        chosen = basis(self.basis, common, rows.inputs, most=most)
        if chosen is None and common is not None and len(rows.inputs) > MAX_GROWING_INPUTS:
            warn(
                f"{len(rows.inputs)} different inputs make a growing basis slow: its time grows with their cube; "
                f'basis="auto" takes {LANDMARKS} landmarks among them instead'
            )
        numbers = self.alpha, self.lam, self._bias(rows), chosen, self.sigma2
        return Model(common, individual, *numbers, self.catalogue, self.columns)

    def chooses(self, rows: Rows) -> bool:
        """Whether the parts of a side are to be chosen; of one task, average and shift cannot be told apart."""
        return bool(self.auto_sides) and not rows.single_task and self.optimizer is not None

    def _bias(self, rows: Rows) -> Bias:
        """Constant if a linear one would lose its digits, as of seconds since 1970: a linear average has its slopes."""
        is_chosen = self.bias == self.common == "auto" and self.chooses(rows)
        if is_chosen and is_far(rows.X, MAX_OFFSET / 2).any():
            return "constant"
        return bias(self.bias, rows.X, self.names)

    def _kernels(self, rows: Rows) -> tuple[Kernel | None, Kernel]:
        """Of the average and of the shifts; names and "auto" read scaled inputs."""
        if not isinstance(self.common, str) and not isinstance(self.individual, str):
            return self.common, self.individual
        alone = rows.single_task and self.common == "auto"  # of one task, average and shift cannot be told apart
        scaling = Scaling.of(rows.X, 1.0 / rows.noise)
        smooth = self.smooth_sides(rows)
        if linear := [OF_SIDE[side] for side in SIDES[::-1] if side in self.auto_sides and side not in smooth]:
            warn(
                f"{len(rows.y)} rows, up to {rows.longest} of a task: {' and '.join(linear)} are linear, because "
                "smooth functions of so many would take long; name the kernels, or thin the rows out, for others"
            )
        auto = None if alone or "average" not in smooth else average(scaling)
        is_smooth = "individual" in smooth
        auto_shift = average(scaling) if alone and is_smooth else shift(scaling, smooth=is_smooth)
        individual = kernel(self.individual, scaling, auto_shift)
        assert individual is not None
        return kernel(self.common, scaling, auto), individual

    def smooth_sides(self, rows: Rows) -> tuple[Side, ...]:
        """The sides that may have a smooth part: of a long task it costs some hundred numbers for each of its rows."""
        if rows.longest <= MAX_DENSE_ROWS:
            return SIDES
        is_affordable = len(rows.inputs) <= MAX_SMOOTH_INPUTS, len(rows.y) <= MAX_SMOOTH_ROWS
        return tuple(side for side, affordable in zip(SIDES, is_affordable) if affordable)

    @property
    def auto_sides(self) -> tuple[Side, ...]:
        """The sides whose parts are not given."""
        return tuple(side for side, given in zip(SIDES, (self.common, self.individual)) if given == "auto")

    def sample(self, rows: Rows, model: Model) -> Rows:
        """The rows that a model's numbers are searched on: all of a linear one, because there they are cheap."""
        if is_linear(model, rows.X.shape[1]):
            return rows
        if self.task_rows is not None and rows.longest > MAX_DENSE_ROWS:
            rows = rows.thinned(self.task_rows)
        if self.tuning_rows is not None and not has_levels(model.common, model.individual):
            rows = rows.sample(self.tuning_rows)
        return rows

    def with_basis(self, model: Model, inputs: Array) -> Model:
        """The model with the basis for its kernel on these inputs, if that is ``"auto"``."""
        if not isinstance(self.basis, str):
            return model
        chosen = basis(self.basis, model.common, inputs, most=self.growing_inputs, count=self.landmarks)
        return replace(model, basis=chosen)


@dataclass(frozen=True, eq=False)
class Scaling:
    """The inputs' mean and standard deviation; rows count by their weight."""

    center: Array
    scale: Array
    is_constant: bool

    @classmethod
    def of(cls, X: Array, weight: Array) -> Scaling:
        total = weight.sum()
        center = weight @ X / total
        square = X - center
        square *= square
        deviation = np.where((X[0] != X).any(axis=0), np.sqrt(weight @ square / total), 0.0)
        return cls(center, np.where(deviation > 0, deviation, 1.0), not deviation.any())

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
                columns = f"{first_few(names) or 'no names'}{suggestion(name, names)}"
                raise InvalidModel(f"bias has the column {name!r}, the inputs have {columns}")
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
    return any(algebra.has_levels(kernel) for kernel in kernels if kernel is not None)


def landmarks(inputs: Array, count: int = LANDMARKS) -> Array:
    """Some of the inputs, distributed as they are: the pivots of a smooth kernel over a sample."""
    smooth = Scaling.of(inputs, np.ones(len(inputs))).kernel(RBF(0.3 * np.sqrt(inputs.shape[1])))
    return pivots(inputs, count, smooth, CANDIDATE_INPUTS)
