"""The public coordinates in which clients of a private study are clipped, and clients simulated in them.

All of it follows from the model and from the inputs that may come: nothing here has seen data. Eigen-coordinates of
the basis over those inputs are flattened, so that a client's unit norm is spent on directions that matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from motet.arrays import Array
from motet.errors import InvalidModel, NotPositiveDefinite
from motet.linalg import eigen
from motet.model.basis import Basis
from motet.model.model import Model
from motet.model.tasks import Shift, blocks

POWER = 0.7  # p: the coordinates keep this power of the eigenvalues
CLIENTS, FEWEST = 1500, 100  # simulated
ROOM = 2**24  # numbers of all of them together


@dataclass(frozen=True, eq=False)
class Coordinates:
    """φ(x)·T, with T = U W^((p−1)/2) where FᵀF over the public points is UWUᵀ."""

    model: Model
    basis: Basis
    points: Array
    T: Array
    prior: Array  # variances of the weights, in units of σ²
    bias: Array  # precision that the bias has here and not in a client's formulas, where it is flat

    @classmethod
    def of(cls, model: Model, points: Any = None) -> Coordinates:
        """The coordinates of a model, over points such as clients may have.

        The bias, which a client takes as flat, gets a prior here that is as wide as an observation is.
        """
        basis, points = _public(model, points)
        columns, flat, alpha = basis.columns(points), basis.prior == 0, model.common_share
        missed = alpha * basis.residual(points, columns[:, ~flat])
        wide = np.mean(Shift.of(model, model.individual, basis).variance(points, missed)) + model.lam
        wide += alpha * np.mean((columns[:, ~flat] ** 2).sum(axis=1))
        size = np.sqrt(np.mean(columns**2, axis=0))
        scale = np.where(flat, np.sqrt(wide / alpha) / np.where(size > 0, size, 1.0), 1.0)
        F = columns * scale
        W, U = eigen(F.T @ F, F)
        W = np.maximum(W, 1e-12 * W.max(initial=0.0) + np.finfo(float).tiny)
        T = scale[:, None] * U * W ** ((POWER - 1) / 2)
        return cls(model, basis, points, T, alpha * W ** (1 - POWER), flat / (alpha * scale**2))

    @property
    def sigma2(self) -> float:
        return float(self.model.sigma2 or 1.0)

    @cached_property
    def F(self) -> Array:
        """The columns at the public points."""
        return self.columns(self.points)

    def same_as(self, mark: Array) -> bool:
        """Whether these are the coordinates with that ``mark``, but for directions that hardly matter."""
        here = self.mark
        return mark.shape == here.shape and bool(np.abs(mark - here).max() <= 1e-3 * np.abs(here).max())

    @property
    def mark(self) -> Array:
        """A number for each coordinate, by which to know them again."""
        return self.F.T @ (1.0 / np.arange(1, len(self.F) + 1))

    def columns(self, X: Array) -> Array:
        return np.asarray(self.basis.columns(X) @ self.T)

    def shift(self, kernel: Kernel) -> Shift:
        return Shift.of(self.model, kernel, self.basis)

    def published(self, precision: Array, weighted: Array) -> tuple[Array, Array]:
        """Λ and η for a client's own formulas: these, which are in our coordinates, in those of φ."""
        back = np.linalg.inv(self.T)
        Lambda = back.T @ precision @ back + np.diag(self.bias)
        return (Lambda + Lambda.T) / 2, back.T @ weighted

    def simulated(self, examples: int, seed: int) -> tuple[Array, Array, Array]:
        """Clients drawn from the model's prior, with inputs uniform on the points: F, R and y of each."""
        rng = np.random.default_rng(seed)
        clients = max(FEWEST, min(CLIENTS, ROOM // (examples * (examples + len(self.prior)))))
        h = np.argsort(rng.random((clients, len(self.points))), axis=1)[:, :examples]
        shift = self.shift(self.model.individual)
        V = shift.covariance(blocks(shift.gram(self.points), h), np.ones(h.shape))
        F = self.F[h]
        try:
            half = np.linalg.cholesky(V + (F * self.prior) @ F.swapaxes(1, 2))
        except np.linalg.LinAlgError:
            kernel = self.model.individual
            raise NotPositiveDefinite(
                f"{kernel} is not positive definite on the points: check it, or raise lam"
            ) from None
        return F, np.linalg.inv(V), np.sqrt(self.sigma2) * (half @ rng.normal(size=(*h.shape, 1)))[:, :, 0]


def _public(model: Model, points: Any) -> tuple[Basis, Array]:
    """The basis and the points that clients are expected to have, or a refusal that says what is missing."""
    if model.common is not None and model.basis is None:
        raise InvalidModel(
            "a growing basis shows which inputs came, so a private release needs a fixed one: "
            "a catalogue with Eigen(catalogue, rank), a grid with Landmarks(points), or Features() where K̄ is linear",
            where="basis",
        )
    if not model.common_share:
        refusal = "with alpha 0 nothing is shared, so there is nothing to release: take a larger alpha"
        raise InvalidModel(refusal, where="alpha")
    if model.common is None and model.bias == "none":
        refusal = "without a common kernel and a bias nothing is shared: give the model one of them"
        raise InvalidModel(refusal, where="bias")
    if model.sigma2 is None:
        refusal = "a private release needs a public sigma2: one estimated from the data would leak"
        raise InvalidModel(refusal, where="sigma2")
    if points is None:
        points = model.public_points
    if points is None or not len(rows := model.rows(points, model.dimension)):
        raise InvalidModel("a private release simulates clients: give points=, inputs such as they may have")
    model.check_dimension(rows.shape[1])
    spec = model.basis if model.common is not None else None
    return Basis.fixed(spec, model.common, rows.shape[1], model.bias, model.catalogue is not None), rows
