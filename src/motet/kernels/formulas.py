"""The kernels of the closed list, each with what the registry knows of it: formulas over stacks of inputs, derivatives,
linear forms, features, natural sizes and words.

To add one: its class in ``classes``, its formulas here, and one call of ``register``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

import numpy as np

from motet.arrays import Array, distinct, match
from motet.errors import InvalidModel
from motet.kernels.classes import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Identity,
    Kernel,
    Linear,
    Matern,
    RationalQuadratic,
    affine,
    is_fixed,
)
from motet.kernels.derivatives import by_differences
from motet.kernels.gram import gram
from motet.kernels.registry import Derivatives, Features, OwnScale, Size, number, one_or_each, positive, register
from motet.linalg import lower_indices

NOT_LINEAR = ("linear_form", "features", "own_scale")


# --- stationary kernels ---


def _with_length_scale(kernel: Kernel, X: Array, Y: Array) -> Array:
    scale = np.asarray(kernel.length_scale)
    unit = copy(kernel)
    unit.length_scale = 1.0
    return _of_distance(unit, X / scale, Y / scale)


def _of_distance(kernel: Kernel, X: Array, Y: Array) -> Array:
    """A stationary kernel is a function of distance: scikit-learn's own, on the line."""
    difference = X[..., :, None, :] - Y[..., None, :, :]
    distances = np.asarray(np.sqrt(np.einsum("...i,...i->...", difference, difference)))
    return np.asarray(kernel(np.zeros((1, 1)), distances.reshape(-1, 1))).reshape(distances.shape)


def _squares(X: Array, Y: Array) -> Iterator[Array]:
    """(xᵢ − x′ᵢ)² for each column."""
    for i in range(X.shape[-1]):
        yield (X[..., :, None, i] - Y[..., None, :, i]) ** 2


def _squared_distance(X: Array, Y: Array) -> Array:
    return np.asarray(sum(_squares(X, Y)))


def _rbf(kernel: RBF, X: Array, Y: Array) -> Derivatives:
    """∂K/∂log ℓ = K d²/ℓ²."""
    if not kernel.anisotropic:
        d2 = _squared_distance(X / kernel.length_scale, Y / kernel.length_scale)
        yield np.exp(-0.5 * d2) * d2
        return
    K = gram(kernel, X, Y)
    for square, scale in zip(_squares(X, Y), kernel.length_scale):
        yield K * (square / scale**2)


def _rbf_stack(kernel: RBF, X: Array, Y: Array) -> Array:
    scale = np.asarray(kernel.length_scale)
    return np.asarray(np.exp(-0.5 * _squared_distance(X / scale, Y / scale)))


register(
    "rbf",
    RBF,
    {"length_scale": one_or_each},
    stack=_rbf_stack,
    derivatives=_rbf,
    sizes={"length_scale": Size.LENGTH},
    by_default=(*NOT_LINEAR, "words"),
)


def _matern(kernel: Matern, X: Array, Y: Array) -> Derivatives:
    """∂K/∂log ℓᵢ = slope · dᵢ²/ℓᵢ², with a slope that depends on the scaled distance d alone."""
    if kernel.nu not in MATERN_SLOPES:
        yield from by_differences(kernel, X, Y)
        return
    scale = np.broadcast_to(kernel.length_scale, X.shape[-1])
    d2 = _squared_distance(X / scale, Y / scale)
    slope = MATERN_SLOPES[kernel.nu](np.sqrt(d2))
    if not kernel.anisotropic:
        yield slope * d2
        return
    for square in _squares(X / scale, Y / scale):
        yield slope * square


MATERN_SLOPES: dict[float, Callable[[Array], Array]] = {
    0.5: lambda d: np.divide(np.exp(-d), d, out=np.zeros_like(d), where=d > 0),
    1.5: lambda d: 3.0 * np.exp(-np.sqrt(3.0) * d),
    2.5: lambda d: 5.0 / 3.0 * (1.0 + np.sqrt(5.0) * d) * np.exp(-np.sqrt(5.0) * d),
    np.inf: lambda d: np.exp(-0.5 * d**2),
}


def smoothness(name: str, value: Any) -> float:
    """Matern's ν: a positive number up to 50, or infinity."""
    if isinstance(value, float) and value == math.inf:
        return value
    if (nu := positive(name, value)) > 50:
        raise InvalidModel(f"{name} must be up to 50, or infinity, got {value!r}")
    return nu


register(
    "matern",
    Matern,
    {"length_scale": one_or_each, "nu": smoothness},
    stack=_with_length_scale,
    derivatives=_matern,
    sizes={"length_scale": Size.LENGTH},
    by_default=(*NOT_LINEAR, "words"),
)


def _rational_quadratic(kernel: RationalQuadratic, X: Array, Y: Array) -> Derivatives:
    """K = b^−a with b = 1 + d²/(2aℓ²)."""
    a, half = kernel.alpha, _squared_distance(X, Y) / (2.0 * kernel.length_scale**2)
    base = 1.0 + half / a
    K = base**-a
    if not is_fixed(kernel.alpha_bounds):
        yield K * (half / base - a * np.log(base))
    if not is_fixed(kernel.length_scale_bounds):
        yield K * (2.0 * half / base)


register(
    "rational_quadratic",
    RationalQuadratic,
    stack=_with_length_scale,
    derivatives=_rational_quadratic,
    sizes={"length_scale": Size.LENGTH, "alpha": Size.SHAPE},
    by_default=(*NOT_LINEAR, "words"),
)


