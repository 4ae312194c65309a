"""Settings by evidence for tasks in partitions: each step of the search is a pass over them for the sums, and one more
for their slope. On a cluster the partitions stay in the workers' memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from motet.arrays import Array, distinct
from motet.datasets import Dataset, Fields
from motet.errors import MotetError
from motet.learning import defaults
from motet.learning.cluster import Partitions, client_at
from motet.learning.components import Components
from motet.learning.evidence import Method
from motet.learning.gradient import Slope
from motet.learning.job import Job
from motet.learning.partitions import (
    Rows,
    Solution,
    Sums,
    first_sums,
    part_information,
    part_of,
    rows_of_partition,
    solve,
)
from motet.learning.regressor import MixedEffectRegressor
from motet.learning.rows import Rows as RegressorRows
from motet.learning.search import ROUNDING, Search, Step
from motet.learning.slope_sums import Globals, slope_of, slope_sums
from motet.learning.structure import model_of
from motet.learning.survey import Survey
from motet.learning.tuning import Tuning, tuning_by
from motet.model.basis import Features, Landmarks
from motet.model.model import Model


class Passes(Protocol):
    """Partitions of whole tasks, and the sum over them of what a function makes of each."""

    def total(self, function: Callable[..., Any], *shared: Any) -> Any: ...

    def each(self, function: Callable[..., Any]) -> Sequence[Any]: ...


class LocalPasses:
    """Over partitions in this process."""

    def __init__(self, parts: Sequence[Rows]) -> None:
        self._parts = parts

    def total(self, function: Callable[..., Any], *shared: Any) -> Any:
        return reduce(add, (function(part, *shared) for part in self._parts))

    def each(self, function: Callable[..., Any]) -> Sequence[Any]:
        return [function(part) for part in self._parts]


class ClusterPasses:
    """Over partitions in the memory of a cluster's workers."""

    def __init__(self, partitions: Partitions) -> None:
        to_rows = partial(_rows, fields=partitions.fields)
        self._partitions = replace(partitions, parts=partitions.client.persist(partitions.map(to_rows)))

    def total(self, function: Callable[..., Any], *shared: Any) -> Any:
        parts = self._partitions
        (total,) = parts.compute(parts.added(parts.map(_skipping(function), *shared), _add_or_skip))
        return total

    def each(self, function: Callable[..., Any]) -> Sequence[Any]:
        parts = self._partitions
        return [value for value in parts.compute(*parts.map(_skipping(function))) if value is not None]


def _rows(table: Any, fields: Fields) -> Rows | None:
    return Rows.of(table, fields) if len(table) else None


def _skipping(function: Callable[..., Any]) -> Callable[..., Any]:
    return partial(_of_rows, function)


def _of_rows(function: Callable[..., Any], rows: Rows | None, *shared: Any) -> Any:
    """None of a partition without rows."""
    return None if rows is None else function(rows, *shared)


def _add_or_skip(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


# --- the search ---


class PartitionedSearch(Search):
    """The evidence of tasks in partitions under many models."""

    def __init__(
        self,
        passes: Passes,
        fields: Fields,
        some: Rows,
        method: Method,
        report: Callable[[Step], None] | None = None,
    ) -> None:
        self.passes, self.fields, self.some = passes, fields, some
        counts = passes.each(_counts)
        self.tasks = sum(tasks for _, tasks, _ in counts)
        self.largest_output = max(size for _, _, size in counts)
        super().__init__(None, some.X, method, report, rows=sum(rows for rows, _, _ in counts))

    @property
    def _outputs(self) -> Array:
        return self.some.y

    def value(self, components: Components) -> float:
        solved = self._solved(self._searched(components))
        return -np.inf if solved is None else solved[0].evidence.log_evidence

    def _slope(self, components: Components) -> Slope | None:
        solved = self._solved(self._searched(components))
        if solved is None:
            return None
        given = Globals.of(*solved, self.method)
        bias_rank = given.solution.posterior.factor.bias_rank if self.method == "REML" else 0
        return slope_of(self.passes.total(slope_sums, given), given, self.rows - bias_rank)

    def _searched(self, components: Components) -> Model:
        """The model to evaluate. Sums have derivatives through landmarks, and a few of them span a linear average."""
        model, X = components.searched, self.some.X
        if not isinstance(model.basis, Features):
            return model
        spread = np.where((std := X.std(axis=0)) > 0, std, 1.0)
        return replace(model, basis=Landmarks(X.mean(axis=0) + np.vstack([np.zeros(len(spread)), np.diag(spread)])))

    def _solved(self, model: Model) -> tuple[Solution, Sums] | None:
        """All tasks; None if they cannot be solved, or if nothing but rounding is left of the outputs."""
        try:
            sums = first_sums(self.some, model, self.fields)
            solution = solve(self.passes.total(_information, sums), sums, method=self.method)
        except (MotetError, np.linalg.LinAlgError):
            return None
        left = solution.evidence.sigma2 > (ROUNDING * self.largest_output) ** 2
        return (solution, sums) if left and np.isfinite(solution.evidence.log_evidence) else None


def _information(rows: Rows, sums: Sums) -> Any:
    return part_information(part_of(rows, sums))


def _counts(rows: Rows) -> tuple[int, int, float]:
    return len(rows.y), len(rows.labels), float(np.abs(rows.y).max(initial=0.0))


def tune_partitions(
    passes: Passes,
    fields: Fields,
    some: Rows,
    regressor: MixedEffectRegressor,
    report: Callable[[Step], None] | None = None,
) -> tuple[Tuning, PartitionedSearch]:
    """The settings that make all partitions likeliest; ``some`` of the rows tell the inputs' scales and the basis."""
    model, inputs = starting_model(regressor, some)
    search = PartitionedSearch(passes, fields, some, regressor.method, report)
    return tuning_by(search, Components.of(model, inputs), model.sigma2), search


def starting_model(regressor: MixedEffectRegressor, some: Rows) -> tuple[Model, Array]:
    """What a regressor starts from, and the different inputs."""
    rows = RegressorRows(some.labels[some.task], some.X, some.y, some.noise, single_task=False)
    return model_of(regressor, rows), some.X[distinct(some.X)[0]]


def tune_on_cluster(
    dataset: Dataset,
    fields: Fields,
    regressor: MixedEffectRegressor,
    dask: Any,
    *,
    skip_missing: bool = False,
    report: Callable[[Step], None] | None = None,
) -> tuple[Tuning, tuple[int, int, int]]:
    """Settings from all rows of a table; and how many rows, tasks, and rows left out there are."""
    survey = Survey.of(dataset, fields, skip_missing=skip_missing)
    model, _ = starting_model(regressor, survey.sample)
    job = Job(dataset, fields, model, rows_of_partition(model, len(fields.inputs)), skip_missing)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="motet-")))
        client = stack.enter_context(client_at(dask, scratch))
        passes = ClusterPasses(Partitions.of(client, job, scratch))
        tuning, search = tune_partitions(passes, fields, survey.sample, regressor, report)
        if isinstance(regressor.basis, str) and tuning.model.common is not None:
            most = -1 if survey.has_many_inputs else defaults.MAX_GROWING_INPUTS
            basis = defaults.basis("auto", tuning.model.common, survey.inputs, most=most)
            tuning = replace(tuning, model=replace(tuning.model, basis=basis))
        return tuning, (search.rows, search.tasks, survey.left_out)
