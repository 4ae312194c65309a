"""The model that a regressor's settings mean for some rows: its kernels, its bias and its basis, before any search.

What is ``"auto"`` follows from the rows, as ``defaults`` says it; what would take long is made simpler, with a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal, Protocol

from sklearn.gaussian_process.kernels import Kernel

from motet.learning import defaults
from motet.learning.rows import Rows
from motet.model.basis import BasisSpec, Bias
from motet.model.model import Model
from motet.model.tasks import MAX_DENSE_ROWS


class Settings(Protocol):
    """Of a regressor, as they are given."""

    common: Kernel | str | None
    individual: Kernel | str
    alpha: float
    lam: float
    bias: Bias | Sequence[str] | defaults.Auto
    basis: BasisSpec | defaults.Auto | None
    sigma2: float | None
    optimizer: Literal["evidence"] | None


def model_of(reg: Settings, rows: Rows) -> Model:
    """The model to fit, or to start a search from."""
    common, individual = _kernels(reg, rows)
    bias = defaults.bias(reg.bias, rows.X, list(getattr(reg, "feature_names_in_", [])))
    most = defaults.MAX_GROWING_INPUTS if reg.optimizer is None else defaults.MAX_SEARCHED_INPUTS
    basis = defaults.basis(reg.basis, common, rows.inputs, most=most)
    if basis is None and common is not None and len(rows.inputs) > defaults.MAX_GROWING_INPUTS:
        warnings.warn(
            f"{len(rows.inputs)} different inputs make a growing basis slow: its time grows with their cube; "
            f'basis="auto" takes {defaults.LANDMARKS} landmarks among them instead',
            UserWarning,
            stacklevel=4,
        )
    return Model(common, individual, reg.alpha, reg.lam, bias, basis, reg.sigma2)


def _kernels(reg: Settings, rows: Rows) -> tuple[Kernel | None, Kernel]:
    """Of the average and of the shifts; names and "auto" read scaled inputs."""
    if not isinstance(reg.common, str) and not isinstance(reg.individual, str):
        return reg.common, reg.individual
    alone = rows.single_task and reg.common == "auto"  # of one task, average and shift cannot be told apart
    scaling = defaults.Scaling.of(rows.X, 1.0 / rows.noise)
    smooth_shift, smooth_average = _affordable(reg, rows)
    average = None if alone or not smooth_average else defaults.average(scaling)
    shift = defaults.average(scaling) if alone and smooth_shift else defaults.shift(scaling, smooth=smooth_shift)
    return defaults.kernel(reg.common, scaling, average), defaults.kernel(reg.individual, scaling, shift)


def _affordable(reg: Settings, rows: Rows) -> tuple[bool, bool]:
    """Whether the shifts, and the average, may have a smooth part if they are ``"auto"``; warns of those that not.

    A long task's own smooth part costs some hundred numbers for each of its rows.
    """
    if rows.longest <= MAX_DENSE_ROWS:
        return True, True
    smooth_shift = len(rows.y) <= defaults.MAX_SMOOTH_ROWS
    smooth_average = len(rows.inputs) <= defaults.MAX_SMOOTH_INPUTS
    linear = [
        *(["the shifts"] if reg.individual == "auto" and not smooth_shift else []),
        *(["the average"] if reg.common == "auto" and not smooth_average else []),
    ]
    if linear:
        warnings.warn(
            f"{len(rows.y)} rows, up to {rows.longest} of a task: {' and '.join(linear)} are linear, because "
            "smooth functions of so many would take long; name the kernels, or thin the rows out, for others",
            UserWarning,
            stacklevel=5,
        )
    return smooth_shift, smooth_average
