"""Linear mixed models with a variance for each random slope and a spline in each column, by REML.

y = F β + Z u + ε with u ∼ N(0, σ² diag(θ)) for each task. All that a task needs is its cross products, so that a step
of the search costs no more for long tasks; structures (splines or lines, random intercept or slopes too) are chosen by
the inner cross-validation. New tasks condition on their rows exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve
from scipy.optimize import minimize

from experiments.defaults.inner import Gaussian, folds, level_means, out_of_fold
from experiments.defaults.protocol import KNOWN
from experiments.defaults.rows import Rows
from motet.arrays import Array

KNOTS = (0.05, 0.275, 0.5, 0.725, 0.95)  # Harrell's quantiles
MAX_SLOPES, ROWS_PER_COLUMN = 20, 8
BOUNDS = (-12.0, 7.0)  # of log θ
RIDGE = 1e-8  # of the fixed effects, columns scaled: columns may be collinear


@dataclass(frozen=True)
class Structure:
    splines: bool
    slopes: bool


class Design:
    """Columns of the fixed and the random effects, scaled as in the rows that are learned."""

    def __init__(self, rows: Rows, structure: Structure, *, constant: bool = False) -> None:
        self.constant = constant
        self.encoders = {int(c): level_means(rows.X[:, c].astype(int), rows.y) for c in rows.large_categories}
        X = self._numbers(rows, learned=True)
        scale = X.std(axis=0)
        self.center, self.scale = X.mean(axis=0), np.where(scale > 0, scale, 1.0)
        X = (X - self.center) / self.scale
        knots = [np.unique(np.quantile(x, KNOTS)) for x in X.T]
        curved = [len(np.unique(x)) > 6 and len(k) > 2 for x, k in zip(X.T, knots)] if structure.splines else []
        self.knots = {c: knots[c] for c in np.flatnonzero(curved)}
        within = X - _means(X, rows.task)
        varying = np.flatnonzero(within.std(axis=0) > 1e-6)
        self.slopes = varying if structure.slopes and len(varying) <= MAX_SLOPES else np.empty(0, int)

    def _numbers(self, rows: Rows, *, learned: bool = False) -> Array:
        if self.constant:
            return np.empty((len(rows), 0))
        levels = {c: rows.X[:, c].astype(int) for c in self.encoders}
        encoded = [out_of_fold(levels[c], rows.y) if learned else self.encoders[c](levels[c]) for c in levels]
        return np.column_stack([rows.dense(), *encoded])

    def __call__(self, rows: Rows, *, learned: bool = False) -> tuple[Array, Array]:
        X = (self._numbers(rows, learned=learned) - self.center) / self.scale
        one = np.ones((len(rows), 1))
        curves = [_natural(X[:, c], k) for c, k in self.knots.items()]
        return np.column_stack([one, X, *curves]), np.column_stack([one, X[:, self.slopes]])


def _means(X: Array, task: Array) -> Array:
    _, number, counts = np.unique(task, return_inverse=True, return_counts=True)
    sums = np.zeros((len(counts), X.shape[1]))
    np.add.at(sums, number, X)
    return np.asarray((sums / counts[:, None])[number])


def _natural(x: Array, knots: Array) -> Array:
    """The curved columns of a natural cubic spline, which is linear outside its knots."""

    def d(k: int) -> Array:
        cubes = np.maximum(x - knots[k], 0.0) ** 3 - np.maximum(x - knots[-1], 0.0) ** 3
        return np.asarray(cubes / (knots[-1] - knots[k]))

    last = d(len(knots) - 2)
    return np.column_stack([d(k) - last for k in range(len(knots) - 2)])


@dataclass(frozen=True, eq=False)
class Products:
    """Of each task ZᵀZ, ZᵀF, Zᵀy; and FᵀF, Fᵀy, yᵀy of all rows."""

    A: Array
    P: Array
    r: Array
    FF: Array
    Fy: Array
    yy: float
    n: int
    tasks: Array

    @classmethod
    def of(cls, F: Array, Z: Array, y: Array, task: Array) -> Products:
        tasks, number = np.unique(task, return_inverse=True)
        A, P, r = (np.zeros((len(tasks), Z.shape[1], k)) for k in (Z.shape[1], F.shape[1], 1))
        for j in range(len(tasks)):
            Zj, Fj, yj = (part[number == j] for part in (Z, F, y))
            A[j], P[j], r[j, :, 0] = Zj.T @ Zj, Zj.T @ Fj, Zj.T @ yj
        return cls(A, P, r[..., 0], F.T @ F, F.T @ y, float(y @ y), len(y), tasks)


class Solution:
    """The estimates at given θ: β, its covariance, σ², and what each task's cross products are through V⁻¹."""

    def __init__(self, products: Products, theta: Array) -> None:
        S = np.sqrt(theta)
        B = np.eye(len(S)) + S[:, None] * products.A * S
        self.W = S[:, None] * np.linalg.inv(B) * S  # V⁻¹ = I − Z W Zᵀ
        self.ZZ = products.A - products.A @ self.W @ products.A
        self.ZF = products.P - products.A @ self.W @ products.P
        Zy = products.r - np.einsum("jqk,jk->jq", products.A @ self.W, products.r)
        WP = self.W @ products.P
        FF = products.FF - np.einsum("jqp,jqk->pk", products.P, WP) + RIDGE * products.n * np.eye(len(products.FF))
        Fy = products.Fy - np.einsum("jqp,jq->p", WP, products.r)
        yy = products.yy - float(np.einsum("jq,jqk,jk->", products.r, self.W, products.r))
        self.L = np.linalg.cholesky(FF)
        self.C = cho_solve((self.L, True), np.eye(len(FF)))
        self.beta = self.C @ Fy
        self.freedom = max(products.n - len(FF), 1)
        self.sigma2 = max(yy - float(Fy @ self.beta), 1e-12 * products.yy) / self.freedom
        self.Ze = Zy - self.ZF @ self.beta
        logs = float(np.sum(np.linalg.slogdet(B)[1])) + 2.0 * float(np.sum(np.log(np.diag(self.L))))
        self.loss = self.freedom * np.log(self.sigma2) + logs

    @property
    def slope(self) -> Array:
        """∂ loss / ∂θ."""
        fixed = np.einsum("jqp,pk,jqk->q", self.ZF, self.C, self.ZF)
        return np.einsum("jqq->q", self.ZZ) - fixed - np.sum(self.Ze**2, axis=0) / self.sigma2


