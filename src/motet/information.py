"""What tasks tell each other: sums, and what follows from them.

``Information`` is G = Σⱼ Rʲ scattered over inputs and g = Σⱼ Rʲyʲ, or Λ = FᵀGF and η = Fᵀg in a basis, with the few
numbers that the evidence needs. It adds and subtracts; that is the whole interface between tasks. ``Posterior`` is
the weights θ of the basis given a sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from motet.arrays import Array, Index, match
from motet.errors import InvalidRelease, WrongDimension
from motet.task import CHUNK, Batch


@dataclass(frozen=True, eq=False)
class Information:
    """Sums over tasks. ``inputs`` are the rows that G and g are about; None means that they live in a fixed basis."""

    G: Array
    g: Array
    inputs: Array | None = None
    tasks: Index = field(default_factory=lambda: np.empty(0, dtype=np.intp))  # how many tasks have each input
    rows: int = 0
    folded: int = 0
    log_det: float = 0.0  # Σ log |Rʲ|
    quadratic: float = 0.0  # Σ yʲᵀRʲyʲ
    squares: float = 0.0  # Σ (yᵢ − ȳ)² / wᵢ over repeats
    log_noise: float = 0.0  # Σ log wᵢ − Σ log w̄

    @classmethod
    def over_inputs(cls, batches: Sequence[Batch], inputs: Array) -> Information:
        """G and g over all the inputs, each by one count over every task's Rʲ."""
        n = len(inputs)
        G, g, tasks = np.zeros(n * n), np.zeros(n), np.zeros(n, dtype=np.intp)
        for batch in batches:
            for part in _parts(batch, batch.h.shape[1] ** 2):
                at = part.h[:, :, None] * n + part.h[:, None, :]
                G += np.bincount(at.ravel(), part.R.ravel(), minlength=n * n)
            g += np.bincount(batch.h.ravel(), batch.Ry.ravel(), minlength=n)
            tasks += np.bincount(batch.h.ravel(), minlength=n)
        return cls(G.reshape(n, n), g, inputs, tasks, **_numbers(batches))

    @classmethod
    def in_basis(cls, batches: Sequence[Batch], F: Array) -> Information:
        """Λ = Σ FⱼᵀRʲFⱼ and η = Σ FⱼᵀRʲyʲ, F the basis's columns at every input."""
        k = F.shape[1]
        Lambda, eta = np.zeros((k, k)), np.zeros(k)
        for batch in batches:
            for part in _parts(batch, batch.h.shape[1] * (k + 1)):
                Fj = F[part.h]
                flat = Fj.reshape(part.h.size, k).T
                Lambda += flat @ (part.R @ Fj).reshape(part.h.size, k)
                eta += flat @ part.Ry.ravel()
        return cls((Lambda + Lambda.T) / 2, eta, **_numbers(batches))

    def into(self, F: Array) -> Information:
        """The same sums in a basis with columns F at the inputs."""
        Lambda = F.T @ (self.G @ F)
        return replace(self, G=(Lambda + Lambda.T) / 2, g=F.T @ self.g, inputs=None, tasks=self.tasks[:0])

    def __add__(self, other: Information) -> Information:
        return self._combined(other, 1)

    def __sub__(self, other: Information) -> Information:
        return self._combined(other, -1)

    def _combined(self, other: Information, sign: int) -> Information:
        a, b = _aligned(self, other)
        numbers = {name: getattr(a, name) + sign * getattr(b, name) for name in _NUMBERS}
        total = Information(a.G + sign * b.G, a.g + sign * b.g, a.inputs, **numbers)
        if a.inputs is None:
            return total
        tasks = a.tasks + sign * b.tasks
        kept = np.flatnonzero(tasks)
        return replace(total, G=total.G[np.ix_(kept, kept)], g=total.g[kept], inputs=a.inputs[kept], tasks=tasks[kept])


_NUMBERS = ("rows", "folded", "log_det", "quadratic", "squares", "log_noise")


def _numbers(batches: Iterable[Batch]) -> dict[str, Any]:
    return {
        "rows": sum(int(b.rows.sum()) for b in batches),
        "folded": sum(b.h.size for b in batches),
        "log_det": sum(float(b.log_det.sum()) for b in batches),
        "quadratic": sum(float(np.vdot(b.y, b.Ry)) for b in batches),
        "squares": sum(float(b.squares.sum()) for b in batches),
        "log_noise": sum(float(b.log_noise.sum()) for b in batches),
    }


