"""Linear algebra that numpy and scipy do not have ready: for one symmetric matrix, and for many small ones at once.

- eigenvectors that are the same on every machine; pivoted Cholesky, which finds the numerical rank;
- triangles in place, triangular solves, the isometric half-vector ``svec`` and its inverse ``smat``;
- inverses of stacks (m, ℓ, ℓ) of small positive definite matrices, and of large ones of low rank but for a diagonal;
- work divided over all cores, and BLAS kept from doing that too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpstrf, dtrtri, dtrtrs

from motet.arrays import Array, Index
from motet.errors import NotPositiveDefinite

BLOCK = 64  # rows of a triangle handled at once
MAX_LAPACK_ROWS = 1000  # scipy's LAPACK stops all other threads until it ends, so a larger matrix is halved
ROWS_PER_REFLECTION = 512  # of a tall table, reduced at once
MAX_SMALL_SIZE, MIN_STACK = 12, 64  # for larger matrices, or fewer of them, LAPACK is faster


# --- one symmetric matrix ---


def eigen(S: Array, F: Array | None = None) -> tuple[Array, Array]:
    """Eigenvalues, ascending, and eigenvectors V of a symmetric matrix, the same on every machine.

    LAPACK may return v or −v, and for equal eigenvalues any basis of their space, depending on the processor.
    Here the values FV at some points (V itself without F) decide.
    """
    values, V = np.linalg.eigh(S)
    weights = 1.0 / np.arange(1, len(V if F is None else F) + 1)  # distinct, so no symmetry makes them tie
    equal = np.diff(values) <= 1e-10 * values[1:] + 100 * np.finfo(float).eps * np.abs(values).max(initial=0.0)
    for run in np.split(np.arange(len(values)), np.flatnonzero(~equal) + 1):
        if len(run) > 1:
            at_points = V[:, run] if F is None else F @ V[:, run]
            V[:, run] = V[:, run] @ np.linalg.eigh((at_points.T * weights) @ at_points)[1]
    side = (weights if F is None else weights @ F) @ V
    return values, V * np.where(side < 0, -1.0, 1.0)


def pivoted_cholesky(K: Array, kernel: object) -> tuple[Array, Index]:
    """E, lower triangular, and an order with EEᵀ = K[order, order] to rounding; E has as many columns as K has rank.

    A smooth kernel on some hundred inputs is singular in floating point, so stopping early is the ordinary case.
    A refusal names the ``kernel``.
    """
    n = len(K)
    size = float(np.diag(K).max(initial=0.0))
    if not np.isfinite(size) or not np.isfinite(K).all():
        raise NotPositiveDefinite(f"{kernel} is not finite on these inputs; check its numbers and the inputs' scale")
    if not n or size <= 0:
        E, order = np.zeros((n, 0)), np.arange(n)
    else:
        factor, pivots, rank, _ = dpstrf(K.T, lower=1, tol=max(1e-15, n * np.finfo(float).eps / 10) * size)
        E, order = clear_upper(factor)[:, :rank], pivots - 1
    # Only rounding may be left where the factorisation stopped; more means that the matrix is indefinite.
    rest = order[E.shape[1] :]
    residual = K[rest][:, rest]
    residual -= E[E.shape[1] :] @ E[E.shape[1] :].T
    excess = max(residual.max(initial=0.0), -residual.min(initial=0.0))
    if excess > 1e-8 * size:
        raise indefinite(kernel, excess)
    return E, order


def indefinite(kernel: object, excess: float) -> NotPositiveDefinite:
    """The refusal of a kernel whose matrix has an eigenvalue of about −``excess``."""
    return NotPositiveDefinite(
        f"{kernel} is not positive definite on these inputs (off by {excess:.2g}); "
        "a periodic kernel needs inputs of one column, a power a whole exponent"
    )


def cholesky(S: Array) -> Array:
    """The lower factor of S, which is overwritten; by scipy's LAPACK, so that one library's threads do all the work."""
    if not len(S):
        return S
    if len(S) > MAX_LAPACK_ROWS:
        first, second = slice(len(S) // 2), slice(len(S) // 2, None)
        S[first, first], S[first, second] = cholesky(S[first, first]), 0.0
        S[second, first] = L = solve_lower(S[first, first], S[second, first].T).T
        S[second, second] = cholesky(S[second, second] - L @ L.T)
        return S
    factor, failed = dpotrf(S if S.flags.f_contiguous else S.T, lower=1, clean=1, overwrite_a=1)
    if failed:
        raise np.linalg.LinAlgError
    return factor


def inverse_of_lower(L: Array) -> Array:
    return np.asarray(dtrtri(L, lower=1)[0]) if len(L) else np.empty((0, 0))


def solve_lower(L: Array, M: Array, *, transposed: bool = False) -> Array:
    """L⁻¹M for a lower triangular L, or for a stack of them, or L⁻ᵀM."""
    if L.ndim > 2:  # not by scipy: for so little work its threads would wait longer than they compute
        return np.linalg.solve(L.swapaxes(-1, -2) if transposed else L, M)
    if not len(L):
        return np.empty((0, M.shape[1]))
    if len(L) > MAX_LAPACK_ROWS:
        return _solve_by_halves(L, M, transposed)
    if L.flags.f_contiguous:
        solution, singular = dtrtrs(L, M, lower=1, trans=int(transposed))
    else:  # LAPACK reads it as its transpose, which saves a copy
        solution, singular = dtrtrs(L.T, M, lower=0, trans=int(not transposed))
    if singular:
        raise np.linalg.LinAlgError
    return solution


def _solve_by_halves(L: Array, M: Array, transposed: bool) -> Array:
    halves = slice(len(L) // 2), slice(len(L) // 2, None)
    first, second = reversed(halves) if transposed else halves
    between = L[first, second].T if transposed else L[second, first]
    solution = np.empty(M.shape)
    solution[first] = solve_lower(L[first, first], M[first], transposed=transposed)
    solution[second] = solve_lower(L[second, second], M[second] - between @ solution[first], transposed=transposed)
    return solution


def clear_upper(a: Array) -> Array:
    """Set all above the diagonal of a square matrix to 0, in place; by blocks, because ``np.tril`` is slow."""
    for begin in range(0, len(a), BLOCK):
        end = begin + BLOCK
        a[begin:end, end:] = 0.0
        a[begin:end, begin:end] = _with_upper(a[begin:end, begin:end], 0.0)
    return a


def mirror_lower(a: Array) -> Array:
    """Copy the lower triangle of a square matrix to the upper one, in place."""
    for begin in range(0, len(a), BLOCK):
        end = begin + BLOCK
        a[begin:end, end:] = a[end:, begin:end].T
        corner = a[begin:end, begin:end]
        a[begin:end, begin:end] = _with_upper(corner, corner.T)
    return a


@lru_cache(maxsize=64)
def lower_indices(size: int) -> tuple[Index, Index]:
    """The rows and columns of a lower triangle's numbers, row by row."""
    return np.tril_indices(size)


