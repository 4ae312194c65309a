"""One method on one split in a process of its own: ``python worker.py MODULE CLASS FOLDER``.

It also runs in the environments of peers, so it uses numpy and nothing of the package. The folder has the rows and the
split in ``data.npz``; means, 90 % bands and log densities of every cell are written to ``predicted.npz`` beside it.
"""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from experiments.defaults.inner import Gaussian, Learner
from experiments.defaults.protocol import KNOWN
from experiments.defaults.rows import Rows

if TYPE_CHECKING:
    from motet.arrays import Array

BAND = 1.6448536269514722  # half of a 90 % band, in standard deviations


def scores(predicted: Gaussian, y: Array) -> dict[str, Array]:
    """Means and bands, and the log density of what was observed."""
    half, z = BAND * predicted.std, (y - predicted.mean) / predicted.std
    log_density = -0.5 * np.log(2 * np.pi * predicted.std**2) - 0.5 * z**2
    return {"mean": predicted.mean, "low": predicted.mean - half, "high": predicted.mean + half, "log": log_density}


def main() -> None:
    module, name, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    with np.load(folder / "data.npz", allow_pickle=False) as arrays:
        data = dict(arrays)
    rows = Rows(*(data[key] for key in ("X", "y", "task", "levels")))
    own = {int(key.removeprefix("own ")): which for key, which in data.items() if key.startswith("own ")}
    learner: Learner = getattr(importlib.import_module(f"experiments.defaults.{module}"), name)()
    begin = time.process_time()
    learner.tune(rows.take(data["train"]), sorted(own))
    written = {"seconds": np.array(time.process_time() - begin)}
    for cell in (KNOWN, *own):
        new = rows.take(data["known" if cell == KNOWN else "new"])
        brought = rows.take(own[cell]) if cell > 0 else None
        hidden = Rows(new.X, np.full(len(new), np.nan), new.task, new.levels)
        written |= {f"{cell} {key}": one for key, one in scores(learner.predict(cell, brought, hidden), new.y).items()}
    np.savez(folder / "predicted.npz", **written)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
