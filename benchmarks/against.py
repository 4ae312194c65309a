"""A fit with settings by evidence, beside that of another version: how much faster, and whether it is the same.

``python -m benchmarks.against TREE [--seed N]``: TREE has ``src/motet`` of another version. Two processes take turns;
the median processor time of each counts, with one BLAS thread. The structure is given, the fullest that defaults may
have: an average that is smooth beside a linear bias, shifts of correlated intercept and slope and a smooth part.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

TASKS, ROWS_EACH, TURNS = 20, 10, 15


def fitted(seed: int) -> dict[str, Any]:
    """The time of one fit, its numbers, and a digest of its predictions."""
    from motet import MixedEffectRegressor
    from motet.kernels import RBF, ConstantKernel, Linear, Scaled

    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(TASKS), ROWS_EACH)
    X = rng.uniform(0.0, 10.0, size=(len(task), 1))
    y = np.sin(X[:, 0]) + (rng.normal(size=(TASKS, 2))[task] @ [1.0, 0.0]) + 0.3 * rng.normal(size=len(task))
    units = {"center": [float(X.mean())], "scale": [float(X.std())]}
    shift = Scaled(Linear([[1.0, 0.0], [0.0, 1.0]]), **units) + ConstantKernel(1.0) * Scaled(RBF(1.0), **units)
    reg = MixedEffectRegressor(Scaled(RBF(1.0), **units), shift, bias="linear")
    began = time.process_time()
    reg.fit(X, y, task=task)
    seconds = time.process_time() - began
    mean, std = reg.predict(X, task=task, return_std=True)
    model, digest = reg.engine_.model, hashlib.sha256(mean.tobytes() + std.tobytes()).hexdigest()
    numbers = [model.alpha, model.lam, reg.sigma2_, reg.log_evidence_]
    return {"seconds": seconds, "numbers": [repr(float(number)) for number in numbers], "predictions": digest[:16]}


def turns(seed: int) -> None:
    """A fit for each line that is read."""
    warnings.simplefilter("ignore")
    for _ in sys.stdin:
        print(json.dumps(fitted(seed)), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tree", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--turns", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.turns:
        turns(given.seed)
        return
    here = Path(__file__).resolve()
    sources = {"other": given.tree.resolve() / "src", "this": here.parents[1] / "src"}
    command = [sys.executable, str(here), str(given.tree), "--seed", str(given.seed), "--turns"]
    limited = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    programs = {
        name: subprocess.Popen(
            command, env=limited | {"PYTHONPATH": str(path)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for name, path in sources.items()
    }
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in programs}
    for _ in range(1 + TURNS):
        for name, program in programs.items():
            assert program.stdin is not None
            assert program.stdout is not None
            program.stdin.write("\n")
            program.stdin.flush()
            results[name].append(json.loads(program.stdout.readline()))
    for program in programs.values():
        program.communicate()
    medians = {name: statistics.median(one["seconds"] for one in fits[1:]) for name, fits in results.items()}
    for name, fits in results.items():
        print(f"{name:6} {1000 * medians[name]:6.0f} ms  {' '.join(fits[-1]['numbers'])}  {fits[-1]['predictions']}")
    same = all(results["other"][-1][key] == results["this"][-1][key] for key in ("numbers", "predictions"))
    print(f"{medians['other'] / medians['this']:.2f} times as fast, with {'the same' if same else 'other'} numbers")


if __name__ == "__main__":
    main()