def _with_upper(block: Array, upper: Array | float) -> Array:
    """A small square matrix with other numbers above its diagonal."""
    return np.where(_lower_mask(len(block)), block, upper)


@lru_cache(maxsize=BLOCK)
def _lower_mask(size: int) -> NDArray[np.bool_]:
    return np.tri(size, dtype=bool)


def square(W: Array) -> Array:
    """WWᵀ, at half the price of a product."""
    if not W.size:
        return np.zeros((len(W), len(W)))
    return mirror_lower(dsyrk(1.0, W.T, trans=1, lower=1) if W.flags.c_contiguous else dsyrk(1.0, W, lower=1))


def triangle(A: Array) -> Array:
    """T, upper triangular, with TᵀT = AᵀA, of a stack of tables with more rows than columns, by reflections.

    A tall table is reduced in blocks that fit the cache first, which is several times faster.
    """
    rows, columns = A.shape[-2:]
    if rows > 2 * ROWS_PER_REFLECTION and columns < ROWS_PER_REFLECTION // 4:
        blocks = rows // ROWS_PER_REFLECTION
        head = A[..., : blocks * ROWS_PER_REFLECTION, :].reshape(*A.shape[:-2], blocks, ROWS_PER_REFLECTION, columns)
        triangles = np.asarray(np.linalg.qr(head, mode="r")).reshape(*A.shape[:-2], blocks * columns, columns)
        A = np.concatenate([triangles, A[..., blocks * ROWS_PER_REFLECTION :, :]], axis=-2)
    return np.asarray(np.linalg.qr(A, mode="r"))


