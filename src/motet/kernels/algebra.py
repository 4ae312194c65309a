"""Kernels made of others, as trees: sums, products and powers, and ``On`` and ``Scaled``, which read inputs otherwise.

What follows from what a kernel is made of is found here, by walks over the tree; what is known of its leaves is in
their entries of the registry. How values, derivatives and features are composed is where these are computed: in
``gram``, ``derivatives`` and ``finite_rank``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from typing import Any

import numpy as np

from motet.arrays import Array
from motet.kernels.classes import (
    ConstantKernel,
    Exponentiation,
    Kernel,
    On,
    Product,
    Reading,
    Scaled,
    Sum,
    is_fixed,
)
from motet.kernels.registry import Size, entry_of, one_or_each

# The parameters of a composite that are kernels.
PARTS = {Sum: ("k1", "k2"), Product: ("k1", "k2"), Exponentiation: ("kernel",), On: ("kernel",), Scaled: ("kernel",)}


def parts(kernel: Kernel) -> list[Kernel]:
    """The kernels that a kernel is made of; none, if it is a leaf."""
    return [getattr(kernel, name) for name in PARTS.get(type(kernel), ())]


def of_parts(kernel: Kernel, others: Iterable[Kernel]) -> Kernel:
    """A composite of the same kind, of other kernels."""
    return type(kernel)(**kernel.get_params(deep=False) | dict(zip(PARTS[type(kernel)], others)))


def leaves(kernel: Kernel, X: Any = None) -> Iterator[tuple[Kernel, Any]]:
    """The kernels that are not made of others, in the order of ``theta``, each with the inputs as it reads them."""
    if X is not None and isinstance(kernel, Reading):
        X = kernel.read(X)
    if type(kernel) not in PARTS:
        yield kernel, X
    for part in parts(kernel):
        yield from leaves(part, X)


def leaves_in_units(
    kernel: Kernel, columns: Sequence[int], scales: Sequence[float]
) -> Iterator[tuple[Kernel, Sequence[int], Sequence[float]]]:
    """The leaves, with the columns that reach them and what each is divided by."""
    if type(kernel) is On:
        columns, scales = [columns[c] for c in kernel.columns], [scales[c] for c in kernel.columns]
    elif type(kernel) is Scaled:
        scales = [scale * float(by) for scale, by in zip(scales, kernel.scale)]
    if type(kernel) not in PARTS:
        yield kernel, columns, scales
    for part in parts(kernel):
        yield from leaves_in_units(part, columns, scales)


def map_terms(change: Callable[[Kernel], Kernel], kernel: Kernel) -> Kernel:
    """A kernel with a change of whatever is added or multiplied in it."""
    if type(kernel) in (Sum, Product):
        return of_parts(kernel, (map_terms(change, part) for part in parts(kernel)))
    return change(kernel)


def map_leaves(change: Callable[[Kernel], Kernel], kernel: Kernel) -> Kernel:
    """A kernel with a change of whatever is not made of others in it."""
    return of_parts(kernel, (map_leaves(change, part) for part in parts(kernel))) if parts(kernel) else change(kernel)


def innermost(kernel: Kernel) -> Kernel:
    """The kernel within ``On`` and ``Scaled``."""
    return innermost(kernel.kernel) if type(kernel) in (On, Scaled) else kernel


def with_theta(kernel: Kernel, theta: Array, first: int = 0) -> tuple[Kernel, int]:
    """A kernel with other free parameters, in theta from ``first`` on, and where those of the next kernel begin.

    It is what ``clone_with_theta`` makes, and shares what stays.
    """
    moved = copy(kernel)
    for part in PARTS.get(type(kernel), ()):
        inner, first = with_theta(getattr(kernel, part), theta, first)
        setattr(moved, part, inner)
    if type(kernel) in PARTS:
        return moved, first
    if (bounds := entry_of(kernel).bounds) is None:
        end = first + len(kernel.theta)
        moved.theta = theta[first:end]
        return moved, end
    for name in bounds:
        if not is_fixed(getattr(kernel, name)):
            key = name.removesuffix("_bounds")
            count = np.size(getattr(kernel, key))
            setattr(moved, key, np.exp(theta[first] if count == 1 else theta[first : first + count]))
            first += count
    return moved, first


# --- what holds for a kernel because it holds for its leaves ---


def is_held(kernel: Kernel) -> bool:
    """Whether all parameters of a kernel are fixed: ``theta`` is empty, told without making it."""
    if type(kernel) in PARTS:
        return all(map(is_held, parts(kernel)))
    if (bounds := entry_of(kernel).bounds) is not None:
        return all(is_fixed(getattr(kernel, name)) for name in bounds)
    return all(parameter.fixed for parameter in kernel.hyperparameters)


def has_levels(kernel: Kernel) -> bool:
    """Whether some features are levels of a task's inputs, which may be as many as its rows."""
    return any(is_by_level(leaf) for leaf, _ in leaves(kernel))


