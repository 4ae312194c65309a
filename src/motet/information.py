"""What tasks tell each other: sums, and what follows from them.

``Information`` is G = Σⱼ Rʲ scattered over inputs and g = Σⱼ Rʲyʲ, or Λ = FᵀGF and η = Fᵀg in a basis, with the few
numbers that the evidence needs. It adds and subtracts; that is the whole interface between tasks. ``Posterior`` is
the weights θ of the basis given a sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dsygst

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
        for some in _gathered(batches, max(CHUNK, n * n)):
            at = np.concatenate([(b.h[:, :, None] * n + b.h[:, None, :]).ravel() for b in some])
            G += np.bincount(at, np.concatenate([b.R.ravel() for b in some]), minlength=n * n)
        for batch in batches:
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

    def into(self, F: Array, triangular: int = 0) -> Information:
        """The same sums in a basis with columns F at the inputs, the first of them ``triangular``, if so told."""
        return replace(self, G=_congruence(self.G, F, triangular), g=F.T @ self.g, inputs=None, tasks=self.tasks[:0])

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


def _congruence(G: Array, F: Array, r: int) -> Array:
    """FᵀGF where F's first ``r`` columns are lower triangular over its first ``r`` rows: a quarter of the work."""
    L, rest, psi = F[:r, :r], F[r:, :r], F[:, r:]
    out = np.empty((F.shape[1], F.shape[1]))
    out[:r, :r] = _symmetric(dsygst(G[:r, :r].T, L, itype=2, lower=1)[0]) if r else 0.0
    if r and len(rest):
        cross = rest.T @ (G[r:, :r] @ L + 0.5 * (G[r:, r:] @ rest))
        out[:r, :r] += cross + cross.T
    Gpsi = G @ psi
    out[:r, r:] = F[:, :r].T @ Gpsi
    out[r:, :r] = out[:r, r:].T
    out[r:, r:] = psi.T @ Gpsi
    return out


def _symmetric(lower: Array) -> Array:
    """The whole of a symmetric matrix from its lower triangle."""
    return np.tril(lower) + np.tril(lower, -1).T


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


def _gathered(batches: Iterable[Batch], numbers: int) -> Iterator[list[Batch]]:
    """Pieces of batches, put together so that each list has about so many numbers in its Rʲ."""
    some: list[Batch] = []
    for batch in batches:
        for part in _parts(batch, batch.h.shape[1] ** 2, numbers):
            some.append(part)
            if sum(b.R.size for b in some) >= numbers:
                yield some
                some = []
    if some:
        yield some


