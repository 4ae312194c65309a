"""Kernels evaluated: over two sets of inputs, or over stacks of them, one small set for each task.

scikit-learn's kernels evaluate one pair of sets at a time, and so does any kernel here by default. Those whose entry in
the registry has a faster way over a whole stack, or a linear form, use it; here is how these are composed.
"""

from __future__ import annotations

import numpy as np

from motet.arrays import Array
from motet.kernels.algebra import leaves
from motet.kernels.classes import Exponentiation, Kernel, On, Product, Scaled, Sum
from motet.kernels.registry import StackGram, entry_of
from motet.linalg import eigen


def gram(kernel: Kernel, X: Array, Y: Array | None = None) -> Array:
    """K(X, Y) of shape (…, n, m) for X of shape (…, n, p) and Y of shape (…, m, p)."""
    if not X.size or (Y is not None and not Y.size):  # sklearn does not take no rows
        return np.zeros((*X.shape[:-1], (X if Y is None else Y).shape[-2]))
    if X.ndim == 3 and len(X) == 1:  # a single large task: without temporaries of its size times p
        return gram(kernel, X[0], None if Y is None else Y[0])[None]
    # Numbers that are not finite are reported where the matrix is factored.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return np.asarray(kernel(X, Y), dtype=float) if X.ndim == 2 else _stack(kernel, X, X if Y is None else Y)


# --- over a stack ---


def _stack(kernel: Kernel, X: Array, Y: Array) -> Array:
    """K(X, Y) of stacks; X may be Y itself."""
    if type(kernel) in (On, Scaled):
        Z = kernel.read(X)
        return _stack(kernel.kernel, Z, Z if Y is X else kernel.read(Y))
    stack = COMPOSED.get(type(kernel)) or entry_of(kernel).stack or _one_by_one
    return stack(kernel, X, Y)


def _one_by_one(kernel: Kernel, X: Array, Y: Array) -> Array:
    """The default: the kernel's own method ``over``, if it has one, else a loop over the stack, slow and right."""
    if hasattr(kernel, "over"):
        return np.asarray(kernel.over(X, Y), dtype=float)
    pairs = zip(X.reshape(-1, *X.shape[-2:]), Y.reshape(-1, *Y.shape[-2:]))
    K = np.array([kernel(x, y) for x, y in pairs], dtype=float)
    return K.reshape(*X.shape[:-1], Y.shape[-2])


COMPOSED: dict[type[Kernel], StackGram] = {
    Sum: lambda kernel, X, Y: _stack(kernel.k1, X, Y) + _stack(kernel.k2, X, Y),
    Product: lambda kernel, X, Y: _stack(kernel.k1, X, Y) * _stack(kernel.k2, X, Y),
    Exponentiation: lambda kernel, X, Y: np.asarray(_stack(kernel.kernel, X, Y) ** kernel.exponent),
}


# --- linear kernels ---


def linear_factor(kernel: Kernel, p: int) -> Array | None:
    """A with k(x, x′) = (A(1, x))ᵀ(A(1, x′)), or None if the kernel is not linear."""
    if any(entry_of(leaf).linear_form is None for leaf, _ in leaves(kernel)) or (C := linear_form(kernel, p)) is None:
        return None
    if not (C - np.diag(np.diag(C))).any():
        return np.diag(np.sqrt(np.diag(C)))[np.diag(C) > 0]
    read = np.flatnonzero(C.any(axis=0))  # often few of the columns
    columns = np.eye(len(C))[:, read]
    values, vectors = eigen(C[np.ix_(read, read)], columns)
    positive = values > len(C) * np.finfo(float).eps * values[-1]
    return (columns @ vectors[:, positive] * np.sqrt(values[positive])).T


def linear_form(kernel: Kernel, p: int) -> Array | None:
    """C with k(x, x′) = (1, x)ᵀ C (1, x′) on inputs of ``p`` columns, or None if the kernel is not linear."""
    if type(kernel) is On:
        inner = linear_form(kernel.kernel, len(kernel.columns))
        if inner is None:
            return None
        C = np.zeros((p + 1, p + 1))
        at = [0, *(c + 1 for c in kernel.columns)]
        C[np.ix_(at, at)] = inner
        return C
    if type(kernel) is Scaled:
        inner = linear_form(kernel.kernel, p)
        T = np.diag([1.0, *(1.0 / np.asarray(kernel.scale))])
        T[1:, 0] = -np.asarray(kernel.center) / np.asarray(kernel.scale)  # (1, z) = T(1, x)
        return None if inner is None else np.asarray(T.T @ inner @ T)
    if type(kernel) in (Sum, Product):
        left, right = linear_form(kernel.k1, p), linear_form(kernel.k2, p)
        if left is None or right is None:
            return None
        if type(kernel) is Sum:
            return np.asarray(left + right)
        for factor, other in ((left, right), (right, left)):
            if not factor.ravel()[1:].any():  # a constant
                return np.asarray(factor[0, 0] * other)
    form = entry_of(kernel).linear_form
    return None if form is None else form(kernel, p)
