"""Finite features of kernels: u(x) with k(x, x′) = u(x)ᵀu(x′) exactly, and their derivatives.

Linear kernels, their powers, constants, levels (``Identity``), and sums and products of these have few features. Then
a long task's covariance UUᵀ + λW is of low rank but for its diagonal, and costs no more than its rows.
Features need not be independent of each other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement
from typing import TypeAlias

import numpy as np

from motet.arrays import Array, distinct, match
from motet.kernels import (
    ConstantKernel,
    DotProduct,
    Exponentiation,
    Identity,
    Kernel,
    Linear,
    On,
    Product,
    Scaled,
    Sum,
    affine,
)
from motet.model.own_landmarks import LANDMARKS, OwnLandmarks

FeatureMap: TypeAlias = Callable[[Kernel, Array, Array], Array]
FeatureDerivatives: TypeAlias = Callable[[Kernel, Array], Iterator[Array]]


def feature_count(kernel: Kernel, X: Array) -> int | None:
    """How many features a kernel has at these inputs, or at a stack of them; None if it has no finite number."""
    kind, X = type(kernel), X if has_levels(kernel) or type(kernel) is OwnLandmarks else X[..., :1, :]
    if kind is Identity:  # a level of one task is none of another's
        return max((len(distinct(table)[0]) for table in X.reshape(-1, *X.shape[-2:])), default=0)
    if kind is OwnLandmarks:
        return min(LANDMARKS, X.shape[-2])
    if kind in (ConstantKernel, DotProduct, Linear):
        return features(kernel, np.zeros((1, X.shape[-1]))).shape[-1]
    if kind in (On, Scaled):
        return feature_count(kernel.kernel, kernel.read(X))
    if kind is Exponentiation:
        inner, power = feature_count(kernel.kernel, X), int(kernel.exponent)
        is_whole = power == kernel.exponent and power >= 1
        return math.comb(inner + power - 1, power) if inner is not None and is_whole else None
    if kind in (Sum, Product):
        left, right = feature_count(kernel.k1, X), feature_count(kernel.k2, X)
        if left is None or right is None:
            return None
        return left + right if kind is Sum else left * right
    return None


def has_few_features(kernel: Kernel, p: int) -> bool:
    """Whether a kernel has the same few features however many inputs of ``p`` columns there are; levels may be many."""
    return feature_count(kernel, np.zeros((1, p))) is not None and not has_levels(kernel)


def has_levels(kernel: Kernel) -> bool:
    """Whether some features are levels of a task's inputs, which may be as many as its rows."""
    if type(kernel) in (Sum, Product):
        return has_levels(kernel.k1) or has_levels(kernel.k2)
    return type(kernel) is Identity or (type(kernel) in (On, Scaled, Exponentiation) and has_levels(kernel.kernel))


def features(kernel: Kernel, X: Array, own: Array | None = None) -> Array:
    """u(x) of shape (…, n, q) for X of shape (…, n, p); of a kernel that has a ``feature_count`` there.

    Levels are those of the inputs ``own``, by default of X: at other levels, which tell nothing of them, u is 0. In a
    stack every table has its own, and the tables with fewer features get zeros behind them.
    """
    if X.ndim > 2 and has_levels(kernel):
        tables = [features(kernel, table, None if own is None else own[k]) for k, table in enumerate(X)]
        width = max((table.shape[1] for table in tables), default=0)
        return np.array([np.pad(table, ((0, 0), (0, width - table.shape[1]))) for table in tables])
    return MAPS[type(kernel)](kernel, X, X if own is None else own)


def feature_derivatives(kernel: Kernel, X: Array) -> Iterator[Array]:
    """∂u(x)/∂θᵢ for every free parameter of scikit-learn's ``kernel.theta``, in order."""
    if not len(kernel.theta):
        return iter(())
    if X.ndim > 2 and has_levels(kernel):
        return _stacked([feature_derivatives(kernel, table) for table in X])
    return DERIVATIVES[type(kernel)](kernel, X)


def _stacked(tables: list[Iterator[Array]]) -> Iterator[Array]:
    for changes in zip(*tables):
        width = max(D.shape[1] for D in changes)
        yield np.array([np.pad(D, ((0, 0), (0, width - D.shape[1]))) for D in changes])


# --- features ---


