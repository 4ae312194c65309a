"""Many clients of one release at once: what ``Disclosed.estimate`` and ``active_estimate`` predict for each of them.

Given the release a new individual is a Gaussian process with mean φ(x)ᵀθ̂ and covariance αφ(x)ᵀB⁻¹φ(x′) plus that of
the shift; a client's own examples condition it. What costs O(r²) is done once for each input, whoever asks there; a
client alone costs O(rℓ) for each of its predictions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from motet.arrays import Array, Index, match
from motet.model.gram import gram
from motet.model.tasks import Task, check_positive_definite
from motet.release.coefficients import Coefficients
from motet.release.disclosed import Disclosed, Estimate

TOGETHER = 8000  # inputs that are looked at together, for the sake of memory

Member: TypeAlias = Task | Coefficients  # passive or active; one without any example is a new individual


@dataclass(frozen=True, eq=False)
class Points:
    """Inputs, with the average's ``mean`` there, its features E and V with VVᵀ its covariance, all in rows."""

    X: Array
    E: Array
    V: Array
    mean: Array
    residual: Array  # the variance of what the basis misses

    @classmethod
    def of(cls, release: Disclosed, X: Array) -> Points:
        basis, factor = release.basis, release.posterior.factor
        F = basis.columns(X)
        E = F[:, : basis.rank]
        residual = release.model.common_share * basis.residual(X, E)
        return cls(X, E, np.sqrt(factor.share) * factor.half(F).T, F @ release.theta, residual)

    def take(self, which: Any) -> Points:
        return Points(*(getattr(self, field.name)[which] for field in fields(self)))


def predict(
    release: Disclosed, asked: Iterable[tuple[Member, Array]], observation: bool = False
) -> Iterator[tuple[Array, Array]]:
    """Mean and standard deviation for every member at its inputs, rows such as the release has."""
    for group, X in _groups(asked):
        points = Points.of(release, X)
        for member, own, at in group:
            alone = _alone(release, member)
            if alone is not None:
                yield alone.predict(X[at], return_std=True, observation=observation)
                continue
            given = _active if isinstance(member, Coefficients) and member.released is None else _passive
            mean, variance = given(release, member, points.take(own), points.take(at))
            yield mean, release.std(variance, observation)


def _groups(asked: Iterable[tuple[Member, Array]]) -> Iterator[tuple[list[tuple[Member, Index, Index]], Array]]:
    """Members with the numbers of their own inputs and of those asked for, among the inputs of some of them."""
    known: dict[bytes, int] = {}
    group: list[tuple[Member, Index, Index]] = []
    rows: list[Array] = []
    last: tuple[Array, Index] | None = None  # most often all ask for the same

    def numbers(X: Array) -> Index:
        found, new = match(X, known)
        rows.append(X[new])
        return found

    for member, X in asked:
        own = numbers(_task(member).X)
        last = last if last is not None and last[0] is X else (X, numbers(X))
        group.append((member, own, last[1]))
        if len(known) >= TOGETHER:
            yield group, np.vstack(rows)
            known, group, rows, last = {}, [], [], None
    if group:
        yield group, np.vstack(rows)


def _task(member: Member) -> Task:
    return member.task if isinstance(member, Coefficients) else member


def _kernel(release: Disclosed, member: Member) -> Kernel:
    return member.kernel if isinstance(member, Coefficients) else release.model.individual


def _alone(release: Disclosed, member: Member) -> Estimate | None:
    """The estimate of a member with whom nothing can be shared, since θ̂ and its covariance are others for it."""
    if isinstance(member, Coefficients) and (member.released is None or len(member.released.y)):
        return None if member.released is None else release.active_estimate(member)
    task = _task(member)
    if release.posterior.factor.identifies_bias or not len(task.y):
        return None
    return release.replaced(task, Task.empty(task.X.shape[1]), _kernel(release, member))


def _passive(release: Disclosed, member: Member, o: Points, x: Points) -> tuple[Array, Array]:
    """The process, given also one's own examples (Algorithm 7)."""
    task, kernel = _task(member), _kernel(release, member)
    variance = np.einsum("ij,ij->i", x.V, x.V) + _unshared(release, kernel, x)
    if not len(task.y):
        return x.mean, variance
    K = release.shift(kernel).covariance(_covariance(release, kernel, o, o), task.noise)
    C = np.column_stack([_covariance(release, kernel, o, x), task.y - o.mean])
    # Not through K⁻¹: three digits more. Not by scipy: for so little work its threads wait longer than they compute.
    A = np.linalg.solve(_cholesky(K, kernel), C)
    A, a = A[:, :-1], A[:, -1]
    return x.mean + a @ A, variance - np.einsum("ij,ij->j", A, A)


def _cholesky(K: Array, kernel: Kernel) -> Array:
    try:
        return np.linalg.cholesky(K)
    except np.linalg.LinAlgError:
        check_positive_definite(np.array([-np.inf]), kernel)
        raise


def _active(release: Disclosed, member: Member, o: Points, x: Points) -> tuple[Array, Array]:
    """The average has these examples already; the shift is given them (Algorithm 6)."""
    task, kernel = _task(member), _kernel(release, member)
    shift = release.shift(kernel)
    k = shift.gram(x.X, o.X)
    kR = k @ task.inverse(shift)
    V = x.V - kR @ o.V
    unshared = np.maximum(_unshared(release, kernel, x) - np.einsum("ij,ij->i", kR, k), 0.0)
    return x.mean + kR @ (task.y - o.mean), np.einsum("ij,ij->i", V, V) + unshared


def _unshared(release: Disclosed, kernel: Kernel, x: Points) -> Array:
    """The variance of the shift, and of what the basis does not see."""
    shift = release.shift(kernel)
    return shift.diag(x.X) + (x.residual if shift.basis is None else 0.0)


def _covariance(release: Disclosed, kernel: Kernel, a: Points, b: Points) -> Array:
    """Of a new individual between two sets of inputs; a growing basis grows with them."""
    model = release.model
    C = a.V @ b.V.T + release.shift(kernel).gram(a.X, b.X)
    if model.basis is None and model.common is not None:
        C += model.common_share * (gram(model.common, a.X, b.X) - a.E @ b.E.T)
    return np.asarray(C)
