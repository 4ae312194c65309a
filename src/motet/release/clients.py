"""BLUPs of many clients of one release at once: the same numbers as their ``Estimate``s, for less work.

What costs O(r²) for an input is done once, however many clients ask for it; a client then costs O(rℓ) for each of its
predictions. Clients in a row that are alike in size, kernel and inputs asked for are predicted as one stack.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from motet.arrays import NUMBERS_PER_PART, Array, Index, match, slices
from motet.linalg import LowRankInverse
from motet.model.tasks import Inverse, Task, inverse_covariance
from motet.release.coefficients import Coefficients
from motet.release.disclosed import Disclosed, Estimate
from motet.release.estimates import task_mean, task_variance
from motet.release.posterior import condition, whitened_variance
from motet.threads import blas_limit

INPUTS_PER_GROUP = 8000  # evaluated together, to bound memory

ClientData: TypeAlias = Task | Coefficients  # of a passive or of an active client; an empty task is a new individual


@dataclass(frozen=True, eq=False)
class Points:
    """Inputs, and what does not depend on the client there."""

    X: Array
    E: Array  # features e(x)
    V: Array  # φ(x), whitened: VVᵀ is the covariance of the average
    mean: Array  # of the average
    residual: Array  # variance K̄ − eᵀe of the basis

    @classmethod
    @blas_limit
    def of(cls, release: Disclosed, X: Array) -> Points:
        F = release.basis.columns(X)
        E = F[:, : release.basis.rank]
        return cls(X, E, release.posterior.whitened(F), F @ release.theta, release.residual_variance(X, E))

    def take(self, which: Any) -> Points:
        return Points(*(getattr(self, field.name)[which] for field in fields(self)))


@dataclass(frozen=True, eq=False)
class Request:
    """A client, with the numbers of its own inputs ``h`` and of those asked for, among the inputs of its group.

    ``released`` are its examples in the release, None if they are those of ``task``.
    """

    client: ClientData
    task: Task
    kernel: Kernel
    released: Task | None
    h: Index
    at: Index

    def is_alone(self, release: Disclosed) -> bool:
        """Whether the client shares no work with others, because θ̂ and its covariance differ for it."""
        if self.released is None:
            return False
        return len(self.released.y) > 0 or (len(self.h) > 0 and not release.posterior.factor.identifies_bias)

    def kind(self, release: Disclosed) -> tuple[Any, ...]:
        """Equal for clients that are predicted as one stack."""
        return self.is_alone(release), self.released is None, len(self.h), id(self.at), self.kernel

    def estimate(self, release: Disclosed) -> Estimate:
        if isinstance(self.client, Coefficients):
            return release.active_estimate(self.client)
        return Estimate(release, self.task, self.kernel, self.released)


def predict(
    release: Disclosed, clients: Iterable[tuple[ClientData, Array]], observation: bool = False
) -> Iterator[tuple[Array, Array]]:
    """Mean and standard deviation for every client at its inputs, which are rows such as the release has."""
    for group, X in _groups(release, clients):
        points = Points.of(release, X)
        for _, alike in groupby(group, lambda request: request.kind(release)):
            stack = list(alike)
            if stack[0].is_alone(release):
                for request in stack:
                    yield request.estimate(release).predict(X[request.at], True, observation)
                continue
            x = points.take(stack[0].at)
            numbers = (len(x.X) + len(stack[0].h)) * (x.V.shape[1] + x.X.shape[1])
            for part in slices(len(stack), NUMBERS_PER_PART // (numbers + 1)):
                h = np.array([request.h for request in stack[part]])
                mean, variance = _predict(release, stack[part], points.take(h), x)
                yield from zip(mean, release.std(variance, observation))


def _groups(release: Disclosed, clients: Iterable[tuple[ClientData, Array]]) -> Iterator[tuple[list[Request], Array]]:
    """Requests of clients in groups, each with all the inputs that it is about."""
    numbers: dict[bytes, int] = {}
    nothing = Task.empty(release.dimension)
    group: list[Request] = []
    rows: list[Array] = []
    last: tuple[Array, Index] | None = None  # most often all ask for the same inputs

    def number(X: Array) -> Index:
        index, new = match(X, numbers)
        rows.append(X[new])
        return index

    for client, X in clients:
        if isinstance(client, Coefficients):
            own = client.task, client.kernel, client.released
        else:
            own = client, release.model.individual, nothing
        h = number(own[0].X)
        last = last if last is not None and last[0] is X else (X, number(X))
        group.append(Request(client, *own, h, last[1]))
        if len(numbers) >= INPUTS_PER_GROUP:
            yield group, np.vstack(rows)
            numbers, group, rows, last = {}, [], [], None
    if group:
        yield group, np.vstack(rows)


@blas_limit
def _predict(release: Disclosed, requests: Sequence[Request], o: Points, x: Points) -> tuple[Array, Array]:
    """Means and variances (m, n) at the inputs x of m clients with their own inputs at o.

    The release has active clients' examples already (Algorithm 6); those of passive ones condition it (Algorithm 7).
    """
    kernel, tasks = requests[0].kernel, [request.task for request in requests]
    y, noise = np.array([task.y for task in tasks]), np.array([task.noise for task in tasks])
    shift = release.client_shift(kernel).at(o.X)
    zeta, gain = np.zeros((len(tasks), o.V.shape[-1])), None
    columns = np.concatenate([o.V, (y - o.mean)[..., None]], axis=-1)
    covariance, columns = shift.observation(o.X, noise, columns, o.E)
    if shift.rank(o.X) is None:
        R: Inverse = inverse_covariance(covariance, kernel)
    else:
        R, _ = shift.inverse(o.X, noise, o.E)
    if y.size and requests[0].released is not None:
        zeta, gain = condition(columns[..., :-1], covariance, columns[..., -1])
    own_average, average = o.mean + (o.V @ zeta[..., None])[..., 0], x.mean + zeta @ x.V.T
    unshared = shift.variance(x.X, x.residual)
    if isinstance(R, LowRankInverse):
        k = shift.features(np.broadcast_to(x.X, (len(tasks), *x.X.shape)), o.X)
    else:
        own, E = (rows.reshape(y.size, rows.shape[-1]) for rows in (o.X, o.E))  # of all clients, for one evaluation
        k = shift.gram(x.X, own, E=x.E, D=E).reshape(len(x.X), *y.shape).swapaxes(0, 1)
    variance = task_variance(partial(whitened_variance, gain=gain), x.V, o.V, k, R, unshared)
    return task_mean(average, k, R, y, own_average), variance
