"""Map-reduce on Dask: rows of a task are shuffled together on the workers' disks, each partition becomes its
``Information`` where it is, these are added in a tree, and one solve is left.

The mathematics is ``partitions``; here is only who computes what. A worker that dies costs time and nothing
else: Dask computes its share again from the file.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from motet.errors import EmptyData, InvalidData, MotetError
from motet.release.disclosed import Disclosed
from motet.scale.job import ADDING, FUNCTIONS, PREDICTING, Counts, Job, stages
from motet.scale.objective import PartitionObjective
from motet.scale.partitions import Solution, Sums, first_sums, information, rows_of_partition, solve
from motet.scale.survey import Survey
from motet.tables.arrow import ROWS_READ, Batch, new_table, read_row_group, row_groups, unfinished
from motet.tables.large import Dataset
from motet.tables.roles import Roles
from motet.tables.rows import Rows, numbered
from motet.threads import one_core
from motet.tuning import defaults
from motet.tuning.defaults import Settings
from motet.tuning.search import Step
from motet.tuning.tuning import Tuning, fit_settings

LOCAL_CLUSTER = "local"
MEMORY_SHARE = 0.4  # of this machine's memory, that the workers of a local cluster may take before they write to disk
MAX_WORKER_BYTES = 1_200_000_000
RETRIES = 3  # of a task whose worker died


@contextmanager
def client_at(dask: Any, scratch: Path | None = None) -> Iterator[Any]:
    """A client of the scheduler at an address, the one that is given, or one of a cluster of this machine's cores."""
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise InvalidData("this needs Dask: pip install 'motet[tables]'") from None
    if not isinstance(dask, str):
        yield dask
    elif dask != LOCAL_CLUSTER:
        try:
            client = Client(dask, timeout=10)
        except (OSError, ValueError, TypeError) as error:
            raise InvalidData(f"expected a Dask scheduler at {dask}, got none: {error!s:.80}") from None
        with client:
            yield client
    else:
        import psutil

        cores = os.cpu_count() or 1
        memory = min(MAX_WORKER_BYTES, int(MEMORY_SHARE * psutil.virtual_memory().total / cores))
        settings = {"n_workers": cores, "threads_per_worker": 1, "memory_limit": memory, "dashboard_address": None}
        settings |= {"silence_logs": logging.ERROR}
        with LocalCluster(**settings, local_directory=scratch, host="127.0.0.1") as cluster, Client(cluster) as client:
            yield client


# --- partitions on the workers ---


@dataclass(frozen=True, eq=False)
class Partitions:
    """The rows of a table on the workers of a cluster, in ``parts`` of whole tasks: data frames, or recipes of them."""

    client: Any
    roles: Roles
    parts: Sequence[Any]
    rows_read: int  # with those that are left out

    @classmethod
    def of(cls, client: Any, job: Job, scratch: Path) -> Partitions:
        """Shuffled by task, nothing of which is computed yet."""
        import dask
        import dask.dataframe as dd

        dataset, read = job.dataset, job.dataset.rows or 0
        if not dataset.is_parquet:
            dataset, read = _as_parquet(job, scratch)
        places = row_groups(dataset.files)
        with refusals():
            meta = _frame(places[0], roles=job.roles, skip_missing=job.skip_missing)[:0]
            frame = dd.from_map(
                _frame, places, roles=job.roles, skip_missing=job.skip_missing, meta=meta, enforce_metadata=False
            )
            count = max(1, -(-(dataset.rows or 1) // job.partition_rows))
            workers = len(client.scheduler_info()["workers"])
            count = max(count, min(workers, len(places)))
            with dask.config.set({"dataframe.shuffle.method": "p2p"}):
                shuffled = frame.shuffle(job.roles.task, npartitions=count, force=True) if len(places) > 1 else frame
            return cls(client, job.roles, shuffled.to_delayed(), read)

    @cached_property
    def delayed(self) -> Any:
        from dask.delayed import delayed

        return delayed

    def map(self, function: Callable[..., Any], *shared: Any) -> list[Any]:
        """The function of every part that has rows, where it is; ``shared`` are its other arguments."""
        arguments = [self.shared(one) for one in shared]
        return [self.delayed(_of_part)(function, part, *arguments) for part in self.parts]

    def shared(self, value: Any) -> Any:
        """A value for all workers. It is a part of the work, so a worker that dies takes nothing with it."""
        return self.delayed(value, traverse=False, name=f"shared-{uuid4().hex}")

    def added(self, values: Sequence[Any]) -> Any:
        """The sum of values on the workers, in a tree."""
        level, plus = list(values), self.delayed(_sum)
        while len(level) > 1:
            pairs = [plus(*level[k : k + 2]) for k in range(0, len(level) - 1, 2)]
            level = pairs + level[len(level) - len(level) % 2 :]
        return level[0]

    def compute(self, *values: Any) -> list[Any]:
        """The values, here."""
        import dask

        with refusals(), dask.config.set({"distributed.admin.large-graph-warning-threshold": "4 GB"}):
            return list(self.client.gather(self.client.compute(list(values), retries=RETRIES)))

    # --- as ``objective.Passes`` ---

    def total(self, function: Callable[..., Any], *shared: Any) -> Any:
        (total,) = self.compute(self.added(self.map(function, *shared)))
        return total

    def each(self, function: Callable[..., Any]) -> Sequence[Any]:
        return [value for value in self.compute(*self.map(function)) if value is not None]


def _frame(place: tuple[Path, int], *, roles: Roles, skip_missing: bool = False) -> Any:
    """A row group as a data frame."""
    import pandas as pd

    batch = read_row_group(place, roles, skip_missing)
    batch.pop(ROWS_READ, None)
    frame = pd.DataFrame(batch)
    if frame[roles.task].dtype == object:
        frame[roles.task] = frame[roles.task].astype("string[pyarrow]")
    return frame


def _as_parquet(job: Job, scratch: Path) -> tuple[Dataset, int]:
    """A CSV as Parquet, which can be read from anywhere in it; and how many rows it has."""
    path, read = scratch / "rows.parquet", 0
    with new_table(path) as write:
        batches = job.dataset.batches(job.roles, skip_missing=job.skip_missing)
        for batch in batches:
            read += batch.pop(ROWS_READ)
            write(batch)
    return Dataset.open(path), read


def _of_part(function: Callable[..., Any], part: Any, *arguments: Any) -> Any:
    """On one core; None of a part without rows."""
    if part is None or getattr(part, "empty", False):
        return None
    with one_core():
        return function(part, *arguments)


def _sum(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


@contextmanager
def refusals() -> Iterator[None]:
    """Our own errors from within Dask's."""
    try:
        yield
    except MotetError:
        raise
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, MotetError):
                raise cause from None
            cause = cause.__cause__ or cause.__context__
        raise


# --- a fit ---


def fit_on_cluster(job: Job, outputs: dict[str, Path], dask: Any = None) -> tuple[Solution, Counts, Rows]:
    """As one pass would do it, for rows in any order."""
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="motet-")))
        client = stack.enter_context(client_at(LOCAL_CLUSTER if dask is None else dask, scratch))
        partitions = Partitions.of(client, job, scratch)
        if outputs:
            partitions = replace(partitions, parts=client.persist(list(partitions.parts)))
        sums, some = _first_look(job)
        counts = partitions.map(_task_count, job.roles.task)
        pieces = partitions.map(information, sums)
        total, tasks = partitions.compute(partitions.added(pieces), partitions.added(counts))
        rows = total.rows
        stages(job.report, ADDING)(rows)
        solution = solve(total, sums)
        for kind, path in outputs.items():
            _write(partitions, kind, path, solution.release)
            stages(job.report, PREDICTING)(rows)
        return solution, Counts(rows, tasks, partitions.rows_read - rows, shuffled=True), some


