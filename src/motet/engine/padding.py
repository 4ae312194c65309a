"""Tasks padded to few sizes, by rows that tell nothing: all of one size are inverted at once, and a stack of tasks
costs time of its own, however few they are.

A row that is added repeats the task's first one, with so much noise that its R is 0 to rounding. Its share of log |V|,
the logarithm of that noise, leaves the evidence again with ``log_noise``, as those of folded repeats do.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from motet.arrays import Array, Index
from motet.model.tasks import MIN_LOW_RANK_ROWS, FoldedTasks

ABSENT = 1e100  # the noise of a row that tells nothing
MAX_NOISE = 1e50  # of the others, above which nothing is padded
NUMBERS_PER_STACK = 6_000  # of blocks, whose evaluation takes as long as a stack more does


def padded(tasks: FoldedTasks) -> FoldedTasks:
    """The same tasks to every model, in few sizes; long ones stay as they are."""
    sizes = np.diff(tasks.start)
    size = _sizes(np.bincount(sizes, minlength=1))[sizes]
    if np.array_equal(size, sizes) or tasks.noise.max() > MAX_NOISE:
        return tasks
    start = np.concatenate([[0], np.cumsum(size)])
    place = np.repeat(start[:-1] - tasks.start[:-1], sizes) + np.arange(len(tasks.y))

    def longer(values: Array) -> Array:
        rows = np.repeat(values[tasks.start[:-1]], size)
        rows[place] = values
        return rows

    noise = np.full(start[-1], ABSENT)
    noise[place] = tasks.noise
    log_noise = tasks.log_noise - (size - sizes) * np.log(ABSENT)
    return replace(tasks, start=start, input=longer(tasks.input), y=longer(tasks.y), noise=noise, log_noise=log_noise)


def _sizes(tasks: Index) -> Index:
    """The size to which tasks of every size are padded, from the number of tasks of each size.

    The cheapest division into runs of sizes, each padded to its largest, by dynamic programming.
    """
    out = np.arange(len(tasks))
    used = np.flatnonzero(tasks[:MIN_LOW_RANK_ROWS])
    total = np.concatenate([[0], np.cumsum(tasks[used])])
    cost, first = np.zeros(len(used) + 1), np.zeros(len(used) + 1, dtype=np.intp)
    for k in range(1, len(used) + 1):  # the run that ends with the k-th size
        costs = cost[:k] + NUMBERS_PER_STACK + (total[k] - total[:k]) * used[k - 1] ** 2
        first[k] = int(np.argmin(costs))
        cost[k] = costs[first[k]]
    end = len(used)
    while end:
        out[used[first[end] : end]] = used[end - 1]
        end = first[end]
    return out
