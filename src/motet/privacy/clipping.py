"""Clipping: what one client adds to a private sum, as a vector of integers of bounded norm (formula 3).

The formulas are those of docs/privacy.md. The bounds C_Λ and C_η come from clients simulated from the model's prior.
A client's vector depends on that client alone, to the last digit, and sums of integers are exact: neither the order of
clients nor a client that left shows in them.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from threading import Lock

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from motet.arrays import Array, Index, as_bytes, evenly_spaced, match
from motet.engine.engine import Engine
from motet.errors import NotPositiveDefinite
from motet.linalg import MAX_SMALL_SIZE, inverse, smat, svec
from motet.model.basis import Nystrom
from motet.model.tasks import FoldedTasks, Inverse, Shift, Task, blocks, fold
from motet.privacy.coordinates import Coordinates
from motet.privacy.ledger import UNIT, Integers
from motet.threads import on_all_cores

CLIENTS_PER_BLOCK = 64  # always this many, so that no client's digits depend on the others
MAX_INPUTS_PER_CLIENT = 2000  # a client with more adds nothing, unless its shift has few features
ROUNDING_MARGIN = 1 - 2.0**-40  # so that rounding never makes a norm larger than 1
SIMULATED_CLIENTS, MIN_SIMULATED_CLIENTS = 1500, 100
MAX_SIMULATED_POINTS = 1000  # of more public points some stand for all, if they do in the basis
MAX_GRAM_POINTS = 2000  # public points whose covariance is computed for all clients at once
MAX_SIMULATED_NUMBERS = 2**24  # in memory at once; fewer clients are simulated if they have many examples


def simulated_clients(numbers: int) -> int:
    """How many clients to simulate, if each takes so many numbers."""
    return max(MIN_SIMULATED_CLIENTS, min(SIMULATED_CLIENTS, MAX_SIMULATED_NUMBERS // numbers))


@dataclass(frozen=True, eq=False)
class SimulatedClients:
    """Clients drawn from the prior: F (m, ℓ, k), R (m, ℓ, ℓ) and y (m, ℓ)."""

    F: Array
    R: Array
    y: Array

    @classmethod
    def draw(cls, coordinates: Coordinates, examples: int, seed: int) -> SimulatedClients:
        """Formula 3, the simulation: inputs uniform on public points, outputs from the model."""
        rng, model, prior_variance = np.random.default_rng(seed), coordinates.model, coordinates.prior_variance
        clients = simulated_clients(examples * (examples + len(prior_variance)))
        n = len(coordinates.points)
        some = evenly_spaced(n, max(MAX_SIMULATED_POINTS, examples) if isinstance(model.basis, Nystrom) else n)
        h = np.argsort(rng.random((clients, len(some))), axis=1)[:, :examples]
        shift = coordinates.shift(model.individual)
        V = shift.covariance(blocks(shift.gram(coordinates.points[some]), h), np.ones(h.shape))
        F = coordinates.F[some][h]
        try:
            L = np.linalg.cholesky(V + (F * prior_variance) @ F.swapaxes(1, 2))
        except np.linalg.LinAlgError:
            raise NotPositiveDefinite(
                f"{model.individual} is not positive definite on the public points: check its numbers, or raise lam"
            ) from None
        y = np.sqrt(coordinates.sigma2) * (L @ rng.normal(size=(*h.shape, 1)))[:, :, 0]
        return cls(F, np.linalg.inv(V), y)

    def norms(self) -> tuple[Array, Array]:
        """Formula 3: ‖Λʲ‖ = tr(RʲKRʲK)^½ and ‖ηʲ‖ = ((Rʲyʲ)ᵀK(Rʲyʲ))^½ with K = FⱼFⱼᵀ, without a k × k matrix."""
        K, Ry = self.F @ self.F.swapaxes(1, 2), self.R @ self.y[:, :, None]
        RK = self.R @ K
        return np.sqrt(np.einsum("mij,mji->m", RK, RK)), np.sqrt((Ry * (K @ Ry)).sum(axis=(1, 2)))

    def mean_Lambda(self, factor: Array) -> Array:
        """The mean of Λʲ = FⱼᵀRʲFⱼ, each times its ``factor``."""
        m, examples, k = self.F.shape
        RF = factor[:, None, None] * (self.R @ self.F)
        return np.asarray(self.F.reshape(m * examples, k).T @ RF.reshape(m * examples, k) / m)


@dataclass(frozen=True, eq=False)
class Clip:
    """The bounds of clients' vectors, and the mean and variance of simulated clients under them."""

    coordinates: Coordinates
    C_Lambda: float
    C_eta: float
    mean_Lambda: Array  # L₀ of formula 4: the mean clipped Λ
    client_variance: float  # v of formula 6: of one number of the vector, between clients
    center: float = 0.0  # which outputs are clipped about

    @classmethod
    def of(
        cls,
        coordinates: Coordinates,
        examples: int,
        *,
        seed: int = 0,
        C_eta: float | None = None,
        center: float = 0.0,
    ) -> Clip:
        """Formula 3, the bounds: half of the simulated clients, with this many examples each, are clipped."""
        clients = SimulatedClients.draw(coordinates, examples, seed)
        Lambda, eta = clients.norms()
        C_Lambda, median_eta = np.median(Lambda), np.median(eta)
        median_norm = np.median(np.hypot(Lambda / C_Lambda, eta / median_eta))
        C_Lambda = C_Lambda * median_norm
        C_eta = median_eta * median_norm if C_eta is None else C_eta
        norm = np.hypot(Lambda / C_Lambda, eta / C_eta)
        c = 1 / np.maximum(1.0, norm)
        L0 = clients.mean_Lambda(c)
        k = len(L0)
        variance = (np.mean((c * norm) ** 2) - (L0**2).sum() / C_Lambda**2) / (k * (k + 3) / 2)
        return cls(coordinates, float(C_Lambda), float(C_eta), (L0 + L0.T) / 2, float(max(variance, 0.0)), center)

    @property
    def size(self) -> int:
        """Length of a client's vector."""
        k = len(self.mean_Lambda)
        return k * (k + 3) // 2

    # --- sums of clients ---

    def total(self, engine: Engine, without: Collection[Hashable] = ()) -> Integers:
        """The exact sum of the vectors of all clients, except for some."""
        total = np.zeros(self.size, dtype=np.int64)
        with np.errstate(all="ignore"):  # numbers that are not finite add nothing
            for kernel, tasks, X in engine.tasks_by_kernel(without):
                total += self._sum(kernel, tasks, X)
        return total

    def vector(self, X: Array, y: Array, noise: Array, kernel: Kernel | None = None) -> Integers:
        """One client's vector, zero if it cannot be computed."""
        input, first = match(X, {})
        with np.errstate(all="ignore"):
            task = fold(np.zeros(len(X), dtype=np.intp), input, y, noise)
            model = self.coordinates.model
            return self._sum(model.individual if kernel is None else model.adapt(kernel), task, X[first])

    def norms(self, clients: Iterable[tuple[Array, Array, Array]]) -> Array:
        """The norms of clients' vectors before they are clipped, from X, y and noise of each: those above 1 are
        shortened. Of one who adds nothing it is 0."""
        model, coordinates = self.coordinates.model, self.coordinates
        norms = []
        for X, y, noise in clients:
            task = Task.of(X, y - self.center, noise)
            shift = coordinates.shift(model.individual)
            if not _is_computable(shift, task.X):
                norms.append(0.0)
                continue
            R, log_det = shift.inverse(task.X[None], task.noise[None])
            usable = np.isfinite(log_det[0])
            Lambda, eta = task.information(coordinates.columns(task.X), R[0])
            norm = np.hypot(np.linalg.norm(Lambda) / self.C_Lambda, np.linalg.norm(eta) / self.C_eta)
            norms.append(norm if usable and np.isfinite(norm) else 0.0)
        return np.array(norms)

    def _sum(self, kernel: Kernel, tasks: FoldedTasks, X: Array) -> Integers:
        """Clients are summed by size, those with public points as their only inputs apart from the others.

        Each client's examples are sorted first, so that their order of arrival does not matter.
        """
        point = np.array([self._point_numbers.get(row, -1) for row in as_bytes(X)], dtype=np.intp)[tasks.input]
        sizes, total = np.diff(tasks.start), np.zeros(self.size, dtype=np.int64)
        on_points = np.minimum.reduceat(point, tasks.start[:-1]) >= 0 if len(sizes) else sizes > 0
        on_points &= len(self.coordinates.points) <= MAX_GRAM_POINTS
        rank = np.empty(len(X), dtype=np.intp)
        rank[np.lexsort(X.T)] = np.arange(len(X))  # of every input, in an order that no other input changes
        for known, order in ((True, point), (False, rank[tasks.input])):
            for size in np.unique(sizes[on_points == known]):
                rows = tasks.start[:-1][(on_points == known) & (sizes == size), None] + np.arange(size)
                if size > MAX_INPUTS_PER_CLIENT:
                    long = [_is_computable(self.coordinates.shift(kernel), X[tasks.input[one]]) for one in rows]
                    rows = rows[np.array(long, dtype=bool)]
                rows = np.take_along_axis(rows, np.argsort(order[rows], axis=1), axis=1)
                examples = tasks.y[rows] - self.center, tasks.noise[rows]
                if known:
                    total += self._sum_of_size(kernel, self.coordinates.points, point[rows], *examples, known=True)
                else:
                    total += self._sum_of_size(kernel, X, tasks.input[rows], *examples, known=False)
        return total

    def _sum_of_size(self, kernel: Kernel, X: Array, h: Index, y: Array, noise: Array, *, known: bool) -> Integers:
        """The sum of clients of one size with inputs ``X[h]`` (m, ℓ), in blocks; the last is filled up by its last.

        Of public points, which are ``known``, K is computed once; else each client is evaluated as a table of its own.
        """
        shift, basis = self.coordinates.shift(kernel), self.coordinates.basis
        is_models = kernel is self.coordinates.model.individual
        K = (self._gram_of_points if is_models else shift.gram(X)) if known else None

        def clients(h: Index, y: Array, noise: Array) -> Integers:
            columns = None if known else basis.columns(X[h])
            E = None if columns is None else columns[..., : basis.rank]
            F = self.coordinates.F[h] if columns is None else columns @ self.coordinates.T
            if h.shape[1] > MAX_INPUTS_PER_CLIENT:
                return self.to_integers(F, *shift.inverse(X[h], noise, E), y)
            V = shift.gram(X[h], E=E) if K is None else blocks(K, h)
            return self.to_integers(F, *inverse(shift.covariance(V, noise)), y)

        m, size = h.shape
        block = CLIENTS_PER_BLOCK if size <= MAX_SMALL_SIZE else 1  # LAPACK takes larger ones singly in any case
        h, y, noise = (np.pad(a, ((0, -m % block), (0, 0)), mode="edge") for a in (h, y, noise))
        total, lock = np.zeros(self.size, dtype=np.int64), Lock()

        def add(part: slice) -> None:
            block_sum = clients(h[part], y[part], noise[part])[: m - part.start].sum(axis=0)
            with lock:
                total[:] += block_sum

        on_all_cores(add, len(h), block)
        return total

    @cached_property
    def _point_numbers(self) -> dict[bytes, int]:
        return {row: number for number, row in enumerate(as_bytes(self.coordinates.points))}

    @cached_property
    def _gram_of_points(self) -> Array:
        return self.coordinates.shift(self.coordinates.model.individual).gram(self.coordinates.points)

    # --- formula 3: from F, Rʲ and y to the vector, and back ---

    def to_integers(self, F: Array, R: Inverse, log_det: Array, y: Array) -> Integers:
        """The vectors of a stack of clients, a row for each: v = (svec(Λʲ)/C_Λ, ηʲ/C_η), clipped, times 2²⁰, truncated.

        The norm of a row is at most 2²⁰, whatever the client sent. A client whose ``log_det`` is not finite has no Rʲ.
        """
        with np.errstate(all="ignore"):  # numbers that are not finite add nothing; every thread has a state of its own
            Lambda, eta = F.swapaxes(1, 2) @ (R @ F), F.swapaxes(1, 2) @ (R @ y[:, :, None])
            # η times 1/C_η: division would round differently from the noisy sums that studies have stored.
            v = np.concatenate([svec(Lambda, unit=self.C_Lambda), eta[:, :, 0] * (1 / self.C_eta)], axis=1)
            norm = np.where(np.isfinite(log_det), np.sqrt(np.einsum("ij,ij->i", v, v)), np.nan)
            v *= (UNIT * ROUNDING_MARGIN / np.maximum(1.0, norm))[:, None]  # formula 3, the clip
            v[~np.isfinite(norm)] = 0.0
            integers = v.astype(np.int64)  # towards zero
            integers[np.einsum("ij,ij->i", integers, integers) > UNIT**2] = 0
            return integers

    def to_sums(self, v: Array) -> tuple[Array, Array]:
        """Λ and η of a sum of vectors, in units of one client."""
        k = len(self.mean_Lambda)
        return smat(v[:-k], unit=self.C_Lambda), v[-k:] / (1 / self.C_eta)


def _is_computable(shift: Shift, X: Array) -> bool:
    """Whether a client with these inputs has not too many, or a shift of few features."""
    long = shift.at(X)
    return len(X) <= MAX_INPUTS_PER_CLIENT or (long.kernel is shift.kernel and long.rank(X) is not None)
