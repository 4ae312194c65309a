"""Kernels of our own, their formulas and the columns that they read."""

from __future__ import annotations

import math

import numpy as np
import pytest

from motet.errors import InvalidModel, WrongDimension
from motet.kernels.algebra import is_held, on_columns
from motet.kernels.classes import (
    RBF,
    ConstantKernel,
    DotProduct,
    Identity,
    Kernel,
    Linear,
    On,
)
from tests.kernels.examples import KERNELS


def test_formulas_of_our_own() -> None:
    X = np.array([[1.0, 2.0], [1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(Identity()(X), [[1, 1, 0], [1, 1, 0], [0, 0, 1]])
    C = np.array([[2.0, 0.5, 0], [0.5, 1, 0], [0, 0, 3]])
    assert Linear(C)(X)[0, 2] == pytest.approx(np.array([1, 1, 2]) @ C @ np.array([1, 3, 4]))
    np.testing.assert_allclose(On(RBF(2.0), [1])(X), RBF(2.0)(X[:, 1:]))


def test_kernels_show_their_parameters() -> None:
    assert (
        str(Identity() + Linear([[1.0, 0.0], [0.0, 2.0]])) == "Identity() + Linear(covariance=[[1.0, 0.0], [0.0, 2.0]])"
    )


def test_catalogue_columns_reach_every_part_but_identity() -> None:
    kernel = on_columns(RBF(1.0) * (DotProduct(0.0) + ConstantKernel(2.0)) + Identity() + On(RBF(3.0), [0]), [1, 2])
    assert kernel == On(RBF(1.0), [1, 2]) * (On(DotProduct(0.0), [1, 2]) + ConstantKernel(2.0)) + Identity() + On(
        RBF(3.0), [0]
    )
    assert on_columns(kernel, [1, 2]) == kernel


def test_hyperparameters_of_the_inner_kernel_are_seen() -> None:
    kernel = On(RBF(2.0), [1])
    assert [h.name for h in kernel.hyperparameters] == ["kernel__length_scale"]
    moved = kernel.clone_with_theta(kernel.theta + 1.0)
    assert moved.kernel.length_scale == pytest.approx(2.0 * math.e)
    assert kernel.kernel.length_scale == 2.0
    X = np.random.default_rng(0).normal(size=(4, 2))
    _, gradient = kernel(X, eval_gradient=True)
    np.testing.assert_allclose(gradient, RBF(2.0)(X[:, 1:], eval_gradient=True)[1])


def test_wrong_dimension_is_told() -> None:
    X = np.zeros((2, 2))
    with pytest.raises(WrongDimension, match="reads column 3"):
        On(RBF(1.0), [3])(X)
    with pytest.raises(WrongDimension, match="1 slopes"):
        Linear(np.eye(2))(X)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_a_kernel_is_held_if_it_has_no_free_parameter(kernel: Kernel) -> None:
    assert is_held(kernel) == all(parameter.fixed for parameter in kernel.hyperparameters)
    assert not is_held(2.0 * kernel)
    assert is_held(ConstantKernel(2.0, "fixed") * kernel) == is_held(kernel)


def test_a_covariance_is_checked_once_and_anew_when_it_is_set() -> None:
    kernel = Linear([[1.0, 0.5], [0.5, 1.0]])
    assert kernel.C is kernel.C
    kernel.set_params(covariance=[[4.0, 0.0], [0.0, 9.0]])
    np.testing.assert_array_equal(kernel.C, np.diag([4.0, 9.0]))
    np.testing.assert_array_equal(kernel.L, np.diag([2.0, 3.0]))
    kernel.theta = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(kernel.C, [[1.0, 2.0], [2.0, 13.0]], rtol=1e-15)
    kernel.covariance = [[1.0, 2.0], [2.0, 1.0]]
    with pytest.raises(InvalidModel, match="without negative eigenvalues"):
        kernel.C  # noqa: B018
