"""Finite-rank (degenerate) kernels: explicit feature maps k(x, x′) = u(x)ᵀu(x′), exactly, and their derivatives.

Linear kernels, constants and levels (``Identity``) have few features, by their entries in the registry, and so have
powers, sums and products of these. Then a long task's covariance UUᵀ + λW is of low rank but for its diagonal, and
costs no more than its rows. Features need not be independent of each other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from motet.arrays import Array
from motet.kernels.algebra import has_levels, parts
from motet.kernels.classes import Exponentiation, Kernel, On, Product, Scaled, Sum
from motet.kernels.derivatives import differences
from motet.kernels.nystrom import LANDMARKS, OwnLandmarks
from motet.kernels.registry import Derivatives, entry_of


def feature_count(kernel: Kernel, X: Array) -> int | None:
    """How many features a kernel has at these inputs, or at a stack of them; None if it has no finite number."""
    kind = type(kernel)
    if kind is OwnLandmarks:
        return min(LANDMARKS, X.shape[-2])
    X = X if has_levels(kernel) else X[..., :1, :]  # any row will do
    if kind in (On, Scaled):
        return feature_count(kernel.kernel, kernel.read(X))
    if kind is Exponentiation:
        inner, power = feature_count(kernel.kernel, X), int(kernel.exponent)
        is_whole = power == kernel.exponent and power >= 1
        return math.comb(inner + power - 1, power) if inner is not None and is_whole else None
    if kind in (Sum, Product):
        left, right = (feature_count(part, X) for part in parts(kernel))
        if left is None or right is None:
            return None
        return left + right if kind is Sum else left * right
    if (known := entry_of(kernel).features) is None:
        return None
    if known.levels is not None:  # a level of one task is none of another's
        return max(map(known.levels, X.reshape(-1, *X.shape[-2:])), default=0)
    one = np.zeros((1, X.shape[-1]))
    return known.of(kernel, one, one).shape[-1]


def has_few_features(kernel: Kernel, p: int) -> bool:
    """Whether a kernel has the same few features however many inputs of ``p`` columns there are; levels may be many."""
    return feature_count(kernel, np.zeros((1, p))) is not None and not has_levels(kernel)


def features(kernel: Kernel, X: Array, own: Array | None = None) -> Array:
    """u(x) of shape (…, n, q) for X of shape (…, n, p); of a kernel that has a ``feature_count`` there.

    Levels are those of the inputs ``own``, by default of X: at other levels, which tell nothing of them, u is 0. In a
    stack every table has its own, and the tables with fewer features get zeros behind them.
    """
    if X.ndim > 2 and has_levels(kernel):
        return _stacked([features(kernel, table, None if own is None else own[k]) for k, table in enumerate(X)])
    own = X if own is None else own
    if type(kernel) in (On, Scaled):
        return features(kernel.kernel, kernel.read(X), kernel.read(own))
    if rule := COMPOSED.get(type(kernel)):
        return rule(kernel, X, own)
    known = entry_of(kernel).features
    assert known is not None, kernel
    return known.of(kernel, X, own)


def feature_derivatives(kernel: Kernel, X: Array) -> Derivatives:
    """∂u(x)/∂θᵢ for every free parameter of scikit-learn's ``kernel.theta``, in order."""
    if not len(kernel.theta):
        return iter(())
    if X.ndim > 2 and has_levels(kernel):
        return map(_stacked, zip(*(feature_derivatives(kernel, table) for table in X)))
    if type(kernel) in (On, Scaled):
        return feature_derivatives(kernel.kernel, kernel.read(X))
    known = entry_of(kernel).features
    rule = COMPOSED_DERIVATIVES.get(type(kernel)) or (known and known.derivatives)
    return rule(kernel, X) if rule else differences(kernel, lambda moved: features(moved, X))


def _stacked(tables: Sequence[Array]) -> Array:
    width = max((table.shape[1] for table in tables), default=0)
    return np.array([np.pad(table, ((0, 0), (0, width - table.shape[1]))) for table in tables])


# --- features of composites ---


def _products(U: Array, V: Array) -> Array:
    """Every column of U times every column of V."""
    return (U[..., :, None] * V[..., None, :]).reshape(*U.shape[:-1], U.shape[-1] * V.shape[-1])


def _monomials(columns: int, power: int) -> Iterator[tuple[tuple[int, ...], float]]:
    """The columns of every monomial of a power of Σ uᵢu′ᵢ, and the root of how often it comes."""
    for chosen in combinations_with_replacement(range(columns), power):
        repeats = math.prod(math.factorial(times) for times in Counter(chosen).values())
        yield chosen, math.sqrt(math.factorial(power) / repeats)


def _power(kernel: Exponentiation, X: Array, own: Array) -> Array:
    U = features(kernel.kernel, X, own)
    monomials = _monomials(U.shape[-1], int(kernel.exponent))
    return np.stack([root * np.prod(U[..., chosen], axis=-1) for chosen, root in monomials], axis=-1)


COMPOSED: dict[type[Kernel], Callable[[Any, Array, Array], Array]] = {
    Sum: lambda kernel, X, own: np.concatenate([features(kernel.k1, X, own), features(kernel.k2, X, own)], axis=-1),
    Product: lambda kernel, X, own: _products(features(kernel.k1, X, own), features(kernel.k2, X, own)),
    Exponentiation: _power,
    OwnLandmarks: OwnLandmarks.features,
}

# --- and their derivatives ---


def _sum_derivatives(kernel: Sum, X: Array) -> Derivatives:
    left, right = (np.zeros_like(features(part, X)) for part in (kernel.k1, kernel.k2))
    yield from (np.concatenate([D, right], axis=-1) for D in feature_derivatives(kernel.k1, X))
    yield from (np.concatenate([left, D], axis=-1) for D in feature_derivatives(kernel.k2, X))


def _product_derivatives(kernel: Product, X: Array) -> Derivatives:
    left, right = features(kernel.k1, X), features(kernel.k2, X)
    yield from (_products(D, right) for D in feature_derivatives(kernel.k1, X))
    yield from (_products(left, D) for D in feature_derivatives(kernel.k2, X))


def _power_derivatives(kernel: Exponentiation, X: Array) -> Derivatives:
    U, power = features(kernel.kernel, X), int(kernel.exponent)
    for D in feature_derivatives(kernel.kernel, X):
        columns = []
        for chosen, root in _monomials(U.shape[-1], power):
            others = (np.prod(U[..., chosen[:i] + chosen[i + 1 :]], axis=-1) for i in range(power))
            columns.append(root * sum(D[..., column] * rest for column, rest in zip(chosen, others)))
        yield np.stack(columns, axis=-1)


COMPOSED_DERIVATIVES: dict[type[Kernel], Callable[[Any, Array], Derivatives]] = {
    Sum: _sum_derivatives,
    Product: _product_derivatives,
    Exponentiation: _power_derivatives,
}
