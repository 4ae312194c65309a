"""What the registry knows of kernels: of each built-in one everything, or what is left to a default by name.

A kernel from outside brings the same in one call of ``register``: it is then fast and well described, and without it
slow and right.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import Hyperparameter

from motet import MixedEffectRegressor
from motet.errors import InvalidModel
from motet.kernels import RBF, ConstantKernel, Identity, On, Scaled, register
from motet.kernels.algebra import describe, has_levels, in_units, is_diagonal
from motet.kernels.classes import Kernel, Linear
from motet.kernels.derivatives import derivatives
from motet.kernels.finite_rank import feature_count, feature_derivatives, features
from motet.kernels.gram import gram, linear_form
from motet.kernels.registry import KERNELS, OPTIONAL, Features, KernelEntry, Size
from tests.oracles import Array


@pytest.mark.parametrize("entry", KERNELS.values(), ids=list(KERNELS))
def test_nothing_is_left_to_a_default_silently(entry: KernelEntry) -> None:
    given = {name for name in OPTIONAL if getattr(entry, name) is not None}
    assert given | set(entry.by_default) == set(OPTIONAL)
    assert given.isdisjoint(entry.by_default)


def test_a_default_is_named_of_what_is_left_out() -> None:
    for field in ("words", "colour"):
        with pytest.raises(InvalidModel, match=field):
            KernelEntry("toy", Kernel, words="toys", by_default=(field,))


class Laplace(Kernel):  # type: ignore[misc]
    """k(x, x′) = exp(−Σ|xᵢ − x′ᵢ|/ℓ), one set of inputs at a time and without derivatives."""

    def __init__(self, length: float = 1.0, length_bounds: Any = (1e-5, 1e5)) -> None:
        self.length, self.length_bounds = length, length_bounds

    @property
    def hyperparameter_length(self) -> Any:
        return Hyperparameter("length", "numeric", self.length_bounds)

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
        assert not eval_gradient
        return np.exp(-np.abs(X[:, None, :] - (X if Y is None else Y)[None, :, :]).sum(axis=2) / self.length)

    def diag(self, X: Array) -> Array:
        return np.ones(len(X))

    def is_stationary(self) -> bool:
        return True


class Trend(Laplace):
    """k(x, x′) = ℓ² Σxᵢ Σx′ᵢ."""

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
        assert not eval_gradient
        return self.length**2 * np.outer(X.sum(axis=1), (X if Y is None else Y).sum(axis=1))

    def diag(self, X: Array) -> Array:
        return np.asarray((self.length * X.sum(axis=1)) ** 2)

    def is_stationary(self) -> bool:
        return False


CALLS: list[str] = []


def laplace_stack(kernel: Laplace, X: Array, Y: Array) -> Array:
    CALLS.append("stack")
    return np.asarray(np.exp(-np.abs(X[..., :, None, :] - Y[..., None, :, :]).sum(axis=-1) / kernel.length))


def laplace_derivatives(kernel: Laplace, X: Array, Y: Array) -> Iterator[Array]:
    CALLS.append("derivatives")
    K = gram(kernel, X, Y)
    yield -K * np.log(K)


def trend_features(kernel: Trend, X: Array, _own: Array) -> Array:
    CALLS.append("features")
    return kernel.length * X.sum(axis=-1, keepdims=True)


def trend_form(kernel: Trend, p: int) -> Array:
    return kernel.length**2 * np.outer([0.0, *np.ones(p)], [0.0, *np.ones(p)])


KNOWN: dict[type[Laplace], dict[str, Any]] = {
    Laplace: {
        "stack": laplace_stack,
        "derivatives": laplace_derivatives,
        "sizes": {"length": Size.LENGTH},
        "words": "rough",
    },
    Trend: {"linear_form": trend_form, "features": Features(trend_features), "words": "trend"},
}


@pytest.fixture(params=["known", "unknown"])
def is_known(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Two kernels from outside: registered with what is known of them, or without."""
    CALLS.clear()
    for kind, known in KNOWN.items():
        register(kind.__name__.lower(), kind, **(known if request.param == "known" else {}))
    yield request.param == "known"
    for kind in KNOWN:
        del KERNELS[kind.__name__.lower()]