def _levels(_kernel: Identity, X: Array, own: Array) -> Array:
    """A column for every different input of ``own``."""
    first, _ = distinct(own)
    numbers: dict[bytes, int] = {}
    match(own[first], numbers)
    number, width = match(X, numbers)[0], len(first)
    return np.vstack([np.eye(width), np.zeros((1, width))])[np.minimum(number, width)]


def _dot_product(kernel: DotProduct, X: Array, _own: Array) -> Array:
    return np.concatenate([np.full((*X.shape[:-1], 1), kernel.sigma_0), X], axis=-1) if kernel.sigma_0 else X


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
    listed = [root * np.prod(U[..., chosen], axis=-1) for chosen, root in _monomials(U.shape[-1], int(kernel.exponent))]
    return np.stack(listed, axis=-1)


def _within(kernel: On | Scaled, X: Array, own: Array) -> Array:
    return features(kernel.kernel, kernel.read(X), kernel.read(own))


MAPS: dict[type[Kernel], FeatureMap] = {
    ConstantKernel: lambda kernel, X, own: np.full((*X.shape[:-1], 1), math.sqrt(kernel.constant_value)),  # noqa: ARG005
    DotProduct: _dot_product,
    Linear: lambda kernel, X, own: affine(X) @ kernel.L,  # noqa: ARG005
    Identity: _levels,
    On: _within,
    Scaled: _within,
    Sum: lambda kernel, X, own: np.concatenate([features(kernel.k1, X, own), features(kernel.k2, X, own)], axis=-1),
    Product: lambda kernel, X, own: _products(features(kernel.k1, X, own), features(kernel.k2, X, own)),
    Exponentiation: _power,
    OwnLandmarks: lambda kernel, X, own: kernel.features(X, own),
}

# --- derivatives ---


def _constant_derivatives(kernel: ConstantKernel, X: Array) -> Iterator[Array]:
    yield 0.5 * features(kernel, X)


def _dot_product_derivatives(kernel: DotProduct, X: Array) -> Iterator[Array]:
    D = np.zeros_like(features(kernel, X))
    D[..., : bool(kernel.sigma_0)] = kernel.sigma_0
    yield D


def _linear_derivatives(_kernel: Linear, X: Array) -> Iterator[Array]:
    Z = affine(X)
    for a, b in zip(*np.tril_indices(Z.shape[-1])):
        D = np.zeros_like(Z)
        D[..., b] = Z[..., a]
        yield D


def _within_derivatives(kernel: On | Scaled, X: Array) -> Iterator[Array]:
    return feature_derivatives(kernel.kernel, kernel.read(X))


def _sum_derivatives(kernel: Sum, X: Array) -> Iterator[Array]:
    left, right = (np.zeros_like(features(part, X)) for part in (kernel.k1, kernel.k2))
    yield from (np.concatenate([D, right], axis=-1) for D in feature_derivatives(kernel.k1, X))
    yield from (np.concatenate([left, D], axis=-1) for D in feature_derivatives(kernel.k2, X))


def _product_derivatives(kernel: Product, X: Array) -> Iterator[Array]:
    left, right = features(kernel.k1, X), features(kernel.k2, X)
    yield from (_products(D, right) for D in feature_derivatives(kernel.k1, X))
    yield from (_products(left, D) for D in feature_derivatives(kernel.k2, X))


def _power_derivatives(kernel: Exponentiation, X: Array) -> Iterator[Array]:
    U, power = features(kernel.kernel, X), int(kernel.exponent)
    for D in feature_derivatives(kernel.kernel, X):
        listed = []
        for chosen, root in _monomials(U.shape[-1], power):
            others = (np.prod(U[..., chosen[:i] + chosen[i + 1 :]], axis=-1) for i in range(power))
            listed.append(root * sum(D[..., column] * rest for column, rest in zip(chosen, others)))
        yield np.stack(listed, axis=-1)


DERIVATIVES: dict[type[Kernel], FeatureDerivatives] = {
    ConstantKernel: _constant_derivatives,
    DotProduct: _dot_product_derivatives,
    Linear: _linear_derivatives,
    On: _within_derivatives,
    Scaled: _within_derivatives,
    Sum: _sum_derivatives,
    Product: _product_derivatives,
    Exponentiation: _power_derivatives,
}
