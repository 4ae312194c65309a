"""The closed list: there and back, stacks as single inputs, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import CompoundKernel, PairwiseKernel, WhiteKernel

from motet.errors import InvalidData, InvalidModel, UnknownKernel, WrongDimension
from motet.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Identity,
    Linear,
    Matern,
    On,
    RationalQuadratic,
    from_spec,
    on_columns,
    to_spec,
)
from motet.model.gram import gram, linear_form

KERNELS = [
    RBF(0.7),
    RBF([0.7, 1.3, 2.0]),
    RBF(0.7, length_scale_bounds="fixed"),
    RBF(0.7, length_scale_bounds=(0.1, 3.0)),
    Matern(0.7, nu=0.5),
    Matern([0.7, 1.3, 2.0], nu=1.5),
    Matern(0.7, nu=2.5),
    Matern(0.7, nu=np.inf),
    Matern(0.7, nu=1.1),
    RationalQuadratic(0.7, 1.7),
    ExpSineSquared(0.7, 2.1),
    DotProduct(0.0),
    DotProduct(0.4),
    ConstantKernel(2.5),
    Identity(),
    Linear(np.array([[2.0, 0.1, 0, 0], [0.1, 1, 0, 0.2], [0, 0, 1, 0], [0, 0.2, 0, 1]])),
    On(RBF([0.7, 1.3]), [2, 0]),
    RBF(1.0) + DotProduct(0.0) * ConstantKernel(0.1) + Identity(),
    RBF(1.0) * (Matern(1.0) + ConstantKernel(0.5)),
    Exponentiation(DotProduct(1.0), 2) + On(RBF(1.0) + Identity(), [1]),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_there_and_back_through_json(kernel: Any) -> None:
    text = json.dumps(to_spec(kernel), allow_nan=False)
    again = from_spec(json.loads(text))
    assert again == kernel
    assert json.dumps(to_spec(again)) == text
    assert clone(kernel) == kernel


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


def test_formulas_of_our_own() -> None:
    X = np.array([[1.0, 2.0], [1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(Identity()(X), [[1, 1, 0], [1, 1, 0], [0, 0, 1]])
    C = np.array([[2.0, 0.5, 0], [0.5, 1, 0], [0, 0, 3]])
    assert Linear(C)(X)[0, 2] == pytest.approx(np.array([1, 1, 2]) @ C @ np.array([1, 3, 4]))
    np.testing.assert_allclose(On(RBF(2.0), [1])(X), RBF(2.0)(X[:, 1:]))


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
    assert moved.kernel.length_scale == pytest.approx(2.0 * np.e)
    assert kernel.kernel.length_scale == 2.0
    X = np.random.default_rng(0).normal(size=(4, 2))
    _, gradient = kernel(X, eval_gradient=True)
    np.testing.assert_allclose(gradient, RBF(2.0)(X[:, 1:], eval_gradient=True)[1])


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        (WhiteKernel(), UnknownKernel, "unknown kernel WhiteKernel: known are rbf, matern"),
        (RBF(1.0) + PairwiseKernel(), UnknownKernel, "PairwiseKernel"),
        (CompoundKernel([RBF(1.0)]), UnknownKernel, "CompoundKernel"),
        (RBF(-1.0), InvalidModel, "positive length_scale"),
        (RBF([1.0, 0.0]), InvalidModel, "positive length_scale"),
        (RBF(float("nan")), InvalidModel, "finite"),
        (DotProduct(-1.0), InvalidModel, "sigma_0"),
        (ConstantKernel(0.0), InvalidModel, "constant_value"),
        (Linear([[1.0, 2.0], [2.0, 1.0]]), InvalidModel, "negative eigenvalues"),
        (Linear([[1.0, 2.0], [0.0, 1.0]]), InvalidModel, "symmetric"),
        (Linear([[1.0, 2.0]]), InvalidModel, "symmetric"),
        (Linear("abc"), InvalidData, "a covariance must be real numbers"),
        (Linear([[1.0], [1.0, 2.0]]), InvalidData, "equal length"),
        (Linear(np.zeros((2, 2, 2))), InvalidModel, "symmetric"),
        (RBF("1.0"), InvalidModel, "must be a number"),
        (RBF([]), InvalidModel, "got none"),
        (RBF([[1.0], [2.0]]), InvalidModel, "must be a number"),
        (RBF(10**400), InvalidModel, "finite"),
        (DotProduct(1e200), InvalidModel, "finite"),
        (Matern(1.0, nu=300), InvalidModel, "up to 50"),
        (RBF(1.0, length_scale_bounds=(2.0, 1.0)), InvalidModel, "the lower first"),
        (RBF(1.0, length_scale_bounds="loose"), InvalidData, "real numbers"),
        (sum((RBF(1.0) for _ in range(3000)), start=RBF(2.0)), InvalidModel, "too many parts"),
        (On(RBF(1.0), []), InvalidModel, "at least one"),
        (On(RBF(1.0), [1, 1]), InvalidModel, "distinct"),
        (On(On(RBF(1.0), [1]), [1, 2]), InvalidModel, "twice"),
    ],
    ids=lambda value: str(type(value)),
)
def test_refused_kernels(kernel: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        to_spec(kernel)


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ({"kernel": "neural"}, UnknownKernel, "'neural': known are rbf, matern, .* power"),
        ({"kernel": ["rbf"]}, UnknownKernel, "known are"),
        ({"kernel": "rbf", "lenght_scale": 1.0}, InvalidModel, "no 'lenght_scale': it takes length_scale"),
        ({"kernel": "rbf", "length_scale": "long"}, InvalidModel, "must be a number"),
        ({"kernel": "identity", "value": 1}, InvalidModel, "it takes nothing"),
        ({"kernel": "linear"}, InvalidModel, "needs covariance"),
        ({"kernel": "sum", "of": [{"kernel": "rbf"}]}, InvalidModel, "at least two"),
        ({"kernel": "sum"}, InvalidModel, "takes of"),
        ({"kernel": "power", "of": {"kernel": "rbf"}}, InvalidModel, "of and exponent"),
        ({"length_scale": 1.0}, InvalidModel, "a kernel is a table"),
        ("rbf", InvalidModel, "a kernel is a table"),
        ({"kernel": "rbf", "length_scale": [[1.0], [1.0, 2.0]]}, InvalidModel, "must be a number"),
        ({"kernel": "linear", "covariance": {}}, InvalidData, "real numbers"),
        ({"kernel": "rbf", "columns": 3}, InvalidModel, "columns must be"),
    ],
    ids=str,
)
def test_refused_specs(spec: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        from_spec(spec)


def test_wrong_dimension_is_told() -> None:
    X = np.zeros((2, 2))
    with pytest.raises(WrongDimension, match="reads column 3"):
        On(RBF(1.0), [3])(X)
    with pytest.raises(WrongDimension, match="1 slopes"):
        Linear(np.eye(2))(X)