def test_values_derivatives_and_words(is_known: bool) -> None:
    """The same with what is known and without, on a stack and within kernels made of others."""
    X = np.random.default_rng(0).normal(size=(3, 5, 2))
    kernel = ConstantKernel(0.5) * On(Laplace(0.7), [1]) + Trend(0.3)
    K = [0.5 * Laplace(0.7)(table[:, [1]]) + Trend(0.3)(table) for table in X]
    np.testing.assert_allclose(gram(kernel, X), K, rtol=1e-13)
    for D, step in zip(derivatives(kernel, X), 1e-6 * np.eye(3), strict=True):
        above, below = (gram(kernel.clone_with_theta(kernel.theta + s * step), X) for s in (1, -1))
        np.testing.assert_allclose(D, (above - below) / 2e-6, rtol=0, atol=1e-8)
    assert ("stack" in CALLS and "derivatives" in CALLS) == is_known
    assert describe(kernel) == ("intercept × rough of column 1 + trend" if is_known else
                                "intercept × Laplace of column 1 + Trend")  # fmt: skip
    one_column = Scaled(Laplace(0.7), [1.0], [3.0])
    assert (in_units(one_column) == Laplace(0.7 * 3.0)) == is_known


def test_finite_rank_and_linear_form(is_known: bool) -> None:
    X, kernel = np.random.default_rng(1).normal(size=(3, 5, 2)), Trend(0.3)
    assert feature_count(kernel, X) == (1 if is_known else None)
    assert (linear_form(kernel, 2) is not None) == is_known
    if is_known:
        u, (D,) = features(kernel, X), feature_derivatives(kernel, X)
        np.testing.assert_allclose(u @ u.swapaxes(-1, -2), gram(kernel, X), rtol=1e-13)
        np.testing.assert_allclose(D, u, rtol=1e-8)  # by central differences, as nobody said better


def fitted(**settings: Any) -> MixedEffectRegressor:
    rng, task = np.random.default_rng(2), np.repeat(list("abcdef"), 6)
    X = rng.normal(size=(36, 1))
    y = np.sin(2 * X[:, 0]) + np.repeat(rng.normal(size=6), 6) * X[:, 0] + 0.1 * rng.normal(size=36)
    return MixedEffectRegressor(**settings).fit(X, y, task=task)


EVIDENCE: list[float] = []


def test_a_fit_finds_the_same_settings_either_way(is_known: bool) -> None:
    """Between the same bounds: by default those of a length are in its natural size, if that is known."""
    reg = fitted(common=Laplace(1.0, (0.1, 5.0)), individual=Trend(1.0, "fixed") + ConstantKernel(1.0))
    EVIDENCE.append(reg.engine_.evidence().log_evidence)
    np.testing.assert_allclose(EVIDENCE, EVIDENCE[0], rtol=0, atol=1e-3)
    assert ("shift: slope of column 0" in str(reg.summary())) == is_known  # by its linear form


def test_a_fit_checks_each_covariance_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A covariance is checked when its numbers are new: not when it is read, and not in each copy of a kernel."""
    calls, check = [], np.linalg.eigvalsh

    def counted(C: Array) -> Array:
        calls.append(C.shape)
        return np.asarray(check(C))

    monkeypatch.setattr("numpy.linalg.eigvalsh", counted)
    tuning = fitted(common=None, individual="linear").tuning_
    assert tuning is not None
    assert 10 < len(calls) <= len(tuning.log) + 20


def test_levels_have_nothing_in_common() -> None:
    assert is_diagonal(ConstantKernel(2.0) * Identity())
    assert not is_diagonal(On(Identity(), [0]))
    assert has_levels(RBF(1.0) * On(Identity(), [0]))
    assert not has_levels(Linear(np.eye(2).tolist()))