def root(S: Array) -> Array:
    """A with AAᵀ = S, of a covariance that may be singular, or of a stack of them."""
    values, vectors = np.linalg.eigh(S)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :])


# --- symmetric matrices as vectors ---


def svec(S: Array, unit: float = 1.0) -> Array:
    """The upper triangle of a symmetric (k, k) matrix, row by row, off-diagonals times √2; S may be a stack.

    The map is isometric: svec(S)ᵀsvec(T) = tr(ST), so the norm of svec(S) is the Frobenius norm of S, in this unit.
    """
    k = S.shape[-1]
    index, weight, _ = _upper(k)
    return np.asarray(S.reshape(*S.shape[:-2], k * k).take(index, axis=-1) * (weight / unit))


def smat(v: Array, unit: float = 1.0) -> Array:
    """The symmetric matrix S with svec(S, unit) = v; v may be a stack of rows."""
    k = (int(np.sqrt(8 * v.shape[-1] + 1)) - 1) // 2
    _, weight, place = _upper(k)
    return np.asarray((v / (weight / unit)).take(place, axis=-1).reshape(*v.shape[:-1], k, k))


@lru_cache(maxsize=8)
def _upper(k: int) -> tuple[Index, Array, Index]:
    """For svec of (k, k) matrices: where its numbers are in S, their weights, and where S's numbers are in it."""
    a, b = np.triu_indices(k)
    place = np.zeros((k, k), dtype=np.intp)
    place[a, b] = place[b, a] = np.arange(len(a))
    return a * k + b, np.where(a == b, 1.0, np.sqrt(2.0)), place.ravel()


# --- many small positive definite matrices ---
#
# LAPACK handles them one by one, and a call costs more than a matrix of five rows. Below, the stack's axis is the last
# one, so that every step of a factorisation is one operation over the whole stack. Arguments and results are (m, ℓ, ℓ).


@np.errstate(invalid="ignore", divide="ignore", over="ignore")
def inverse(V: Array) -> tuple[Array, Array]:
    """V⁻¹ and log |V⁻¹| of every matrix of a stack, NaN if a matrix is not positive definite."""
    if V.shape[-1] > MAX_SMALL_SIZE or len(V) < MIN_STACK:
        return _inverse_by_lapack(V)
    L = _stack_cholesky(np.moveaxis(V, 0, -1).copy(order="C"))
    return np.moveaxis(_stack_square(_stack_inverse_of_lower(L)), -1, 0), -_stack_log_det(L)