def reml(products: Products) -> Array:
    def loss(log_theta: Array) -> tuple[float, Array]:
        theta = np.exp(log_theta)
        solution = Solution(products, theta)
        return solution.loss, solution.slope * theta

    size = products.A.shape[1]
    found = minimize(loss, np.full(size, -1.0), jac=True, method="L-BFGS-B", bounds=[BOUNDS] * size)
    return np.exp(found.x)


class Fitted:
    """A structure with its θ; ``solved`` learns rows with it."""

    def __init__(self, rows: Rows, structure: Structure, *, constant: bool = False) -> None:
        self.rows = rows
        self.design = Design(rows, structure, constant=constant)
        self.learned = self.design(rows, learned=True)
        self.theta = reml(Products.of(*self.learned, rows.y - rows.y.mean(), rows.task))

    def predict(self, own: Rows | None, new: Rows) -> Gaussian:
        rows, center = self.rows.joined(own), self.rows.y.mean()
        F, Z = self.learned
        if own is not None:
            F, Z = (np.concatenate(pair) for pair in zip(self.learned, self.design(own)))
        products = Products.of(F, Z, rows.y - center, rows.task)
        solution = Solution(products, self.theta)
        f, z = self.design(new)
        where = np.clip(np.searchsorted(products.tasks, new.task), 0, len(products.tasks) - 1)
        known = products.tasks[where] == new.task
        Dz = self.theta * z
        effects = np.where(known[:, None], self.theta * solution.Ze[where], 0.0)
        rest = f - np.where(known[:, None], np.einsum("nqp,nq->np", solution.ZF[where], Dz), 0.0)
        told = np.where(known, np.einsum("nq,nqk,nk->n", Dz, solution.ZZ[where], Dz), 0.0)
        share = np.sum(z * Dz, axis=1) - told + np.einsum("np,pk,nk->n", rest, solution.C, rest) + 1.0
        mean = center + f @ solution.beta + np.sum(z * effects, axis=1)
        return Gaussian(mean, np.sqrt(solution.sigma2 * np.maximum(share, 1e-12)))


class MixedModel:
    """The structure that is best for known tasks, and those for new ones by how many rows they bring."""

    def tune(self, rows: Rows, counts: Sequence[int]) -> None:
        candidates = [Structure(splines, slopes) for splines in (False, True) for slopes in (False, True)]
        width = len(Design(rows, Structure(True, False)).knots) * (len(KNOTS) - 2) + rows.dense().shape[1]
        if width * ROWS_PER_COLUMN > len(rows):
            candidates = [one for one in candidates if not one.splines]
        losses: dict[int, list[float]] = {cell: [0.0] * len(candidates) for cell in (KNOWN, *counts)}
        for part in folds(rows, counts):
            for k, structure in enumerate(candidates):
                fitted = Fitted(rows.take(part.train), structure)
                for cell in part.cells:
                    own = rows.take(part.own[cell]) if cell > 0 else None
                    held_out = rows.take(part.test(cell))
                    losses[cell][k] += float(np.sum((fitted.predict(own, held_out).mean - held_out.y) ** 2))
        chosen = {cell: candidates[int(np.argmin(sums))] for cell, sums in losses.items()}
        models = {structure: Fitted(rows, structure) for structure in set(chosen.values())}
        self.fitted = {cell: models[structure] for cell, structure in chosen.items()}

    def predict(self, cell: int, own: Rows | None, new: Rows) -> Gaussian:
        return self.fitted[cell].predict(own, new)


class TaskMeans:
    """The mean of each task, shrunken to that of all: a mixed model without inputs."""

    def tune(self, rows: Rows, counts: Sequence[int]) -> None:  # noqa: ARG002
        self.fitted = Fitted(rows, Structure(False, False), constant=True)

    def predict(self, cell: int, own: Rows | None, new: Rows) -> Gaussian:  # noqa: ARG002
        return self.fitted.predict(own, new)
