"""Features of the average task: e(x) with e(x)ᵀe(x′) = K̄(x, x′), and the bias functions behind them.

``Landmarks``, ``Eigen`` and ``Features`` say which basis a model wants; None means that it grows with the inputs.
``Basis`` is the thing built: φ(x) = (e(x), ψ(x)), where e(x) = A k̄(Z, x), or A (1, x) where K̄ is linear.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf
from sklearn.gaussian_process.kernels import Kernel

from motet.arrays import Array, numbers
from motet.catalogue import Catalogue
from motet.errors import EmptyData, InvalidModel, NotFinite, NotPositiveDefinite
from motet.kernels import gram, linear_form

Bias: TypeAlias = Literal["none", "constant", "linear"]


@dataclass(frozen=True, eq=False)
class Landmarks:
    """The functions k̄(z, ·) of a fixed, public set of points: a time grid, a design."""

    points: Any
    kind: ClassVar[str] = "landmarks"

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", _points(self.points))

    def to_spec(self) -> dict[str, Any]:
        return {"kind": self.kind, "points": self.points.tolist()}

    def build(self, kernel: Kernel) -> tuple[Array, Array]:
        """Landmarks in pivot order, and A = C⁻¹ with CCᵀ = K̄(Z, Z)."""
        E, pivots = pivoted_cholesky(gram(kernel, self.points), kernel)
        return self.points[pivots], inverse_of_lower(E[pivots])


@dataclass(frozen=True, eq=False)
class Eigen:
    """The leading ``rank`` eigenvectors of K̄ over a public catalogue or set of points."""

    points: Any
    rank: int
    kind: ClassVar[str] = "eigen"

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", _points(self.points))
        if not 1 <= self.rank <= len(self.points):
            raise InvalidModel(f"Eigen needs a rank from 1 to {len(self.points)}, its points, got {self.rank!r}")

    def to_spec(self) -> dict[str, Any]:
        return {"kind": self.kind, "points": self.points.tolist(), "rank": int(self.rank)}

    def build(self, kernel: Kernel) -> tuple[Array, Array]:
        """The points, and A = W^-½Vᵀ with K̄(Z, Z) ≈ VWVᵀ."""
        values, vectors = np.linalg.eigh(gram(kernel, self.points))
        if values[0] < -1e-8 * values[-1]:
            raise NotPositiveDefinite(_indefinite(kernel, values[0]))
        leading = slice(None, -self.rank - 1, -1)
        kept = values[leading] > len(values) * np.finfo(float).eps * values[-1]
        values, vectors = values[leading][kept], vectors[:, leading][:, kept]
        return self.points, (vectors / np.sqrt(values)).T


@dataclass(frozen=True, eq=False)
class Features:
    """The inputs' own columns, where K̄ is linear: DotProduct, Linear, constants and their sums."""

    kind: ClassVar[str] = "features"

    def to_spec(self) -> dict[str, Any]:
        return {"kind": self.kind}

    def build(self, kernel: Kernel, p: int) -> tuple[Array, Array]:
        """No landmarks, and A with K̄(x, x′) = (A(1, x))ᵀ(A(1, x′)); with DotProduct(0) e(x) is x itself."""
        C = linear_form(kernel, p)
        if C is None:
            raise InvalidModel(
                f"Features needs a linear common kernel (DotProduct, Linear, constants, their sums), got {kernel}; "
                "use Landmarks, or leave the basis out"
            )
        if not (C - np.diag(np.diag(C))).any():
            A = np.diag(np.sqrt(np.diag(C)))
            return np.empty((0, p)), A[np.diag(C) > 0]
        values, vectors = np.linalg.eigh(C)
        kept = values > len(values) * np.finfo(float).eps * values[-1]
        return np.empty((0, p)), (vectors[:, kept] * np.sqrt(values[kept])).T


BasisSpec: TypeAlias = Landmarks | Eigen | Features


def basis_from_spec(spec: Mapping[str, Any] | None) -> BasisSpec | None:
    match spec:
        case None | {"kind": "growing"}:
            return None
        case {"kind": "landmarks", "points": points}:
            return Landmarks(points)
        case {"kind": "eigen", "points": points, "rank": rank}:
            return Eigen(points, rank)
        case {"kind": "features"}:
            return Features()
    raise InvalidModel(f"a basis is growing, landmarks (points), eigen (points, rank) or features; got {spec!r}")


