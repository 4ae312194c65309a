"""Sufficient statistics of linear models: tasks of any length by their moments, as p + 1 pseudo-examples each.

They come from rows in memory (``Moments.of_rows``), in pieces that are added, or from a database that sums products of
columns itself (``motet.sql``). Information, evidence, settings and releases are then those of all rows, to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from motet.arrays import Array, Index, is_finite, numbers, outputs, stable_order
from motet.engine.condensation import condensed, from_factor, is_linear
from motet.engine.engine import labels_of
from motet.engine.information import Information
from motet.engine.system import Evidence, Method, System
from motet.errors import EmptyData, InvalidModel, NotFinite, UnknownTask, WrongDimension
from motet.linalg import root, triangle
from motet.model.model import Model
from motet.model.tasks import FoldedTasks, Task
from motet.release.disclosed import Disclosed, Estimate
from motet.tables.rows import number_labels
from motet.threads import blas_limit
from motet.tuning.search import Step
from motet.tuning.tuning import Tuning, tune_tasks


@dataclass(frozen=True, eq=False)
class Moments:
    """Sufficient statistics of linear models: of each task, by ``labels``, pseudo-examples, whose inputs are ``X``."""

    labels: list[Hashable]
    tasks: FoldedTasks
    X: Array

    def __repr__(self) -> str:
        return f"Moments({len(self.labels)} tasks, {self.rows} rows, {self.X.shape[1]} inputs)"

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def rows(self) -> int:
        """Raw rows of all tasks."""
        return int(self.tasks.rows.sum())

    @classmethod
    @blas_limit
    def of_rows(cls, tasks: Sequence[Hashable] | Array, X: Any, y: Any, noise: Any = None) -> Moments:
        """Of rows in any order: each row's task, its inputs, its output and its noise variance.

        Quickest if the rows of a task lie together.
        """
        X, y = numbers(X, "inputs"), numbers(y, "outputs")
        if X.ndim != 2 or not X.size:
            raise EmptyData(f"expected inputs as a table with rows and columns, got an array of shape {X.shape}")
        labels, task = _runs(labels_of(tasks, len(X)))
        w = np.ones(len(X)) if noise is None else numbers(noise, "noise variances")
        if y.shape != (len(X),) or w.shape != y.shape:
            outputs(y, noise, len(X))
        none = np.zeros(len(labels))
        with np.errstate(all="ignore"):  # what is not finite stays so, and is looked for afterwards
            rows = _by_task(task, len(labels), np.bincount(task, minlength=len(labels)), none, none, y, w)
            moments = cls(labels, *condensed(rows, X))
        if not np.isfinite(moments.X).all() or not np.isfinite(moments.tasks.squares + moments.tasks.log_noise).all():
            outputs(y, noise, len(X))
            raise NotFinite(f"inputs must be finite; row {int(np.argwhere(~is_finite(X).all(axis=1))[0, 0])} is not")
        return moments

    @classmethod
    def of_products(
        cls, labels: Sequence[Hashable], rows: Index, products: Array, log_noise: Array, center: Array
    ) -> Moments:
        """Of products of the columns 1, x and y, less ``center`` (p + 2,), in units of the noise: (m, p + 2, p + 2).

        ``log_noise`` are the sums of the logarithms of the noise variances. Small tasks have singular products.
        """
        scale = np.sqrt(np.einsum("jii->ji", products))
        scale = np.where(scale > 0, scale, 1.0)
        roots = root(products / (scale[:, :, None] * scale[:, None, :]))  # products may be singular
        T = triangle(roots.swapaxes(-1, -2)) * scale[:, None, :]
        X, y, noise, squares = from_factor(T, np.broadcast_to(center, (len(T), 1, len(center))))
        m, k = y.shape
        tasks = FoldedTasks(
            task=np.arange(m),
            start=k * np.arange(m + 1),
            input=np.arange(m * k),
            y=y.ravel(),
            noise=noise.ravel(),
            rows=np.asarray(rows),
            squares=squares,
            log_noise=log_noise - np.log(noise).sum(axis=1),
        )
        return cls(list(labels), tasks, X.reshape(m * k, k - 1))

    def __add__(self, other: Moments) -> Moments:
        """Of the rows of both; a task may have rows in either."""
        if self.X.shape[1] != other.X.shape[1]:
            raise WrongDimension(
                f"expected moments of the same inputs, got {self.X.shape[1]} and {other.X.shape[1]} columns"
            )
        place = {label: number for number, label in enumerate(dict.fromkeys([*self.labels, *other.labels]))}
        to = [np.array([place[label] for label in part.labels], dtype=np.intp) for part in (self, other)]

        def total(name: str) -> Array:
            sums = [np.bincount(at, getattr(p.tasks, name), len(place)) for at, p in zip(to, (self, other))]
            return np.asarray(sums[0] + sums[1])

        task = np.concatenate([np.repeat(at, np.diff(p.tasks.start)) for at, p in zip(to, (self, other))])
        y, noise = (np.concatenate([getattr(p.tasks, name) for p in (self, other)]) for name in ("y", "noise"))
        counts = total("rows").astype(np.intp)
        rows = _by_task(task, len(place), counts, total("squares"), total("log_noise"), y, noise)
        return Moments(list(place), *condensed(rows, np.vstack([self.X, other.X])))

    # --- with a model ---

    @blas_limit
    def system(self, model: Model, method: Method = "REML") -> System:
        """All tasks solved for a linear model: its average is the bias, or has the basis ``Features()``."""
        model.check_dimension(self.X.shape[1])
        if not is_linear(model, self.X.shape[1]) or (model.common is not None and model.basis is None):
            raise InvalidModel(
                "moments are of linear models: kernels DotProduct, Linear, constants and their sums, and an average "
                f"that is common=None or has basis=Features(); got {model.common}, {model.individual}, {model.basis}"
            )
        return System.of_tasks(model, self.tasks, self.X, method)

    def information(self, model: Model) -> Information:
        """The sum over all tasks, in the basis; it adds to those of other tasks."""
        return self.system(model).information

    def evidence(self, model: Model, method: Method = "REML") -> Evidence:
        return self.system(model, method).evidence

    def disclose(self, model: Model, version: int = 1) -> Disclosed:
        """The release of all rows under this model."""
        return self.system(model).disclose(version)

    def tune(self, model: Model, method: Method = "REML", report: Callable[[Step], object] | None = None) -> Tuning:
        """The settings that make all rows likeliest; its ``model`` has them."""
        self.system(model)
        return tune_tasks(model, self.tasks, self.X, method=method, report=report)

    def estimate(self, release: Disclosed, label: Hashable) -> Estimate:
        """The function of one task, whose rows are in the release."""
        if label not in self.labels:
            raise UnknownTask(f"unknown task {label!r}: there are no moments of it")
        own = slice(*self.tasks.start[(k := self.labels.index(label)) : k + 2])
        task = Task(self.X[own], self.tasks.y[own], self.tasks.noise[own])
        return release.active_estimate(release.coefficients(task, None, release.model.individual))


def _runs(labels: Any) -> tuple[list[Hashable], Index]:
    """The different labels, and the number of each row's; equal labels in a row are looked up once."""
    known: dict[Hashable, int] = {}
    if not isinstance(labels, np.ndarray) or not len(labels):
        task = number_labels(labels, known)
        return list(known), task
    first = np.flatnonzero(np.append(True, labels[1:] != labels[:-1]))
    number = number_labels(labels[first], known)
    return list(known), np.repeat(number, np.diff(first, append=len(labels)))


def _by_task(
    task: Index, m: int, counts: Index, squares: Array, log_noise: Array, y: Array, noise: Array
) -> FoldedTasks:
    """Rows of ``m`` tasks, sorted by the number of their task."""
    start, order = np.concatenate([[0], np.cumsum(np.bincount(task, minlength=m))]), np.arange(len(task))
    if not (task[1:] >= task[:-1]).all():
        order = stable_order(task.copy())
        y, noise = y[order], noise[order]
    return FoldedTasks(np.arange(m), start, order, y, noise, counts, squares, log_noise)
