"""What changed between two releases, in one basis: ΔΛ and Δη, and from them ΔG and Δg over inputs.

A growing basis is another one in every release; both are carried into one that spans them. One release alone is the
difference to nothing. What the attacker sent itself is known, and subtracted.
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
GAP = 1e3  # between what was sent and rounding
WORST = 1e-6  # singular value of F, relative: what is weaker leaves no digit of G, which has its square


@dataclass(frozen=True, eq=False)
class Sums:
    """G and g over inputs; ``unique`` unless others would give the same release.

    Rounding in G is about ``error``; ``fit`` is the share of Λ that no client with these inputs could have sent.
    """

    inputs: Array
    G: Array
    g: Array
    unique: bool
    error: float
    fit: float

    @property
    def pairs(self) -> Index:
        """The inputs, two by two, that some client has both of; none where G is not unique."""
        linked = np.triu(np.abs(self.G) > 10 * self.error, 1)
        return np.argwhere(linked) if self.unique else np.empty((0, 2), dtype=np.intp)


@dataclass(frozen=True, eq=False)
class Change:
    """ΔΛ and Δη between two releases, in one basis; rounding makes an error in ΔΛ of at least ``rounding``."""

    release: Disclosed
    basis: Basis
    candidates: Array
    Lambda: Array
    eta: Array
    rounding: float

    def over_inputs(self) -> Sums:
        """ΔG and Δg over the candidates, of least norm where the basis does not tell them apart."""
        return self.at(self.candidates)

    def at(self, X: Array, floor: float | None = None) -> Sums:
        """The same, if nothing else than these inputs was sent; ``floor`` is the error in ΔΛ, where one knows more."""
        F = self.basis.columns(X)
        half, rank = pseudo_inverse(F)
        G, g = half.T @ self.Lambda @ half, half.T @ self.eta
        error = (self.rounding if floor is None else floor) * _norm(half) ** 2
        return Sums(X, G, g, 0 < rank == len(X), error, self._left(F.T @ G @ F))

    def _left(self, explained: Array) -> float:
        size = float(np.linalg.norm(self.Lambda))
        only_rounding = size <= max(GAP * self.rounding, TINY)
        return 1.0 if only_rounding else float(np.linalg.norm(self.Lambda - explained)) / size


def change(
    before: Disclosed | None, after: Disclosed, *, own: Iterable[Examples] = (), candidates: Any = None
) -> Change:
    """What came between two releases (None: since the beginning), without what the attacker sent itself."""
    basis, X = _common_basis(before, after)
    X = X if candidates is None else after.model.rows(candidates, after.landmarks.shape[1])
    Lambda, eta = _carried(after, basis)
    rounding = EPS * float(np.linalg.norm(Lambda))
    if before is not None:
        earlier = _carried(before, basis)
        rounding = max(rounding, EPS * float(np.linalg.norm(earlier[0])))
        Lambda, eta = Lambda - earlier[0], eta - earlier[1]
    for examples in own:
        mine = contribution(after, basis, *examples)
        Lambda, eta = Lambda - mine[0], eta - mine[1]
    return Change(after, basis, X, Lambda, eta, rounding)


def contribution(release: Disclosed, basis: Basis, X: Any, y: Any, noise: Any = None) -> tuple[Array, Array]:
    """Λʲ and ηʲ that one client with these examples adds to a release."""
    X = release.model.rows(X, release.landmarks.shape[1])
    task = Task.of(X, *outputs(y, noise, len(X)))
    R = np.linalg.inv(task.covariance(release.shift(release.model.individual)))
    F = basis.columns(task.X)
    return F.T @ R @ F, F.T @ (R @ task.y)


def covariance(release: Disclosed, X: Array, noise: Array) -> Array:
    """(Rʲ)⁻¹ of a client of this release with inputs X."""
    shift = release.shift(release.model.individual)
    return shift.covariance(shift.gram(X), noise)


def _common_basis(before: Disclosed | None, after: Disclosed) -> tuple[Basis, Array]:
    """A basis that spans both releases, and the inputs that clients may have sent."""
    releases = [after] if before is None else [before, after]
    if before is not None and (before.model != after.model or before.policy != after.policy):
        raise InvalidRelease("these two releases are of different models or policies: give two of one study")
    model, X = after.model, after.inputs
    if model.common is not None and model.basis is None:
        if before is not None:
            known: dict[bytes, int] = {}
            every = np.vstack([release.inputs for release in releases])
            X = every[match(every, known)[1]]
            basis, _, order = Basis.grown(model.common, X, model.bias, model.catalogue is not None)
            return basis, X[order]
        return after.basis, X
    same = (np.array_equal(r.A, after.A) and np.array_equal(r.landmarks, after.landmarks) for r in releases)
    if not all(same):
        raise InvalidRelease("these two releases have different bases: give two of one study")
    if model.catalogue is not None:
        return after.basis, model.catalogue.rows
    return after.basis, getattr(model.basis, "points", X)


def _carried(release: Disclosed, basis: Basis) -> tuple[Array, Array]:
    """A release's Λ and η in a basis that spans its own.

    Features turn by an isometry, e(x) = Q e₁(x), and the linear bias is counted from another origin.
    """
    if release.basis is basis or release.model.basis is not None or release.model.common is None:
        return release.Lambda, release.eta
    r, d = release.basis.rank, basis.rank
    M = np.zeros((len(basis.prior), len(release.eta)))
    M[:d, :r] = basis.e(release.landmarks).T @ release.A.T
    M[d:, r:] = np.eye(len(M) - d)
    if release.model.bias == "linear":
        M[d + 1 :, r] = (release.basis.origin - basis.origin)[1 if basis.has_index else 0 :]
    return M @ release.Lambda @ M.T, M @ release.eta


def pseudo_inverse(F: Array) -> tuple[Array, int]:
    """F⁺ and the rank of F, both without directions that are too weak to tell anything."""
    if not F.size:
        return np.zeros(F.shape[::-1]), 0
    U, s, Vt = np.linalg.svd(F, full_matrices=False)
    kept = s > WORST * s[0]
    return (Vt[kept].T / s[kept]) @ U[:, kept].T, int(kept.sum())


def _norm(half: Array) -> float:
    return float(np.linalg.norm(half, 2)) if half.size else 0.0
