"""Other engines: what docs/scale.md shows under Spark and under Ray Data runs, and gives the fit in memory."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from motet import Disclosed, Engine, Model
from motet.kernels import RBF, DotProduct
from motet.scale.partitions import Sums, Trend
from motet.tables.roles import Roles
from motet.tables.rows import Rows
from tests.pages import ROOT, blocks

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
PATIENCE = 240.0  # seconds that an engine may take
FILES = 4
MARKS = {"pyspark": "spark.read", "ray": "ray.data"}  # an engine's block of the page has it
STARTS = {
    "pyspark": """\
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", False).getOrCreate()
""",
    "ray": """\
import ray as engine

engine.init(num_cpus=2, include_dashboard=False, object_store_memory=100 * 2**20)
""",
}
SCRIPT = """\
from tests.test_engines import check, given

sums = given()[1]
{start}
{block}
check(release)
"""
LOCAL = {  # both stay on this machine, and keep to themselves
    "SPARK_LOCAL_IP": "127.0.0.1",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # on Linux too, Ray is then on 127.0.0.1 alone
    "RAY_USAGE_STATS_ENABLED": "0",
    "PYSPARK_PYTHON": sys.executable,
    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
}


def is_installed(engine: str) -> bool:
    return importlib.util.find_spec(engine) is not None and (engine != "pyspark" or shutil.which("java") is not None)


def given() -> tuple[dict[str, Any], Sums]:
    """Shuffled rows of twelve tasks, and what to sum: of eight parts, some have many tasks and others none."""
    rng = np.random.default_rng(0)
    task, hours = rng.permutation(np.repeat(np.arange(12), 50)), rng.integers(24, size=600).astype(float)
    rating = 3.0 + np.sin(hours / 4.0) + rng.normal(size=12)[task] + 0.3 * rng.normal(size=600)
    rows = {"user": 4 * task, "hours": hours, "rating": rating}
    model, roles = Model(RBF(4.0), DotProduct(1.0), 0.5, 0.1), Roles("user", "rating", ("hours",))
    return rows, Sums(model, roles, Trend.of(Rows.of_table(rows, roles), model))


def check(release: Disclosed) -> None:
    """It is that of the rows in memory."""
    rows, sums = given()
    engine = Engine(sums.model)
    engine.learn_many(rows["user"], rows["hours"][:, None], rows["rating"])
    expected, at = engine.disclose(), [[0.0], [6.5], [12.0], [23.0]]
    np.testing.assert_allclose(release.average(at), expected.average(at), rtol=1e-9)
    assert release.sigma2 == pytest.approx(expected.sigma2, rel=1e-9)


@pytest.fixture
def folder() -> Iterator[Path]:
    """With the rows of each task in all files; Ray has sockets below, whose paths must be short."""
    with tempfile.TemporaryDirectory(prefix="motet-", dir="/tmp", ignore_cleanup_errors=True) as name:
        ratings, table = Path(name) / "ratings", pa.table(given()[0])
        ratings.mkdir()
        for k in range(FILES):
            pq.write_table(table.slice(k * len(table) // FILES, len(table) // FILES), ratings / f"{k}.parquet")
        yield Path(name)


@pytest.mark.slow
@pytest.mark.parametrize("engine", [engine for engine in MARKS if is_installed(engine)])
def test_the_page_runs_and_is_the_fit_in_memory(engine: str, folder: Path) -> None:
    """Ray comes with what the tests need, where it has wheels; Spark, half a gigabyte, is tested where it is."""
    text = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    (block,) = (block.body for block in blocks(text) if block.language == "py" and MARKS[engine] in block.body)
    script = folder / "script.py"
    script.write_text(SCRIPT.format(start=STARTS[engine], block=block), encoding="utf-8")
    own = {name: str(folder) for name in ("HOME", "RAY_TMPDIR", "TMPDIR")}  # what a killed engine leaves is there
    own["JAVA_TOOL_OPTIONS"] = f"-Djava.io.tmpdir={folder}"
    code, printed = run([sys.executable, str(script)], folder, {**os.environ, **LOCAL, **own})
    assert code == 0, printed


def run(command: list[str], folder: Path, environment: dict[str, str]) -> tuple[int | None, str]:
    """Exit code, None if it took too long, and what was printed. Whatever it started has ended then."""
    printed = folder / "printed"
    with printed.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)
        code = process.returncode
    finally:
        end(process)
    return code, printed.read_text(encoding="utf-8", errors="replace")


def end(process: subprocess.Popen[bytes]) -> None:
    """The whole session: Ray's workers have process groups of their own."""
    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) == process.pid:
                os.kill(pid, signal.SIGKILL)
    process.wait()
