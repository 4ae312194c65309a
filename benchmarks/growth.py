"""How the cost of a fit grows with tasks, examples and inputs: a log-log figure with fitted slopes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np

from benchmarks.jobs import fit, study
from benchmarks.measure import seconds

mpl.use("Agg")
import matplotlib.pyplot as plt

FIGURE = Path(__file__).parents[1] / "docs" / "img" / "growth.png"
SWEEPS: dict[str, tuple[str, Sequence[int]]] = {
    "tasks": ("× 5 examples on 489 inputs", (1_000, 3_000, 10_000, 30_000, 100_000, 300_000)),
    "examples a task": ("× 3,000 tasks on 489 inputs", (2, 4, 8, 16, 32, 64)),
    "inputs": ("with 3,000 tasks × 5 examples", (125, 250, 500, 1_000, 2_000, 4_000)),
}


def cost(sweep: str, size: int) -> float:
    tasks, rows, n = {"tasks": (size, 5, 489), "examples a task": (3_000, size, 489), "inputs": (3_000, 5, size)}[sweep]
    data = study(tasks, rows, n)
    fit(*data)
    return float(np.median([seconds(lambda: fit(*data)) for _ in range(3)]))


def slopes(sizes: Sequence[int], costs: Sequence[float]) -> tuple[float, float]:
    """The fitted slope over all sizes, and over the three largest."""
    x, y = np.log(sizes), np.log(costs)
    return float(np.polyfit(x, y, 1)[0]), float(np.polyfit(x[-3:], y[-3:], 1)[0])


def draw() -> list[str]:
    """Measure, draw, and tell the slopes in a line each."""
    fig, axes = plt.subplots(1, 3, figsize=(10, 3.4), sharey=True, layout="constrained")
    told = []
    for ax, (sweep, (rest, sizes)) in zip(axes, SWEEPS.items()):
        costs = [cost(sweep, size) for size in sizes]
        overall, last = slopes(sizes, costs)
        told.append(f"{sweep} ({rest}): slope {overall:.2f}, {last:.2f} over the three largest")
        ax.loglog(sizes, costs, "o-", color="#0072B2")
        guide = costs[-1] * (np.array(sizes[-3:]) / sizes[-1]) ** last
        ax.loglog(sizes[-3:], guide, "--", color="#D55E00", label=f"slope {last:.2f}")
        ax.set(xlabel=sweep, title=rest)
        ax.title.set_fontsize(10)
        ax.set_xticks(sizes, [f"{size // 1000}k" if size >= 1000 else str(size) for size in sizes])
        ax.xaxis.minorticks_off()
        ax.legend(frameon=False, loc="upper left")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("seconds of one fit")
    fig.savefig(FIGURE, dpi=110)
    return told
