"""``fit_table``: a table of any length to a release, in one pass if rows of a task lie together.

Settings come from a model, or are chosen on a sample of the tasks. If rows of a task do not lie together, Dask brings
them together on disk, on a cluster of this machine's cores or on the one that is given (``learning.cluster``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from motet.arrays import Array, far_number
from motet.datasets import BATCH_ROWS, OUTLIER_ADVICE, Batch, Dataset, Fields, ahead, new_table
from motet.errors import EmptyData, InvalidData, NoEvidence
from motet.files import check_new
from motet.learning import defaults
from motet.learning.evidence import Evidence
from motet.learning.job import ADDING, FUNCTIONS, PREDICTING, READING, Counts, Job, Report, counted, stages
from motet.learning.partitions import (
    NotGrouped,
    Rows,
    Solution,
    rows_of_partition,
    solve_stream,
    whole_tasks,
)
from motet.learning.regressor import MixedEffectRegressor, tune
from motet.learning.search import Step, one_value
from motet.learning.survey import TUNING_ROWS, Survey
from motet.learning.tuning import Tuning
from motet.model.model import Model
from motet.model.tasks import missed_by_own_landmarks
from motet.release.disclosed import Disclosed


@dataclass(frozen=True, eq=False)
class Missed:
    """What a basis misses of the average's prior variance, over a sample of the inputs.

    ``share`` is the trace of K̄ − eᵀe over that of K̄, ``std`` the largest standard deviation of what is missed: each
    task has it as its own, so predictions differ from those of a basis that misses nothing by about so much at most.
    ``shifts`` is the share of the shifts' variance that landmarks miss in tasks that are too long for their kernel.
    """

    share: float
    std: float
    shifts: float = 0.0

    @classmethod
    def of(cls, release: Disclosed, X: Array, rows: Rows) -> Missed:
        """At inputs X, and in the long tasks among some rows."""
        basis, model = release.basis, release.model
        shifts = missed_by_own_landmarks(model.individual, rows.task, rows.X)
        if model.common is None or not len(X):
            return cls(0.0, 0.0, shifts)
        residual = basis.residual(X, basis.e(X))
        size = float(np.sum(model.common.diag(X)))
        sigma2 = release.sigma2 or 0.0
        std = float(np.sqrt(sigma2 * model.alpha * residual.max()))
        return cls(float(residual.sum()) / size if size else 0.0, std, shifts)


@dataclass(frozen=True, eq=False)
class TableFit:
    """A release of a table, its evidence, and how it was made.

    ``tuning`` has what a search found on ``tuned_rows`` rows, None if a model was given.
    """

    release: Disclosed
    evidence: Evidence
    rows: int
    tasks: int
    left_out: int
    missed: Missed
    tuning: Tuning | None = None
    tuned_rows: int = 0
    shuffled: bool = False  # whether rows of a task had to be brought together


def fit_table(
    data: str | Path | Dataset,
    *,
    task: str,
    target: str,
    inputs: Any = None,
    noise: str | None = None,
    model: Model | None = None,
    regressor: MixedEffectRegressor | None = None,
    landmarks: int = defaults.LANDMARKS,
    tuning_rows: int = TUNING_ROWS,
    predictions: str | Path | None = None,
    coefficients: str | Path | None = None,
    skip_missing: bool = False,
    partition_rows: int | None = None,
    dask: Any = None,
    force: bool = False,
    report: Report | None = None,
    report_step: Callable[[Step], None] | None = None,
) -> TableFit:
    """Fit a Parquet or CSV file or folder that need not fit into memory.

    ``task``, ``target``, ``inputs`` and ``noise`` are columns; by default all others are inputs. The settings are those
    of ``model``; without one a ``regressor`` chooses them on about ``tuning_rows`` rows of some tasks. Predictions at
    all rows, and the coefficients aʲ of all tasks, are written as Parquet if a file is given. ``partition_rows`` are
    held at once; by default as many as keep the arrays of the model small. ``dask`` is a scheduler's address, a
    ``distributed.Client``, or "local" for a cluster of this machine's cores.
    """
    dataset = data if isinstance(data, Dataset) else Dataset.open(Path(data))
    fields = fields_of(dataset, task, target, inputs, noise)
    outputs = {key: Path(path) for key, path in (("predictions", predictions), ("coefficients", coefficients)) if path}
    for path in outputs.values():
        check_new(path, force=force)
    tuning, sample = None, None
    if model is None:
        dataset.check_outliers(fields)
        advance = stages(report, READING)
        survey = Survey.of(dataset, fields, limit=tuning_rows, skip_missing=skip_missing, advance=advance)
        model, fitted, sample = tuned(
            survey, regressor or MixedEffectRegressor(), landmarks=landmarks, report=report_step
        )
        tuning = fitted.tuning_
    rows = partition_rows or rows_of_partition(model, len(fields.inputs))
    job = Job(dataset, fields, model, rows, skip_missing, report)
    done = None if dask is not None else _streamed(job, outputs)
    if done is None:
        from motet.learning.cluster import fit_on_cluster

        done = fit_on_cluster(job, outputs, dask)
    solution, counts, some = done
    shown = some.X if sample is None else sample.X
    return TableFit(
        replace(solution.release, version=1),
        solution.evidence,
        counts.rows,
        counts.tasks,
        counts.left_out,
        Missed.of(solution.release, shown[: defaults.SAMPLED_INPUTS], some),
        tuning,
        0 if sample is None else len(sample.y),
        counts.shuffled,
    )


def fields_of(dataset: Dataset, task: str, target: str, inputs: Any = None, noise: str | None = None) -> Fields:
    """The columns that are meant, all of which are there."""
    for column, option in ((task, "--client"), (target, "--target")):
        dataset.require(column, option)
    if task == target:
        raise InvalidData(f"--client and --target are the same column, {task!r}: name two")
    if noise is None and "noise" in dataset.columns and "noise" not in (inputs or ()):
        noise = "noise"
    if inputs is None:
        inputs = [column for column in dataset.columns if column and column not in (task, target, "id", noise)]
    for column in inputs:
        dataset.require(column, "--inputs")
        if column in (task, target):
            role = "the column of tasks" if column == task else "the column of outputs"
            raise InvalidData(f"--inputs has {column!r}, which is {role}: leave it out")
    fields = Fields(task, target, tuple(inputs), noise)
    dataset.check(fields)
    return fields


def tuned(
    survey: Survey,
    regressor: MixedEffectRegressor,
    *,
    landmarks: int = defaults.LANDMARKS,
    report: Callable[[Step], None] | None = None,
) -> tuple[Model, MixedEffectRegressor, Rows]:
    """Settings chosen on the survey's sample, with a basis for all inputs of the table; and how they were found."""
    rows = survey.sample
    if not len(rows.y):
        raise EmptyData("nothing to learn: expected at least one complete row")
    if regressor.optimizer is not None:
        _check_rows(rows, survey.fields)
    data = rows.X, rows.y, rows.labels[rows.task], 1.0 / rows.noise
    if regressor.optimizer is None:
        fitted = clone(regressor).fit(data[0], data[1], data[2], data[3])
    else:
        fitted = tune(clone(regressor).set_params(tuning_rows=None), *data, report=report)  # this is the sample
    model = fitted.engine_.model
    if isinstance(regressor.basis, str):
        most = -1 if survey.has_many_inputs else defaults.MAX_GROWING_INPUTS
        model = replace(model, basis=defaults.basis("auto", model.common, survey.inputs, most=most, count=landmarks))
    return model, fitted, rows


