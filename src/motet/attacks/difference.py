"""The difference between two releases: ΔΛ and Δη in one basis, and from them ΔG and Δg over inputs.

Every attack begins here. A growing basis is another one in every release, so both releases are carried into a basis
that spans them. A single release is its difference to an empty study.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from motet.arrays import Array, Index, match, outputs
from motet.errors import InvalidRelease
from motet.model.basis import Basis
from motet.model.tasks import Task
from motet.release.disclosed import Disclosed

Examples: TypeAlias = tuple[Any, Any, Any]  # X, y, noise of one client

TINY = float(np.finfo(float).tiny)
EPS = float(np.finfo(float).eps)
ROUNDING_GAP = 1e3  # a number this many times larger than rounding is not rounding
SINGULAR_VALUE_CUTOFF = 1e-6  # of F, relative; a weaker direction has no digit left in G, which has its square


@dataclass(frozen=True, eq=False)
class InputSums:
    """G and g over some inputs; ``unique`` if no other sums over them give the same release.

    Rounding in G is about ``error``; ``unexplained`` is the share of Λ that clients with these inputs cannot add.
    """

    inputs: Array
    G: Array
    g: Array
    unique: bool
    error: float
    unexplained: float

    @property
    def links(self) -> Array:
        """Which two inputs one client has both of, as far as G is not rounding."""
        return np.abs(self.G) > 10 * self.error

    @property
    def pairs(self) -> Index:
        """The numbers of linked inputs, two by two; none if G is not unique."""
        return np.argwhere(np.triu(self.links, 1)) if self.unique else np.empty((0, 2), dtype=np.intp)


@dataclass(frozen=True, eq=False)
class Difference:
    """ΔΛ and Δη in one basis; ``rounding`` is the least error that floating point leaves in ΔΛ."""

    release: Disclosed
    basis: Basis
    candidates: Array  # inputs that clients may have sent
    Lambda: Array
    eta: Array
    rounding: float

    @classmethod
    def between(
        cls,
        before: Disclosed | None,
        after: Disclosed,
        *,
        attacker_examples: Iterable[Examples] = (),
        candidates: Any = None,
    ) -> Difference:
        """What was added between two releases, or since the beginning if ``before`` is None.

        Examples that the attacker's own clients sent in between are known, so their part is subtracted.
        """
        basis, X = _common_basis(before, after)
        X = X if candidates is None else after.rows(candidates)
        Lambda, eta = _carry(after, basis)
        rounding = EPS * float(np.linalg.norm(Lambda))
        if before is not None:
            Lambda_before, eta_before = _carry(before, basis)
            rounding = max(rounding, EPS * float(np.linalg.norm(Lambda_before)))
            Lambda, eta = Lambda - Lambda_before, eta - eta_before
        for examples in attacker_examples:
            Lambda_attacker, eta_attacker = contribution(after, basis, *examples)
            Lambda, eta = Lambda - Lambda_attacker, eta - eta_attacker
        return cls(after, basis, X, Lambda, eta, rounding)

    def sums_over(self, X: Array, error: float | None = None) -> InputSums:
        """ΔG and Δg if only these inputs were sent, of least norm if the basis does not tell them apart.

        ``error`` is that in ΔΛ, by default from rounding alone.
        """
        F = self.basis.columns(X)
        F_inverse, rank = pseudo_inverse(F)
        G, g = F_inverse.T @ self.Lambda @ F_inverse, F_inverse.T @ self.eta
        norm = float(np.linalg.norm(F_inverse, 2)) if F_inverse.size else 0.0
        error_in_G = (self.rounding if error is None else error) * norm**2
        size = float(np.linalg.norm(self.Lambda))
        is_rounding = size <= max(ROUNDING_GAP * self.rounding, TINY)
        unexplained = 1.0 if is_rounding else float(np.linalg.norm(self.Lambda - F.T @ G @ F)) / size
        return InputSums(X, G, g, 0 < rank == len(X), error_in_G, unexplained)


def contribution(release: Disclosed, basis: Basis, X: Any, y: Any, noise: Any = None) -> tuple[Array, Array]:
    """Λʲ and ηʲ that a client with these examples adds to a release."""
    X = release.rows(X)
    task = Task.of(X, *outputs(y, noise, len(X)))
    return task.information(basis.columns(task.X), task.inverse(release.shift(release.model.individual)))


def covariance(release: Disclosed, X: Array, noise: Array) -> Array:
    """(Rʲ)⁻¹ of a client of this release with inputs X."""
    shift = release.shift(release.model.individual)
    return shift.covariance(shift.gram(X), noise)


def pseudo_inverse(F: Array) -> tuple[Array, int]:
    """F⁺ and the rank of F, both without directions that are too weak to carry information."""
    if not F.size:
        return np.zeros(F.shape[::-1]), 0
    U, s, Vt = np.linalg.svd(F, full_matrices=False)
    strong = s > SINGULAR_VALUE_CUTOFF * s[0]
    return (Vt[strong].T / s[strong]) @ U[:, strong].T, int(strong.sum())


# --- one basis for two releases ---


def _common_basis(before: Disclosed | None, after: Disclosed) -> tuple[Basis, Array]:
    """A basis that spans both releases, and the inputs that clients may have sent."""
    if before is not None and (before.model != after.model or before.policy != after.policy):
        raise InvalidRelease("expected two releases of one study, got different models or policies")
    model = after.model
    if model.common is not None and model.basis is None:
        if before is None:
            return after.basis, after.inputs
        inputs = np.vstack([before.inputs, after.inputs])
        inputs = inputs[match(inputs, {})[1]]
        basis, _, order = Basis.grown(model.common, inputs, model.bias, model.catalogue is not None)
        return basis, inputs[order]
    if before is not None and not (
        np.array_equal(before.A, after.A) and np.array_equal(before.landmarks, after.landmarks)
    ):
        raise InvalidRelease("expected two releases of one study, got different bases")
    return after.basis, after.inputs if model.public_points is None else model.public_points


def _carry(release: Disclosed, basis: Basis) -> tuple[Array, Array]:
    """A release's Λ and η in a basis that spans its own.

    Features turn by an isometry, e(x) = Q e₁(x), and a linear bias has another origin.
    """
    if release.basis is basis or release.model.basis is not None or release.model.common is None:
        return release.Lambda, release.eta
    r, d = release.basis.rank, basis.rank
    M = np.zeros((len(basis.prior), len(release.eta)))
    M[:d, :r] = basis.e(release.landmarks).T @ release.A.T
    M[d:, r:] = np.eye(len(M) - d)
    if slopes := basis.slopes:
        M[d + 1 :, r] = (release.basis.origin - basis.origin)[slopes]
    return M @ release.Lambda @ M.T, M @ release.eta
