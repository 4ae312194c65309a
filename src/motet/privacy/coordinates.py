"""The public, preconditioned coordinates in which private clients are clipped: formula 1 of docs/privacy.md.

They follow from the model and from public points, inputs such as clients may have; no data are used. The coordinates
are those of the basis's eigenvectors over the points, flattened, so that clients spend their unit norm on directions
that matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from motet.arrays import Array
from motet.errors import InvalidModel
from motet.kernels.gram import gram
from motet.linalg import eigen
from motet.model.basis import Basis
from motet.model.model import Model
from motet.model.tasks import Shift

EIGENVALUE_POWER = 0.7  # p of formula 1


@dataclass(frozen=True, eq=False)
class Coordinates:
    """φ(x)ᵀT with T = U W^((p−1)/2), FᵀF = UWUᵀ over the public points; their weights have the prior N(0, σ²αW^(1−p)).

    The bias has a flat prior in a client's formulas. Here it has one as wide as an observation, with precision
    ``bias_precision``.
    """

    model: Model
    basis: Basis
    points: Array
    T: Array
    prior_variance: Array  # of the weights, in units of σ²
    bias_precision: Array  # of the weights of the basis's columns, 0 but for the bias

    @classmethod
    def of(cls, model: Model, points: Any = None) -> Coordinates:
        """The coordinates of a model; by default the points are its catalogue or the basis's own."""
        basis, points = _public_basis(model, points)
        columns, is_bias, alpha = basis.columns(points), basis.prior == 0, model.common_share
        residual = alpha * basis.residual(points, columns[:, ~is_bias])
        observation = np.mean(Shift.of(model, model.individual, basis).variance(points, residual))
        observation += model.noise.observation(1.0)
        observation += alpha * np.mean((columns[:, ~is_bias] ** 2).sum(axis=1))
        size = np.sqrt(np.mean(columns**2, axis=0))
        scale = np.where(is_bias, np.sqrt(observation / alpha) / np.where(size > 0, size, 1.0), 1.0)
        F = columns * scale
        W, U = eigen(F.T @ F, F)  # formula 1
        W = np.maximum(W, 1e-12 * W.max(initial=0.0) + np.finfo(float).tiny)
        T = scale[:, None] * U * W ** ((EIGENVALUE_POWER - 1) / 2)
        prior_variance = alpha * W ** (1 - EIGENVALUE_POWER)
        return cls(model, basis, points, T, prior_variance, is_bias / (alpha * scale**2))

    @property
    def sigma2(self) -> float:
        return float(self.model.noise.sigma2 or 1.0)

    @cached_property
    def F(self) -> Array:
        """The coordinates of the public points."""
        return self.columns(self.points)

    def columns(self, X: Array) -> Array:
        """The coordinates of some inputs, a row for each."""
        return np.asarray(self.basis.columns(X) @ self.T)

    def shift(self, kernel: Kernel) -> Shift:
        """Formula 2: a client's shift has also the residual of the basis."""
        return Shift.of(self.model, kernel, self.basis)

    def residual_gram(self, points: Array) -> Array:
        """α(K̄ − eᵀe) between points, the residual of the average's covariance, in units of σ²."""
        E = self.basis.e(points)
        if self.basis.kernel is None or not self.basis.has_residual:
            return np.zeros((len(points), len(points)))
        return np.asarray(self.model.common_share * (gram(self.basis.kernel, points) - E @ E.T))

    def to_basis(self, precision: Array, precision_times_mean: Array) -> tuple[Array, Array]:
        """Formula 5, Λ and η to publish: the posterior of these weights, less the prior, in the basis's columns."""
        T_inverse = np.linalg.inv(self.T)
        Lambda = T_inverse.T @ precision @ T_inverse + np.diag(self.bias_precision)
        return (Lambda + Lambda.T) / 2, T_inverse.T @ precision_times_mean

    @property
    def fingerprint(self) -> Array:
        """One number for each coordinate, by which to recognise the coordinates on another machine."""
        return self.F.T @ (1.0 / np.arange(1, len(self.F) + 1))

    def matches(self, fingerprint: Array) -> bool:
        """Whether these coordinates have that fingerprint, except for directions that hardly matter."""
        mine = self.fingerprint
        return fingerprint.shape == mine.shape and bool(np.abs(fingerprint - mine).max() <= 1e-3 * np.abs(mine).max())


def _public_basis(model: Model, points: Any) -> tuple[Basis, Array]:
    """The fixed basis of a model and its public points; a refusal has the setting to change in ``where``."""
    if model.common is not None and model.basis is None:
        raise InvalidModel(
            "a private release needs a fixed basis, because a growing one shows which inputs were sent: give the model "
            "basis=Eigen(catalogue, rank) for a catalogue, Landmarks(points) for a grid, or Features() if K̄ is linear",
            where="basis",
        )
    if not model.common_share:
        raise InvalidModel("with alpha 0 nothing is shared, so there is nothing to release: raise alpha", where="alpha")
    if model.common is None and model.bias == "none":
        raise InvalidModel(
            "without a common kernel and a bias nothing is shared: give the model one of them", where="bias"
        )
    if model.noise.sigma2 is None:
        raise InvalidModel(
            "a private release needs a public sigma2: an estimate from the data would leak", where="sigma2"
        )
    if points is None:
        points = model.public_points
    if points is None or not len(rows := model.rows(points, model.dimension)):
        raise InvalidModel("a private release simulates clients: give points=, inputs such as they may have")
    model.check_dimension(rows.shape[1])
    spec = model.basis if model.common is not None else None
    return Basis.fixed(spec, model.common, rows.shape[1], model.bias, model.catalogue is not None), rows