def _check_rows(rows: Rows, fields: Fields) -> None:
    """Raises if settings would be those of a few far numbers, or of an output that has one value."""
    for column, numbers in zip((*fields.inputs, fields.target), (*rows.X.T, rows.y)):
        if (far := far_number(numbers)) is not None:
            raise InvalidData(f"column {column}: {far[1]}: {OUTLIER_ADVICE}", where=column)
    if reason := one_value(rows.y, fields.target):
        raise NoEvidence(f"{reason}: choose another column, --target COLUMN")


# --- one pass ---


def _streamed(job: Job, outputs: dict[str, Path]) -> tuple[Solution, Counts, Rows] | None:
    """The fit of a table in which rows of a task lie together; None if they do not."""
    counts = Counts()
    try:
        solution, some = solve_stream(_tables(job, ADDING, counts), job.model, job.fields)
    except NotGrouped:
        return None
    write_outputs(job, solution.release, outputs, lambda: _tables(job, PREDICTING, Counts()))
    return solution, counts, some


def _tables(job: Job, stage: str, counts: Counts) -> Iterator[Batch]:
    fields = job.fields
    rows = min(BATCH_ROWS, job.partition_rows)
    batches = ahead(job.dataset.batches(fields, rows=rows, skip_missing=job.skip_missing))
    tables = whole_tasks(batches, fields.task, job.partition_rows)
    return counted(tables, fields.task, counts, stages(job.report, stage))


def write_outputs(
    job: Job, release: Disclosed, outputs: dict[str, Path], tables: Callable[[], Iterator[Batch]]
) -> None:
    """Everything that was asked for of every task."""
    for kind, path in outputs.items():
        with new_table(path) as write:
            for table in tables():
                write(FUNCTIONS[kind](table, release, job.fields))
