"""Finite features against the kernels themselves, and their derivatives against those of the kernels."""

from __future__ import annotations

import numpy as np
import pytest

from motet.kernels import RBF, ConstantKernel, DotProduct, Exponentiation, Identity, Kernel, Linear, On, Scaled
from motet.kernels.derivatives import derivatives
from motet.kernels.finite_rank import feature_count, feature_derivatives, features
from motet.kernels.gram import gram
from tests.kernels.examples import KERNELS

C = ConstantKernel
COVARIANCE = [[1.0, 0.3, 0.0], [0.3, 1.0, 0.0], [0.0, 0.0, 0.5]]
FINITE: dict[str, Kernel] = {
    "constant": C(0.7),
    "slopes": DotProduct(0.0, "fixed"),
    "intercept and slopes": DotProduct(0.6),
    "linear": Linear(COVARIANCE),
    "linear, fixed": C(0.3) * Linear(COVARIANCE, "fixed"),
    "levels": C(0.4) * Identity(),
    "levels of a column": C(0.4) * On(Identity(), [1]) + C(0.2),
    "slopes by level": On(Identity(), [1]) * On(Linear([[1.0, 0.2], [0.2, 0.5]]), [0]),
    "quadratic": Exponentiation(DotProduct(0.5), 2),
    "cubic": C(0.1) * Exponentiation(C(0.3) * DotProduct(0.5) + C(0.2), 3),
    "scaled": Scaled(C(0.5) * Linear(COVARIANCE) + On(DotProduct(0.4), [1]), [0.1, -0.2], [2.0, 0.5]),
    "product": DotProduct(0.3) * C(0.5) * DotProduct(0.2),
}


@pytest.mark.parametrize("name", FINITE)
def test_features_are_the_kernels(name: str) -> None:
    """K = UUᵀ and ∂K = ∂U Uᵀ + U∂Uᵀ, of one table and of a stack; levels are of each table alone."""
    kernel, rng = FINITE[name], np.random.default_rng(0)
    stack = rng.integers(-2, 3, size=(3, 7, 2)) / 2.0
    for X in (stack, stack[0]):
        U = features(kernel, X)
        assert U.shape == (*X.shape[:-1], feature_count(kernel, X))
        np.testing.assert_allclose(U @ U.swapaxes(-1, -2), gram(kernel, X), rtol=0, atol=1e-13)
        pairs = list(zip(feature_derivatives(kernel, X), derivatives(kernel, X, X), strict=True))
        assert len(pairs) == len(kernel.theta)
        for D, expected in pairs:
            half = D @ U.swapaxes(-1, -2)
            np.testing.assert_allclose(half + half.swapaxes(-1, -2), expected, rtol=0, atol=1e-9)


def test_other_kernels_have_none() -> None:
    X = np.zeros((4, 3))
    finite = {str(kernel) for kernel in KERNELS if feature_count(kernel, X) is not None}
    assert all("RBF" not in name and "Matern" not in name for name in finite)
    assert len(finite) == 5
    assert feature_count(C(1.0) * (RBF(1.0) + DotProduct(1.0)), X) is None
    assert feature_count(Exponentiation(DotProduct(1.0), 1.5), X) is None
