"""Information, in the natural parameters of a Gaussian: the sums over tasks, all that they learn of each other.

``Information`` is G = Σⱼ Rʲ scattered over inputs and g = Σⱼ Rʲyʲ, or Λ = FᵀGF and η = Fᵀg in a basis, with the few
numbers that the evidence needs. It adds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.linalg.lapack import dsygst

from motet.arrays import Array, Index, match
from motet.engine.batches import Batch
from motet.errors import WrongDimension
from motet.linalg import dense, lower_indices, mirror_lower

MAX_SCATTERED_SIZE = 64  # of tasks that are scattered many at once


@dataclass(frozen=True, eq=False)
class Information:
    """Sums over tasks, over ``inputs``, or in a fixed basis if these are None."""

    G: Array
    g: Array
    inputs: Array | None = None
    tasks: Index = field(default_factory=lambda: np.empty(0, dtype=np.intp))  # how many tasks have each input
    rows: int = 0  # raw examples
    folded: int = 0  # examples without repeats
    log_det: float = 0.0  # Σ log |Rʲ|
    quadratic: float = 0.0  # Σ yʲᵀRʲyʲ
    squares: float = 0.0  # Σ (yᵢ − ȳ)² / wᵢ over repeats
    log_noise: float = 0.0  # Σ log wᵢ − Σ log w̄

    @classmethod
    def over_inputs(cls, batches: Sequence[Batch], inputs: Array) -> Information:
        """G and g over all the inputs, summed anew over every task's Rʲ."""
        n = len(inputs)
        G, g, tasks = _scattered(batches, n), np.zeros(n), np.zeros(n, dtype=np.intp)
        for batch in batches:
            g += np.bincount(batch.h.ravel(), batch.Ry.ravel(), minlength=n)
            tasks += np.bincount(batch.h.ravel(), minlength=n)
        return cls(G, g, inputs, tasks, **_evidence_sums(batches))

    @classmethod
    def in_basis(cls, batches: Sequence[Batch], F: Array) -> Information:
        """Λ = Σ FⱼᵀRʲFⱼ and η = Σ FⱼᵀRʲyʲ, F the basis's columns at every input."""
        k = F.shape[1]
        Lambda, eta = np.zeros((k, k)), np.zeros(k)
        for batch in batches:
            for part in batch.parts(batch.h.shape[1] * (k + 1)):
                Fj = F[part.h]
                flat = Fj.reshape(part.h.size, k).T
                Lambda += flat @ (part.R @ Fj).reshape(part.h.size, k)
                eta += flat @ part.Ry.ravel()
        return cls((Lambda + Lambda.T) / 2, eta, **_evidence_sums(batches))

    def into(self, F: Array, triangular: int = 0) -> Information:
        """The same sums in a basis with columns F at the inputs, the first ``triangular`` ones lower triangular."""
        return replace(self, G=_congruence(self.G, F, triangular), g=F.T @ self.g, inputs=None, tasks=self.tasks[:0])

    def __add__(self, other: Information) -> Information:
        """Over the union of their inputs."""
        a, b = self, other
        if (a.inputs is None) != (b.inputs is None) or (a.inputs is None and a.G.shape != b.G.shape):
            raise WrongDimension("expected two sums of one kind, over inputs or in one basis, got one of each")
        if a.inputs is not None and b.inputs is not None:
            rows: dict[bytes, int] = {}
            match(a.inputs, rows)
            index, _ = match(b.inputs, rows)
            inputs = np.vstack([a.inputs, b.inputs[index >= len(a.inputs)]])
            a, b = _over_more(a, np.arange(len(a.inputs)), inputs), _over_more(b, index, inputs)
        numbers = {name: getattr(a, name) + getattr(b, name) for name in EVIDENCE_SUMS}
        return Information(a.G + b.G, a.g + b.g, a.inputs, a.tasks + b.tasks, **numbers)


def _congruence(G: Array, F: Array, r: int) -> Array:
    """FᵀGF, with a quarter of the work if F's first ``r`` columns are lower triangular over its first ``r`` rows."""
    L, rest, psi = F[:r, :r], F[r:, :r], F[:, r:]
    core = mirror_lower(dsygst(G[:r, :r].T, L, itype=2, lower=1)[0]) if r else np.empty((0, 0))
    if r == F.shape[1] == len(F):
        return core.T
    out = np.empty((F.shape[1], F.shape[1]), order="F")
    out[:r, :r] = core
    if r and len(rest):
        cross = rest.T @ (G[r:, :r] @ L + 0.5 * (G[r:, r:] @ rest))
        out[:r, :r] += cross + cross.T
    Gpsi = G @ psi
    out[:r, r:] = F[:, :r].T @ Gpsi
    out[r:, :r] = out[:r, r:].T
    bias = psi.T @ Gpsi
    out[r:, r:] = (bias + bias.T) / 2
    return out


def _scattered(batches: Sequence[Batch], n: int) -> Array:
    """Σⱼ Rʲ at (hʲ, hʲ). Small tasks are added many at once, by their lower triangles; large ones one by one."""
    flat = np.zeros(n * n)
    G = flat.reshape(n, n)
    for batch in (b for b in batches if b.h.shape[1] <= MAX_SCATTERED_SIZE):
        size = batch.h.shape[1]
        i, k = lower_indices(size)
        for part in batch.parts(size**2):
            positions = part.h.take(i, axis=1) * n + part.h.take(k, axis=1)
            triangles = dense(part.R).reshape(-1, size**2).take(i * size + k, axis=1)
            np.add.at(flat, positions.ravel(), triangles.ravel())
    G += G.T
    flat[:: n + 1] /= 2.0
    for batch in (b for b in batches if b.h.shape[1] > MAX_SCATTERED_SIZE):
        for j, h in enumerate(batch.h):
            G[np.ix_(h, h)] += dense(batch.R[j])
    return G


EVIDENCE_SUMS = ("rows", "folded", "log_det", "quadratic", "squares", "log_noise")


def _evidence_sums(batches: Iterable[Batch]) -> dict[str, Any]:
    return {
        "rows": sum(int(b.rows.sum()) for b in batches),
        "folded": sum(b.h.size for b in batches),
        "log_det": sum(float(b.log_det.sum()) for b in batches),
        "quadratic": sum(float(np.vdot(b.y, b.Ry)) for b in batches),
        "squares": sum(float(b.squares.sum()) for b in batches),
        "log_noise": sum(float(b.log_noise.sum()) for b in batches),
    }


def _over_more(info: Information, index: Index, inputs: Array) -> Information:
    """The same over more ``inputs``; ``index`` has the numbers of those that there were."""
    n = len(inputs)
    if np.array_equal(index, np.arange(n)):
        return info
    G, g, tasks = np.zeros((n, n)), np.zeros(n), np.zeros(n, dtype=np.intp)
    G[np.ix_(index, index)], g[index], tasks[index] = info.G, info.g, info.tasks
    return replace(info, G=G, g=g, inputs=inputs, tasks=tasks)
