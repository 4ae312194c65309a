"""Tables that are larger than memory: streamed from Parquet, with landmarks, and on two Dask workers.

``python -m benchmarks.partitions make|fit|floor|engine …`` is one measurement in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.oracles import Array

from benchmarks.measure import Row, duration, own_peak
from motet import Engine, Landmarks, Model
from motet.kernels import RBF, DotProduct
from motet.learning.defaults import landmarks
from motet.learning.table_fit import TableFit, fit_table

EXAMPLES, INPUTS, COLUMNS = 10, 2000, ("a", "b", "c")
ROWS_PER_GROUP = 1_000_000
SWEEP = (10_000, 100_000, 1_000_000)  # tasks
HUGE = 10_000_000
COMMON, INDIVIDUAL, ALPHA, LAM = RBF(1.0), DotProduct(1.0), 0.5, 0.1
LONG, LONG_TASKS = 100, 10_000  # rows of a task, and tasks, where compute dominates


# --- tables ---


def rows(rng: np.random.Generator, Z: Array | None, first: int, tasks: int, examples: int) -> dict[str, Array]:
    """Rows of consecutive tasks, on the inputs Z, or each on an input of its own."""
    task = np.repeat(np.arange(first, first + tasks), examples)
    X = rng.normal(size=(len(task), len(COLUMNS))) if Z is None else Z[rng.integers(len(Z), size=len(task))]
    slope = 0.3 * rng.normal(size=(tasks, X.shape[1]))[task - first]
    y = 5.0 + np.sin(X).sum(axis=1) + (slope * X).sum(axis=1) + 0.1 * rng.normal(size=len(task))
    return {"user": task, **dict(zip(COLUMNS, X.T)), "rating": y}


def make(path: Path, tasks: int, *, examples: int = EXAMPLES, distinct: bool = False, shuffle: bool = False) -> None:
    rng = np.random.default_rng(0)
    Z = None if distinct else rng.normal(size=(INPUTS, len(COLUMNS)))
    step, writer = max(1, ROWS_PER_GROUP // examples), None
    for first in range(0, tasks, step):
        table = pa.table(rows(rng, Z, first, min(step, tasks - first), examples))
        if shuffle:
            table = table.take(rng.permutation(len(table)))
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=len(table) // (8 if shuffle else 1))
    assert writer is not None
    writer.close()


def model(distinct: bool = False, count: int = 300) -> Model:
    if not distinct:
        return Model(COMMON, INDIVIDUAL, ALPHA, LAM)
    Z = np.random.default_rng(1).normal(size=(5_000, len(COLUMNS)))
    return Model(RBF(2.0), INDIVIDUAL, ALPHA, LAM, basis=Landmarks(landmarks(Z, count)))


# --- one measurement ---


def fit(path: Path, *, distinct: bool = False, dask: str | None = None, rows: int | None = None) -> TableFit:
    settings: dict[str, Any] = {"model": model(distinct), "dask": dask, "partition_rows": rows}
    return fit_table(path, task="user", target="rating", inputs=COLUMNS, **settings)


def floor(path: Path) -> None:
    """Reading the file, and the inverses of as many matrices."""
    file = pq.ParquetFile(path)
    tasks = sum(len(batch) for batch in file.iter_batches(2**18)) // EXAMPLES
    V = np.random.default_rng(2).normal(size=(10_000, EXAMPLES, EXAMPLES))
    V = V @ V.swapaxes(1, 2) + np.eye(EXAMPLES)
    for _ in range(tasks // len(V)):
        np.linalg.inv(V)


def engine(path: Path) -> Engine:
    """The fit in memory."""
    table = pq.read_table(path)
    held = Engine(model())
    X = np.column_stack([table[column].to_numpy() for column in COLUMNS])
    held.learn_many(table["user"].to_numpy(), X, table["rating"].to_numpy())
    held.disclose()
    return held


def one(job: str, path: Path, *options: str) -> dict[str, float]:
    """Seconds and peak megabytes of a process that does one job, with one BLAS thread."""
    command = [sys.executable, "-m", "benchmarks.partitions", job, str(path), *options]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=3600, env=environment)
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return told


# --- rows of the table ---


def partitions() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="motet-bench-") as folder:
        return [*_streamed(Path(folder)), *_landmarks(Path(folder)), *_dask(Path(folder))]


def _streamed(folder: Path) -> list[Row]:
    files = {tasks: folder / f"{tasks}.parquet" for tasks in SWEEP}
    for tasks, path in files.items():
        one("make", path, f"--tasks={tasks}")
    fits = {tasks: one("fit", path) for tasks, path in files.items()}
    below = one("floor", files[SWEEP[-1]])
    seconds = [fits[tasks]["seconds"] for tasks in SWEEP]
    slope = float(np.polyfit(np.log(SWEEP), np.log(seconds), 1)[0])
    largest = fits[SWEEP[-1]]
    job = "fit from Parquet, 1,000,000 tasks × 10 on 2,000 inputs"
    times = ", ".join(f"{tasks:,} tasks {duration(s)}" for tasks, s in zip(SWEEP, seconds))
    return [
        Row(job, duration(largest["seconds"]), "reading and the inverses", largest["seconds"] / below["seconds"], 3.0),
        Row("the same, peak memory", f"{largest['megabytes']:.0f} MB", "4 GB", largest["megabytes"] / 4000, 1.0),
        Row("the same, growth with tasks", f"slope {slope:.2f}", "1 (linear)", slope, 1.1, note=times),
        *_equal(folder, files[SWEEP[1]]),
    ]


def _equal(folder: Path, path: Path) -> list[Row]:
    """Against the fit in memory, rows in order and shuffled; in units of 1e-9 of the average's scale."""
    shuffled = folder / "shuffled.parquet"
    one("make", shuffled, f"--tasks={SWEEP[1]}", "--shuffle")
    rows = []
    for name, file in (("in order", path), ("shuffled", shuffled)):
        worst = one("compare", file, "--rows=150000")["difference"]
        job = f"the average of 100,000 tasks × 10, rows {name}"
        rows.append(Row(job, f"{worst:.1g} of its scale", "1e-9 off the fit in memory", worst / 1e-9, 1.0))
    return rows


