"""``fit_table``: a table of any length to a release, in one pass if rows of a task lie together.

Settings come from a model, or are chosen on a sample of the tasks. If rows of a task do not lie together, Dask brings
them together on disk, on a cluster of this machine's cores or on the one that is given (``cluster``).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from motet.arrays import Array, far_number
from motet.engine.system import Evidence
from motet.errors import EmptyData, InvalidData, InvalidModel, NoEvidence
from motet.model.model import Model
from motet.model.tasks import nystrom_residual
from motet.regression.parameters import settings_of
from motet.regression.regressor import MixedEffectRegressor
from motet.release.disclosed import Disclosed
from motet.scale.job import ADDING, FUNCTIONS, PREDICTING, READING, Counts, Job, Report, counted, stages
from motet.scale.partitions import NotGrouped, Solution, rows_of_partition, solve_stream, whole_tasks
from motet.scale.survey import Survey
from motet.tables.arrow import Batch, new_table
from motet.tables.files import check_new
from motet.tables.large import BATCH_ROWS, Dataset
from motet.tables.readings import EMPTY_ADVICE, one_value
from motet.tables.roles import Roles
from motet.tables.rows import Rows
from motet.threads import ahead
from motet.tuning import defaults
from motet.tuning.defaults import TUNING_ROWS, Settings
from motet.tuning.search import Step
from motet.tuning.tuning import Tuning, model_by_evidence


@dataclass(frozen=True, eq=False)
class Residual:
    """The residual of a basis (Nyström, PITC): the average's prior variance that it does not have, over some inputs.

    ``share`` is the trace of K̄ − eᵀe over that of K̄, ``std`` the largest standard deviation: each task has it as its
    own, so predictions differ from those of a basis without residual by about so much at most.
    ``shifts`` is the residual share of the shifts' variance in tasks that are too long for their kernel.
    """

    share: float
    std: float
    shifts: float = 0.0

    @classmethod
    def of(cls, release: Disclosed, X: Array, rows: Rows) -> Residual:
        """At inputs X, and in the long tasks among some rows."""
        basis, model = release.basis, release.model
        shifts = nystrom_residual(model.individual, rows.task, rows.X)
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
    residual: Residual
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
    skip_missing: bool | None = None,
    partition_rows: int | None = None,
    dask: Any = None,
    force: bool = False,
    report: Report | None = None,
    report_step: Callable[[Step], object] | None = None,
) -> TableFit:
    """Fit a Parquet or CSV file or folder that need not fit into memory.

    ``task``, ``target``, ``inputs`` and ``noise`` are columns; by default all others are inputs. The settings are those
    of ``model``; without one a ``regressor`` chooses them on about ``tuning_rows`` rows of some tasks. Predictions at
    all rows, and the coefficients aʲ of all tasks, are written as Parquet if a file is given. ``partition_rows`` are
    held at once; by default as many as keep the arrays of the model small. ``dask`` is a scheduler's address, a
    ``distributed.Client``, or "local" for a cluster of this machine's cores.

    Rows with missing values are left out, with a warning; ``skip_missing=True`` needs no warning, and with ``False``
    the first of them is refused.
    """
    if regressor is not None and regressor.target == "log":
        raise InvalidModel('a table is learned as it is: give it a column of logarithms, or omit target="log"')
    dataset = data if isinstance(data, Dataset) else Dataset.open(Path(data))
    roles = roles_of(dataset, task, target, inputs, noise)
    outputs = {key: Path(path) for key, path in (("predictions", predictions), ("coefficients", coefficients)) if path}
    for path in outputs.values():
        check_new(path, force=force)
    tuning, sample = None, None
    if model is None:
        dataset.check_outliers(roles)
        advance = stages(report, READING)
        survey = Survey.of(dataset, roles, limit=tuning_rows, skip_missing=skip_missing is not False, advance=advance)
        settings = settings_of(regressor or MixedEffectRegressor())
        model, tuning, sample = tuned(survey, settings, landmarks=landmarks, report=report_step)
    rows = partition_rows or rows_of_partition(model, len(roles.inputs))
    job = Job(dataset, roles, model, rows, skip_missing is not False, report)
    done = None if dask is not None else _streamed(job, outputs)
    if done is None:
        from motet.scale.cluster import fit_on_cluster

        done = fit_on_cluster(job, outputs, dask)
    solution, counts, some = done
    if skip_missing is None and counts.left_out:
        dropped = f"{counts.left_out} of {counts.rows + counts.left_out} rows have missing values and are left out"
        warnings.warn(dropped, UserWarning, stacklevel=2)
    shown = some.X if sample is None else sample.X
    return TableFit(
        replace(solution.release, version=1),
        solution.evidence,
        counts.rows,
        counts.tasks,
        counts.left_out,
        Residual.of(solution.release, shown[: defaults.CANDIDATE_INPUTS], some),
        tuning,
        0 if sample is None else len(sample.y),
        counts.shuffled,
    )


def roles_of(dataset: Dataset, task: str, target: str, inputs: Any = None, noise: str | None = None) -> Roles:
    """The columns that are meant, all of which are there, with types that can be numbers."""
    roles = Roles.of_columns(dataset.path.name, dataset.columns, task, target, inputs, noise)
    dataset.check(roles)
    return roles


def tuned(
    survey: Survey,
    settings: Settings,
    *,
    landmarks: int = defaults.LANDMARKS,
    report: Callable[[Step], object] | None = None,
) -> tuple[Model, Tuning | None, Rows]:
    """Settings chosen on the survey's sample, with a basis for all inputs of the table; and how they were found."""
    sample = survey.sample
    if not len(sample.y):
        raise EmptyData("nothing to learn: expected at least one complete row")
    growing = -1 if survey.has_many_inputs else defaults.MAX_GROWING_INPUTS
    settings = replace(settings, tuning_rows=None, growing_inputs=growing, landmarks=landmarks)  # this is the sample
    settings = replace(settings, names=survey.roles.inputs)
    rows = Rows.of(sample.tasks, sample.X, sample.y, sample.noise)  # numbered as an engine does it
    if settings.optimizer is None:
        return settings.with_basis(settings.model(rows), survey.inputs), None, rows
    _check_rows(rows, survey.roles)
    return *model_by_evidence(rows, settings, inputs=survey.inputs, report=report), rows


