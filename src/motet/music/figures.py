"""The figures of the article's section 5, drawn from a reproduction. Needs the ``plots`` extra (matplotlib)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from motet.arrays import Array
from motet.music.reproduce import ALPHAS, ARTICLE, LAMS, Reproduction, preference, top
from motet.music.simulation import TAGS
from motet.plots.axes import BLUE, GREEN, GREY, MAX_LABEL_LETTERS, ORANGE
from motet.text import shortened


def figures(result: Reproduction) -> dict[str, Callable[[], Figure]]:
    """By file name: how to draw each figure, in the article's order."""
    users = representative(result)
    return {
        "fig2-tags": lambda: tags(result),
        "fig3-grid": lambda: grid(result),
        "fig4-hits": lambda: histogram(result),
        "fig5-average": lambda: lists(result, [("average user", preference(result.listeners.average), result.average)]),
        "fig6-users": lambda: lists(
            result, [(f"user {u}", preference(result.listeners.tastes[u]), result.tastes[u]) for u in users]
        ),
    }


def representative(result: Reproduction) -> list[int]:
    """Two users at the median of hits, one in the lower and one in the upper half by number."""
    near = np.argsort(np.abs(result.hits - np.median(result.hits)), kind="stable")
    return [int(near[0]), int(near[len(near) // 4])]


def _figure(width: float, height: float, columns: int = 1, **options: Any) -> tuple[Figure, Any]:
    fig = Figure(figsize=(width, height), layout="constrained")
    axes = fig.subplots(1, columns, squeeze=False, **options)[0]
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    return fig, axes


def tags(result: Reproduction) -> Figure:
    """Figure 2: the first artist's tags."""
    fig, (ax,) = _figure(6, 4.6)
    ax.barh(TAGS, result.catalogue.vectors[0], color=BLUE)
    ax.invert_yaxis()
    ax.set(title=f"Tags of {result.catalogue.names[0]}", xlabel="weight, normalised to unit length", xlim=(0, 1))
    return fig


def grid(result: Reproduction) -> Figure:
    """Figure 3: both scores over α and λ, with our optimum and the article's."""
    fig, axes = _figure(11, 4.4, 2)
    panels = ((result.scores.rmse, "RMSE of preferences", "viridis_r"), (result.scores.hits, "TOP20HITS", "viridis"))
    for ax, (values, title, colours) in zip(axes, panels):
        mesh = ax.pcolormesh(LAMS, ALPHAS, values, cmap=colours, shading="nearest")
        fig.colorbar(mesh, ax=ax)
        ax.plot(result.lam, result.alpha, "o", ms=11, mfc="none", mec=ORANGE, mew=2.5, label="our optimum")
        ax.plot(ARTICLE["lam"], ARTICLE["alpha"], "x", ms=9, color="black", mew=2, label="the article's")
        ax.set(xscale="log", xlabel="λ", ylabel="α", title=title)
        ax.legend(loc="upper left", framealpha=0.9)
    return fig


def histogram(result: Reproduction) -> Figure:
    """Figure 4: the distribution of hits20 over users."""
    fig, (ax,) = _figure(7, 3.6)
    counts = np.bincount(result.hits, minlength=21)
    ax.bar(np.arange(len(counts)), counts, color=BLUE)
    ax.axvline(result.hits.mean(), color=ORANGE, lw=2, label=f"mean {result.hits.mean():.2f}")
    ax.axvline(ARTICLE["top20hits"], color=GREY, lw=2, ls="--", label=f"the article's {ARTICLE['top20hits']:.2f}")
    ax.set(xlabel="hits20: artists of the true top 20 in the estimated one", ylabel="users", xticks=range(0, 21, 2))
    ax.legend(frameon=False)
    return fig


def lists(result: Reproduction, people: list[tuple[str, Array, Array]]) -> Figure:
    """Figures 5 and 6: true and estimated top 20, side by side; hits are bold and dotted."""
    fig = Figure(figsize=(6.4 * len(people), 6.6), layout="constrained")
    for ax, (who, truth, estimate) in zip(fig.subplots(1, len(people), squeeze=False)[0], people):
        true, estimated = top(truth), top(estimate)
        both = set(true.tolist()) & set(estimated.tolist())
        ax.set_axis_off()
        ax.set(xlim=(0, 2), ylim=(len(true) + 0.5, -1.2), title=f"{who}: {len(both)} hits")
        for x, (title, artists) in enumerate((("true top 20", true), ("estimated top 20", estimated))):
            ax.text(x + 0.06, -0.6, title, fontsize=11, color=GREY, va="center")
            for place, artist in enumerate(artists):
                hit = int(artist) in both
                name = shortened(result.catalogue.names[artist], MAX_LABEL_LETTERS)
                if hit:
                    ax.plot(x + 0.03, place + 0.5, "o", ms=4, color=GREEN)
                weight = "bold" if hit else "normal"
                ax.text(x + 0.06, place + 0.5, f"{place + 1}. {name}", fontsize=10, weight=weight, va="center")
    return fig


def render(fig: Figure, form: str) -> bytes:
    """The figure as the bytes of a PNG or SVG file."""
    from io import BytesIO

    out = BytesIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "motet"}):
        fig.savefig(out, format=form, dpi=120, metadata={"Date": None} if form == "svg" else None)
    return out.getvalue()
