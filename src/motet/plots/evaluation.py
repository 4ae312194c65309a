"""One picture of an evaluation: observed over predicted, errors beside those of baselines, and how bands are kept."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

import numpy as np

from motet.arrays import Array
from motet.plots.axes import BLUE, GREY, ORANGE, finished

STYLES = (BLUE, "o"), (ORANGE, "^")  # of each kind of clients
MAX_DRAWN_POINTS = 1500  # drawn of each kind of clients


def evaluation_figure(
    predictions: Mapping[str, tuple[Array, Array, Array]], errors: Mapping[str, Mapping[str, float]], *, title: str
) -> Any:
    """A figure of one or two kinds of clients: ``predictions`` has outputs, means and standard deviations of each, and
    ``errors`` the errors of each by who predicts, the one that is evaluated first."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4.4), layout="constrained")
    scatter, compare, calibrate = figure.subplots(1, 3)
    figure.suptitle(title, fontsize="medium", color=GREY)
    _observed(scatter, predictions)
    _errors(compare, errors)
    promised(calibrate, max(len(y) for y, *_ in predictions.values()))
    for (label, (y, mean, std)), (colour, marker) in zip(predictions.items(), STYLES):
        inside(calibrate, y, mean, std, label=label, colour=colour, marker=marker)
    finished(calibrate, xlabel="level of the band", ylabel="share of observations inside", title="Calibration")
    return figure


def _observed(ax: Any, predictions: Mapping[str, tuple[Array, Array, Array]]) -> None:
    """Points of each kind of clients, on the same scale in both directions."""
    for (label, (y, mean, _)), (colour, marker) in zip(predictions.items(), STYLES):
        shown = np.linspace(0, len(y) - 1, min(len(y), MAX_DRAWN_POINTS)).astype(int)
        part = label if len(shown) == len(y) else f"{label}, {len(shown):,} of {len(y):,}"
        ax.plot(mean[shown], y[shown], marker, color=colour, alpha=0.45, ms=3, mew=0)
        ax.plot([], [], marker, color=colour, ms=5, label=part)  # for the legend, where such points would fade
    both = np.concatenate([np.concatenate([y, mean]) for y, mean, _ in predictions.values()])
    margin = 0.03 * np.ptp(both)
    ends = float(both.min() - margin), float(both.max() + margin)
    ax.plot(ends, ends, "--", color=GREY, lw=1, label="observed = predicted")
    ax.set(xlim=ends, ylim=ends, aspect="equal")
    finished(ax, xlabel="predicted", ylabel="observed", title="Rows that nobody learned from")


def _errors(ax: Any, errors: Mapping[str, Mapping[str, float]]) -> None:
    """A row for each who predicts, the one that is evaluated on top."""
    names = list(next(iter(errors.values())))
    lines = [name.replace(" + ", "\n+ ") for name in names]
    for (label, by_name), (colour, marker) in zip(errors.items(), STYLES):
        ax.plot(list(by_name.values()), lines, marker, color=colour, ms=7, label=label)
        ax.axvline(by_name[names[0]], color=colour, lw=1, ls=":")
    ax.invert_yaxis()
    ax.margins(y=0.15)
    ax.grid(axis="y", alpha=0.3)
    finished(ax, legend=False, xlabel="error (root mean square): left is better", title="Against baselines")


def promised(ax: Any, rows: int) -> None:
    """The diagonal of bands that hold what they promise, and how far so many independent rows stray from it."""
    levels = np.linspace(0.0, 1.0, 21)
    margin = 1.96 * np.sqrt(levels * (1 - levels) / rows)
    ax.plot(levels, levels, "--", color=GREY, label="as promised")
    low, high = np.clip(levels - margin, 0, 1), np.clip(levels + margin, 0, 1)
    ax.fill_between(levels, low, high, color=GREY, alpha=0.2, lw=0, label="95 % of independent rows")
    ax.set_aspect("equal")


def inside(ax: Any, y: Array, mean: Array, std: Array, *, label: str, colour: str = BLUE, marker: str = "o") -> None:
    """The share of outputs inside their bands, over the level of the bands."""
    normal = NormalDist()
    needed = np.array([2 * normal.cdf(z) - 1 for z in np.abs(y - mean) / std])  # the band that just holds each output
    levels = np.linspace(0.0, 1.0, 21)
    shares = np.array([np.mean(needed <= level) for level in levels])
    ax.plot(levels, shares, f"{marker}-", color=colour, ms=4, label=label)