@np.errstate(invalid="ignore", divide="ignore", over="ignore")
def inverse_of_low_rank(U: Array, diagonal: Array) -> tuple[Array, Array]:
    """(UUᵀ + diag)⁻¹ and its log determinant, for a stack, by the matrix inversion lemma.

    With D = diag⁻¹ and I + UᵀDU = LLᵀ it is D − HᵀH, H = L⁻¹UᵀD. NaN if I + UᵀDU is not positive definite.
    """
    D = np.ascontiguousarray(1.0 / diagonal.T)
    U = np.ascontiguousarray(np.moveaxis(U, 0, -1))
    DU = D[:, None] * U
    T = np.zeros((U.shape[1], U.shape[1], U.shape[2]))
    _stack_diagonal(T)[:] = 1.0
    for u, du in zip(U, DU):
        T += u[:, None] * du
    L = _stack_cholesky(T)
    half = _stack_inverse_of_lower(L)
    H = np.stack([sum(half[a, b] * DU[:, b] for b in range(a + 1)) for a in range(len(T))])
    R = -_stack_square(H)
    _stack_diagonal(R)[:] += D
    return np.moveaxis(R, -1, 0), np.log(D).sum(axis=0) - _stack_log_det(L)


class LowRankInverse:
    """R = D − HHᵀ, a stack of inverses of UUᵀ + D⁻¹, as D (m, ℓ), H (m, ℓ, q) and T (m, q, q) with TᵀT = I + UᵀDU.

    It stands for its (m, ℓ, ℓ) array in products, from either side, at O(ℓq) a column, and in choices along the stack.
    """

    __array_ufunc__ = None  # an array on the left leaves the product to this class

    def __init__(self, D: Array, H: Array, T: Array) -> None:
        self.D, self.H, self.T = D, H, T

    @classmethod
    @np.errstate(invalid="ignore", divide="ignore", over="ignore")
    def of(cls, U: Array, diagonal: Array) -> tuple[LowRankInverse, Array]:
        """(UUᵀ + diag)⁻¹ of a stack, and the logarithms of its determinants; not finite if the numbers are not.

        With A = diag^-½U and [A; I] = [Q; P]T by reflections, I − QQᵀ is the inverse of I + AAᵀ. To form I + AᵀA
        instead would square A's condition, and lose all digits if the diagonal is small.
        """
        root = 1.0 / np.sqrt(diagonal)
        size, q = U.shape[-2:]
        A = np.empty((*U.shape[:-2], size + q, q))
        np.multiply(root[..., None], U, out=A[..., :size, :])
        A[..., size:, :] = np.eye(q)
        Q, T = np.linalg.qr(A)
        log_det = 2.0 * np.log(root).sum(axis=-1)
        log_det -= 2.0 * np.log(np.abs(np.diagonal(T, axis1=-2, axis2=-1))).sum(axis=-1)
        return cls(root**2, root[..., None] * Q[..., :size, :], T), log_det

    @property
    def diagonal(self) -> Array:
        return np.asarray(self.D - np.einsum("...ij,...ij->...i", self.H, self.H))

    @property
    def dense(self) -> Array:
        R = -(self.H @ self.H.swapaxes(-1, -2))
        np.einsum("...ii->...i", R)[...] += self.D
        return R

    def __matmul__(self, M: Array) -> Array:
        if M.ndim == 1:
            return (self @ M[:, None])[..., 0]
        return np.asarray(self.D[..., None] * M - self.H @ (self.H.swapaxes(-1, -2) @ M))

    def __rmatmul__(self, M: Array) -> Array:
        return np.asarray(M * self.D[..., None, :] - (M @ self.H) @ self.H.swapaxes(-1, -2))

    def __getitem__(self, which: Any) -> LowRankInverse:
        return LowRankInverse(self.D[which], self.H[which], self.T[which])

    def weights(self, M: Array) -> Array:
        """UᵀRM = T⁻¹HᵀM: what the columns of M say of the features' weights, whose prior is N(0, I)."""
        return np.linalg.solve(self.T, self.H.swapaxes(-1, -2) @ M)

    def variance(self, u: Array) -> Array:
        """uᵀ(I − UᵀRU)u = ‖T⁻ᵀu‖² for every row u: the variance of the weights that is left, in their direction."""
        half = np.linalg.solve(self.T.swapaxes(-1, -2), u.swapaxes(-1, -2))
        return np.asarray((half**2).sum(axis=-2))

    def padded(self, q: int) -> LowRankInverse:
        """With features behind its own that are 0 in all rows."""
        more = q - self.H.shape[-1]
        if not more:
            return self
        T = np.pad(self.T, ((0, 0), (0, more), (0, more)))
        np.einsum("...ii->...i", T)[..., q - more :] = 1.0
        return LowRankInverse(self.D, np.pad(self.H, ((0, 0), (0, 0), (0, more))), T)

    @classmethod
    def joined(cls, stacks: Sequence[LowRankInverse]) -> LowRankInverse:
        """Stacks as one."""
        q = max(R.H.shape[-1] for R in stacks)
        stacks = [R.padded(q) for R in stacks]
        if len(stacks) == 1:
            return stacks[0]
        return cls(*(np.concatenate([getattr(R, name) for R in stacks]) for name in ("D", "H", "T")))


