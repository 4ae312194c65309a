"""Gradient and average information (AI-REML) of the evidence of a model, from the sums over tasks.

With V the covariance of all outputs in units of σ², P = V⁻¹ − V⁻¹Ψ(ΨᵀV⁻¹Ψ)⁻¹ΨᵀV⁻¹ and M = P − Pyyᵀ P/σ², a parameter
changes the log evidence by −½ tr(M ∂V). Of M only two pieces are needed: the block of every task,
Rʲ − RʲSⱼⱼRʲ − aʲaʲᵀ/σ² with S = FΣFᵀ, and its sum over inputs, G − GSG − ăăᵀ/σ². Where a kernel has few features,
K = UUᵀ, its parameters change tr(MK) by 2 tr(Uᵀ M ∂U), and no block is formed: long tasks cost no more than their rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from motet.arrays import Array
from motet.engine.batches import Batch
from motet.engine.system import System, without_bias
from motet.kernels.classes import Kernel
from motet.kernels.derivatives import derivatives
from motet.kernels.finite_rank import feature_derivatives, features
from motet.kernels.nystrom import OwnLandmarks
from motet.linalg import LowRankInverse, square
from motet.model.basis import Features
from motet.model.tasks import blocks, long_kernel
from motet.release.estimates import task_coefficients
from motet.release.posterior import Posterior
from motet.threads import blas_limit


@dataclass(frozen=True, eq=False)
class Slope:
    """At one model: the log evidence, its gradient and its average information, both with σ² at its best.

    The parameters are ``common.theta``, then ``individual.theta``. The average information is the mean of the observed
    and of the expected one, ½ (∂Vᵢ Py)ᵀ P (∂Vₖ Py)/σ²: positive, and the curvature at the optimum. ``cross`` is its
    part between log σ² and the parameters, ½ (Py)ᵀ ∂Vᵢ Py/σ², before σ² was profiled.
    """

    log_evidence: float
    sigma2: float
    gradient: Array
    information: Array
    cross: Array
    free: int  # rows less weights of the bias
    log_prior: float = 0.0  # of which the gradient is, too

    @property
    def height(self) -> float:
        """What a search climbs."""
        return self.log_evidence + self.log_prior


# --- blocks of M ---


@dataclass(frozen=True, eq=False)
class Tasks(ABC):
    """Some tasks of one batch, with what all parameters need of them."""

    batch: Batch
    a: Array  # aʲ = Rʲ(yʲ − Fⱼθ̂), the task's rows of Py

    def by_input(self, rows: Array) -> Array:
        """The sums of the tasks' rows of numbers at each input, up to the last one that they have."""
        return np.asarray(self._incidence.T @ rows.reshape(self.a.size, -1))

    @cached_property
    def _incidence(self) -> csr_array:
        """Which input each row has."""
        return csr_array((np.ones(self.a.size), self.batch.h.ravel(), np.arange(self.a.size + 1)))

    @abstractmethod
    def individual(self, kernel: Kernel, X: Array) -> Iterator[tuple[float, Array]]:
        """For every parameter of K̃, tr(M ∂K̃) and ∂K̃ a; X are all inputs."""

    @abstractmethod
    def residual_derivatives(self, kernel: Kernel, X: Array) -> Iterator[Array]:
        """For every parameter of K̄, the numbers of ∂K̄ that its residual beside landmarks needs."""

    @abstractmethod
    def residual_rows(self, BT: Array) -> Array:
        """MBᵀ, with the tasks' rows of Bᵀ; of M only what the residual beside landmarks needs."""

    @abstractmethod
    def residual_change(self, D: Array, D_XZ: Array, D_ZZ: Array, BT: Array) -> tuple[float, Array]:
        """tr(M D), and ∂V a for the residual ∂V = D − CB − (CB)ᵀ of ∂K̄ beside landmarks, C = D_XZ − ½BᵀD_ZZ.

        D_XZ and Bᵀ have the tasks' rows.
        """