def is_by_level(leaf: Kernel) -> bool:
    """Whether a leaf reads inputs as levels, that have nothing in common with each other."""
    features = entry_of(leaf).features
    return features is not None and features.levels is not None


def is_diagonal(kernel: Kernel) -> bool:
    """Whether no two different inputs have anything in common."""
    return any(map(is_diagonal, parts(kernel))) if type(kernel) is Product else is_by_level(kernel)


# --- sums and factors ---


def summands(kernel: Kernel) -> list[Kernel]:
    """The terms of a sum, also of one within ``On`` or ``Scaled``."""
    if type(kernel) is Sum:
        return [*summands(kernel.k1), *summands(kernel.k2)]
    if type(kernel) in (On, Scaled):
        return [of_parts(kernel, [part]) for part in summands(kernel.kernel)]
    return [kernel]


def scale_of(kernel: Kernel) -> tuple[float, bool, Kernel]:
    """A term's constant factor, whether that is fixed, and the rest; 1 if there is none."""
    if type(kernel) is ConstantKernel:
        return float(kernel.constant_value), is_fixed(kernel.constant_value_bounds), ConstantKernel(1.0, "fixed")
    if type(kernel) in (On, Scaled):
        scale, fixed, rest = scale_of(kernel.kernel)
        return scale, fixed, rest if type(rest) is ConstantKernel else of_parts(kernel, [rest])
    if type(kernel) is Product:
        for factor, other in ((kernel.k1, kernel.k2), (kernel.k2, kernel.k1)):
            if type(factor) is ConstantKernel:
                scale, fixed, rest = scale_of(other)
                return float(factor.constant_value) * scale, is_fixed(factor.constant_value_bounds) or fixed, rest
    return 1.0, False, kernel


def times(factor: float, kernel: Kernel) -> Kernel:
    """A kernel times a factor; of a constant that is a constant."""
    if type(kernel) is ConstantKernel:
        return ConstantKernel(factor)
    return kernel if abs(factor - 1.0) < 1e-12 else ConstantKernel(factor) * kernel


# --- columns and units ---


def on_columns(kernel: Kernel, columns: Sequence[int]) -> Kernel:
    """The same kernel, with every part that does not choose its columns reading ``columns``; levels are of all."""
    if type(kernel) in (On, Scaled, ConstantKernel) or is_by_level(kernel):
        return kernel
    if type(kernel) in PARTS:
        return of_parts(kernel, (on_columns(part, columns) for part in parts(kernel)))
    return On(kernel, list(columns))


def in_units(kernel: Kernel) -> Kernel:
    """The same kernel with length scales in the units of the inputs, instead of a scaling and lengths without units."""
    if type(kernel) in (Sum, Product, On):
        return of_parts(kernel, map(in_units, parts(kernel)))
    if type(kernel) is not Scaled or type(kernel.kernel) is ConstantKernel:
        return kernel.kernel if type(kernel) is Scaled else kernel
    leaf, entry = kernel.kernel, entry_of(kernel.kernel)
    sizes = entry.sizes or {}
    lengths = [name for name, size in sizes.items() if size is Size.LENGTH]
    may_differ = len(kernel.scale) == 1 or all(entry.checks.get(name) is one_or_each for name in lengths)
    if not lengths or Size.PERIOD in sizes.values() or not may_differ:
        return kernel
    params = {key: value for key, value in leaf.get_params(deep=False).items() if not key.endswith("_bounds")}
    for name in lengths:
        scaled = np.asarray(params[name]) * np.asarray(kernel.scale)
        params[name] = float(scaled[0]) if len(scaled) == 1 else scaled
    return type(leaf)(**params)


# --- in words ---


def describe(kernel: Kernel, names: Sequence[str] | None = None) -> str:
    """A kernel in a word or two: intercept, slopes, RBF, RBF × slopes, levels of column 2, slopes of age."""
    if type(kernel) is On:
        inner = describe(kernel.kernel)
        if names is not None:
            return f"{inner} of {', '.join(names[c] for c in kernel.columns)}"
        return f"{inner} of column{'s' if len(kernel.columns) > 1 else ''} {', '.join(map(str, kernel.columns))}"
    if type(kernel) is Scaled:
        return describe(kernel.kernel)
    if type(kernel) in (Sum, Product):
        return f"{describe(kernel.k1, names)} {'+' if type(kernel) is Sum else '×'} {describe(kernel.k2, names)}"
    if type(kernel) is Exponentiation:
        return f"({describe(kernel.kernel, names)})^{kernel.exponent:g}"
    return entry_of(kernel).words or type(kernel).__name__
