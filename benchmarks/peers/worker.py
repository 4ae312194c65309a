"""One snippet in a process of its own: ``python worker.py SNIPPETS FUNCTION FOLDER``.

It runs in the environments of the peers, so it uses numpy and nothing of ours. The folder has the arguments in
``data.npz``; ``predicted.npy`` and ``measured.json`` are written beside it. Imports and reading are not in the time.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

MAX_RUNS, ENOUGH_SECONDS = 4, 2.0


def load(snippets: Path, name: str) -> Callable[..., Any]:
    spec = importlib.util.spec_from_file_location("snippets", snippets)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[..., Any] = getattr(module, name)
    return function


def import_all(snippets: Path, name: str) -> None:
    """Everything that the function imports, so that the clock sees none of it."""
    tree = ast.parse(snippets.read_text(encoding="utf-8"))
    (function,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
    for node in ast.walk(function):
        if isinstance(node, ast.Import):
            for alias in node.names:
                importlib.import_module(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module:
            module = importlib.import_module(node.module)
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")


def processor_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def own_peak() -> float:
    """In megabytes. Linux tells it of this program alone; elsewhere it may count the one that started it."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def main() -> None:
    snippets, name, folder = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    import_all(snippets, name)
    function = load(snippets, name)
    with np.load(folder / "data.npz", allow_pickle=False) as arrays:
        given = dict(arrays)
    times: list[float] = []
    while not times or (len(times) < MAX_RUNS and sum(times) < ENOUGH_SECONDS):
        begin = processor_seconds()
        predicted = function(**given)
        times.append(processor_seconds() - begin)
    np.save(folder / "predicted.npy", np.asarray(predicted, dtype=float), allow_pickle=False)
    measured = {"seconds": float(np.median(times[1:] or times)), "megabytes": own_peak()}  # the first run warms up
    (folder / "measured.json").write_text(json.dumps(measured), encoding="utf-8")


if __name__ == "__main__":
    main()