@dataclass(frozen=True, eq=False)
class ShortTasks(Tasks):
    """With blocks of M."""

    M: Array

    def individual(self, kernel: Kernel, X: Array) -> Iterator[tuple[float, Array]]:
        return (self.change(D) for D in derivatives(kernel, X[self.batch.h]))

    def change(self, block: Array) -> tuple[float, Array]:
        """tr(M ∂V) and ∂V a for ∂V that has these blocks."""
        return float(np.vdot(self.M, block)), (block @ self.a[:, :, None])[:, :, 0]

    def residual_derivatives(self, kernel: Kernel, X: Array) -> Iterator[Array]:
        return derivatives(kernel, X[self.batch.h])

    def residual_rows(self, BT: Array) -> Array:
        return self.M @ BT

    def residual_change(self, D: Array, D_XZ: Array, D_ZZ: Array, BT: Array) -> tuple[float, Array]:
        trace, product = self.change(D)
        a = self.a[:, None, :]
        u = (a @ BT)[:, 0]
        rest = (a @ D_XZ)[:, 0] - u @ D_ZZ
        return trace, product - (D_XZ @ u[:, :, None] + BT @ rest[:, :, None])[:, :, 0]


@dataclass(frozen=True, eq=False)
class LongTasks(Tasks):
    """The block of M is not formed: it is R − RWWᵀR − aaᵀ/σ², with R by features.

    The residual of landmarks, those of the average and those of the task, is noise here: a diagonal.
    """

    R: LowRankInverse
    RW: Array
    sigma2: float

    def individual(self, kernel: Kernel, X: Array) -> Iterator[tuple[float, Array]]:
        own, a = X[self.batch.h], self.a[:, None, :]
        kernel = long_kernel(kernel, own)
        if isinstance(kernel, OwnLandmarks):
            U, changes = kernel.derivatives(own)
        else:
            U, nothing = features(kernel, own), np.zeros(())
            changes = ((D, nothing) for D in feature_derivatives(kernel, own))
        aU = a @ U
        MU = self.R @ U - self.RW @ (self.RW.swapaxes(-1, -2) @ U) - self.a[:, :, None] * (aU / self.sigma2)
        for D, residual in changes:
            trace = 2.0 * float(np.vdot(MU, D)) + float(np.sum(self.diagonal * residual))
            yield trace, _symmetric(U, D, aU, a @ D) + residual * self.a

    def residual_derivatives(self, kernel: Kernel, X: Array) -> Iterator[Array]:
        alone = X[self.batch.h].reshape(-1, 1, X.shape[-1])
        return (D.reshape(self.a.shape) for D in derivatives(kernel, alone))

    def residual_rows(self, BT: Array) -> Array:
        return self.diagonal[:, :, None] * BT

    def residual_change(self, D: Array, D_XZ: Array, D_ZZ: Array, BT: Array) -> tuple[float, Array]:
        change = D - 2.0 * np.einsum("jik,jik->ji", D_XZ - 0.5 * (BT @ D_ZZ), BT)
        return float(np.vdot(self.diagonal, D)), change * self.a

    @cached_property
    def diagonal(self) -> Array:
        """Of the block of M."""
        return np.asarray(self.R.diagonal - np.einsum("jik,jik->ji", self.RW, self.RW) - self.a**2 / self.sigma2)


def tasks_of(batch: Batch, fitted: Array, W: Array, sigma2: float, S: Array | None = None) -> Tasks:
    """``fitted`` and W are Fθ̂ and a root of FΣFᵀ at all inputs; S is FΣFᵀ, if it is known."""
    a = task_coefficients(batch.R, batch.y, fitted[batch.h])
    if isinstance(batch.R, LowRankInverse):
        return LongTasks(batch, a, batch.R, batch.R @ W[batch.h], sigma2)
    if S is None:
        RW = batch.R @ W[batch.h]
        RSR = RW @ RW.swapaxes(-1, -2)
    else:
        RSR = batch.R @ blocks(S, batch.h) @ batch.R
    return ShortTasks(batch, a, batch.R - RSR - a[:, :, None] * a[:, None, :] / sigma2)


# --- the slope ---