@dataclass(frozen=True, eq=False)
class Basis:
    """φ(x) = (e(x), ψ(x)) for a kernel K̄ (None: the bias alone), ready to evaluate."""

    kernel: Kernel | None
    landmarks: Array
    A: Array
    bias: Bias
    has_index: bool = False  # inputs are a catalogue's rows: column 0 is no feature

    @classmethod
    def fixed(cls, spec: BasisSpec | None, kernel: Kernel | None, p: int, bias: Bias, has_index: bool) -> Basis:
        if kernel is None or spec is None:
            return cls(None, np.empty((0, p)), np.empty((0, 0)), bias, has_index)
        landmarks, A = spec.build(kernel, p) if isinstance(spec, Features) else spec.build(kernel)
        return cls(kernel, landmarks, A, bias, has_index)

    @classmethod
    def grown(cls, kernel: Kernel, X: Array, bias: Bias, has_index: bool) -> tuple[Basis, Array, Array]:
        """The basis of the inputs X, its columns F there, and the order of X that puts landmarks first."""
        E, pivots = pivoted_cholesky(gram(kernel, X), kernel)
        basis = cls(kernel, X[pivots], inverse_of_lower(E[pivots]), bias, has_index)
        redundant = np.setdiff1d(np.arange(len(X)), pivots)
        return basis, np.hstack([E, basis.psi(X)]), np.concatenate([pivots, redundant])

    @property
    def rank(self) -> int:
        return len(self.A)

    @property
    def prior(self) -> Array:
        """Prior precision of the columns' weights, in units of α: 1 on the basis, 0 (flat) on the bias."""
        return np.concatenate([np.ones(self.rank), np.zeros(self.psi(self.landmarks[:0]).shape[1])])

    def e(self, X: Array) -> Array:
        if self.kernel is None or not self.rank:
            return np.zeros((len(X), self.rank))
        if not len(self.landmarks):
            return np.column_stack([np.ones(len(X)), X]) @ self.A.T
        return gram(self.kernel, X, self.landmarks) @ self.A.T

    def psi(self, X: Array) -> Array:
        features = X[:, 1:] if self.has_index else X
        columns = {"none": 0, "constant": 1, "linear": 1 + features.shape[1]}[self.bias]
        return np.column_stack([np.ones(len(X)), features])[:, :columns]

    def columns(self, X: Array) -> Array:
        """F: a row φ(x) for every input."""
        return np.hstack([self.e(X), self.psi(X)])

    def residual(self, X: Array, E: Array) -> Array:
        """K̄(x, x) − e(x)ᵀe(x): the part of the prior variance that the basis does not see."""
        if self.kernel is None:
            return np.zeros(len(X))
        return np.maximum(self.kernel.diag(X) - np.einsum("ij,ij->i", E, E), 0.0)

    def extended(self, X: Array) -> Extension:
        """More columns, behind φ, for inputs that a growing basis does not span."""
        if self.kernel is None or not len(X):
            return Extension(self, X[:0], np.empty((0, 0)))
        E = self.e(X)
        S = gram(self.kernel, X) - E @ E.T
        L, pivots = pivoted_cholesky(S, self.kernel, scale=float(self.kernel.diag(X).max()))
        return Extension(self, X[pivots], inverse_of_lower(L[pivots]))


@dataclass(frozen=True, eq=False)
class Extension:
    """The columns C⁻¹(k̄(Z₊, x) − e(Z₊)e(x)) of further landmarks Z₊; none where a basis is fixed."""

    basis: Basis
    landmarks: Array
    A: Array

    def e(self, X: Array, E: Array) -> Array:
        if not len(self.landmarks):
            return np.empty((len(X), 0))
        K = gram(self.basis.kernel, X, self.landmarks)
        return np.asarray((K - E @ self.basis.e(self.landmarks).T) @ self.A.T)


def pivoted_cholesky(K: Array, kernel: Kernel, *, scale: float | None = None) -> tuple[Array, Any]:
    """E with EEᵀ = K to rounding, lower triangular over the pivots; the pivots are the inputs not redundant.

    A smooth kernel on some hundred inputs is singular in floating point, so stopping early is the ordinary case.
    """
    n = len(K)
    if not np.isfinite(K).all():
        raise NotPositiveDefinite(f"{kernel} is not finite on these inputs; check its numbers and the inputs' scale")
    largest = float(np.diag(K).max(initial=0.0)) if scale is None else scale
    tolerance = max(1e-14, n * np.finfo(float).eps / 10) * largest
    if not n or largest <= 0:
        return _nothing_left(np.zeros((n, 0)), K, kernel, 0.0)
    factor, order, rank, _ = dpstrf(K, lower=1, tol=tolerance)
    order = order - 1
    E = np.zeros((n, rank))
    E[order] = np.tril(factor)[:, :rank]
    left = np.setdiff1d(np.arange(n), order[:rank])
    _nothing_left(E[left], K[np.ix_(left, left)], kernel, 1e-8 * largest)
    return E, order[:rank]


def _nothing_left(E: Array, K: Array, kernel: Kernel, tolerance: float) -> tuple[Array, Any]:
    """Where the factorisation stopped nothing but rounding may be left; else the kernel is not positive."""
    excess = float(np.abs(K - E @ E.T).max(initial=0.0))
    if excess > tolerance:
        raise NotPositiveDefinite(_indefinite(kernel, -excess))
    return E, np.empty(0, dtype=int)


def _indefinite(kernel: Kernel, value: float) -> str:
    return (
        f"{kernel} is not positive definite on these inputs (off by {-value:.2g}); "
        "a periodic kernel wants one column, a power a whole exponent"
    )


def inverse_of_lower(C: Array) -> Array:
    return np.asarray(solve_triangular(C, np.eye(len(C)), lower=True)) if len(C) else np.empty((0, 0))


def _points(points: Any) -> Array:
    array = numbers(points.rows if isinstance(points, Catalogue) else points, "points") + 0.0
    if array.ndim != 2 or not len(array):
        raise EmptyData(f"a basis needs a table of points, one row each, got an array of shape {array.shape}")
    if not np.isfinite(array).all():
        raise NotFinite("a basis needs finite points")
    array.flags.writeable = False
    return array
