"""Clients simulated from a model's prior, with any numbers of examples, at inputs among given points.

What forecasts are means over. Everything is in units of σ², and nothing depends on data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motet.arrays import Array, Index, distinct, is_whole_number
from motet.errors import InvalidData
from motet.model.tasks import blocks, inverse_covariance
from motet.privacy.clipping import simulated_clients
from motet.privacy.coordinates import Coordinates
from motet.threads import blas_limit

MAX_POINTS, MAX_EXAMPLES = 500, 200
NEW_INPUTS = 8  # of each client, where it is predicted
NO_EXAMPLE = 1e12  # the noise of an example that a client does not have


@dataclass(frozen=True, eq=False)
class Population:
    """Clients with examples at the points ``h`` (m, ℓ) and predictions at ``new`` (m, t).

    Over the points, ``columns`` are the coordinates, ``K`` the covariance of a client's own part, and ``residual``
    that of α(K̄ − eᵀe) in it, which the model leaves to each client, though in truth all share it.
    """

    coordinates: Coordinates
    h: Index
    new: Index
    has: NDArray[np.bool_]  # which of the examples a client has
    columns: Array
    K: Array
    residual: Array

    @classmethod
    @blas_limit
    def draw(
        cls, coordinates: Coordinates, examples: int | Sequence[int], points: Any = None, *, seed: int = 0
    ) -> Population:
        """Clients with that many examples each, or with numbers of them like these.

        Inputs are drawn from the points, by default the coordinates' own; one that is there twice, twice as often.
        """
        points, weights = weighted_points(coordinates, points)
        counts = whole_numbers("examples", examples, 1)
        k, longest = len(coordinates.prior_variance), min(int(counts.max()), MAX_EXAMPLES)
        clients = simulated_clients(k * k + (longest + NEW_INPUTS) * (longest + k))
        inputs = random_inputs(np.random.default_rng(seed), clients, weights, counts)
        K = coordinates.shift(coordinates.model.individual).gram(points)
        return cls(coordinates, *inputs, coordinates.columns(points), K, coordinates.residual_gram(points))

    def __len__(self) -> int:
        return len(self.h)

    @cached_property
    def F(self) -> Array:
        return self.columns[self.h]

    @cached_property
    def V(self) -> Array:
        """R⁻¹ of every client."""
        shift = self.coordinates.shift(self.coordinates.model.individual)
        return shift.covariance(blocks(self.K, self.h), np.where(self.has, 1.0, NO_EXAMPLE))

    @cached_property
    def R(self) -> Array:
        return inverse_covariance(self.V, self.coordinates.model.individual)

    @cached_property
    def FR(self) -> Array:
        """FᵀR of every client, (m, k, ℓ)."""
        return self.F.swapaxes(1, 2) @ self.R

    @cached_property
    def Lambda(self) -> Array:
        return self.FR @ self.F

    def sums_of_Lambda(self, weights: Array) -> Array:
        """Σ wⱼΛʲ for every row of weights of clients."""
        m, k, _ = self.Lambda.shape
        return np.asarray(weights @ self.Lambda.reshape(m, k * k)).reshape(len(weights), k, k)


@dataclass(frozen=True, eq=False)
class SharedResidual:
    """What the residual of the basis, a function g, adds to the mean of cη: Cg, where C is (k, n).

    Clients share g, so this mean does not vanish as clients become many. With the covariance K of g over the points:
    CK, CKCᵀ without the error of a mean over few clients, and CKΦ/n; all in units of σ².
    """

    CK: Array
    CKC: Array
    CK_columns: Array

    @classmethod
    def of(cls, population: Population, factor: Array) -> SharedResidual:
        """``factor`` are the clients' c."""
        m, K = len(population), population.residual
        pulls = factor[:, None, None] * population.FR
        C = np.zeros((len(K), pulls.shape[1]))
        np.add.at(C, population.h, pulls.swapaxes(1, 2) / m)
        each = np.einsum("mkl,mln,mjn->kj", pulls, blocks(K, population.h), pulls, optimize=True) / m
        CK = C.T @ K
        CKC = CK @ C
        return cls(CK, CKC - (each - CKC) / m, CK @ population.columns / len(K))


def weighted_points(coordinates: Coordinates, points: Any = None, *, seed: int = 0) -> tuple[Array, Array]:
    """Different inputs, not too many of them, and how often each is there."""
    rows = coordinates.points if points is None else coordinates.model.rows(points, coordinates.points.shape[1])
    first, same_as = distinct(np.ascontiguousarray(rows))
    some = np.random.default_rng(seed).permutation(len(first))[:MAX_POINTS] if len(first) > MAX_POINTS else slice(None)
    return rows[first][some], np.bincount(same_as)[some].astype(float)


def random_inputs(
    rng: np.random.Generator, clients: int, weights: Array, counts: Index
) -> tuple[Index, Index, NDArray[np.bool_]]:
    """Of every client, the numbers of the points where it has examples, and of new ones, and which examples it has.

    Points are drawn without repetition, those of a larger weight earlier. The numbers of examples are like ``counts``.
    More clients begin with the same ones, so that bases can be compared.
    """
    counts = np.sort(np.minimum(counts, min(MAX_EXAMPLES, len(weights))))
    longest = int(counts[-1])
    order = np.argsort(rng.exponential(size=(clients, len(weights))) / weights, axis=1)
    count = rng.permutation(counts[np.arange(clients) * len(counts) // clients])
    new = order[:, np.arange(longest, longest + NEW_INPUTS) % len(weights)]
    return order[:, :longest], new, np.arange(longest) < count[:, None]


def whole_numbers(name: str, values: int | Sequence[int], low: int) -> Index:
    """One whole number from ``low``, or several, checked."""
    numbers = np.atleast_1d(values)
    if numbers.ndim != 1 or not len(numbers) or not all(is_whole_number(n) and n >= low for n in numbers.tolist()):
        raise InvalidData(f"{name} must be a whole number from {low}, or a list of such numbers, got {values!r:.60}")
    return numbers
