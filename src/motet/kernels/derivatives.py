"""Derivatives of kernels with respect to their hyperparameters, over two sets of inputs or over stacks of them.

The parameters are those of scikit-learn's ``kernel.theta``, logarithms but for ``Linear``, in its order and without
those that are fixed. Derivatives come one after the other, so that there is never an array of n × n × parameters.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from motet.arrays import Array
from motet.kernels.algebra import is_held, with_theta
from motet.kernels.classes import ConstantKernel, Exponentiation, Kernel, On, Product, Scaled, Sum
from motet.kernels.gram import gram
from motet.kernels.registry import Derivatives, entry_of

DIFFERENCE_STEP = 1e-5  # of a central difference: an error of about 1e-10


def derivatives(kernel: Kernel, X: Array, Y: Array | None = None) -> Derivatives:
    """∂K(X, Y)/∂θᵢ for every free parameter, in order."""
    Y = X if Y is None else Y
    if type(kernel) in (On, Scaled):
        return derivatives(kernel.kernel, kernel.read(X), kernel.read(Y))
    rule = COMPOSED.get(type(kernel))
    if rule is None:
        if is_held(kernel):
            return iter(())
        rule = entry_of(kernel).derivatives or by_differences
    return rule(kernel, X, Y)


def by_differences(kernel: Kernel, X: Array, Y: Array) -> Derivatives:
    """The default, for kernels that have no rule: slow, and right to ten digits."""
    return differences(kernel, lambda moved: gram(moved, X, Y))


def differences(kernel: Kernel, of: Callable[[Kernel], Array]) -> Derivatives:
    """Central differences of a function of a kernel, by each of its free parameters."""
    theta = kernel.theta
    for step in DIFFERENCE_STEP * np.eye(len(theta)):
        above, below = (of(with_theta(kernel, theta + side * step)[0]) for side in (1, -1))
        yield (above - below) / (2 * DIFFERENCE_STEP)


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
    if is_held(kernel):
        return
    factor = kernel.exponent * gram(kernel.kernel, X, Y) ** (kernel.exponent - 1)
    for D in derivatives(kernel.kernel, X, Y):
        yield factor * D


COMPOSED: dict[type[Kernel], Callable[..., Derivatives]] = {Sum: _sum, Product: _product, Exponentiation: _power}