def _exp_sine_squared(kernel: ExpSineSquared, X: Array, Y: Array) -> Derivatives:
    """K = exp(−2 sin²(u)/ℓ²) with u = πd/period."""
    u = np.pi * np.sqrt(_squared_distance(X, Y)) / kernel.periodicity
    factor = 4.0 * np.exp(-2.0 * (np.sin(u) / kernel.length_scale) ** 2) / kernel.length_scale**2
    if not is_fixed(kernel.length_scale_bounds):
        yield factor * np.sin(u) ** 2
    if not is_fixed(kernel.periodicity_bounds):
        yield factor * u * np.sin(u) * np.cos(u)


register(
    "exp_sine_squared",
    ExpSineSquared,
    stack=_of_distance,
    derivatives=_exp_sine_squared,
    sizes={"length_scale": Size.SHAPE_LENGTH, "periodicity": Size.PERIOD},
    by_default=(*NOT_LINEAR, "words"),
)


# --- linear kernels ---


def not_negative(name: str, value: Any) -> float:
    """0, or a positive number."""
    return 0.0 if number(name, value) == 0 else positive(name, value)


def _dot_product_features(kernel: DotProduct, X: Array, _own: Array) -> Array:
    return np.concatenate([np.full((*X.shape[:-1], 1), kernel.sigma_0), X], axis=-1) if kernel.sigma_0 else X


def _dot_product_feature_derivatives(kernel: DotProduct, X: Array) -> Derivatives:
    D = np.zeros_like(_dot_product_features(kernel, X, X))
    D[..., : bool(kernel.sigma_0)] = kernel.sigma_0
    yield D


register(
    "dot_product",
    DotProduct,
    {"sigma_0": not_negative},
    stack=lambda kernel, X, Y: X @ Y.swapaxes(-1, -2) + kernel.sigma_0**2,
    derivatives=lambda kernel, X, Y: iter([np.full((*X.shape[:-1], Y.shape[-2]), 2.0 * float(kernel.sigma_0) ** 2)]),
    linear_form=lambda kernel, p: np.diag([float(kernel.sigma_0) ** 2, *np.ones(p)]),
    features=Features(_dot_product_features, _dot_product_feature_derivatives),
    words="slopes",
    by_default=("sizes", "own_scale"),
)


def _constant(kernel: ConstantKernel, X: Array, Y: Array) -> Array:
    return np.full((*X.shape[:-1], Y.shape[-2]), float(kernel.constant_value))


def _constant_features(kernel: ConstantKernel, X: Array, _own: Array) -> Array:
    return np.full((*X.shape[:-1], 1), math.sqrt(kernel.constant_value))


register(
    "constant",
    ConstantKernel,
    names={"constant_value": "value", "constant_value_bounds": "value_bounds"},
    stack=_constant,
    derivatives=lambda kernel, X, Y: iter([_constant(kernel, X, Y)]),
    linear_form=lambda kernel, p: np.diag([float(kernel.constant_value), *np.zeros(p)]),
    features=Features(_constant_features, lambda kernel, X: iter([0.5 * _constant_features(kernel, X, X)])),
    words="intercept",
    by_default=("sizes", "own_scale"),
)


def covariance(_name: str, value: Any) -> list[list[float]]:
    """The covariance of ``Linear``."""
    C: list[list[float]] = Linear(value).C.tolist()
    return C


def _linear(kernel: Linear, X: Array, Y: Array) -> Derivatives:
    """C = LLᵀ, so ∂C/∂L_ab is the sum of e_a l_bᵀ and its transpose, with l_b a column of L."""
    U, V, L = affine(X), affine(Y), kernel.L
    for a, b in zip(*lower_indices(len(L))):
        left, right = U @ L[:, b], V @ L[:, b]
        yield U[..., :, a, None] * right[..., None, :] + left[..., :, None] * V[..., None, :, a]


def _linear_feature_derivatives(_kernel: Linear, X: Array) -> Derivatives:
    Z = affine(X)
    for a, b in zip(*lower_indices(Z.shape[-1])):
        D = np.zeros_like(Z)
        D[..., b] = Z[..., a]
        yield D


def _linear_times(kernel: Linear, factor: float) -> Linear:
    C = kernel.clone_with_theta(kernel.theta).C  # as a search has it
    return Linear((factor * C).tolist(), kernel.covariance_bounds)


def _linear_of_variance(kernel: Linear, X: Array, variance: float) -> Linear:
    squares = np.mean(affine(X) ** 2, axis=0)
    C = np.diag(variance / len(squares) / np.where(squares > 0, squares, 1.0))
    return Linear(C.tolist(), kernel.covariance_bounds)


def _linear_steps(kernel: Linear) -> Array:
    """The standard deviation of the effect in whose row of L a parameter is."""
    deviations = np.sqrt(np.maximum(np.diag(kernel.C), 1e-12))
    return np.asarray(deviations[lower_indices(len(deviations))[0]])


register(
    "linear",
    Linear,
    {"covariance": covariance},
    stack=Linear.over,
    derivatives=_linear,
    linear_form=lambda kernel, p: kernel.C_for(p),
    features=Features(lambda kernel, X, _own: affine(X) @ kernel.L, _linear_feature_derivatives),
    own_scale=OwnScale(_linear_times, _linear_of_variance, _linear_steps),
    words="intercept and slopes",
    by_default=("sizes",),
)


# --- levels ---


def _level_features(_kernel: Identity, X: Array, own: Array) -> Array:
    """A column for every different input of ``own``."""
    first, _ = distinct(own)
    numbers: dict[bytes, int] = {}
    match(own[first], numbers)
    number, width = match(X, numbers)[0], len(first)
    return np.vstack([np.eye(width), np.zeros((1, width))])[np.minimum(number, width)]


register(
    "identity",
    Identity,
    stack=Identity.over,
    features=Features(_level_features, levels=lambda X: len(distinct(X)[0])),
    words="levels",
    by_default=("derivatives", "linear_form", "sizes", "own_scale"),
)