@blas_limit
def slope(system: System) -> Slope:
    """The evidence of a system of tasks that all have the model's own kernels, its gradient and its curvature."""
    model, F, sigma2 = system.model, system.columns.F, system.evidence.sigma2
    W = system.posterior.whitened(F)  # WWᵀ = FΣFᵀ
    if system.method == "ML":  # the determinant is that of V alone
        alone = Posterior(without_bias(system.total, system.posterior.factor), system.posterior.theta)
        trace_W = alone.whitened(F[:, : alone.factor.rank])
    else:
        trace_W = W
    parts = list(_parts(system, trace_W))
    products: list[list[Array]] = [[] for _ in parts]  # ∂Vᵢ Py of every part, by parameter
    gradient: list[float] = []
    if model.common is not None:
        change = _common_over_inputs if model.basis is None else _common_over_landmarks
        change = _common_by_features if isinstance(model.basis, Features) else change
        gradient += change(system, parts, trace_W, products)
    gradient += _individual(system, parts, products)
    return Slope(
        system.evidence.log_evidence,
        sigma2,
        -0.5 * np.array(gradient),
        *_average_information(parts, products, W, sigma2, system.free),
        system.free,
    )


def _parts(system: System, W: Array) -> Iterator[Tasks]:
    """All tasks in parts whose temporaries stay small."""
    fitted, sigma2 = system.columns.F @ system.posterior.theta, system.evidence.sigma2
    pairs = sum(batch.h.size * batch.h.shape[1] for batch in system.batches if not batch.is_low_rank)
    S = square(W) if len(W) ** 2 <= 4 * pairs else None  # over all inputs, if that is less work than by task
    for batch in system.batches:
        block = 0 if batch.is_low_rank else 4 * batch.h.shape[1]
        for part in batch.parts(batch.h.shape[1] * ((W.shape[1] if S is None else 0) + block)):
            yield tasks_of(part, fitted, W, sigma2, S)


def _over_inputs(parts: list[Tasks], n: int) -> Array:
    """ă: the sum of all aʲ, by input."""
    total = np.zeros(n)
    for part in parts:
        total += np.bincount(part.batch.h.ravel(), part.a.ravel(), minlength=n)
    return total


# --- one side's parameters: tr(M ∂V) for each, and ∂V Py ---


def _individual(system: System, parts: list[Tasks], products: list[list[Array]]) -> list[float]:
    """Parameters of K̃: tasks' blocks alone, from a table over all inputs if that is less work; or by features."""
    kernel, share, X = system.model.individual, system.model.individual_share, system.X
    traces: defaultdict[int, float] = defaultdict(float)  # by parameter
    short = [part for part in parts if isinstance(part, ShortTasks)]
    pairs = sum(part.batch.h.size * part.batch.h.shape[1] for part in short)
    by_table = len(X) ** 2 <= 4 * pairs
    for i, D in enumerate(derivatives(kernel, X) if by_table else ()):
        for part, columns in zip(parts, products):
            if isinstance(part, ShortTasks):
                trace, product = part.change(share * blocks(D, part.batch.h))
                traces[i] += trace
                columns.append(product)
    for part, columns in zip(parts, products):
        if not (by_table and isinstance(part, ShortTasks)):
            for i, (trace, product) in enumerate(part.individual(kernel, X)):
                traces[i] += share * trace
                columns.append(share * product)
    return list(traces.values())


def _symmetric(U: Array, D: Array, aU: Array, aD: Array) -> Array:
    """(∂U Uᵀ + U∂Uᵀ)a at every row, with aᵀU and aᵀ∂U."""
    return np.asarray((D * aU).sum(axis=-1) + (U * aD).sum(axis=-1))


def _common_by_features(system: System, parts: list[Tasks], W: Array, products: list[list[Array]]) -> list[float]:
    """Parameters of a linear K̄ = EEᵀ: of M only ME is needed, over the rows of all tasks."""
    kernel, share, X, sigma2 = system.model.common, system.model.common_share, system.X, system.evidence.sigma2
    E, a = features(kernel, X), _over_inputs(parts, len(X))
    aE = a @ E
    GE = _times_G(parts, np.hstack([E, W]))
    GE, GW = GE[:, : E.shape[1]], GE[:, E.shape[1] :]
    ME = GE - GW @ (W.T @ GE) - np.outer(a, aE) / sigma2
    traces = []
    for D in feature_derivatives(kernel, X):
        traces.append(2.0 * share * float(np.vdot(ME, D)))
        product = share * _symmetric(E, D, aE, a @ D)
        for part, columns in zip(parts, products):
            columns.append(product[part.batch.h])
    return traces


