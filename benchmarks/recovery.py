"""A server with a million examples that is started again: how long until it answers and until its first release.

On both databases, from the start of the process on; nothing is kept but the database.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

import psutil
from tests.postgres import binaries, cluster

from benchmarks.load import OPERATOR, free_port
from benchmarks.measure import Row, duration
from benchmarks.million import CLIENTS, EXAMPLES, STUDY, fill
from motet.store.pins import pin
from motet.store.store import Store
from motet.study.study import Study

READY_SECONDS, RELEASE_SECONDS = 2.0, 20.0  # goals
WAIT_SECONDS = 300.0
MORE_STARTS = 4


@dataclass(frozen=True)
class Recovery:
    """Seconds from the start to readiness and to the first release, and of them those of a core, which do not depend on
    what else the machine does; then megabytes of server and publisher, at most."""

    ready: float
    release: float
    ready_cpu: float
    release_cpu: float
    server: float
    publisher: float


def recovery() -> list[Row]:
    bin = binaries()
    if bin is None:
        raise RuntimeError("there is no PostgreSQL: install Debian's postgresql")
    rows = _rows("SQLite", _recovery(""))
    with cluster(bin) as postgres:
        rows += _rows("PostgreSQL", _recovery(postgres.url(postgres.create())))
    return rows


def _rows(database: str, took: Recovery) -> list[Row]:
    job = f"start with {CLIENTS * EXAMPLES:,} examples in {database}"
    ready = f"{took.ready_cpu:.1f} s of a core: the machine had other work if it took longer"
    memory = f"at most {took.server:.0f} MB in the server, {took.publisher:.0f} MB in the publisher"
    return [
        Row(
            f"{job}, to `/readyz`",
            duration(took.ready),
            "2 s, on any machine",
            took.ready / READY_SECONDS,
            1.0,
            note=ready,
        ),
        Row(
            f"{job}, to the first release",
            duration(took.release),
            "20 s, on any machine",
            took.release / RELEASE_SECONDS,
            1.0,
            note=f"{took.release_cpu:.1f} s of a core in the publisher; {memory}",
        ),
    ]


def _recovery(database: str) -> Recovery:
    with tempfile.TemporaryDirectory() as folder:
        path, port = Path(folder) / "study.toml", free_port()
        stored = f'[store]\nurl = "{database}"\n' if database else ""
        exact = STUDY.replace('policy = "private"', 'policy = "exact"').replace("epsilon = 3.0\nreleases = 10\n", "")
        path.write_text(f"{exact}{stored}[server]\nport = {port}\n", encoding="utf-8")
        study = Study.load(path)
        with closing(Store(study.store_url)) as store:
            pin(store, study, now=0.0)  # so that a release is due at the start
            fill(store, study, off_grid=True)
        return _started(path, f"http://127.0.0.1:{port}")


def _started(path: Path, url: str) -> Recovery:
    """Of several starts, readiness is the median; only the first has a release to make."""
    with _serving(path) as served:
        starts = [_ready(served, url)]
        release = _until(lambda: bool((_answer(f"{url}/v1/study") or {}).get("version"))) - served.begin
        (publisher,) = psutil.Process(served.pid).children()
        release_cpu, memory = _cpu_seconds(publisher.pid), (_peak(served.pid), _peak(publisher.pid))
    for _ in range(MORE_STARTS):
        with _serving(path) as served:
            starts.append(_ready(served, url))
    ready, ready_cpu = map(median, zip(*starts))
    return Recovery(ready, release, ready_cpu, release_cpu, *memory)


class Started(NamedTuple):
    begin: float
    pid: int


@contextmanager
def _serving(path: Path) -> Iterator[Started]:
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = {"MOTET_OPERATOR_TOKEN": OPERATOR, "OPENBLAS_NUM_THREADS": "1"}
    command, begin = [sys.executable, "-m", "motet", "serve", str(path)], time.perf_counter()
    served = subprocess.Popen(command, env=psutil.Process().environ() | environment, **quiet)  # type: ignore[call-overload]
    try:
        yield Started(begin, served.pid)
    finally:
        served.terminate()
        served.wait(30)


def _ready(served: Started, url: str) -> tuple[float, float]:
    """Seconds until it answers, and of them those of a core."""
    return _until(lambda: _answer(f"{url}/readyz") is not None) - served.begin, _cpu_seconds(served.pid)


def _until(condition: Callable[[], bool]) -> float:
    """The moment at which it is true."""
    deadline = time.perf_counter() + WAIT_SECONDS
    while not condition():
        if time.perf_counter() > deadline:
            raise TimeoutError(f"not within {WAIT_SECONDS:g} s")
        time.sleep(0.02)
    return time.perf_counter()


def _answer(address: str) -> dict[str, object] | None:
    try:
        with urlopen(address, timeout=30) as response:
            return dict(json.load(response))
    except (URLError, OSError):
        return None


def _cpu_seconds(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def _peak(pid: int) -> float:
    return int(Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0]) / 2**10