def _check_rows(rows: Rows, roles: Roles) -> None:
    """Raises if settings would be those of a few far numbers, or of an output that has one value."""
    for column, numbers in zip((*roles.inputs, roles.target), (*rows.X.T, rows.y)):
        if (far := far_number(numbers)) is not None:
            raise InvalidData(f"column {column}: {far[1]}: {EMPTY_ADVICE}", where=column)
    if reason := one_value(rows.y, roles.target):
        raise NoEvidence(f"{reason}: choose another column with target=")


# --- one pass ---


def _streamed(job: Job, outputs: dict[str, Path]) -> tuple[Solution, Counts, Rows] | None:
    """The fit of a table in which rows of a task lie together; None if they do not."""
    counts = Counts()
    try:
        solution, some = solve_stream(_tables(job, ADDING, counts), job.model, job.roles)
    except NotGrouped:
        return None
    for kind, path in outputs.items():
        with new_table(path) as write:
            for table in _tables(job, PREDICTING, Counts()):
                write(FUNCTIONS[kind](table, solution.release, job.roles))
    return solution, counts, some


def _tables(job: Job, stage: str, counts: Counts) -> Iterator[Batch]:
    rows, task = min(BATCH_ROWS, job.partition_rows), job.roles.task
    batches = ahead(job.dataset.batches(job.roles, rows=rows, skip_missing=job.skip_missing))
    return counted(whole_tasks(batches, task, job.partition_rows), task, counts, stages(job.report, stage))
