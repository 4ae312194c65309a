"""Derivatives of kernels with respect to their hyperparameters, over two sets of inputs or over stacks of them.

The parameters are those of scikit-learn's ``kernel.theta``, logarithms but for ``Linear``, in its order and without
those that are fixed. Derivatives come one after the other, so that there is never an array of n × n × parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
from scipy.special import xlogy

from motet.arrays import Array
from motet.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Kernel,
    Linear,
    Matern,
    On,
    Product,
    RationalQuadratic,
    Scaled,
    Sum,
    affine,
    is_fixed,
    is_held,
)
from motet.model.gram import gram

Derivatives: TypeAlias = Iterator[Array]
STEP = 1e-5  # of a central difference: an error of about 1e-10


def derivatives(kernel: Kernel, X: Array, Y: Array | None = None) -> Derivatives:
    """∂K(X, Y)/∂θᵢ for every free parameter, in order."""
    if is_held(kernel):
        return iter(())
    # By exact type, as kernels are evaluated.
    rule: Callable[..., Derivatives] = RULES.get(type(kernel), _by_differences)
    return rule(kernel, X, X if Y is None else Y)


def _by_differences(kernel: Kernel, X: Array, Y: Array) -> Derivatives:
    """The default, for kernels that have no rule here: slow, and right to ten digits."""
    theta = kernel.theta
    for i in range(len(theta)):
        step = np.zeros(len(theta))
        step[i] = STEP
        above, below = (gram(kernel.clone_with_theta(theta + side * step), X, Y) for side in (1, -1))
        yield (above - below) / (2 * STEP)


# --- kernels made of others ---


def _sum(kernel: Sum, X: Array, Y: Array) -> Derivatives:
    yield from derivatives(kernel.k1, X, Y)
    yield from derivatives(kernel.k2, X, Y)


def _product(kernel: Product, X: Array, Y: Array) -> Derivatives:
    for part, other in ((kernel.k1, kernel.k2), (kernel.k2, kernel.k1)):
        if is_held(part):
            continue
        if type(part) is ConstantKernel:
            yield part.constant_value * gram(other, X, Y)
        else:
            K = other.constant_value if type(other) is ConstantKernel else gram(other, X, Y)
            for D in derivatives(part, X, Y):
                yield D * K


def _power(kernel: Exponentiation, X: Array, Y: Array) -> Derivatives:
    factor = kernel.exponent * gram(kernel.kernel, X, Y) ** (kernel.exponent - 1)
    for D in derivatives(kernel.kernel, X, Y):
        yield factor * D


def _within(kernel: On | Scaled, X: Array, Y: Array) -> Derivatives:
    return derivatives(kernel.kernel, kernel.read(X), kernel.read(Y))


# --- the others ---


def _squares(X: Array, Y: Array) -> Iterator[Array]:
    """(xᵢ − x′ᵢ)² for each column."""
    for i in range(X.shape[-1]):
        yield (X[..., :, None, i] - Y[..., None, :, i]) ** 2


def _squared_distance(X: Array, Y: Array) -> Array:
    return np.asarray(sum(_squares(X, Y)))


def _constant(kernel: ConstantKernel, X: Array, Y: Array) -> Derivatives:
    yield gram(kernel, X, Y)


def _dot_product(kernel: DotProduct, X: Array, Y: Array) -> Derivatives:
    yield np.full((*X.shape[:-1], Y.shape[-2]), 2.0 * float(kernel.sigma_0) ** 2)


def _rbf(kernel: RBF, X: Array, Y: Array) -> Derivatives:
    """∂K/∂log ℓ = K d²/ℓ²; with one length scale for all columns d²/ℓ² = −2 log K."""
    K = gram(kernel, X, Y)
    if not kernel.anisotropic:
        yield -2.0 * xlogy(K, K)
        return
    for square, scale in zip(_squares(X, Y), kernel.length_scale):
        yield K * (square / scale**2)


def _matern(kernel: Matern, X: Array, Y: Array) -> Derivatives:
    """∂K/∂log ℓᵢ = slope · dᵢ²/ℓᵢ², with a slope that depends on the scaled distance d alone."""
    if kernel.nu not in MATERN_SLOPES:
        yield from _by_differences(kernel, X, Y)
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


def _rational_quadratic(kernel: RationalQuadratic, X: Array, Y: Array) -> Derivatives:
    """K = b^−a with b = 1 + d²/(2aℓ²)."""
    a, half = kernel.alpha, _squared_distance(X, Y) / (2.0 * kernel.length_scale**2)
    base = 1.0 + half / a
    K = base**-a
    if not is_fixed(kernel.alpha_bounds):
        yield K * (half / base - a * np.log(base))
    if not is_fixed(kernel.length_scale_bounds):
        yield K * (2.0 * half / base)


def _exp_sine_squared(kernel: ExpSineSquared, X: Array, Y: Array) -> Derivatives:
    """K = exp(−2 sin²(u)/ℓ²) with u = πd/period."""
    u = np.pi * np.sqrt(_squared_distance(X, Y)) / kernel.periodicity
    factor = 4.0 * np.exp(-2.0 * (np.sin(u) / kernel.length_scale) ** 2) / kernel.length_scale**2
    if not is_fixed(kernel.length_scale_bounds):
        yield factor * np.sin(u) ** 2
    if not is_fixed(kernel.periodicity_bounds):
        yield factor * u * np.sin(u) * np.cos(u)


def _linear(kernel: Linear, X: Array, Y: Array) -> Derivatives:
    """C = LLᵀ, so ∂C/∂L_ab is the sum of e_a l_bᵀ and its transpose, with l_b a column of L."""
    U, V, L = affine(X), affine(Y), kernel.L
    for a, b in zip(*np.tril_indices(len(L))):
        left, right = U @ L[:, b], V @ L[:, b]
        yield U[..., :, a, None] * right[..., None, :] + left[..., :, None] * V[..., None, :, a]


RULES: dict[type[Kernel], Callable[..., Derivatives]] = {
    Sum: _sum,
    Product: _product,
    Exponentiation: _power,
    On: _within,
    Scaled: _within,
    ConstantKernel: _constant,
    DotProduct: _dot_product,
    RBF: _rbf,
    Matern: _matern,
    RationalQuadratic: _rational_quadratic,
    ExpSineSquared: _exp_sine_squared,
    Linear: _linear,
}
