"""What is shown of components: variances, correlations and length scales in the units of outputs and inputs.

A search goes over logarithms of ratios to the noise's variance, and over numbers of covariances. Standard errors of
what is shown follow by the delta method: on the logarithm of variances and lengths, and on atanh of correlations, so
that intervals stay in their range.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from motet.arrays import Array
from motet.kernels.algebra import innermost, leaves_in_units
from motet.kernels.classes import Kernel
from motet.kernels.derivatives import DIFFERENCE_STEP
from motet.kernels.gram import linear_form
from motet.kernels.registry import Size, entry_of
from motet.tuning.components import Component, Components

INTERCEPT = "intercept"
MAX_LOG_ERROR = 10.0  # of a logarithm: beyond, nothing is known of the number
MAX_CORRELATION = 1.0 - 1e-9
MAX_LISTED_COLUMNS = 6  # above which one number that is about all of them is shown once


@dataclass(frozen=True, eq=False)
class Part:
    """A variance, in units of the noise's: of a component's function, or of effects (``effects``, places in (1, x))."""

    component: Component
    name: str
    variance: float
    effects: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Pair:
    """A correlation of two effects."""

    component: Component
    first: str
    second: str
    correlation: float

    @property
    def coordinate(self) -> float:
        return float(np.arctanh(np.clip(self.correlation, -MAX_CORRELATION, MAX_CORRELATION)))


@dataclass(frozen=True, eq=False)
class Shape:
    """A number of a kernel's shape, in the units of the input that it is about, if there is one."""

    component: Component
    parameter: str
    input: str
    value: float


@dataclass(frozen=True, eq=False)
class Description:
    """All parts, pairs and shapes of components."""

    components: Components
    names: list[str]
    parts: list[Part]
    pairs: list[Pair]
    shapes: list[Shape]

    @classmethod
    def of(cls, components: Components, names: list[str]) -> Description:
        terms = components.terms
        parts = [part for c in terms for part in _parts(c, components.X, names)]
        pairs = [pair for c in terms for pair in _pairs(c, names)]
        return cls(components, names, parts, pairs, [shape for c in terms for shape in _shapes(c, names)])

    @property
    def coordinates(self) -> tuple[Array, Array, Array]:
        """Logarithms of variances, atanh of correlations, logarithms of shapes."""
        with np.errstate(divide="ignore"):
            return (
                np.log([part.variance for part in self.parts]),
                np.array([pair.coordinate for pair in self.pairs]),
                np.log([shape.value for shape in self.shapes]),
            )

    def errors(self, covariance: Array | None) -> tuple[Array, float, Array, Array]:
        """Standard errors of log variances, of that of the noise, of atanh correlations and of log shapes.

        ``covariance`` is that of the logarithm of the noise's variance and of the parameters; None if they were given.
        What depends on a parameter that is not known, or on none, has none.
        """
        sizes = [len(values) for values in self.coordinates]
        if covariance is None:
            parts, pairs, shapes = (np.full(size, np.nan) for size in sizes)
            return parts, np.nan, pairs, shapes
        theta = self.components.theta
        J = np.zeros((sum(sizes), 1 + len(theta)))
        J[: sizes[0], 0] = 1.0  # variances are in units of the noise's
        for i in range(len(theta)):
            step = DIFFERENCE_STEP * (np.arange(len(theta)) == i)
            above, below = (Description.of(self.components.at(at), self.names) for at in (theta + step, theta - step))
            with np.errstate(invalid="ignore"):
                change = np.concatenate(above.coordinates) - np.concatenate(below.coordinates)
                J[:, i + 1] = change / (2.0 * DIFFERENCE_STEP)
        known = np.isfinite(np.diag(covariance))
        with np.errstate(invalid="ignore"):
            variance = np.einsum("ij,jk,ik->i", J[:, known], covariance[np.ix_(known, known)], J[:, known])
        unknown = ~np.isfinite(J).all(axis=1) | ~J.any(axis=1) | ~(variance < MAX_LOG_ERROR**2)
        unknown |= (np.abs(J[:, ~known]) > 10 * DIFFERENCE_STEP).any(axis=1)
        error = np.sqrt(np.where(unknown, np.nan, variance))
        parts, pairs, shapes = np.split(error, np.cumsum(sizes)[:2])
        return parts, float(np.sqrt(covariance[0, 0])), pairs, shapes


# --- one component ---


def _parts(component: Component, X: Array, names: list[str]) -> Iterator[Part]:
    """Its effects' variances if they have units of their own, else its function's."""
    kernel, leaf = component.kernel, innermost(component.kernel)
    side = component.label.partition(":")[0]
    _, columns, scales = next(leaves_in_units(kernel, *_all(names)))
    form = entry_of(leaf).linear_form
    C = None if form is None else form(leaf, len(columns))
    if C is not None and entry_of(leaf).own_scale is not None:
        C = component.variance * _form(kernel, len(names))
        for k in [0, *(column + 1 for column in columns)]:
            what = f"slope of {names[k - 1]}" if k else INTERCEPT
            yield Part(component, f"{side}: {what}", float(C[k, k]), (k,))
    elif C is not None and not C[0, 0] and np.array_equal(C[1:, 1:], np.eye(len(columns))):
        effects = tuple(column + 1 for column in columns)
        if len(columns) == 1:
            variance = component.variance / scales[0] ** 2
            yield Part(component, f"{side}: slope of {names[columns[0]]}", variance, effects)
        else:
            per = " per standard deviation" if any(scale != 1.0 for scale in scales) else ""
            yield Part(component, f"{side}: slopes{per}", component.variance, effects)
    else:
        is_constant = C is not None and not C.ravel()[1:].any()
        yield Part(component, component.described(names), component.size(X), (0,) if is_constant else ())


def _pairs(component: Component, names: list[str]) -> Iterator[Pair]:
    if entry_of(innermost(component.kernel)).own_scale is None:
        return
    C, effects = _form(component.kernel, len(names)), [INTERCEPT, *names]
    _, columns, _ = next(leaves_in_units(component.kernel, *_all(names)))
    used = [0, *(column + 1 for column in columns)]
    for i, b in enumerate(used):
        for a in used[:i]:
            size = np.sqrt(C[a, a] * C[b, b])
            yield Pair(component, effects[a], effects[b], float(C[a, b] / size) if size else np.nan)


def _form(kernel: Kernel, p: int) -> Array:
    form = linear_form(kernel, p)
    assert form is not None  # a linear kernel has one
    return form


def _shapes(component: Component, names: list[str]) -> Iterator[Shape]:
    """Length scales and the like; one of several inputs has a row for each, in that input's units."""
    for leaf, columns, scales in leaves_in_units(component.kernel, *_all(names)):
        entry = entry_of(leaf)
        for parameter in leaf.hyperparameters if entry.linear_form is None else ():
            values = np.atleast_1d(np.asarray(getattr(leaf, parameter.name), dtype=float))
            name = parameter.name.replace("_", " ")
            size = (entry.sizes or {}).get(parameter.name)
            is_length, is_period = size is Size.LENGTH, size is Size.PERIOD and len(columns) == 1
            if (is_length and len(columns) <= MAX_LISTED_COLUMNS) or is_period:
                for value, column, scale in zip(np.broadcast_to(values, len(columns)), columns, scales):
                    yield Shape(component, name, names[column], float(value * scale))
            else:
                about = "each, in standard deviations" if is_length and any(scale != 1.0 for scale in scales) else ""
                yield from (Shape(component, name, about, float(value)) for value in values)


def _all(names: list[str]) -> tuple[list[int], list[float]]:
    return list(range(len(names))), [1.0] * len(names)
