"""Residuals, also leave-one-out and leave-one-task-out, in closed form; settings stay.

Where the noise of rows differs, a row that is left out is an observation of its task, whatever it weighs itself.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from motet.arrays import Array, Index, match
from motet.engine.left_out import LeftOut
from motet.regression.results import Results
from motet.regression.tables import Table
from motet.tuning.weights import log_density


class LeaveOut:
    """Predictions of rows that were not learned: of an observation, with its log score, in the outputs' own unit.

    ``rows``: each without itself. ``new``: each without its whole task, as if of a new individual. ``tasks``: the joint
    log score of every task without itself. A prediction that the other rows do not determine is NaN.
    """

    def __init__(self, rows: Table, new: Table, tasks: Table) -> None:
        self.rows, self.new, self.tasks = rows, new, tasks

    @property
    def log_score(self) -> float:
        """The sum over rows, each without itself."""
        return float(np.nansum(self.rows["log_score"]))

    @property
    def task_log_score(self) -> float:
        """The sum over tasks, each without itself."""
        return float(np.nansum(self.tasks["log_score"]))

    def __str__(self) -> str:
        lines = ["Leave one out"]
        for what, score, table in (("row", self.log_score, self.rows), ("task", self.task_log_score, self.new)):
            residual = table["residual"][~np.isnan(table["residual"])]
            if len(residual):
                error = np.sqrt(np.mean(residual**2))
                lines.append(f"without each {what}: log score {score:.3f}, root mean square error {error:.4g}")
            else:
                lines.append(f"without each {what}: the other rows do not determine a prediction")
        return "\n".join(lines)

    __repr__ = __str__


def _rows(results: Results) -> tuple[LeftOut, Index, Array, Array]:
    """What is left out, and of every raw row, in the order in which rows came, its group, (Py)ᵢ and Pᵢᵢ."""
    by = LeftOut.of(results.system)
    inputs: dict[bytes, int] = {}
    match(results.system.X, inputs)
    task, X, y, w = results.rows
    group = np.searchsorted(by.key, task * len(inputs) + match(X, inputs)[0])
    return by, group, *by.of_rows(results.engine.model.noise, group, y, w)


def leave_out(results: Results) -> LeaveOut:
    """Every row without itself, and every task without itself."""
    by, group, Py, precision = _rows(results)
    _, _, y, weighted = results.rows
    noise, usual = results.engine.model.noise, weighted / results.multiplier
    variance = 1.0 / precision + noise.variance(usual * results.of_observations - weighted)
    rows = _predictions(results, Py / precision, variance, "Each row without itself")
    residual = y - by.mean[group] + by.residual_new[group]
    variance = by.variance_new[group] + noise.variance(usual - by.noise[group])
    new = _predictions(results, residual, variance, "Each row without its task")
    numbers = results.rows[0].tolist()
    count, jacobian = Counter(numbers), Counter[int]()
    for number, nats in zip(numbers, results.scale.log_jacobian(results.scale.outputs(y)).tolist()):
        jacobian[number] += nats
    tasks: dict[str, Any] = {
        "task": list(results.labels.values()),
        "rows": [count[number] for number in results.labels],
        "log_score": [by.score[number] + jacobian[number] for number in results.labels],
    }
    return LeaveOut(rows, new, Table(tasks, "Each task without itself"))


def _predictions(results: Results, residual: Array, variance: Array, title: str) -> Table:
    """Of all rows, from their residuals and from the variances of their predictions, in units of σ²."""
    z, std, noise = results.rows[2], np.sqrt(results.sigma2 * variance), results.noise
    y, predicted = results.scale.outputs(z), results.scale.observed(z - residual, std)
    log_score = log_density(residual / std, std) if noise is None else noise.log_scores(residual, std)
    columns: dict[str, Any] = {
        "task": results.task_labels,
        "observed": y,
        "mean": predicted.mean,
        "std": predicted.std,
        "residual": y - predicted.mean,
        "log_score": log_score + results.scale.log_jacobian(y),
    }
    return Table(columns, title)


def diagnostics(results: Results) -> Table:
    """A row for each observation, as they came, on the scale that was learned.

    ``population`` is the average's prediction, ``individual`` the task's, from which ``residual`` is. ``standardised``
    is in units of the noise's standard deviation; ``studentised`` is the residual of a prediction without this row, in
    units of its standard deviation. Where the noise of rows differs there are the ``weight`` of each, beside that of a
    usual row, and with Student's t ``outlier``, "yes" of those that weigh less than a quarter.
    """
    by, group, Py, precision = _rows(results)
    _, X, y, weighted = results.rows
    noise = results.engine.model.noise
    usual = weighted / results.multiplier * results.of_observations
    residual = noise.variance(weighted) * Py
    std = np.sqrt(results.sigma2 * (1.0 / precision + noise.variance(usual - weighted)))
    columns: dict[str, Any] = {
        "task": results.task_labels,
        **{name: X[:, k] for k, name in enumerate(results.names)},
        "observed": y,
        "population": by.average[group],
        "individual": y - residual,
        "residual": residual,
        "standardised": residual / np.sqrt(results.noise_variance * usual),
        "studentised": Py / precision / std,
        **({} if results.noise is None else results.noise.columns(results.multiplier)),
    }
    return Table(columns, results.scale.titled("Diagnostics"))
