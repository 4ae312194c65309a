"""Sufficient statistics of a linear model: a task of any length as p + 1 pseudo-examples (QR of [1 X y]).

If average and shift are linear in the inputs, a task of any length enters every formula through the products of its
columns 1, x and y alone. With W^-½[1 X y] = QT, Q orthogonal and T triangular, the rows of T have the same products.
Turned so that all begin with the same number they are p + 1 ordinary examples, and one row has nothing but an output:
its square joins those of repeats. So ``condensed`` is ``fold`` once more, for rows that repeat each other but linearly.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy as np

from motet.arrays import NUMBERS_PER_PART, Array, Index
from motet.kernels.gram import linear_form
from motet.linalg import triangle
from motet.model.model import Model
from motet.model.tasks import FoldedTasks
from motet.threads import on_all_cores

Examples: TypeAlias = tuple[Array, Array, Array, Array]  # X (m, p + 1, p), y and noise (m, p + 1); rest of squares (m,)


def is_linear(model: Model, p: int) -> bool:
    """Whether both kernels are linear, on inputs of ``p`` columns."""
    return all(kernel is None or linear_form(kernel, p) is not None for kernel in (model.common, model.individual))


def condensed(tasks: FoldedTasks, X: Array) -> tuple[FoldedTasks, Array]:
    """Tasks of at most p + 1 pseudo-examples each, sufficient for every linear model, and the inputs of these."""
    sizes, most = np.diff(tasks.start), X.shape[1] + 1
    start = np.concatenate([[0], np.cumsum(np.minimum(sizes, most))])
    inputs, y, noise = np.empty((start[-1], X.shape[1])), np.empty(start[-1]), np.empty(start[-1])
    squares, log_noise = tasks.squares.copy(), tasks.log_noise.copy()
    for size in np.unique(sizes):
        which = np.flatnonzero(sizes == size)

        def work(part: slice, which: Index = which, size: int = size) -> None:
            chosen = which[part]
            rows = tasks.start[chosen, None] + np.arange(size)
            to = start[chosen, None] + np.arange(min(size, most))
            weight = tasks.noise[rows]
            table = X.take(tasks.input[rows], axis=0)
            if size <= most:
                inputs[to], y[to], noise[to] = table, tasks.y[rows], weight
                return
            inputs[to], y[to], noise[to], rest = _examples(table, tasks.y[rows], weight)
            squares[chosen] += rest
            log_noise[chosen] += np.log(weight).sum(axis=1) - np.log(noise[to]).sum(axis=1)

        on_all_cores(work, len(which), NUMBERS_PER_PART // (size * (X.shape[1] + 2)))
    short = replace(tasks, start=start, input=np.arange(start[-1]), y=y, noise=noise)
    return replace(short, squares=squares, log_noise=log_noise), inputs


def _examples(X: Array, y: Array, noise: Array) -> Examples:
    """Of a stack of tasks of more than p + 1 rows: X (m, ℓ, p), y and noise (m, ℓ)."""
    columns = np.concatenate([np.ones((*y.shape, 1)), X, y[..., None]], axis=-1)
    center = np.full((1, y.shape[1]), 1.0 / y.shape[1]) @ columns  # the mean, faster
    center[..., 0] = 0.0
    columns -= center
    columns *= (1.0 / np.sqrt(noise))[..., None]
    return from_factor(triangle(columns), center)


def from_factor(T: Array, center: Array) -> Examples:
    """From triangles T (m, p + 2, p + 2) with TᵀT = the products of columns 1, x and y less ``center`` (m, 1, p + 2).

    The reflection that takes the first unit vector to one of equal numbers gives every row the same weight.
    """
    k = T.shape[-1] - 1
    axis = -np.full(k, k**-0.5)
    axis[0] += 1.0
    rows = T[:, :k] - (2.0 * axis / max(float(axis @ axis), 1e-300))[:, None] * (axis @ T[:, :k])[:, None, :]
    rows = rows / rows[..., :1]
    examples = rows[..., 1:] + center[..., 1:]
    noise = np.repeat(k / T[:, :1, 0] ** 2, k, axis=1)
    return examples[..., :-1], examples[..., -1], noise, T[:, k, k] ** 2
