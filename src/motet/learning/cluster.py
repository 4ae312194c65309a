"""The fit of a table on Dask: rows of a task are brought together on the workers' disks, each partition becomes its
``Information`` where it is, these are added in a tree, and one solve is left.

The mathematics is ``learning.partitions``; here is only who computes what. A worker that dies costs time and nothing
else: Dask computes its share again from the file.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from motet.datasets import ROWS_READ, Batch, Dataset, Fields, new_table, read_row_group, row_groups, unfinished
from motet.errors import EmptyData, InvalidData, MotetError
from motet.learning.information import Information
from motet.learning.job import ADDING, FUNCTIONS, PREDICTING, Counts, Job, stages
from motet.learning.partitions import Rows, Solution, Sums, first_sums, information, numbered, solve
from motet.linalg import one_core
from motet.release.disclosed import Disclosed

LOCAL = "local"
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
    elif dask != LOCAL:
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
    fields: Fields
    parts: Sequence[Any]

    @classmethod
    def of(cls, client: Any, job: Job, scratch: Path) -> Partitions:
        """Shuffled by task, nothing of which is computed yet."""
        import dask
        import dask.dataframe as dd

        dataset = job.dataset if job.dataset.is_parquet else _as_parquet(job, scratch)
        places = row_groups(dataset)
        with refusals():
            meta = _frame(places[0], fields=job.fields, skip_missing=job.skip_missing)[:0]
            frame = dd.from_map(
                _frame, places, fields=job.fields, skip_missing=job.skip_missing, meta=meta, enforce_metadata=False
            )
            count = max(1, -(-(dataset.rows or 1) // job.partition_rows))
            workers = len(client.scheduler_info()["workers"])
            count = max(count, min(workers, len(places)))
            with dask.config.set({"dataframe.shuffle.method": "p2p"}):
                shuffled = frame.shuffle(job.fields.task, npartitions=count, force=True) if len(places) > 1 else frame
            return cls(client, job.fields, shuffled.to_delayed())

    def held(self) -> Partitions:
        """The same, computed and kept in the workers' memory."""
        parts = self.client.persist(list(self.parts))
        return Partitions(self.client, self.fields, parts)

    @cached_property
    def _delayed(self) -> Any:
        from dask.delayed import delayed

        return delayed

    def map(self, function: Callable[..., Any], *shared: Any) -> list[Any]:
        """The function of every part, where it is; ``shared`` are its other arguments."""
        arguments = [self.shared(one) for one in shared]
        return [self._delayed(_on_one_core)(function, part, *arguments) for part in self.parts]

    def shared(self, value: Any) -> Any:
        """A value for all workers. It is a part of the work, so a worker that dies takes nothing with it."""
        return self._delayed(value, traverse=False, name=f"shared-{uuid4().hex}")

    def added(self, values: Sequence[Any], add: Callable[[Any, Any], Any] | None = None) -> Any:
        """The sum of values on the workers, in a tree."""
        level, plus = list(values), self._delayed(_sum if add is None else add)
        while len(level) > 1:
            pairs = [plus(*level[k : k + 2]) for k in range(0, len(level) - 1, 2)]
            level = pairs + level[len(level) - len(level) % 2 :]
        return level[0]

    def compute(self, *values: Any) -> list[Any]:
        """The values, here."""
        import dask

        with refusals(), dask.config.set({"distributed.admin.large-graph-warning-threshold": "4 GB"}):
            return list(self.client.gather(self.client.compute(list(values), retries=RETRIES)))


def _frame(place: tuple[Path, int], *, fields: Fields, skip_missing: bool = False) -> Any:
    """A row group as a data frame."""
    import pandas as pd

    batch = read_row_group(place, fields, skip_missing)
    batch.pop(ROWS_READ, None)
    frame = pd.DataFrame(batch)
    if frame[fields.task].dtype == object:
        frame[fields.task] = frame[fields.task].astype("string[pyarrow]")
    return frame


def _as_parquet(job: Job, scratch: Path) -> Dataset:
    """A CSV as Parquet, which can be read from anywhere in it."""
    path = scratch / "rows.parquet"
    with new_table(path) as write:
        batches = job.dataset.batches(job.fields, skip_missing=job.skip_missing)
        for batch in batches:
            batch.pop(ROWS_READ)
            write(batch)
    return Dataset.open(path)


def _on_one_core(function: Callable[..., Any], *arguments: Any) -> Any:
    with one_core:
        return function(*arguments)


def _sum(a: Any, b: Any) -> Any:
    return a + b


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
        client = stack.enter_context(client_at(LOCAL if dask is None else dask, scratch))
        partitions = Partitions.of(client, job, scratch)
        if outputs:
            partitions = partitions.held()
        sums, some = _first_look(job)
        pieces = partitions.map(_counted, sums)
        (result,) = partitions.compute(partitions.added(pieces, _add_counted))
        total, rows, tasks = result
        if not rows:
            raise EmptyData(f"{job.dataset.path.name}: every row has a missing value")
        stages(job.report, ADDING)(rows)
        solution = solve(total, sums)
        for kind, path in outputs.items():
            _write(partitions, kind, path, solution.release)
            stages(job.report, PREDICTING)(rows)
        left_out = (job.dataset.rows or rows) - rows
        return solution, Counts(rows, tasks, left_out, shuffled=True), some


def _first_look(job: Job) -> tuple[Sums, Rows]:
    """What to sum, by the first rows; and these."""
    for batch in job.dataset.batches(job.fields, skip_missing=job.skip_missing):
        rows = Rows.of(batch, job.fields)
        if len(rows.y):
            return first_sums(rows, job.model, job.fields), rows
    raise EmptyData(f"{job.dataset.path.name}: every row has a missing value")


def _counted(table: Any, sums: Sums) -> tuple[Information | None, int, int]:
    """A partition's sums, its rows and its tasks; a partition may be empty."""
    if not len(table):
        return None, 0, 0
    return information(table, sums), len(table), len(numbered(table[sums.fields.task].to_numpy())[1])


def _add_counted(a: tuple[Any, int, int], b: tuple[Any, int, int]) -> tuple[Any, int, int]:
    total = a[0] + b[0] if a[0] is not None and b[0] is not None else a[0] if b[0] is None else b[0]
    return total, a[1] + b[1], a[2] + b[2]


def _write(partitions: Partitions, kind: str, path: Path, release: Disclosed) -> None:
    """A folder of files, each written by the worker that has its tasks."""
    with unfinished(path) as folder:
        folder.mkdir(parents=True)
        names = [folder / f"part-{k:05d}.parquet" for k in range(len(partitions.parts))]
        shared = partitions.shared(release)
        write = partitions._delayed(_written)
        written = [write(part, name, kind, shared, partitions.fields) for part, name in zip(partitions.parts, names)]
        partitions.compute(*written)


def _written(table: Any, name: Path, kind: str, release: Disclosed, fields: Fields) -> int:
    if len(table):
        with one_core, new_table(name) as write:
            batch: Batch = FUNCTIONS[kind](table, release, fields)
            write(batch)
    return len(np.atleast_1d(table[fields.task]))
