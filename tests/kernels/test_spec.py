"""Kernels as plain data: there and back, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import CompoundKernel, PairwiseKernel, WhiteKernel

from motet.errors import InvalidData, InvalidModel, UnknownKernel
from motet.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Linear,
    Matern,
    On,
    registry,
)
from motet.kernels.spec import from_spec, to_spec
from tests.kernels.examples import KERNELS


def test_every_kernel_of_the_list_is_tried() -> None:
    tried = {type(kernel) for kernel in KERNELS}
    missing = [name for name, entry in registry.KERNELS.items() if entry.type not in tried]
    assert missing == [], "tests/kernels/examples.py has one of each"


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_there_and_back_through_json(kernel: Any) -> None:
    text = json.dumps(to_spec(kernel), allow_nan=False)
    again = from_spec(json.loads(text))
    assert again == kernel
    assert json.dumps(to_spec(again)) == text
    assert clone(kernel) == kernel


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        (WhiteKernel(), UnknownKernel, "unknown kernel WhiteKernel: known are rbf, matern"),
        (RBF(1.0) + PairwiseKernel(), UnknownKernel, "PairwiseKernel"),
        (CompoundKernel([RBF(1.0)]), UnknownKernel, "CompoundKernel"),
        (RBF(-1.0), InvalidModel, "length_scale of RBF must be positive"),
        (RBF([1.0, 0.0]), InvalidModel, "length_scale of RBF must be positive"),
        (RBF(float("nan")), InvalidModel, "must be a finite number"),
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
