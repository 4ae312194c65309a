"""What all pictures have in common: colours, axes of their own, and how they look at the end."""

from __future__ import annotations

from typing import Any

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#777777"


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
    ax.set(**labels)
    ax.spines[["top", "right"]].set_visible(False)
    if legend:
        ax.legend(frameon=False, fontsize="small")
    return ax
