"""e(x)ᵀe(x′) = K̄(x, x′) in every basis, and what is left over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from motet.arrays import as_bytes
from motet.errors import EmptyData, InvalidData, InvalidModel, NotFinite, NotPositiveDefinite, WrongDimension
from motet.kernels import RBF, ConstantKernel, DotProduct, ExpSineSquared, Identity, Linear, On
from motet.kernels.gram import gram
from motet.model.basis import NYSTROM_POINTS, Basis, Eigen, Features, Landmarks, Nystrom
from motet.model.model import Model
from motet.model.tasks import Shift
from tests.oracles import Array

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
SMOOTH = ConstantKernel(2.0) * RBF(10.0)


def fixed(spec: Any, kernel: Any, p: int = 2) -> Basis:
    return Basis.fixed(spec, kernel, p, "constant", False)


def inner(basis: Basis, X: Array) -> Array:
    return basis.e(X) @ basis.e(X).T


def test_landmarks_are_exact_on_themselves_and_drop_what_is_redundant() -> None:
    doubled = np.vstack([X, X])
    basis = fixed(Landmarks(doubled), RBF(0.5))
    assert basis.rank == len(X)
    np.testing.assert_allclose(inner(basis, X), RBF(0.5)(X), atol=1e-10)
    smooth = fixed(Landmarks(X), SMOOTH)
    assert smooth.rank < len(X)
    np.testing.assert_allclose(inner(smooth, X), SMOOTH(X), atol=1e-10)


def test_eigenvectors_of_many_points_are_found_on_some_of_them() -> None:
    """Nearly as good as those on all, at any of them; of items that only have names, the first are a feature each."""
    many = np.random.default_rng(0).normal(size=(1200, 2))
    some = fixed(Nystrom(many, 12), RBF(1.0))
    assert len(some.landmarks) == NYSTROM_POINTS
    assert len(fixed(Eigen(many, 12), RBF(1.0)).landmarks) == 1200
    best = np.linalg.eigvalsh(gram(RBF(1.0), many))[:-12].sum() / 1200
    residual = 1.0 - float(np.mean((some.e(many) ** 2).sum(axis=1)))
    assert best < residual < 1.05 * best
    names = np.arange(1500.0)[:, None]
    basis = Basis.fixed(Nystrom(names, 7), ConstantKernel(4.0) * Identity(), 1, "none", has_index=True)
    np.testing.assert_allclose(basis.e(names), 2.0 * np.eye(1500, 7), atol=1e-12)


def test_eigen_is_the_best_of_its_rank() -> None:
    K = RBF(1.0)(X)
    basis = fixed(Eigen(X, 7), RBF(1.0))
    assert np.linalg.norm(K - inner(basis, X), 2) == pytest.approx(np.linalg.eigvalsh(K)[-8], rel=1e-8)
    assert fixed(Eigen(X, 5), DotProduct(0.0)).rank == 2


@pytest.mark.parametrize(
    "kernel",
    [
        DotProduct(0.0),
        DotProduct(1.5),
        Linear([[1, 0.5, 0], [0.5, 1, 0], [0, 0, 0]]),
        On(DotProduct(0.0), [1]) + ConstantKernel(2.0),
    ],
    ids=str,
)
def test_features_are_exact_everywhere(kernel: Any) -> None:
    basis = fixed(Features(), kernel)
    np.testing.assert_allclose(inner(basis, X), kernel(X), atol=1e-12)
    np.testing.assert_allclose(basis.residual(X, basis.e(X)), 0.0, atol=1e-12)


def test_features_of_a_dot_product_are_the_inputs_themselves() -> None:
    """The article's L = x̆, D = I."""
    np.testing.assert_array_equal(fixed(Features(), DotProduct(0.0)).e(X), X)


def test_residual_is_the_variance_that_the_basis_misses() -> None:
    basis = fixed(Landmarks(X[:4]), RBF(1.0))
    K, k = RBF(1.0)(X[:4]), RBF(1.0)(X, X[:4])
    expected = 1.0 - np.einsum("ij,jk,ik->i", k, np.linalg.inv(K), k)
    np.testing.assert_allclose(basis.residual(X, basis.e(X)), expected, atol=1e-12)


def test_what_a_grown_basis_misses_is_the_kernel_of_further_inputs() -> None:
    """Exactly nothing at the inputs that it was made of; with their features the rest is all of K̄."""
    basis, F, order = Basis.grown(RBF(1.0), X[:10], "constant", False)
    assert sorted(order) == list(range(10))
    np.testing.assert_allclose(F, basis.columns(X[order]), atol=1e-9)
    model = Model(RBF(1.0), Identity(), 0.3, 0.1)
    shift = Shift.of(model, model.individual, basis, frozenset(as_bytes(X[:10])))
    E, new = basis.e(X[:15]), slice(10, 15)
    residual = shift.gram(X[:15]) - 0.7 * np.eye(15)
    np.testing.assert_array_equal(residual[:10], 0.0)
    np.testing.assert_allclose(0.3 * E @ E.T + residual, 0.3 * RBF(1.0)(X[:15]), atol=1e-9)
    np.testing.assert_allclose(shift.gram(X[:15], X[new]), shift.gram(X[:15])[:, new], atol=1e-9)
    np.testing.assert_array_equal(shift.gram(X[:15], X[new], E=E, D=E[new]), shift.gram(X[:15], X[new]))


def test_bias_columns() -> None:
    for bias, columns in (("none", 0), ("constant", 1), ("linear", 3)):
        basis = Basis.fixed(None, None, 2, bias, False)  # type: ignore[arg-type]
        assert basis.psi(X).shape == (30, columns)
        np.testing.assert_array_equal(basis.prior, np.zeros(columns))
    np.testing.assert_array_equal(basis.psi(X)[:, 1:], X)
    np.testing.assert_array_equal(Basis.fixed(None, None, 2, (1,), False).psi(X)[:, 1:], X[:, 1:])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Landmarks(np.empty((0, 2))), EmptyData, "must be a table, one row each"),
        (lambda: Landmarks([1.0, 2.0]), WrongDimension, "must be a table, one row each"),
        (lambda: Landmarks([[float("nan")]]), NotFinite, "must be finite"),
        (lambda: Landmarks([["noon"]]), InvalidData, "points must be real numbers"),
        (lambda: Eigen(X, 0), InvalidModel, "rank from 1 to 30"),
        (lambda: Eigen(X, 31), InvalidModel, "rank from 1 to 30"),
        (lambda: Eigen(X, 1.5), InvalidModel, "rank from 1 to 30"),  # type: ignore[arg-type]
        (lambda: Eigen(X, "1"), InvalidModel, "rank from 1 to 30"),  # type: ignore[arg-type]
        (lambda: fixed(Features(), RBF(1.0)), InvalidModel, "use Landmarks"),
        (lambda: fixed(Landmarks(X), ExpSineSquared(0.3, 0.5)), NotPositiveDefinite, "needs inputs of one column"),
        (lambda: fixed(Eigen(X, 3), ExpSineSquared(0.3, 0.5)), NotPositiveDefinite, "needs inputs of one column"),
    ],
)
def test_refused_bases(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
