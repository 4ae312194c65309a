"""The figure of the docs: the share kept over ε and over rank, and how often bands contain the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

from experiments.tables import AVERAGE, BAND, PASSIVE, SETTINGS, WITHOUT_NOISE, Measured, mean_and_error

mpl.use("Agg")
import matplotlib.pyplot as plt

FIGURE = Path(__file__).parents[1] / "docs" / "img" / "privacy.png"
COLOURS = "#009E73", "#D55E00", "#0072B2"  # safe for the colour-blind
GREY = "#777777"
RANK, EPSILON = 80, 1.0


def draw(values: Measured) -> None:
    fig, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    _shares(axes[0], values, 1, f"rank {RANK}")
    axes[0].set(xlabel="ε", ylabel="share of the gain of sharing kept, %")
    axes[0].plot([3, 1], [95, 91], "_", ms=16, mew=2, color=GREY, label="goals at 3,000", zorder=3)
    _shares(axes[1], values, 3, f"ε = {EPSILON:g}")
    axes[1].set(xlabel="rank of the basis")
    axes[1].sharey(axes[0])
    axes[0].legend(frameon=False, loc="lower right")
    _bands(axes[2], values)
    fig.savefig(FIGURE, dpi=110)


def _shares(ax: Any, values: Measured, along: int, title: str) -> None:
    """A line for each number of listeners, over ε (1) or over rank (3)."""
    other, fixed = {1: (3, RANK), 3: (1, EPSILON)}[along]
    keys = sorted(key for key in values if key[0] == "grid" and key[other] == fixed)
    for colour, users in zip(COLOURS, sorted({key[2] for key in keys})):
        line = [key for key in keys if key[2] == users]
        points = [mean_and_error(values[key]) for key in line]
        y, error = ([100 * p[k] for p in points] for k in (0, 1))
        x = [key[along] for key in line]
        ax.errorbar(x, y, error, fmt="o-", ms=4, capsize=2, color=colour, label=f"{users:,} listeners")
    ticks = sorted({key[along] for key in keys})
    ax.set_xscale("log")
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.xaxis.minorticks_off()
    ax.set_title(title, fontsize=10)


def _bands(ax: Any, values: Measured) -> None:
    """Coverage of new listeners' tastes and of the average, for both settings."""
    names = [WITHOUT_NOISE, "ε = 3", "ε = 1"]
    ax.axhspan(100 * BAND[0], 100 * BAND[1], color="#eeeeee", lw=0)
    ax.axhline(90, color=GREY, lw=1, ls=":")
    for (k, setting), style in zip(enumerate(SETTINGS), ("o", "s")):
        for who, colour, shift in ((PASSIVE, COLOURS[1], -0.08), (AVERAGE, COLOURS[2], 0.08)):
            points = [mean_and_error(values["bands", setting, name, who]) for name in names]
            y, error = ([100 * p[j] for p in points] for j in (0, 1))
            at = [place + 2 * shift + (k - 0.5) * 0.12 for place in range(3)]
            fill = colour if k else "none"
            label = f"{who}, {'the simulation’s' if k else 'the article’s'} α"
            ax.errorbar(at, y, error, fmt=style, ms=5, capsize=2, color=colour, mfc=fill, label=label)
    ax.set_xticks(range(3), names)
    ax.set(ylim=(70, 100), ylabel="truth inside 90 % bands, %", xlabel="release")
    ax.set_title("bands; the goal is shaded", fontsize=10)
    ax.legend(frameon=False, fontsize=7, loc="lower left")