def _parts(batch: Batch, numbers: int) -> Iterable[Batch]:
    """The batch in pieces whose temporaries, of ``numbers`` a task, stay small."""
    step = max(1, CHUNK // max(1, numbers))
    if step >= len(batch.task):
        return [batch]
    return (batch.take(slice(begin, begin + step)) for begin in range(0, len(batch.task), step))


def _aligned(a: Information, b: Information) -> tuple[Information, Information]:
    """Both over the union of their inputs."""
    if (a.inputs is None) != (b.inputs is None) or (a.inputs is None and a.G.shape != b.G.shape):
        raise WrongDimension("information adds over inputs, or in one basis; these two are of different kinds")
    if a.inputs is None or b.inputs is None:
        return a, b
    known: dict[bytes, int] = {}
    match(a.inputs, known)
    where = match(b.inputs, known)
    inputs = np.vstack([a.inputs, b.inputs[where >= len(a.inputs)]])
    return _spread(a, np.arange(len(a.inputs)), inputs), _spread(b, where, inputs)


def _spread(info: Information, where: Index, inputs: Array) -> Information:
    n = len(inputs)
    G, g, tasks = np.zeros((n, n)), np.zeros(n), np.zeros(n, dtype=np.intp)
    G[np.ix_(where, where)], g[where], tasks[where] = info.G, info.g, info.tasks
    return replace(info, G=G, g=g, inputs=inputs, tasks=tasks)


# --- the weights of the basis, given a sum ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Posterior:
    """θ ~ N(θ̂, σ²αB⁻¹), B = diag(prior) + αΛ; ``prior`` is 1 on the basis and 0 on the bias.

    The bias is eliminated first: what is left is then I plus something positive, whatever the data. Directions of the
    bias that the data do not identify get weight 0. Columns beyond those of Λ have their prior alone.
    """

    Lambda: Array
    prior: Array
    share: float  # α
    theta: Array

    @classmethod
    def of(cls, Lambda: Array, eta: Array, prior: Array, share: float) -> Posterior:
        flat = cls(Lambda, prior, share, np.zeros(len(prior)))
        return replace(flat, theta=share * flat.solve(eta[:, None])[:, 0])

    @cached_property
    def _identified(self) -> Array:
        """Orthonormal directions of the bias that the data identify."""
        bias = np.flatnonzero(self.prior == 0)
        L = self.Lambda[np.ix_(bias, bias)] * self.share
        size = np.sqrt(np.maximum(np.diag(L), 0.0))
        if not size.any():
            return np.empty((len(bias), 0))
        scale = np.where(size > 0, size, 1.0)
        values, vectors = np.linalg.eigh(L / np.outer(scale, scale))
        null = vectors[:, values <= 1e-12] / scale[:, None]
        if not null.shape[1]:
            return np.eye(len(bias))
        return np.asarray(np.linalg.qr(null, mode="complete")[0][:, null.shape[1] :])

    @cached_property
    def _factors(self) -> tuple[Array, Array, Array]:
        """Cholesky factors of the bias block and of its Schur complement, and what couples them."""
        e, b, U = self.prior > 0, self.prior == 0, self._identified
        L = self.Lambda * self.share
        try:
            Lb = np.linalg.cholesky(U.T @ L[np.ix_(b, b)] @ U)
            W = solve_triangular(Lb, U.T @ L[np.ix_(b, e)], lower=True) if len(Lb) else np.empty((0, int(e.sum())))
            S = L[np.ix_(e, e)] - W.T @ W
            S[np.diag_indices_from(S)] += 1.0
            return Lb, W, np.linalg.cholesky(S)
        except np.linalg.LinAlgError:
            raise InvalidRelease("the sums are not those of any data: Λ has a negative direction") from None

    def half(self, F: Array) -> Array:
        """V with VᵀV = FB⁻¹Fᵀ."""
        Lb, W, Ls = self._factors
        k = len(self.prior)
        vb = _lower(Lb, self._identified.T @ F[:, :k][:, self.prior == 0].T)
        ve = _lower(Ls, F[:, :k][:, self.prior > 0].T - W.T @ vb)
        return np.vstack([vb, ve, F[:, k:].T])

    def solve(self, M: Array) -> Array:
        """B⁻¹M, for M with a row for each column of the basis."""
        Lb, W, Ls = self._factors
        V = self.half(M.T)
        vb, ve, rest = np.split(V, [len(Lb), len(Lb) + len(Ls)])
        out = np.empty_like(M)
        k = len(self.prior)
        out[:k][self.prior > 0] = xe = _lower(Ls, ve, transposed=True)
        out[:k][self.prior == 0] = self._identified @ _lower(Lb, vb - W @ xe, transposed=True)
        out[k:] = rest
        return out

    @property
    def bias_rank(self) -> int:
        return int(self._identified.shape[1])

    @property
    def log_det(self) -> float:
        """log |B| over the identified directions."""
        Lb, _, Ls = self._factors
        return float(2 * np.log(np.diag(Lb)).sum() + 2 * np.log(np.diag(Ls)).sum())

    def variance(self, Q: Array) -> Array:
        """qᵀΣq for every row q, in units of σ²."""
        V = self.half(Q)
        return self.share * np.einsum("ij,ij->j", V, V)

    def observed(self, F: Array, covariance: Array, y: Array) -> Observed:
        """Given also y = Fθ + noise of that covariance; F may have columns beyond those of the basis."""
        theta = np.concatenate([self.theta, np.zeros(F.shape[1] - len(self.theta))])
        V = self.half(F)
        L = np.linalg.cholesky(covariance + self.share * (V.T @ V))
        gain = _lower(L, self.share * self.solve(F.T).T).T  # ΣFᵀL⁻ᵀ
        return Observed(self, theta + gain @ _lower(L, (y - F @ theta)[:, None])[:, 0], gain)


@dataclass(frozen=True, eq=False)
class Observed:
    """A posterior and one client's own examples: Σ − ΣFᵀ(…)⁻¹FΣ, in factors, at O(r²ℓ)."""

    before: Posterior
    theta: Array
    gain: Array

    def variance(self, Q: Array) -> Array:
        return np.maximum(self.before.variance(Q) - ((Q @ self.gain) ** 2).sum(axis=1), 0.0)


def _lower(L: Array, M: Array, *, transposed: bool = False) -> Array:
    if not len(L):
        return np.empty((0, M.shape[1]))
    return np.asarray(solve_triangular(L, M, lower=True, trans="T" if transposed else "N", check_finite=False))


@dataclass(frozen=True)
class Evidence:
    """Restricted: ``log_evidence`` of the outputs, ``sigma2`` estimated or given, ``quadratic`` the form Q."""

    log_evidence: float
    sigma2: float
    quadratic: float


def evidence(
    total: Information, posterior: Posterior, residual: float, lam: float, sigma2: float | None = None
) -> Evidence:
    """Restricted log evidence, σ² profiled unless given; ``residual`` is Σ rʲᵀRʲrʲ with rʲ = yʲ − Fⱼθ̂."""
    share, d = posterior.share, posterior.bias_rank
    weights = posterior.theta[posterior.prior > 0]
    prior = float(weights @ weights) / share if share else 0.0
    Q = prior + residual + total.squares / lam
    free = total.rows - d
    log_det = posterior.log_det - total.log_det - (d * np.log(share) if d else 0.0)
    log_det += total.log_noise + (total.rows - total.folded) * np.log(lam)
    if sigma2 is None:
        sigma2 = Q / free if free > 0 else float("nan")
    if free <= 0 or not sigma2 > 0:  # too few rows to tell, or a fit without any error
        return Evidence(float("nan") if free <= 0 else float("inf"), sigma2, Q)
    return Evidence(-0.5 * float(free * np.log(2 * np.pi * sigma2) + log_det + Q / sigma2), sigma2, Q)


def residual_quadratic(batches: Iterable[Batch], F: Array, theta: Array) -> float:
    """Σ rʲᵀRʲrʲ; the form that keeps its digits under an offset in y."""
    fitted = F @ theta
    return sum(float(np.einsum("mi,mij,mj->", r, b.R, r, optimize=True)) for b in batches for r in [b.y - fitted[b.h]])
