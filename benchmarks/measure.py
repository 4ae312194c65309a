"""How things are timed: floor and ours in turn, so that both see the same machine, and medians of several."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Row:
    """One line of the table: what it takes, as a time or a size, its ratio to something else, and the ratio's goal."""

    job: str
    takes: str
    against: str
    ratio: float
    goal: float
    at_most: bool = True
    note: str = ""

    @property
    def met(self) -> bool:
        return self.ratio <= self.goal if self.at_most else self.ratio >= self.goal


def seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def medians(one: Callable[[], object], other: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Median times of both, taken in turn after one run of each that does not count."""
    one(), other()
    pairs = [(seconds(one), seconds(other)) for _ in range(repeats)]
    first, second = np.median(pairs, axis=0)
    return float(first), float(second)


def timed(ours: Callable[[], object], floor: Callable[[], object], repeats: int) -> tuple[str, float]:
    """What ours takes, and its ratio to the floor."""
    above, below = medians(ours, floor, repeats)
    return duration(above), above / below


def duration(seconds: float) -> str:
    """Two digits and a unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size or unit == "µs":
            return f"{float(f'{seconds / size:.2g}'):g} {unit}"
    raise AssertionError


def peak_megabytes(job: str) -> float:
    """Peak memory of a process that does one job of ``benchmarks.jobs`` and nothing else."""
    code = f"from benchmarks import jobs, measure; jobs.{job}(); print(measure.own_peak())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=900)
    return float(done.stdout.split()[-1])


def own_peak() -> float:
    """In megabytes. Linux tells it of this program alone; elsewhere it may count the one that started it."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def machine(threads: int) -> str:
    """What was measured on what."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    packages = ", ".join(
        f"{name} {version(name)}" for name in ("motet", "numpy", "scipy", "scikit-learn", "statsmodels")
    )
    return f"{os.cpu_count()} cores ({model}), Python {platform.python_version()}, {packages}; BLAS threads: {threads}."
