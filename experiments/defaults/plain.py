"""Peers without a model of groups: ridge regressions, of all rows and of each task, and means of tasks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments.defaults.inner import Mean, Refitted
from experiments.defaults.rows import Rows
from motet.arrays import Array

PENALTIES = tuple(np.logspace(-2, 4, 10))


class Scaled:
    """Columns of a design, centred and scaled as in the rows that are learned."""

    def __init__(self, rows: Rows) -> None:
        X = rows.dense(every_level=True)
        self.center, scale = X.mean(axis=0), X.std(axis=0)
        self.scale = np.where(scale > 0, scale, 1.0)

    def __call__(self, rows: Rows) -> Array:
        return np.asarray((rows.dense(every_level=True) - self.center) / self.scale)


class PooledRidge(Refitted):
    """One ridge regression of all rows, whatever their task."""

    candidates = PENALTIES

    def fit(self, rows: Rows, settings: Sequence[float]) -> Sequence[Mean]:
        scaled, level = Scaled(rows), float(rows.y.mean())
        Z = scaled(rows)
        U, s, V = np.linalg.svd(Z, full_matrices=False)

        def mean(slope: Array) -> Mean:
            return lambda new: level + scaled(new) @ slope

        return [mean(V.T @ (s / (s**2 + penalty) * (U.T @ (rows.y - level)))) for penalty in settings]


class SeparateRidge(Refitted):
    """A ridge regression for each task, one penalty for all; a task without rows has the mean of all."""

    candidates = PENALTIES

    def fit(self, rows: Rows, settings: Sequence[float]) -> Sequence[Mean]:
        scaled, level = Scaled(rows), float(rows.y.mean())
        Z, tasks = scaled(rows), np.unique(rows.task)
        members = [np.flatnonzero(rows.task == j) for j in tasks]
        return [_separate(scaled, tasks, level, [_line(Z[at], rows.y[at], penalty) for at in members])
                for penalty in settings]  # fmt: skip


def _line(Z: Array, y: Array, penalty: float) -> tuple[Array, Array, float]:
    """The centre of a task's inputs, its slopes and its mean, solved in the smaller of both spaces: of its rows."""
    C = Z - Z.mean(axis=0)
    slope = C.T @ np.linalg.solve(C @ C.T + penalty * np.eye(len(C)), y - y.mean())
    return Z.mean(axis=0), slope, float(y.mean())


def _separate(scaled: Scaled, tasks: Array, level: float, lines: Sequence[tuple[Array, Array, float]]) -> Mean:
    centers, slopes, levels = (np.array(part) for part in zip(*lines))

    def mean(new: Rows) -> Array:
        where = np.clip(np.searchsorted(tasks, new.task), 0, len(tasks) - 1)
        at = levels[where] + np.sum((scaled(new) - centers[where]) * slopes[where], axis=1)
        return np.where(tasks[where] == new.task, at, level)

    return mean
