"""One peer on one data set, in a process with limits of time and memory; a failure is an outcome with its reason."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from benchmarks.peers.environments import OWN, ROOT, R, find
from motet.arrays import Array

HERE = Path(__file__).parent
SNIPPETS = HERE / "snippets"
PATIENCE = 5  # wall clock over processor time, on a machine that does other things as well
POLL_SECONDS = 0.1
REASON_LENGTH = 160
VARIABLES = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
VARIABLES |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}  # nothing is reported to anybody


@dataclass(frozen=True)
class Limits:
    seconds: float = 180.0  # of the processor, for all processes of a peer, with imports and reading
    megabytes: float = 8000.0
    patience: float = PATIENCE


@dataclass(frozen=True, eq=False)
class Outcome:
    """Processor time, peak memory and predictions; or the reason why there are none."""

    seconds: float = 0.0
    all_seconds: float = 0.0  # of all processes, with imports and reading
    megabytes: float = 0.0
    predicted: Array | None = None
    reason: str = ""


def run(snippets: str, function: str, environment: str, data: Mapping[str, Array], limits: Limits) -> Outcome:
    """``data`` are the arguments of the function, those of new rows ending in ``_new``."""
    where = find(environment)
    if where.reason:
        return Outcome(reason=where.reason)
    with tempfile.TemporaryDirectory(prefix="motet-peers-") as name:
        folder = Path(name)
        if environment == R:
            _write_csv(folder, data)
            command = [where.program, str(HERE / "worker.R"), str(SNIPPETS / f"{snippets}.R")]
        else:
            np.savez(folder / "data.npz", **data)  # type: ignore[arg-type]
            command = [where.program, "-P", str(HERE / "worker.py"), str(SNIPPETS / f"{snippets}.py")]
        reason, seconds, megabytes = watch([*command, function, str(folder)], folder, environment, limits)
        return Outcome(reason=reason) if reason else _read(folder, seconds, megabytes)


def _write_csv(folder: Path, data: Mapping[str, Array]) -> None:
    for file, is_new in (("train.csv", False), ("new.csv", True)):
        columns = {
            name.removesuffix("_new"): values for name, values in data.items() if name.endswith("_new") == is_new
        }
        rows = np.column_stack(list(columns.values()))
        np.savetxt(folder / file, rows, fmt="%.17g", delimiter=",", header=",".join(columns), comments="")


def _read(folder: Path, seconds: float, megabytes: float) -> Outcome:
    measured = json.loads((folder / "measured.json").read_text(encoding="utf-8"))
    binary = folder / "predicted.npy"
    predicted = (
        np.load(binary, allow_pickle=False) if binary.exists() else np.loadtxt(folder / "predicted.csv", ndmin=1)
    )
    return Outcome(measured["seconds"], seconds, max(measured["megabytes"], megabytes), predicted)


def watch(command: list[str], folder: Path, environment: str, limits: Limits) -> tuple[str, float, float]:
    """Why a process was ended or failed, or nothing; processor time and peak memory of it and its children together."""
    variables = os.environ | VARIABLES
    if environment != OWN:
        variables.pop("PYTHONPATH", None)  # ours is not theirs
    begin, peak, seen, used = time.monotonic(), 0.0, list[psutil.Process](), dict[int, float]()
    with (folder / "output").open("wb") as output:
        settings = {"stdout": output, "stderr": subprocess.STDOUT, "cwd": folder if environment != OWN else ROOT}
        process = subprocess.Popen(command, env=variables, start_new_session=True, **settings)  # type: ignore[call-overload]
        reason = ""
        while process.poll() is None and not reason:
            seen = _family(process.pid) or seen
            peak = max(peak, megabytes := _usage(seen, used))
            if megabytes > limits.megabytes:
                reason = f"more than {limits.megabytes:,.0f} MB"
            elif sum(used.values()) > limits.seconds or time.monotonic() - begin > limits.patience * limits.seconds:
                reason = f"more than {limits.seconds:g} s"
            time.sleep(POLL_SECONDS)
        _end(process, seen)
    if not reason and process.returncode:
        reason = _last_line(folder / "output") or f"ended with code {process.returncode}"
    return reason, sum(used.values()), peak


def _family(pid: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []


def _usage(processes: list[psutil.Process], used: dict[int, float]) -> float:
    """Megabytes in all; the processor time of each is written to ``used``, where it stays after the process ended."""
    megabytes = 0.0
    for process in processes:
        with suppress(psutil.Error):
            times = process.cpu_times()
            used[process.pid] = times.user + times.system
            megabytes += process.memory_info().rss / 2**20
    return megabytes


def _end(process: subprocess.Popen[bytes], seen: list[psutil.Process]) -> None:
    """The peer and whatever it started."""
    for child in seen[1:]:
        with suppress(psutil.Error):
            child.kill()
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _last_line(output: Path) -> str:
    lines = [line.strip() for line in output.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1].replace("|", "/")[:REASON_LENGTH] if lines else ""
