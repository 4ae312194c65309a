"""What a method predicts for a table and a seed, or why it does not.

It is kept in a folder by a digest of the data and of the method's code, so that a later run does what changed alone.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from benchmarks.peers.environments import find
from benchmarks.peers.run import Limits, watch

from experiments.defaults.methods import HERE, Method
from experiments.defaults.protocol import Split, split
from experiments.defaults.rows import Rows
from experiments.defaults.tables import Table
from motet.arrays import Array

PATIENCE = 40.0  # wall clock over processor time, on a machine that does much else
MEGABYTES = 8000.0


@dataclass(frozen=True, eq=False)
class Outcome:
    """Means, ends of 90 % bands and log densities of each cell; seconds of tuning; or the reason why there are none."""

    cells: dict[int, dict[str, Array]] = field(default_factory=dict)
    seconds: float = 0.0
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Trial:
    """A table and a seed, and everybody's outcome."""

    rows: Rows
    counted: Array  # of the rows, whether they count in errors
    split: Split
    outcomes: dict[str, Outcome]


def trial(
    table: Table, seed: int, methods: tuple[Method, ...], cache: Path, begin: Callable[[str], object] = print
) -> Trial:
    rows, counted = table.draw(seed)
    parts = split(rows.task, seed)
    outcomes = {}
    for method in methods:
        begin(f"{table.name}, seed {seed}: {method.name}")
        outcomes[method.name] = _outcome(rows, parts, method, cache / table.name.replace(" ", "-"))
    return Trial(rows, counted, parts, outcomes)


def _outcome(rows: Rows, parts: Split, method: Method, folder: Path) -> Outcome:
    data = {"X": rows.X, "y": rows.y, "task": rows.task, "levels": rows.levels}
    data |= {"train": parts.train, "known": parts.known, "new": parts.new}
    data |= {f"own {count}": which for count, which in parts.own.items()}
    key = hashlib.sha256(repr((method.version, method.seconds)).encode())
    for one in data.values():
        key.update(np.ascontiguousarray(one).tobytes())
    path = folder / f"{method.name.replace(' ', '-')}-{key.hexdigest()[:16]}.npz"
    if not path.exists():
        where = find(method.environment)
        if where.reason:
            return Outcome(reason=where.reason)
        folder.mkdir(parents=True, exist_ok=True)
        _run(data, method, where.program, path)
    with np.load(path, allow_pickle=False) as arrays:
        return _read(dict(arrays))


def _run(data: dict[str, Array], method: Method, program: str, path: Path) -> None:
    """Whatever comes of it is written at once, so that a run which is ended leaves nothing half done."""
    with tempfile.TemporaryDirectory(prefix="motet-defaults-") as name:
        folder = Path(name)
        np.savez(folder / "data.npz", **data)  # type: ignore[arg-type]
        command = [program, "-P", str(HERE / f"{method.script}.py"), method.module, method.learner, str(folder)]
        limits = Limits(method.seconds, MEGABYTES, PATIENCE)
        reason, _, _ = watch(command, folder, method.environment, limits)
        predicted, unfinished = folder / "predicted.npz", path.with_suffix(".part.npz")
        if reason or not predicted.exists():
            np.savez(unfinished, reason=np.array(reason or "nothing was written"))
        else:
            unfinished.write_bytes(predicted.read_bytes())
        unfinished.replace(path)


def _read(arrays: dict[str, Array]) -> Outcome:
    if "reason" in arrays:
        return Outcome(reason=str(arrays["reason"]))
    cells: dict[int, dict[str, Array]] = {}
    for key, values in arrays.items():
        if " " in key:
            cell, name = key.split(" ")
            cells.setdefault(int(cell), {})[name] = values
    if not all(np.isfinite(values).all() for cell in cells.values() for values in cell.values()):
        return Outcome(reason="predictions that are not finite")
    return Outcome(cells, float(arrays["seconds"]))
