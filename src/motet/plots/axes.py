"""What all pictures have in common: colours, axes of their own, and how they look at the end."""

from __future__ import annotations

from typing import Any

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#777777"
COLOURS = BLUE, ORANGE, GREEN, "#CC79A7", "#E69F00", "#56B4E9", "#000000"
MARKERS = "os^Dv<>"
POINTS = 200  # of a curve
MAX_LABEL_LETTERS = 30


def new_axes(ax: Any) -> Any:
    """The given axes, or new ones."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"plots need {error.name}: pip install 'motet[plots]'", name=error.name) from None
    return plt.subplots(layout="constrained")[1]


def finished(ax: Any, *, legend: bool = True, **labels: str) -> Any:
    """The same axes with their labels, without a box, and with a legend of what has a label."""
    ax.set(**labels)
    ax.spines[["top", "right"]].set_visible(False)
    if legend and ax.get_legend_handles_labels()[1]:
        ax.legend(frameon=False, fontsize="small")
    return ax
