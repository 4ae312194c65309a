"""A linear model of a pilot beside a level of each client: how much each input tells, before any setting is known.

Levels vary as much as the noise here, which serves to compare inputs. Rows less a part of their client's mean make
generalised least squares ordinary ones (Wooldridge 2010, section 10.7.2).
"""

from __future__ import annotations

import numpy as np

from motet.arrays import Array, Index

RIDGE = 1e-6  # as a share of the mean square of a column
MIN_WEIGHT = 0.1  # of an input's slope, beside that of the input which tells most


class LinearModel:
    """Of outputs by rows of inputs, in units of their spread."""

    def __init__(self, rows: Array, y: Array, client: Index) -> None:
        _, number, size = np.unique(client, return_inverse=True, return_counts=True)
        spread = rows.std(axis=0)
        Z = np.column_stack([np.ones(len(rows)), (rows - rows.mean(axis=0)) / np.where(spread > 0, spread, 1.0), y])
        means = np.array([np.bincount(number, column) for column in Z.T]).T / size[:, None]
        Z = Z - ((1 - 1 / np.sqrt(1 + size))[:, None] * means)[number]
        self._Z, self._y = Z[:, :-1], Z[:, -1]
        A = self._Z.T @ self._Z
        self._inverse = np.linalg.pinv(A + RIDGE * np.diag(np.diag(A)))
        self._coefficients = self._inverse @ (self._Z.T @ self._y)

    @property
    def error(self) -> float:
        """The mean square of errors at rows that are left out one by one."""
        leverage = np.einsum("ij,jk,ik->i", self._Z, self._inverse, self._Z)
        residual = self._y - self._Z @ self._coefficients
        return float(np.mean((residual / np.maximum(1 - leverage, RIDGE)) ** 2))

    @property
    def weights(self) -> Array:
        """Sizes of the slopes as shares of the largest, with one digit, at least a tenth; all 1 if none is there."""
        sizes = np.abs(self._coefficients[1:])
        largest = sizes.max(initial=0.0)
        shares = np.maximum(sizes / largest, MIN_WEIGHT) if largest > 0 else np.ones(len(sizes))
        return np.array([float(f"{share:.1g}") for share in shares])
