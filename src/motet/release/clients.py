"""Many clients of one release at once: the same numbers as their ``Estimate``s, for less work.

The work of O(r²) for an input is done once, whichever clients ask for it; a client alone then costs O(rℓ) for each of
its predictions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from motet.arrays import Array, Index, match, slices
from motet.linalg import blas_limit
from motet.model.tasks import Task, inverse_covariance
from motet.release.coefficients import Coefficients
from motet.release.disclosed import Disclosed, Estimate
from motet.release.estimates import task_mean, task_variance
from motet.release.posterior import condition, spread

INPUTS_PER_GROUP = 8000  # evaluated together, to bound memory
NUMBERS_PER_PART = 2**20  # in one temporary

Member: TypeAlias = Task | Coefficients  # passive or active; a task without examples is a new individual


@dataclass(frozen=True, eq=False)
class Points:
    """Inputs, and what does not depend on the client there."""

    X: Array
    E: Array  # features e(x)
    V: Array  # φ(x), whitened: VVᵀ is the covariance of the average
    mean: Array  # of the average
    missed: Array  # the variance that the basis misses

    @classmethod
    @blas_limit
    def of(cls, release: Disclosed, X: Array) -> Points:
        F = release.basis.columns(X)
        E = F[:, : release.basis.rank]
        return cls(X, E, release.posterior.whitened(F), F @ release.theta, release.missed_variance(X, E))

    def take(self, which: Any) -> Points:
        return Points(*(getattr(self, field.name)[which] for field in fields(self)))


def predict(
    release: Disclosed, requests: Iterable[tuple[Member, Array]], observation: bool = False
) -> Iterator[tuple[Array, Array]]:
    """Mean and standard deviation for every member at its inputs, which are rows such as the release has."""
    for group, X in _groups(requests):
        points = Points.of(release, X)
        for (alone, *_), alike in groupby(group, partial(_kind, release)):
            if alone:
                for member, _, at in alike:
                    yield _estimate(release, member).predict(X[at], return_std=True, observation=observation)
                continue
            stack = list(alike)
            x = points.take(stack[0][2])
            numbers = (len(x.X) + len(stack[0][1])) * (x.V.shape[1] + x.X.shape[1])
            for part in slices(len(stack), NUMBERS_PER_PART // (numbers + 1)):
                members, own = zip(*((member, own) for member, own, _ in stack[part]))
                mean, variance = _predict(release, members, points.take(np.array(own)), x)
                yield from zip(mean, release.std(variance, observation))


def _groups(requests: Iterable[tuple[Member, Array]]) -> Iterator[tuple[list[tuple[Member, Index, Index]], Array]]:
    """Members with the numbers of their own inputs and of those asked for, among the inputs of their group."""
    numbers: dict[bytes, int] = {}
    group: list[tuple[Member, Index, Index]] = []
    rows: list[Array] = []
    last: tuple[Array, Index] | None = None  # most often all ask for the same inputs

    def number(X: Array) -> Index:
        index, new = match(X, numbers)
        rows.append(X[new])
        return index

    for member, X in requests:
        own = number(_task(member).X)
        last = last if last is not None and last[0] is X else (X, number(X))
        group.append((member, own, last[1]))
        if len(numbers) >= INPUTS_PER_GROUP:
            yield group, np.vstack(rows)
            numbers, group, rows, last = {}, [], [], None
    if group:
        yield group, np.vstack(rows)


def _task(member: Member) -> Task:
    return member.task if isinstance(member, Coefficients) else member


def _kernel(release: Disclosed, member: Member) -> Kernel:
    return member.kernel if isinstance(member, Coefficients) else release.model.individual


def _is_released(member: Member) -> bool:
    """Whether the release has just the examples that the member has now."""
    return isinstance(member, Coefficients) and member.released is None


def _kind(release: Disclosed, request: tuple[Member, Index, Index]) -> tuple[Any, ...]:
    """Equal for members that are predicted as one stack.

    The first entry tells those that share no work with others, since θ̂ and its covariance differ for them.
    """
    member, own, at = request
    changed = isinstance(member, Coefficients) and member.released is not None and len(member.released.y) > 0
    shows_bias = len(own) > 0 and not _is_released(member) and not release.posterior.factor.identifies_bias
    return changed or shows_bias, _is_released(member), len(own), id(at), _kernel(release, member)


def _estimate(release: Disclosed, member: Member) -> Estimate:
    if isinstance(member, Coefficients):
        return release.active_estimate(member)
    return Estimate(release, member, release.model.individual, Task.empty(member.X.shape[1]))


@blas_limit
def _predict(release: Disclosed, members: Sequence[Member], o: Points, x: Points) -> tuple[Array, Array]:
    """Means and variances (m, n) at the inputs x of m members with their own inputs at o.

    The release has active members' examples already (Algorithm 6); those of passive ones condition it (Algorithm 7).
    """
    kernel, tasks = _kernel(release, members[0]), [_task(member) for member in members]
    y, noise = np.array([task.y for task in tasks]), np.array([task.noise for task in tasks])
    shift = release.client_shift(kernel)
    covariance = shift.covariance(shift.gram(o.X, E=o.E), noise)
    R = inverse_covariance(covariance, kernel)
    zeta, gain = np.zeros((len(tasks), o.V.shape[-1])), None
    if y.size and not _is_released(members[0]):
        zeta, gain = condition(o.V, covariance, y - o.mean)
    a = (R @ (y - o.mean - (o.V @ zeta[..., None])[..., 0])[..., None])[..., 0]
    own, E = (rows.reshape(y.size, rows.shape[-1]) for rows in (o.X, o.E))  # of all members, for one evaluation
    k = shift.gram(x.X, own, E=x.E, D=E).reshape(len(x.X), *y.shape).swapaxes(0, 1)
    unshared = shift.variance(x.X, x.missed)
    variance = task_variance(partial(spread, gain=gain), x.V, o.V, k, R, unshared)
    return task_mean(x.mean + zeta @ x.V.T, k, a), variance