def dense(R: Array | LowRankInverse) -> Array:
    """The inverses themselves."""
    return R.dense if isinstance(R, LowRankInverse) else R


def _inverse_by_lapack(V: Array) -> tuple[Array, Array]:
    try:
        L = np.linalg.cholesky(V)
    except np.linalg.LinAlgError:  # of one matrix, and numpy gives up on the whole stack
        if len(V) == 1:
            return V, np.full(1, np.nan)
        singly = [_inverse_by_lapack(one[None]) for one in V]
        return np.concatenate([R for R, _ in singly]), np.concatenate([log_det for _, log_det in singly])
    half = np.empty_like(L)
    for k, lower in enumerate(L if L.size else ()):  # np.linalg.inv does not know that they are triangular
        half[k] = _inverse_by_halves(lower)
    return half.swapaxes(-1, -2) @ half, -2.0 * np.log(np.diagonal(L, axis1=-2, axis2=-1)).sum(axis=-1)


def _inverse_by_halves(L: Array) -> Array:
    """[A 0; B C]⁻¹ = [A⁻¹ 0; −C⁻¹BA⁻¹ C⁻¹], until LAPACK can take it."""
    if len(L) <= MAX_LAPACK_ROWS:
        return np.asarray(dtrtri(L.T, lower=0)[0].T)
    first, second = slice(len(L) // 2), slice(len(L) // 2, None)
    A, C = _inverse_by_halves(L[first, first]), _inverse_by_halves(L[second, second])
    half = np.zeros_like(L)
    half[first, first], half[second, second], half[second, first] = A, C, -(C @ L[second, first] @ A)
    return half


def _stack_cholesky(A: Array) -> Array:
    """The lower factors, in place; the upper triangles are left as they are."""
    for j in range(len(A)):
        np.sqrt(A[j, j], out=A[j, j])
        A[j + 1 :, j] /= A[j, j]
        for i in range(j + 1, len(A)):
            A[i, j + 1 : i + 1] -= A[j + 1 : i + 1, j] * A[i, j]
    return A


def _stack_inverse_of_lower(L: Array) -> Array:
    half = np.zeros_like(L)
    for i in range(len(L)):
        np.divide(1.0, L[i, i], out=half[i, i])
        for k in range(i):
            half[i, : k + 1] -= L[i, k] * half[k, : k + 1]
        half[i, :i] *= half[i, i]
    return half


def _stack_square(H: Array) -> Array:
    """HᵀH."""
    out = np.zeros((H.shape[1], H.shape[1], H.shape[2]))
    for row in H:
        for i in range(len(out)):
            out[i, : i + 1] += row[i] * row[: i + 1]
    for i in range(len(out)):
        out[:i, i] = out[i, :i]
    return out


def _stack_log_det(L: Array) -> Array:
    return 2.0 * np.log(_stack_diagonal(L)).sum(axis=0)


def _stack_diagonal(A: Array) -> Array:
    """The diagonals, as a view."""
    return np.einsum("iim->im", A)
