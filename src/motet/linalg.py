"""Many small positive definite matrices at once.

LAPACK takes them one by one, and a call costs more than a matrix of five. Here the stack's own axis comes last, so
that every step of the factorisation is one operation over all of it. Stacks come and go as (m, ℓ, ℓ).
"""

from __future__ import annotations

import numpy as np

from motet.arrays import Array

LARGEST_SIZE, FEWEST = 12, 64  # for larger matrices, or fewer of them, LAPACK is faster


def inverse(V: Array) -> tuple[Array, Array]:
    """V⁻¹ and log |V⁻¹| of a stack, NaN where a matrix is not positive definite."""
    if V.shape[-1] > LARGEST_SIZE or len(V) < FEWEST:
        return _by_lapack(V)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        L = _cholesky(np.moveaxis(V, 0, -1).copy(order="C"))
        return _first(_square(_inverse_of_lower(L))), -_log_det(L)


def inverse_of_low_rank(U: Array, diagonal: Array) -> tuple[Array, Array]:
    """(UUᵀ + diag)⁻¹ and its log determinant, of a stack, by the matrix inversion lemma.

    With D = diag⁻¹ and I + UᵀDU = LLᵀ it is D − HᵀH, H = L⁻¹UᵀD.
    """
    D = np.ascontiguousarray(1.0 / diagonal.T)
    U = np.ascontiguousarray(np.moveaxis(U, 0, -1))
    DU = D[:, None] * U
    T = np.zeros((U.shape[1], U.shape[1], U.shape[2]))
    _diagonal(T)[:] = 1.0
    for u, du in zip(U, DU):
        T += u[:, None] * du
    L = _cholesky(T)
    half = _inverse_of_lower(L)
    H = np.stack([sum(half[a, b] * DU[:, b] for b in range(a + 1)) for a in range(len(T))])
    R = -_square(H)
    _diagonal(R)[:] += D
    return _first(R), np.log(D).sum(axis=0) - _log_det(L)


def _by_lapack(V: Array) -> tuple[Array, Array]:
    try:
        L = np.linalg.cholesky(V)
        half = np.linalg.inv(L)
    except np.linalg.LinAlgError:
        return V, np.full(len(V), np.nan)
    return half.swapaxes(-1, -2) @ half, -2.0 * np.log(np.diagonal(L, axis1=-2, axis2=-1)).sum(axis=-1)


def _cholesky(A: Array) -> Array:
    """The lower factors, in place; above the diagonal nothing is touched."""
    for j in range(len(A)):
        np.sqrt(A[j, j], out=A[j, j])
        A[j + 1 :, j] /= A[j, j]
        for i in range(j + 1, len(A)):
            A[i, j + 1 : i + 1] -= A[j + 1 : i + 1, j] * A[i, j]
    return A


def _inverse_of_lower(L: Array) -> Array:
    half = np.zeros_like(L)
    for i in range(len(L)):
        np.divide(1.0, L[i, i], out=half[i, i])
        for k in range(i):
            half[i, : k + 1] -= L[i, k] * half[k, : k + 1]
        half[i, :i] *= half[i, i]
    return half


def _square(H: Array) -> Array:
    """HᵀH."""
    out = np.zeros((H.shape[1], H.shape[1], H.shape[2]))
    for row in H:
        for i in range(len(out)):
            out[i, : i + 1] += row[i] * row[: i + 1]
    for i in range(len(out)):
        out[:i, i] = out[i, :i]
    return out


def _log_det(L: Array) -> Array:
    return 2.0 * np.log(_diagonal(L)).sum(axis=0)


def _diagonal(A: Array) -> Array:
    """The diagonals, to read and to write."""
    return np.einsum("iim->im", A)


def _first(A: Array) -> Array:
    return np.moveaxis(A, -1, 0)
