"""Tables that are larger than memory: streamed from Parquet, with landmarks, and on two Dask workers.

``python -m benchmarks.partitions make|fit|floor|engine …`` is one measurement in a process of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, repeat
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from tests.oracles import Array

from benchmarks.measure import Row, duration, own_peak
from motet import Engine, Landmarks, Model
from motet.kernels import RBF, DotProduct
from motet.scale.fit import TableFit, fit_table
from motet.tuning.defaults import landmarks

EXAMPLES, INPUTS, COLUMNS = 10, 2000, ("a", "b", "c")
ROWS_PER_GROUP = 1_000_000
REPEATS = 3
SWEEP = (10_000, 100_000, 1_000_000)  # tasks
HUGE = 10_000_000
COMMON, INDIVIDUAL, ALPHA, LAM = RBF(1.0), DotProduct(1.0), 0.5, 0.1
LONG, LONG_TASKS = 400, 2_500  # rows of a task, and tasks, where compute dominates


# --- tables ---


def rows(rng: np.random.Generator, Z: Array | None, first: int, tasks: int, examples: int) -> dict[str, Array]:
    """Rows of consecutive tasks, on the inputs Z, or each on an input of its own."""
    task = np.repeat(np.arange(first, first + tasks), examples)
    X = rng.normal(size=(len(task), len(COLUMNS))) if Z is None else Z[rng.integers(len(Z), size=len(task))]
    slope = 0.3 * rng.normal(size=(tasks, X.shape[1]))[task - first]
    y = 5.0 + np.sin(X).sum(axis=1) + (slope * X).sum(axis=1) + 0.1 * rng.normal(size=len(task))
    return {"user": task, **dict(zip(COLUMNS, X.T)), "rating": y}


def make(path: Path, tasks: int, *, examples: int = EXAMPLES, distinct: bool = False, shuffle: bool = False) -> None:
    """A file; its rows in the order of tasks, or in any order, which is made in memory."""
    rng = np.random.default_rng(0)
    Z = None if distinct else rng.normal(size=(INPUTS, len(COLUMNS)))
    step = max(1, ROWS_PER_GROUP // examples)
    tables = (pa.table(rows(rng, Z, first, min(step, tasks - first), examples)) for first in range(0, tasks, step))
    if shuffle:
        table = pa.concat_tables(tables)
        pq.write_table(table.take(rng.permutation(len(table))), path, row_group_size=len(table) // 8)
        return
    first_table = next(tables)
    with pq.ParquetWriter(path, first_table.schema) as writer:
        for table in chain([first_table], tables):
            writer.write_table(table, row_group_size=len(table))


def model(distinct: bool = False, count: int = 300) -> Model:
    if not distinct:
        return Model(COMMON, INDIVIDUAL, ALPHA, LAM)
    Z = np.random.default_rng(1).normal(size=(5_000, len(COLUMNS)))
    return Model(RBF(2.0), INDIVIDUAL, ALPHA, LAM, basis=Landmarks(landmarks(Z, count)))


# --- one measurement ---


def fit(path: Path, *, distinct: bool = False) -> TableFit:
    return fit_table(path, task="user", target="rating", inputs=COLUMNS, model=model(distinct))


def floor(path: Path) -> None:
    """Reading the file, and the inverses of as many matrices on all cores."""
    file = pq.ParquetFile(path)
    tasks = sum(len(batch) for batch in file.iter_batches(2**18)) // EXAMPLES
    V = np.random.default_rng(2).normal(size=(10_000, EXAMPLES, EXAMPLES))
    V = V @ V.swapaxes(1, 2) + np.eye(EXAMPLES)
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        deque(threads.map(np.linalg.inv, repeat(V, tasks // len(V))), maxlen=0)


def engine(path: Path) -> Engine:
    """The fit in memory."""
    table = pq.read_table(path)
    held = Engine(model())
    X = np.column_stack([table[column].to_numpy() for column in COLUMNS])
    held.learn_many(table["user"].to_numpy(), X, table["rating"].to_numpy())
    held.disclose()
    return held


def one(job: str, path: Path, *options: str) -> dict[str, float]:
    """Seconds of a program that does one job with one BLAS thread, and peak megabytes of it and all it started."""
    command = [sys.executable, "-m", "benchmarks.partitions", job, str(path), *options]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with tempfile.TemporaryFile("w+") as out, subprocess.Popen(command, stdout=out, env=environment) as program:
        peak = tree_peak(program)
        out.seek(0)
        told: dict[str, float] = json.loads(out.read().splitlines()[-1])
    return told | {"megabytes": max(peak, told["megabytes"])}


def tree_peak(program: subprocess.Popen[bytes]) -> float:
    """The most megabytes that a program and those that it started had at once, looked at every tenth of a second."""
    tree, peak = psutil.Process(program.pid), 0.0
    while program.poll() is None:
        with contextlib.suppress(psutil.NoSuchProcess):
            peak = max(peak, sum(one.memory_info().rss for one in [tree, *tree.children(recursive=True)]) / 2**20)
        time.sleep(0.1)
    if program.returncode:
        raise subprocess.CalledProcessError(program.returncode, program.args)
    return peak


# --- rows of the table ---


def partitions() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="motet-bench-") as folder:
        return [*_streamed(Path(folder)), *_landmarks(Path(folder)), *_dask(Path(folder))]


def _streamed(folder: Path) -> list[Row]:
    files = {tasks: folder / f"{tasks}.parquet" for tasks in SWEEP}
    for tasks, path in files.items():
        one("make", path, f"--tasks={tasks}")
    largest = files[SWEEP[-1]]
    runs = [({tasks: one("fit", path) for tasks, path in files.items()}, one("floor", largest)) for _ in range(REPEATS)]
    seconds = {tasks: float(np.median([fits[tasks]["seconds"] for fits, _ in runs])) for tasks in SWEEP}
    floor_seconds = float(np.median([below["seconds"] for _, below in runs]))
    megabytes = max(fits[SWEEP[-1]]["megabytes"] for fits, _ in runs)
    slope = float(np.max(np.diff(np.log(list(seconds.values()))) / np.diff(np.log(SWEEP))))
    job = "fit from Parquet, 1,000,000 tasks × 10 on 2,000 inputs"
    against = "reading, and the inverses on all cores"
    times = ", ".join(f"{tasks:,} tasks {duration(s)}" for tasks, s in seconds.items())
    return [
        Row(job, duration(seconds[SWEEP[-1]]), against, seconds[SWEEP[-1]] / floor_seconds, 3.0),
        Row("the same, peak memory", f"{megabytes:.0f} MB", "4 GB", megabytes / 4000, 1.0),
        Row("the same, steepest growth with tasks", f"slope {slope:.2f}", "1 (linear)", slope, 1.1, note=times),
        *_equal(folder, largest),
    ]


def _equal(folder: Path, path: Path) -> list[Row]:
    """Against the fit in memory, rows in order and shuffled; in units of 1e-9 of scale."""
    shuffled = folder / "shuffled.parquet"
    one("make", shuffled, f"--tasks={SWEEP[-1]}", "--shuffle")
    rows = []
    for name, file in (("in order", path), ("shuffled", shuffled)):
        worst = one("compare", file)["difference"]
        job = f"the same, average, σ² and evidence, rows {name}"
        rows.append(Row(job, f"{worst:.1g} of their scale", "1e-9 off the fit in memory", worst / 1e-9, 1.0))
    done = one("fit", shuffled)
    job, note = "the same, rows shuffled, peak memory", f"it takes {duration(done['seconds'])}"
    return [*rows, Row(job, f"{done['megabytes']:.0f} MB", "4 GB", done["megabytes"] / 4000, 1.0, note=note)]


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

    settings = {"threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1", "silence_logs": logging.ERROR}
    with LocalCluster(n_workers=workers, **settings) as cluster, Client(cluster) as client:
        client.run(_import)
        begin = time.perf_counter()
        fit_table(path, task="user", target="rating", inputs=COLUMNS, dask=client, partition_rows=50_000,
                  model=Model(COMMON, RBF(1.0), ALPHA, LAM))  # fmt: skip
        return time.perf_counter() - begin


def _import() -> None:
    import motet.scale.cluster  # noqa: F401


def _compare(path: Path) -> float:
    """The largest difference between a fit in memory and one of the file, as a share of what differs."""
    table, held = fit(path), engine(path)
    release = held.disclose()
    assert release.sigma2 is not None
    assert table.release.sigma2 is not None
    average, evidence = release.average(release.inputs), held.evidence().log_evidence
    return max(
        float(np.abs(table.release.average(release.inputs) - average).max() / np.abs(average).max()),
        abs(table.release.sigma2 / release.sigma2 - 1.0),
        abs(table.evidence.log_evidence / evidence - 1.0),
    )


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
    return {"difference": float(difference), "bound": few.residual.std}


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.partitions")
    parser.add_argument("job", choices=["make", "fit", "floor", "compare", "bound", "local"])
    parser.add_argument("path", type=Path)
    for option, default in (("tasks", 0), ("examples", EXAMPLES), ("workers", 1)):
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
        told["difference"] = _compare(chosen.path)
    elif chosen.job == "bound":
        told |= _bound(chosen.path)
    seconds = _local(chosen.path, chosen.workers) if chosen.job == "local" else time.perf_counter() - begin
    print(json.dumps({"seconds": seconds, "megabytes": own_peak(), **told}))


if __name__ == "__main__":
    main()
