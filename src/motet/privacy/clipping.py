"""What one client adds to a private release: its information as whole numbers of bounded norm.

C_Λ and C_η come from the norms of clients simulated from the model's own prior. A client's vector depends on that
client alone, to the last digit, and sums of whole numbers are exact: neither the order of clients nor one that left
shows in them.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass
from functools import cached_property
from threading import Lock

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from motet.arrays import Array, Index, as_bytes, match
from motet.learning.engine import Engine
from motet.linalg import MAX_SMALL_SIZE, inverse, on_all_cores
from motet.model.tasks import FoldedTasks, Task, blocks, fold
from motet.privacy.coordinates import Coordinates
from motet.privacy.ledger import UNIT, Whole

BLOCK = 64  # clients taken at once, always as many, so that nobody's digits depend on the others
LARGEST = 2000  # examples of a client; one with more adds nothing
ROOM = 1 - 2.0**-40  # for the rounding of norms


@dataclass(frozen=True, eq=False)
class Clip:
    """Bounds of clients' vectors, and what clients of the prior look like under them."""

    at: Coordinates
    C_Lambda: float
    C_eta: float
    shape: Array  # L₀: the mean clipped Λ of simulated clients
    spread: float  # variance of one number of the vector between clients

    @classmethod
    def of(cls, at: Coordinates, examples: int, *, seed: int = 0, C_eta: float | None = None) -> Clip:
        """Bounds from simulated clients with so many examples, half of whom are clipped; ``C_eta`` too unless given."""
        F, R, y = at.simulated(examples, seed)
        K, Ry = F @ F.swapaxes(1, 2), R @ y[:, :, None]
        RK = R @ K
        Lambda = np.sqrt(np.einsum("mij,mji->m", RK, RK))
        eta = np.sqrt((Ry * (K @ Ry)).sum(axis=(1, 2)))
        C = np.array([np.median(Lambda), np.median(eta)])
        C *= np.median(np.hypot(Lambda / C[0], eta / C[1]))
        C[1] = C[1] if C_eta is None else C_eta
        length = np.hypot(Lambda / C[0], eta / C[1])
        c = 1 / np.maximum(1.0, length)
        rows = F.shape[0] * F.shape[1]
        shape = F.reshape(rows, -1).T @ (c[:, None, None] * (R @ F)).reshape(rows, -1) / len(F)
        k = len(shape)
        spread = (np.mean((c * length) ** 2) - (shape**2).sum() / C[0] ** 2) / (k * (k + 3) / 2)
        return cls(at, float(C[0]), float(C[1]), (shape + shape.T) / 2, float(max(spread, 0.0)))

    @property
    def size(self) -> int:
        """How many numbers a client's vector has."""
        k = len(self.shape)
        return k * (k + 3) // 2

    # --- a client's vector ---

    def total(self, engine: Engine, without: Collection[Hashable] = ()) -> Whole:
        """The exact sum of all clients' vectors, but for some."""
        total = np.zeros(self.size, dtype=np.int64)
        with np.errstate(all="ignore"):  # what is not finite adds nothing
            for kernel, folded, X in engine.folded(without):
                total += self._sum(kernel, folded, X)
        return total

    def vector(self, X: Array, y: Array, noise: Array, kernel: Kernel | None = None) -> Whole:
        """One client's vector, zero where it cannot be computed."""
        input, first = match(X, {})
        with np.errstate(all="ignore"):
            folded = fold(np.zeros(len(X), dtype=np.intp), input, y, noise)
            model = self.at.model
            return self._sum(model.individual if kernel is None else model.adapt(kernel), folded, X[first])

    def _sum(self, kernel: Kernel, folded: FoldedTasks, X: Array) -> Whole:
        """Clients whose inputs are all public points together, by size; each other one alone."""
        place = np.array([self._places.get(row, -1) for row in as_bytes(X)], dtype=np.intp)[folded.input]
        sizes = np.diff(folded.start)
        known = np.minimum.reduceat(place, folded.start[:-1]) >= 0 if len(sizes) else sizes > 0
        total = np.zeros(self.size, dtype=np.int64)
        for size in np.unique(sizes[known & (sizes <= LARGEST)]):
            at = folded.start[:-1][known & (sizes == size), None] + np.arange(size)
            at = np.take_along_axis(at, np.argsort(place[at], axis=1), axis=1)  # whatever their order was
            total += self._sum_of_stack(kernel, place[at], folded.y[at], folded.noise[at])
        for begin, end in zip(folded.start[:-1][~known], folded.start[1:][~known]):
            if end - begin <= LARGEST:
                at = begin + np.lexsort(X[folded.input[begin:end]].T)
                total += self._alone(Task(X[folded.input[at]], folded.y[at], folded.noise[at]), kernel)
        return total

    def _alone(self, task: Task, kernel: Kernel) -> Whole:
        V = task.covariance(self.at.shift(kernel))
        F = np.concatenate([self.at.columns(x[None]) for x in task.X])
        return self._whole(F[None], V[None], task.y[None])[0]

    @cached_property
    def _places(self) -> dict[bytes, int]:
        return {row: number for number, row in enumerate(as_bytes(self.at.points))}

    def _over_points(self, kernel: Kernel) -> Array:
        return self._own if kernel is self.at.model.individual else self.at.shift(kernel).gram(self.at.points)

    @cached_property
    def _own(self) -> Array:
        return self.at.shift(self.at.model.individual).gram(self.at.points)

    def _sum_of_stack(self, kernel: Kernel, h: Index, y: Array, noise: Array) -> Whole:
        m, size = h.shape
        shift, K = self.at.shift(kernel), self._over_points(kernel)
        block = BLOCK if size <= MAX_SMALL_SIZE else 1  # LAPACK takes larger ones singly in any case
        h, y, noise = (np.pad(a, ((0, -m % block), (0, 0)), mode="edge") for a in (h, y, noise))
        total, lock = np.zeros(self.size, dtype=np.int64), Lock()

        def work(part: slice) -> None:
            V = shift.covariance(blocks(K, h[part]), noise[part])
            found = self._whole(self.at.F[h[part]], V, y[part])[: m - part.start].sum(axis=0)
            with lock:
                total[:] += found

        on_all_cores(work, len(h), block)
        return total

    def _whole(self, F: Array, V: Array, y: Array) -> Whole:
        """v = (svec(Λʲ)/C_Λ, ηʲ/C_η), shortened to norm 1 where longer, times 2²⁰, truncated; a row for each client."""
        with np.errstate(all="ignore"):  # what is not finite adds nothing; threads have a state of their own
            R = _inverses(V)
            Lambda, eta = F.swapaxes(1, 2) @ (R @ F), F.swapaxes(1, 2) @ (R @ y[:, :, None])
            v = np.empty((len(F), self.size))
            v[:, : -len(self.shape)] = Lambda.reshape(len(F), -1).take(self._upper, axis=1)
            v[:, -len(self.shape) :] = eta[:, :, 0]
            v *= self._weights
            norm = np.sqrt(np.einsum("ij,ij->i", v, v))
            v *= (UNIT * ROOM / np.maximum(1.0, norm))[:, None]
            v[~np.isfinite(norm)] = 0.0
            whole = v.astype(np.int64)  # towards zero
            whole[np.einsum("ij,ij->i", whole, whole) > UNIT**2] = 0
            return whole

    @cached_property
    def _upper(self) -> Index:
        a, b = np.triu_indices(len(self.shape))
        return a * len(self.shape) + b

    @cached_property
    def _weights(self) -> Array:
        a, b = np.triu_indices(len(self.shape))
        return np.append(np.where(a == b, 1.0, np.sqrt(2.0)) / self.C_Lambda, np.full(len(self.shape), 1 / self.C_eta))

    def unpacked(self, v: Array) -> tuple[Array, Array]:
        """Λ and η of a sum of vectors, in units of one client."""
        v = v / self._weights
        k = len(self.shape)
        Lambda = np.zeros((k, k))
        a, b = np.triu_indices(k)
        Lambda[a, b] = Lambda[b, a] = v[:-k]
        return Lambda, v[-k:]


def _inverses(V: Array) -> Array:
    """Each client's own inverse, NaN where there is none: nobody's failure is another's."""
    R, log_det = inverse(V)
    if V.shape[-1] > MAX_SMALL_SIZE and len(V) > 1 and np.isnan(log_det).any():  # LAPACK gives up on the whole stack
        return np.concatenate([_inverses(one[None]) for one in V])
    return np.where(np.isfinite(log_det)[:, None, None], R, np.nan)
