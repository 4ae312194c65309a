"""Stacks as single sets of inputs, and the matrices of linear kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from motet.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    On,
)
from motet.kernels.gram import gram, linear_form
from tests.kernels.examples import KERNELS


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_a_stack_is_its_tasks_one_by_one(kernel: Any) -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(4, 5, 3)), rng.normal(size=(4, 2, 3))
    X[0, 1] = X[0, 0]
    Y[1, 0] = X[1, 2]
    for y in (None, Y):
        stack = gram(kernel, X, y)
        for k in range(4):
            np.testing.assert_allclose(stack[k], kernel(X[k], None if y is None else y[k]), rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(kernel.diag(X[0]), np.diag(kernel(X[0])), rtol=1e-13)
    assert gram(kernel, X[0, :0], X[0]).shape == (0, 5)


@pytest.mark.parametrize(
    ("kernel", "form"),
    [
        (DotProduct(2.0), np.diag([4.0, 1, 1])),
        (ConstantKernel(3.0) * On(DotProduct(0.0), [1]), np.diag([0.0, 0, 3])),
        (ConstantKernel(0.5) + DotProduct(0.0), np.diag([0.5, 1, 1])),
        (RBF(1.0), None),
        (DotProduct(1.0) * DotProduct(1.0), None),
        (Exponentiation(DotProduct(1.0), 2), None),
        (On(RBF(1.0), [0]) + ConstantKernel(1.0), None),
    ],
    ids=str,
)
def test_linear_kernels_show_their_covariance(kernel: Any, form: Any) -> None:
    found = linear_form(kernel, 2)
    assert (found is None) == (form is None)
    if found is not None:
        np.testing.assert_allclose(found, form)