def _parts(batch: Batch, numbers: int, most: int | None = None) -> Iterable[Batch]:
    """The batch in pieces whose temporaries, of ``numbers`` a task, stay small."""
    step = max(1, (CHUNK if most is None else most) // max(1, numbers))
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
    where, _ = match(b.inputs, known)
    inputs = np.vstack([a.inputs, b.inputs[where >= len(a.inputs)]])
    return _spread(a, np.arange(len(a.inputs)), inputs), _spread(b, where, inputs)


def _spread(info: Information, where: Index, inputs: Array) -> Information:
    n = len(inputs)
    G, g, tasks = np.zeros((n, n)), np.zeros(n), np.zeros(n, dtype=np.intp)
    G[np.ix_(where, where)], g[where], tasks[where] = info.G, info.g, info.tasks
    return replace(info, G=G, g=g, inputs=inputs, tasks=tasks)


# --- the weights of the basis, given a sum ----------------------------------------------------------------------------


class Factor:
    """B = diag(prior) + αΛ, factored; ``prior`` is 1 on the basis and 0 on the bias.

    The bias is eliminated first: what is left is then I plus something positive, whatever the data. Directions of the
    bias that the data do not identify get weight 0. Columns beyond those of Λ have their prior alone.
    """

    def __init__(self, Lambda: Array, prior: Array, share: float) -> None:
        self.share = share  # α
        self._size = len(prior)
        bias = np.flatnonzero(prior == 0)
        d = slice(bias[0], bias[-1] + 1) if len(bias) else slice(0, 0)
        whole = not len(bias) or d.stop == len(prior)  # no columns behind the bias
        self._bias, self._rest = d, slice(0, len(prior) - len(bias)) if whole else np.flatnonzero(prior)
        self._U = _identified(share * Lambda[d, d])
        e, U = self._rest, self._U
        try:
            self._Lb = np.linalg.cholesky(U.T @ (share * Lambda[d, d]) @ U)
            self._W = _lower(self._Lb, U.T @ (share * Lambda[d][:, e]))
            S = share * Lambda[e][:, e]
            if len(self._W):
                S -= self._W.T @ self._W
            S[np.diag_indices_from(S)] += 1.0
            self._Ls = np.linalg.cholesky(S)
        except np.linalg.LinAlgError:
            raise InvalidRelease("the sums are not those of any data: Λ has a negative direction") from None

    @property
    def bias_rank(self) -> int:
        return int(self._U.shape[1])

    @property
    def identifies_bias(self) -> bool:
        return not self.share or self._U.shape[0] == self._U.shape[1]

    @property
    def log_det(self) -> float:
        """log |B| over the identified directions."""
        return float(2 * np.log(np.diag(self._Lb)).sum() + 2 * np.log(np.diag(self._Ls)).sum())

    def half(self, F: Array) -> Array:
        """V = B^-½Fᵀ, so that VᵀV = FB⁻¹Fᵀ."""
        vb = _lower(self._Lb, self._U.T @ F[:, self._bias].T)
        ve = _lower(self._Ls, F[:, : self._size][:, self._rest].T - self._W.T @ vb)
        return np.vstack([vb, ve, F[:, self._size :].T])

    def other_half(self, V: Array) -> Array:
        """B^-½ᵀV, so that with V = half(F) it is B⁻¹Fᵀ."""
        vb, ve, extra = np.split(V, [len(self._Lb), len(self._Lb) + len(self._Ls)])
        out = np.empty((self._size + len(extra), V.shape[1]))
        xe = _lower(self._Ls, ve, transposed=True)
        out[: self._size][self._rest] = xe
        out[self._bias] = self._U @ _lower(self._Lb, vb - self._W @ xe, transposed=True)
        out[self._size :] = extra
        return out

    def solve(self, M: Array) -> Array:
        """B⁻¹M, for M with a row for each column of the basis."""
        return self.other_half(self.half(M.T))


def _identified(L: Array) -> Array:
    """The bias with slopes that the data do not identify left out; L is its block of αΛ, the constant first.

    Only slopes are left out, so the choice does not depend on where inputs are counted from.
    """
    size = np.sqrt(np.maximum(np.diag(L), 0.0))
    if not size.any():
        return np.empty((len(L), 0))
    scale = np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(L / np.outer(scale, scale))
    null = (vectors[:, values <= 1e-12] / scale[:, None])[1:]
    U = np.eye(len(L))
    U[1:, 1:] = np.linalg.qr(null, mode="complete")[0]
    return np.delete(U, range(1, 1 + null.shape[1]), axis=1) if null.shape[1] else np.eye(len(L))


@dataclass(frozen=True, eq=False)
class Posterior:
    """θ ~ N(θ̂, σ²Σ) with Σ = αB⁻¹, less what one client's own examples tell: Σ − gain gainᵀ."""

    factor: Factor
    theta: Array
    gain: Array | None = None

    @classmethod
    def of(cls, Lambda: Array, eta: Array, prior: Array, share: float) -> Posterior:
        factor = Factor(Lambda, prior, share)
        return cls(factor, share * factor.solve(eta[:, None])[:, 0])

    def variance(self, Q: Array) -> Array:
        """qᵀΣq for every row q, in units of σ²."""
        V = self.factor.half(Q)
        variance = self.factor.share * np.einsum("ij,ij->j", V, V)
        if self.gain is None:
            return variance
        return np.maximum(variance - ((Q @ self.gain) ** 2).sum(axis=1), 0.0)

    def observed(self, F: Array, covariance: Array, y: Array) -> Posterior:
        """Given also y = Fθ + noise of that covariance, at O(r²ℓ); F may have columns beyond those of the basis."""
        theta = np.concatenate([self.theta, np.zeros(F.shape[1] - len(self.theta))])
        V = self.factor.half(F)
        L = np.linalg.cholesky(covariance + self.factor.share * (V.T @ V))
        gain = _lower(L, self.factor.share * self.factor.other_half(V).T).T  # ΣFᵀL⁻ᵀ
        return Posterior(self.factor, theta + gain @ _lower(L, (y - F @ theta)[:, None])[:, 0], gain)


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
    total: Information, factor: Factor, weights: Array, residual: float, lam: float, sigma2: float | None = None
) -> Evidence:
    """Restricted log evidence, σ² profiled unless given.

    ``weights`` are θ̂ on the basis, without the bias; ``residual`` is Σ rʲᵀRʲrʲ with rʲ = yʲ − Fⱼθ̂.
    """
    share, d = factor.share, factor.bias_rank
    prior = float(weights @ weights) / share if share else 0.0
    Q = prior + residual + total.squares / lam
    free = total.rows - d
    log_det = factor.log_det - total.log_det - (d * np.log(share) if d else 0.0)
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