def huge() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="motet-bench-") as folder:
        path = Path(folder) / "huge.parquet"
        one("make", path, f"--tasks={HUGE}")
        done = one("fit", path)
    job = "fit from Parquet, 100,000,000 rows of 10,000,000 tasks, peak memory"
    note = f"it takes {duration(done['seconds'])}"
    return [Row(job, f"{done['megabytes']:.0f} MB", "4 GB", done["megabytes"] / 4000, 1.0, note=note)]


def _landmarks(folder: Path) -> list[Row]:
    path = folder / "distinct.parquet"
    one("make", path, "--tasks=100000", "--distinct")
    done = one("fit", path, "--distinct")
    subset = folder / "subset.parquet"
    one("make", subset, "--tasks=200", "--distinct")
    error = one("bound", subset, "--distinct")
    job = "fit, 1,000,000 distinct inputs of 100,000 tasks, 300 landmarks"
    return [
        Row(f"{job}, peak memory", f"{done['megabytes']:.0f} MB", "3 GB", done["megabytes"] / 3000, 1.0,
            note=f"it takes {duration(done['seconds'])}"),
        Row("predictions with these landmarks, 200 tasks × 10", f"off by {error['difference']:.2g}",
            "the standard deviation that landmarks miss", error["difference"] / error["bound"], 1.0),
    ]  # fmt: skip


def _dask(folder: Path) -> list[Row]:
    path = folder / "long.parquet"
    one("make", path, f"--tasks={LONG_TASKS}", f"--examples={LONG}", "--shuffle")
    alone = one("local", path, "--workers=1")
    both = one("local", path, "--workers=2")
    job, against = f"fit on two Dask workers, {LONG_TASKS:,} tasks × {LONG}", "one worker (times faster)"
    ratio = alone["seconds"] / both["seconds"]
    return [Row(job, duration(both["seconds"]), against, ratio, 1.5, at_most=False)]


# --- in a process of its own ---


def _local(path: Path, workers: int) -> float:
    """Seconds of a fit on a cluster that is there already."""
    from distributed import Client, LocalCluster

    settings = {"threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    with LocalCluster(n_workers=workers, **settings) as cluster, Client(cluster) as client:
        client.run(_import)
        begin = time.perf_counter()
        fit_table(path, task="user", target="rating", inputs=COLUMNS, dask=client, partition_rows=50_000,
                  model=Model(COMMON, RBF(1.0), ALPHA, LAM))  # fmt: skip
        return time.perf_counter() - begin


def _import() -> None:
    import motet.learning.cluster  # noqa: F401


def _compare(path: Path, rows: int) -> float:
    streamed, held = fit(path, rows=rows).release, engine(path).disclose()
    X = held.inputs
    mean = held.average(X)
    return float(np.abs(streamed.average(X) - mean).max() / np.abs(mean).max())


def _bound(path: Path) -> dict[str, float]:
    """The largest difference that landmarks make to predictions, and the reported bound."""
    table = pq.read_table(path)
    X = np.column_stack([table[column].to_numpy() for column in COLUMNS])
    task, y = table["user"].to_numpy(), table["rating"].to_numpy()
    few = fit(path, distinct=True)
    exact, fixed = Engine(Model(RBF(2.0), INDIVIDUAL, ALPHA, LAM)), Engine(model(distinct=True))
    for held in (exact, fixed):
        held.learn_many(task, X, y)
    difference = np.abs(exact.predict_many(task, X) - fixed.predict_many(task, X)).max()
    return {"difference": float(difference), "bound": few.missed.std}


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.partitions")
    parser.add_argument("job", choices=["make", "fit", "floor", "compare", "bound", "local"])
    parser.add_argument("path", type=Path)
    for option, default in (("tasks", 0), ("examples", EXAMPLES), ("rows", 0), ("workers", 1)):
        parser.add_argument(f"--{option}", type=int, default=default)
    parser.add_argument("--distinct", action="store_true")
    parser.add_argument("--shuffle", action="store_true")
    chosen = parser.parse_args()
    told: dict[str, float] = {}
    begin = time.perf_counter()
    if chosen.job == "make":
        options = {"examples": chosen.examples, "distinct": chosen.distinct, "shuffle": chosen.shuffle}
        make(chosen.path, chosen.tasks, **options)
    elif chosen.job == "fit":
        fit(chosen.path, distinct=chosen.distinct)
    elif chosen.job == "floor":
        floor(chosen.path)
    elif chosen.job == "compare":
        told["difference"] = _compare(chosen.path, chosen.rows)
    elif chosen.job == "bound":
        told |= _bound(chosen.path)
    seconds = _local(chosen.path, chosen.workers) if chosen.job == "local" else time.perf_counter() - begin
    print(json.dumps({"seconds": seconds, "megabytes": own_peak(), **told}))


if __name__ == "__main__":
    main()
