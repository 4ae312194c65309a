"""Pictures of a fitted regressor on matplotlib's axes. Needs the ``plots`` extra.

Pictures of an ``evaluation``, a ``forecast`` and a table of ``predictions`` have files of their own; ``axes`` is what
all share. Every function draws on ``ax``, or on axes of its own, and returns them, so that titles, units and limits
are yours to set. Colours are Okabe and Ito's, which the colour-blind tell apart. Curves have one column of the inputs
as their abscissa: ``column`` chooses it by number or name, and the others stay at their means.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from itertools import cycle
from statistics import NormalDist
from typing import Any

import numpy as np

from motet.arrays import Array
from motet.errors import EmptyData, InvalidData, UnknownTask, WrongDimension
from motet.plots.axes import BLUE, COLOURS, GREY, MARKERS, ORANGE, POINTS, finished, new_axes
from motet.plots.evaluation import inside, promised
from motet.regression.profiles import INTERVAL_DROP
from motet.regression.regressor import MixedEffectRegressor
from motet.regression.scales import Distribution
from motet.tables.missing import missing_column

MAX_TASKS = 6  # drawn if none are named
ONE_DEVIATION = NormalDist().cdf(1.0)


def average(
    reg: MixedEffectRegressor, X: Any = None, *, column: int | str | None = None, band: float = 0.9, ax: Any = None
) -> Any:
    """The average function with its band, over all rows learned."""
    ax, (at, X, label) = new_axes(ax), _abscissa(reg, X, column)
    _, rows, y, _ = reg.results_.rows
    ax.plot(rows[:, at], reg.results_.scale.outputs(y), ".", color=GREY, alpha=0.4, ms=4, label="rows")
    _curve(ax, X[:, at], _average(reg, X), band, BLUE, "average")
    return finished(ax, xlabel=label, ylabel="output")


def individuals(
    reg: MixedEffectRegressor,
    tasks: Sequence[Hashable] | None = None,
    X: Any = None,
    *,
    column: int | str | None = None,
    band: float = 0.9,
    ax: Any = None,
) -> Any:
    """Functions of single tasks with their bands, over their own rows; by default of the first six."""
    ax, (at, X, label) = new_axes(ax), _abscissa(reg, X, column)
    chosen = list(reg.tasks_[:MAX_TASKS] if tasks is None else tasks)
    for task, colour, marker in zip(chosen, cycle(COLOURS), cycle(MARKERS)):
        if task not in reg.tasks_:
            first = ", ".join(map(repr, reg.tasks_[:MAX_TASKS]))
            raise UnknownTask(f"no rows of task {task!r} were learned; the first tasks are {first}")
        moments = partial(reg.engine_.predict_many, [task] * len(X), X, True)
        function = reg.results_.scale.predicted(moments, observation=False)
        _curve(ax, X[:, at], function, band, colour, str(task), labelled_band=False)
        rows, y, _ = reg.engine_.examples(task)
        ax.plot(rows[:, at], reg.results_.scale.outputs(y), marker, color=colour, ms=5)
    ax.plot(X[:, at], _average(reg, X).mean, "--", color=GREY, label="average")
    return finished(ax, xlabel=label, ylabel="output")


def shrinkage(reg: MixedEffectRegressor, *, ax: Any = None) -> Any:
    """How far each task is from the average: by its own rows alone, and as estimated, which is nearer to 0.

    On the diagonal nothing is borrowed from other tasks, on the horizontal everything.
    """
    ax = new_axes(ax)
    results = reg.results_
    number, X, y, _ = results.rows
    _, task, counts = np.unique(number, return_inverse=True, return_counts=True)
    estimates = reg.engine_.predict_many(results.task_labels, X)
    mean = reg.disclosed_.average(X)
    alone, shrunk = (np.bincount(task, values - mean) / counts for values in (y, estimates))
    reach = float(np.abs(alone).max())
    ax.plot([-reach, reach], [-reach, reach], "--", color=GREY, label="no shrinkage")
    ax.axhline(0.0, color=GREY, lw=1, ls=":", label="pooled")
    sizes = 20 + 60 * counts / counts.max()
    ax.scatter(alone, shrunk, s=sizes, color=BLUE, alpha=0.7, lw=0, label="a task, larger with more rows")
    distance = results.scale.titled("mean distance of its rows from the average")
    return finished(ax, xlabel=distance, ylabel=results.scale.titled("mean shift, estimated"))


def evidence_profile(profile: Any, *, name: str | None = None, ax: Any = None) -> Any:
    """The log evidence below its maximum over the values of a setting.

    ``profile`` has ``values`` and ``log_evidence``, or is a pair of them. The dotted line is 1.92 below: it cuts off
    a 95 % interval.
    """
    pair = profile if isinstance(profile, (tuple, list)) else (profile.values, profile.log_evidence)
    values, evidence = (np.asarray(part, float) for part in pair)
    if values.shape != evidence.shape or values.ndim != 1 or not len(values):
        raise WrongDimension(f"expected as many values as log evidences, got shapes {values.shape}, {evidence.shape}")
    ax = new_axes(ax)
    order = np.argsort(values)
    values, drop = values[order], evidence[order] - np.nanmax(evidence)
    ax.plot(values, drop, "o-", color=BLUE, ms=4, label="log evidence")
    best = int(np.nanargmax(drop))
    ax.plot(values[best], drop[best], "o", color=ORANGE, ms=8, label=f"best: {values[best]:.3g}")
    ax.axhline(-INTERVAL_DROP, color=GREY, lw=1, ls=":", label="95 % interval")
    if (values > 0).all() and values[-1] > 100 * values[0]:
        ax.set_xscale("log")
    label = name or getattr(profile, "name", None) or "value"
    return finished(ax, xlabel=str(label), ylabel="log evidence − maximum (nats)")


def residuals(reg: MixedEffectRegressor, *, ax: Any = None) -> Any:
    """What is left of every row, in standard deviations of the noise, over its fitted value."""
    ax = new_axes(ax)
    rows = reg.diagnostics()
    ax.axhline(0.0, color=GREY, lw=1)
    for level in (-1.96, 1.96):
        ax.axhline(level, color=GREY, lw=1, ls=":", label="95 % if normal" if level > 0 else None)
    ax.plot(rows["individual"], rows["standardised"], ".", color=BLUE, alpha=0.6, label="a row")
    return finished(
        ax, xlabel=reg.results_.scale.titled("fitted value"), ylabel="residual (standard deviations of the noise)"
    )


def calibration(reg: MixedEffectRegressor, X: Any, y: Any, task: Any = None, *, ax: Any = None) -> Any:
    """How many outputs lie in their bands, over how many should; rows that were not learned tell most."""
    y = np.asarray(y, float)
    if y.ndim != 1 or not len(y):
        raise EmptyData(f"expected an output for every row, got shape {y.shape}")
    ax = new_axes(ax)
    median, above = reg.results_.scale.learned(reg.predict_quantiles(X, task, (0.5, ONE_DEVIATION))).T
    promised(ax, len(y))
    inside(ax, reg.results_.scale.learned(y), median, above - median, label=f"{len(y)} rows")
    return finished(ax, xlabel="level of the band", ylabel="share of outputs inside")


# --- axes ---


def _curve(
    ax: Any, x: Array, function: Distribution, band: float, colour: str, label: str, *, labelled_band: bool = True
) -> None:
    if not 0 < band < 1:
        raise InvalidData(f"band must lie between 0 and 1, got {band!r:.20}; 0.9 holds 90 %")
    low, high = (function.quantile(0.5 + end * band / 2) for end in (-1, 1))
    name = f"{100 * band:g} % band" if labelled_band else None
    ax.fill_between(x, low, high, color=colour, alpha=0.2, lw=0, label=name)
    ax.plot(x, function.mean, color=colour, label=label)


def _average(reg: MixedEffectRegressor, X: Array) -> Distribution:
    moments = partial(reg.disclosed_.average, X, True)
    return reg.results_.scale.predicted(moments, observation=False)


def _abscissa(reg: MixedEffectRegressor, X: Any, column: int | str | None) -> tuple[int, Array, str]:
    """The column that a curve runs along, the inputs of the curve in its order, and the column's name."""
    rows = reg.results_.rows[1]
    names = reg.encoding_.names or [str(name) for name in getattr(reg, "feature_names_in_", [])]
    count = rows.shape[1]
    if column is None and count > 1:
        columns = ", ".join(names) if names else f"0 to {count - 1}"
        raise InvalidData(f"inputs have {count} columns: choose the one to draw along with column= ({columns})")
    if isinstance(column, str) and column not in names:
        raise missing_column(None, column, names or map(str, range(count)), "column")
    at = names.index(column) if isinstance(column, str) else int(column or 0)
    if not 0 <= at < count:
        raise InvalidData(f"column must be 0 to {count - 1}, got {column}")
    if X is None:
        X = np.tile(rows.mean(axis=0), (POINTS, 1))
        X[:, at] = np.linspace(rows[:, at].min(), rows[:, at].max(), POINTS)
    else:
        X = reg.engine_.model.rows(X[:, None] if np.ndim(X) == 1 and count == 1 else X, count)
        X = X[np.argsort(X[:, at], kind="stable")]
    return at, X, names[at] if names else "input" if count == 1 else f"column {at}"


__all__ = ["average", "calibration", "evidence_profile", "individuals", "residuals", "shrinkage"]