def _first_look(job: Job) -> tuple[Sums, Rows]:
    """What to sum, by the first rows; and these."""
    for batch in job.dataset.batches(job.roles, skip_missing=job.skip_missing):
        rows = Rows.of_table(batch, job.roles)
        if len(rows.y):
            return first_sums(rows, job.model, job.roles), rows
    raise EmptyData(f"{job.dataset.path.name}: every row has a missing value")


def _task_count(table: Any, task: str) -> int:
    return len(numbered(table[task].to_numpy())[1])


def _write(partitions: Partitions, kind: str, path: Path, release: Disclosed) -> None:
    """A folder of files, each written by the worker that has its tasks."""
    with unfinished(path) as folder:
        folder.mkdir(parents=True)
        names = [folder / f"part-{k:05d}.parquet" for k in range(len(partitions.parts))]
        arguments = FUNCTIONS[kind], partitions.shared(release), partitions.roles
        write = partitions.delayed(_of_part)
        partitions.compute(*(write(_written, part, name, *arguments) for part, name in zip(partitions.parts, names)))


def _written(table: Any, name: Path, function: Callable[..., Batch], release: Disclosed, roles: Roles) -> None:
    with new_table(name) as write:
        write(function(table, release, roles))


# --- settings, by rows in the workers' memory ---


def tune_on_cluster(
    dataset: Dataset,
    roles: Roles,
    settings: Settings,
    dask: Any,
    *,
    skip_missing: bool = False,
    report: Callable[[Step], object] | None = None,
) -> tuple[Tuning, tuple[int, int, int]]:
    """Settings from all rows of a table; and how many rows, tasks, and rows left out there are."""
    survey = Survey.of(dataset, roles, skip_missing=skip_missing)
    growing = -1 if survey.has_many_inputs else defaults.MAX_GROWING_INPUTS
    settings, rows = replace(settings, growing_inputs=growing), survey.sample
    model = settings.model(rows)
    job = Job(dataset, roles, model, rows_of_partition(model, len(roles.inputs)), skip_missing)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="motet-")))
        client = stack.enter_context(client_at(dask, scratch))
        partitions = Partitions.of(client, job, scratch)
        in_memory = client.persist(partitions.map(partial(Rows.of_table, roles=roles)))
        objective = PartitionObjective(replace(partitions, parts=in_memory), roles, rows, settings.method)
        tuning = fit_settings(rows, settings, objective=objective, inputs=survey.inputs, report=report)
        return tuning, (objective.rows, objective.tasks, survey.left_out)
