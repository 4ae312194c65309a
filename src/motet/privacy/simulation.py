"""Monte Carlo: a study drawn from the model's own prior, and how well its clients are served, to check a forecast.

Truth, clients and examples are random; sums, clip, noise and estimates are those of the real thing. The residual
of the basis is here shared by all clients, as it is in the world, though each has it as its own in the
model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from motet.arrays import Array, slices
from motet.engine.engine import Engine
from motet.kernels.gram import gram
from motet.linalg import inverse, root
from motet.model.tasks import Task, blocks
from motet.privacy.clipping import Clip
from motet.privacy.coordinates import Coordinates
from motet.privacy.forecast import BAND_WIDTH, Forecast
from motet.privacy.ledger import Integers
from motet.privacy.population import random_inputs, weighted_points, whole_numbers
from motet.release.clients import predict
from motet.release.disclosed import Disclosed
from motet.threads import blas_limit

OTHER_CLIENTS = 200  # who are in no release, and are predicted
CLIENTS_AT_ONCE, CLIENTS_PER_SUM = 1000, 64


class World:
    """What studies of one model have in common: inputs among the points, and covariances there.

    ``examples`` is how many each client has, or a list of such numbers; outputs are about a ``center``.
    """

    @blas_limit
    def __init__(
        self, coordinates: Coordinates, examples: int | Sequence[int], points: Any = None, *, center: float = 0.0
    ) -> None:
        self.coordinates, self.center, model = coordinates, center, coordinates.model
        self.points, self.weights = weighted_points(coordinates, points)
        self.counts = whole_numbers("examples", examples, 1)
        self.F, self.shift = coordinates.basis.columns(self.points), coordinates.shift(model.individual)
        self.columns, self.K = self.F @ coordinates.T, self.shift.gram(self.points)
        self.own = model.individual_share * gram(model.individual, self.points)
        self.own_root, self.residual_root = root(self.own), root(coordinates.residual_gram(self.points))

    def average(self, rng: np.random.Generator, theta: Array | None = None) -> Array:
        """An average drawn from the prior, at the points; ``theta`` are its weights, if not random."""
        sigma, prior = np.sqrt(self.coordinates.sigma2), np.sqrt(self.coordinates.prior_variance)
        weights = sigma * prior * rng.normal(size=len(prior)) if theta is None else theta
        residual = self.residual_root @ rng.normal(size=len(self.points))
        return np.asarray(self.center + self.columns @ weights + sigma * residual)


class SimulatedStudy:
    """Clients with examples at random inputs, and ``others`` who are in no release."""

    @blas_limit
    def __init__(
        self, world: World, clients: int, *, seed: int = 0, theta: Array | None = None, others: int = OTHER_CLIENTS
    ) -> None:
        rng, self._world = np.random.default_rng(seed), world
        self._average = world.average(rng, theta)
        self._h, _, self._has = random_inputs(rng, clients, world.weights, world.counts)
        self._y = self._average[self._h] + self._own_parts(rng)
        h, new, has = random_inputs(rng, others, world.weights, world.counts)
        sigma, at = np.sqrt(world.coordinates.sigma2), np.hstack([h, new])
        own = rng.normal(size=(others, len(world.points))) @ world.own_root.T
        f = np.take_along_axis(self._average + sigma * own, at, axis=1)
        y = f + sigma * np.sqrt(world.coordinates.model.noise.observation(1.0)) * rng.normal(size=f.shape)
        alike = np.argsort(has.sum(axis=1), kind="stable")
        self._others = [
            Task(world.points[h[k, has[k]]], y[k, : h.shape[1]][has[k]], np.ones(has[k].sum())) for k in alike
        ]
        self._new, self._new_f, self._new_y = (a[alike, -new.shape[1] :] for a in (at, f, y))

    def _own_parts(self, rng: np.random.Generator) -> Array:
        """What clients' outputs have of their own, and their noise."""
        world, h = self._world, self._h
        parts, noise = np.empty(h.shape), world.coordinates.model.noise.variance(np.eye(h.shape[1]))
        for part in slices(len(h), CLIENTS_AT_ONCE):
            L = np.linalg.cholesky(blocks(world.own, h[part]) + noise)
            parts[part] = (L @ rng.normal(size=(*h[part].shape, 1)))[:, :, 0]
        return np.sqrt(world.coordinates.sigma2) * parts

    def learn(self, engine: Engine, clients: slice) -> None:
        """Let an engine learn the examples of some of the clients."""
        numbers = np.arange(len(self._h))[clients]
        which, column = np.nonzero(self._has[numbers])
        clients_of, X = numbers[which], self._world.points[self._h[numbers[which], column]]
        engine.learn_many(clients_of, X, self._y[clients_of, column])

    @blas_limit
    def total(self, clip: Clip, clients: slice) -> Integers:
        """What ``clip.total`` gives of an engine that has learned some of the clients, for less work: all have inputs
        among the same few points."""
        world, total = self._world, np.zeros(clip.size, dtype=np.int64)
        h, y, counts = self._h[clients], self._y[clients] - clip.center, self._has[clients].sum(axis=1)
        for count in np.unique(counts):
            those = np.flatnonzero(counts == count)
            for part in slices(len(those), CLIENTS_PER_SUM):
                inputs = h[those[part], :count]
                V = world.shift.covariance(blocks(world.K, inputs), np.ones(inputs.shape))
                total += clip.to_integers(world.columns[inputs], *inverse(V), y[those[part], :count]).sum(axis=0)
        return total

    def average_error(self, release: Disclosed) -> float:
        return _rms(self._world.F @ release.theta - self._average)

    def measure(self, release: Disclosed) -> Forecast:
        """What a release gives: the errors of its average, and of those who are not in it."""
        asked, at = np.unique(self._new, return_inverse=True)
        X = self._world.points[asked]
        everywhere = predict(release, ((task, X) for task in self._others), observation=True)
        mean, std = (np.take_along_axis(np.array(a), at.reshape(self._new.shape), axis=1) for a in zip(*everywhere))
        return Forecast(
            average=self.average_error(release),
            function=_rms(mean - self._new_f),
            observation=_rms(mean - self._new_y),
            coverage=float(np.mean(np.abs(mean - self._new_y) <= BAND_WIDTH * std)),
        )


def _rms(errors: Array) -> float:
    return float(np.sqrt(np.mean(errors**2)))
