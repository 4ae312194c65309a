"""A study drawn from the model's own prior, and how well its clients are served: what a forecast is checked by.

Truth, clients and examples are random; sums, clip, noise and estimates are those of the real thing. The part of the
average that the basis misses is here shared by all clients, as it is in the world, though each has it as its own in the
model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from motet.arrays import Array, slices
from motet.learning.engine import Engine
from motet.linalg import blas_limit
from motet.model.gram import gram
from motet.model.tasks import Task
from motet.privacy.coordinates import Coordinates
from motet.privacy.forecast import BAND_WIDTH, Forecast
from motet.privacy.population import random_inputs, weighted_points, whole_numbers
from motet.release.clients import predict
from motet.release.disclosed import Disclosed

OTHER_CLIENTS = 200  # who are in no release, and are predicted
CLIENTS_AT_ONCE = 1000


class SimulatedStudy:
    """Clients with examples at random inputs among the points, and others; outputs are about a ``center``.

    ``examples`` is how many each has, or a list of such numbers; ``theta`` are the average's weights, if not random.
    """

    @blas_limit
    def __init__(
        self,
        coordinates: Coordinates,
        clients: int,
        examples: int | Sequence[int],
        points: Any = None,
        *,
        center: float = 0.0,
        seed: int = 0,
        theta: Array | None = None,
    ) -> None:
        rng, model, self._clients = np.random.default_rng(seed), coordinates.model, clients
        (self._points, often), total = weighted_points(coordinates, points), clients + OTHER_CLIENTS
        counts = whole_numbers("examples", examples, 1)
        h, self._new, self._has = random_inputs(rng, total, often, counts)
        sigma, prior = np.sqrt(coordinates.sigma2), np.sqrt(coordinates.prior_variance)
        weights = sigma * prior * rng.normal(size=len(prior)) if theta is None else theta
        missed = _root(coordinates.missed_gram(self._points)) @ rng.normal(size=len(self._points))
        self._average = center + coordinates.columns(self._points) @ weights + sigma * missed
        root = sigma * _root(model.individual_share * gram(model.individual, self._points))
        at = np.hstack([h, self._new])
        f = np.empty(at.shape)
        for part in slices(total, CLIENTS_AT_ONCE):
            functions = self._average + rng.normal(size=(len(at[part]), len(root))) @ root.T
            f[part] = np.take_along_axis(functions, at[part], axis=1)
        y = f + sigma * np.sqrt(model.lam) * rng.normal(size=f.shape)
        self._X, longest = self._points[h], h.shape[1]
        self._y, self._new_y, self._new_f = y[:, :longest], y[:, longest:], f[:, longest:]

    def learn(self, engine: Engine, clients: slice) -> None:
        """Let an engine learn the examples of some of the clients."""
        numbers = np.arange(self._clients)[clients]
        which, column = np.nonzero(self._has[numbers])
        engine.learn_many(numbers[which], self._X[numbers[which], column], self._y[numbers[which], column])

    def average_error(self, release: Disclosed) -> float:
        return _rms(release.average(self._points) - self._average)

    def measure(self, release: Disclosed) -> Forecast:
        """What a release gives: the errors of its average, and of those who are not in it."""
        others = self._clients + np.argsort(
            self._has[self._clients :].sum(axis=1), kind="stable"
        )  # alike ones together
        everywhere = predict(release, ((self._task(client), self._points) for client in others), observation=True)
        mean, std = (np.take_along_axis(np.array(a), self._new[others], axis=1) for a in zip(*everywhere))
        f, y = self._new_f[others], self._new_y[others]
        return Forecast(
            average=self.average_error(release),
            function=_rms(mean - f),
            observation=_rms(mean - y),
            coverage=float(np.mean(np.abs(mean - y) <= BAND_WIDTH * std)),
        )

    def _task(self, client: int) -> Task:
        has = self._has[client]
        return Task(self._X[client, has], self._y[client, has], np.ones(np.count_nonzero(has)))


def _root(K: Array) -> Array:
    """A with AAᵀ = K, for a covariance that may be singular."""
    values, vectors = np.linalg.eigh(K)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _rms(errors: Array) -> float:
    return float(np.sqrt(np.mean(errors**2)))