def _times_G(parts: list[Tasks], columns: Array) -> Array:
    """G times columns over the inputs, without forming G."""
    total = np.zeros_like(columns)
    for part in parts:
        sums = part.by_input(part.batch.R @ columns[part.batch.h])
        total[: len(sums)] += sums
    return total


def _common_over_inputs(system: System, parts: list[Tasks], W: Array, products: list[list[Array]]) -> list[float]:
    """Parameters of K̄ if the basis grows: K̄ over all inputs."""
    share, G = system.model.common_share, system.information.G
    a = _over_inputs(parts, len(G))
    M = G - square(G @ W)
    M -= np.outer(a, a) / system.evidence.sigma2
    traces = []
    for D in derivatives(system.model.common, system.X):
        traces.append(share * float(np.vdot(M, D)))
        product = share * (D @ a)
        for part, columns in zip(parts, products):
            columns.append(product[part.batch.h])
    return traces


def _common_over_landmarks(system: System, parts: list[Tasks], W: Array, products: list[list[Array]]) -> list[float]:
    """Parameters of K̄ on landmarks Z: K̄ within tasks, and between them Q = BᵀK̄(Z, Z)B with B = K̄(Z, Z)⁻¹K̄(Z, X).

    ∂Q = CB + (CB)ᵀ with C = ∂K̄(X, Z) − ½Bᵀ∂K̄(Z, Z), which is in products with vectors and in traces alone.
    """
    model, basis, X = system.model, system.columns.basis, system.X
    share, n = model.common_share, len(X)
    BT = system.columns.F[:, : basis.rank] @ basis.A  # the landmarks' kernel is (AᵀA)⁻¹
    a = _over_inputs(parts, n)
    GBT, GW = _times_G(parts, BT), _times_G(parts, W)
    rows = GBT - GW @ (GW.T @ BT) - np.outer(a, a @ BT) / system.evidence.sigma2
    for part in parts:  # within tasks Q is exchanged for K̄
        sums = part.by_input(part.residual_rows(BT[part.batch.h]))
        rows[: len(sums)] -= sums
    of_landmarks, u = BT.T @ rows, a @ BT
    traces = []
    residuals = [part.residual_derivatives(model.common, X) for part in parts]
    pairs = zip(derivatives(model.common, X, basis.landmarks), derivatives(model.common, basis.landmarks))
    for D_XZ, D_ZZ in pairs:
        trace = 2.0 * float(np.vdot(rows, D_XZ)) - float(np.vdot(of_landmarks, D_ZZ))
        between = D_XZ @ u + BT @ (a @ D_XZ - u @ D_ZZ)
        for part, columns, Ds in zip(parts, products, residuals):
            h = part.batch.h
            more, product = part.residual_change(next(Ds), D_XZ[h], D_ZZ, BT[h])
            trace += more
            columns.append(share * (between[h] + product))
        traces.append(share * trace)
    return traces


def _average_information(
    parts: list[Tasks], products: list[list[Array]], W: Array, sigma2: float, free: int
) -> tuple[Array, Array]:
    """½ vᵢᵀPvₖ/σ² with vᵢ = ∂Vᵢ Py, less what the scale σ² explains; and ½ vᵢᵀPy/σ²."""
    count = len(products[0]) if products else 0
    within, over_inputs, by_scale = np.zeros((count, count)), np.zeros((len(W), count)), np.zeros(count)
    for part, columns in zip(parts, products):
        v = np.stack(columns, axis=-1) if columns else np.empty((*part.a.shape, 0))
        Rv = part.batch.R @ v
        flat = Rv.reshape(part.a.size, count)
        within += v.reshape(part.a.size, count).T @ flat
        for i in range(count):
            over_inputs[:, i] += np.bincount(part.batch.h.ravel(), flat[:, i], minlength=len(W))
        by_scale += part.a.ravel() @ v.reshape(part.a.size, count)
    shared = W.T @ over_inputs
    information = 0.5 * (within - shared.T @ shared) / sigma2
    cross = 0.5 * by_scale / sigma2
    return np.asarray(information - np.outer(cross, cross) / (0.5 * free)), cross
