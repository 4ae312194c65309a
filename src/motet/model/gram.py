"""Kernels evaluated: over two sets of inputs, or over stacks of them, one small set for each task.

scikit-learn's kernels take one set at a time. A stationary kernel is a function of distance, so over a stack its
distances are computed here and the function is scikit-learn's own.
"""

from __future__ import annotations

from functools import singledispatch

import numpy as np
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Kernel,
    Product,
    RationalQuadratic,
    Sum,
)

from motet.arrays import Array
from motet.errors import UnknownKernel
from motet.kernels import KNOWN, Identity, Linear, On
from motet.linalg import eigen


def gram(kernel: Kernel, X: Array, Y: Array | None = None) -> Array:
    """K(X, Y) of shape (…, n, m) for X of shape (…, n, p) and Y of shape (…, m, p)."""
    if not X.size or (Y is not None and not Y.size):  # sklearn does not take no rows
        return np.zeros((*X.shape[:-1], (X if Y is None else Y).shape[-2]))
    if X.ndim == 3 and len(X) == 1:  # a single large task: without temporaries of its size times p
        return gram(kernel, X[0], None if Y is None else Y[0])[None]
    # What is not a number is found where the matrix is factored.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if X.ndim == 2 and not isinstance(kernel, (Identity, Linear)):
            return np.asarray(kernel(X, Y), dtype=float)
        return _gram(kernel, X, X if Y is None else Y)


@singledispatch
def _gram(kernel: Kernel, X: Array, Y: Array) -> Array:  # noqa: ARG001
    raise UnknownKernel(f"unknown kernel {type(kernel).__name__}: known are {', '.join(KNOWN)}")


@_gram.register(RBF)  # Matern is one, for sklearn
@_gram.register(RationalQuadratic)
def _(kernel: Kernel, X: Array, Y: Array) -> Array:
    scale = np.asarray(kernel.length_scale)
    params = kernel.get_params() | {"length_scale": 1.0}
    return _of_distance(type(kernel)(**params), _distances(X / scale, Y / scale))


@_gram.register
def _(kernel: ExpSineSquared, X: Array, Y: Array) -> Array:
    return _of_distance(kernel, _distances(X, Y))


@_gram.register
def _(kernel: DotProduct, X: Array, Y: Array) -> Array:
    return X @ Y.swapaxes(-1, -2) + kernel.sigma_0**2


@_gram.register
def _(kernel: ConstantKernel, X: Array, Y: Array) -> Array:
    return np.full((*X.shape[:-1], Y.shape[-2]), float(kernel.constant_value))


@_gram.register
def _(kernel: Sum, X: Array, Y: Array) -> Array:
    return gram(kernel.k1, X, Y) + gram(kernel.k2, X, Y)


@_gram.register
def _(kernel: Product, X: Array, Y: Array) -> Array:
    return gram(kernel.k1, X, Y) * gram(kernel.k2, X, Y)


@_gram.register
def _(kernel: Exponentiation, X: Array, Y: Array) -> Array:
    return np.asarray(gram(kernel.kernel, X, Y) ** kernel.exponent)


@_gram.register(Identity)
@_gram.register(Linear)
def _(kernel: Identity | Linear, X: Array, Y: Array) -> Array:
    return kernel.over(X, Y)


@_gram.register
def _(kernel: On, X: Array, Y: Array) -> Array:
    return gram(kernel.kernel, kernel.pick(X), kernel.pick(Y))


def _distances(X: Array, Y: Array) -> Array:
    difference = X[..., :, None, :] - Y[..., None, :, :]
    return np.asarray(np.sqrt(np.einsum("...i,...i->...", difference, difference)))


def _of_distance(kernel: Kernel, distances: Array) -> Array:
    """A stationary kernel with unit length scale, read as a function of distance on the line."""
    return np.asarray(kernel(distances.reshape(-1, 1), np.zeros((1, 1)))).reshape(distances.shape)


def linear_factor(kernel: Kernel, p: int) -> Array | None:
    """A with k(x, x′) = (A(1, x))ᵀ(A(1, x′)), or None where the kernel is not linear."""
    C = linear_form(kernel, p)
    if C is None:
        return None
    if not (C - np.diag(np.diag(C))).any():
        return np.diag(np.sqrt(np.diag(C)))[np.diag(C) > 0]
    values, vectors = eigen(C)
    kept = values > len(values) * np.finfo(float).eps * values[-1]
    return (vectors[:, kept] * np.sqrt(values[kept])).T


def linear_form(kernel: Kernel, p: int) -> Array | None:
    """C with k(x, x′) = (1, x)ᵀ C (1, x′) on inputs of ``p`` columns, or None where the kernel is not linear."""
    if isinstance(kernel, Linear):
        return kernel.fitting(p)
    if isinstance(kernel, DotProduct):
        return np.diag([float(kernel.sigma_0) ** 2, *np.ones(p)])
    if isinstance(kernel, ConstantKernel):
        return np.diag([float(kernel.constant_value), *np.zeros(p)])
    if isinstance(kernel, On):
        inner = linear_form(kernel.kernel, len(kernel.columns))
        C = np.zeros((p + 1, p + 1))
        at = [0, *(c + 1 for c in kernel.columns)]
        C[np.ix_(at, at)] = 0.0 if inner is None else inner
        return None if inner is None else C
    if type(kernel) in (Sum, Product):
        left, right = linear_form(kernel.k1, p), linear_form(kernel.k2, p)
        if left is None or right is None:
            return None
        if type(kernel) is Sum:
            return np.asarray(left + right)
        for factor, other in ((left, right), (right, left)):
            if not factor.ravel()[1:].any():  # a constant
                return np.asarray(factor[0, 0] * other)
    return None
