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

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#777777"  # safe for the colour-blind


def figures(found: Reproduction) -> dict[str, Callable[[], Figure]]:
    """By file name: how to draw each figure, in the article's order."""
    users = representative(found)
    return {
        "fig2-tags": lambda: tags(found),
        "fig3-grid": lambda: grid(found),
        "fig4-hits": lambda: histogram(found),
        "fig5-average": lambda: lists(found, [("average user", preference(found.listeners.average), found.average)]),
        "fig6-users": lambda: lists(
            found, [(f"user {u}", preference(found.listeners.tastes[u]), found.tastes[u]) for u in users]
        ),
    }


def representative(found: Reproduction) -> list[int]:
    """Two users at the median of hits, one in the lower and one in the upper half by number."""
    near = np.argsort(np.abs(found.hits - np.median(found.hits)), kind="stable")
    return [int(near[0]), int(near[len(near) // 4])]


def _figure(width: float, height: float, columns: int = 1, **options: Any) -> tuple[Figure, Any]:
    fig = Figure(figsize=(width, height), layout="constrained")
    axes = fig.subplots(1, columns, squeeze=False, **options)[0]
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    return fig, axes


def tags(found: Reproduction, artist: int = 0) -> Figure:
    """Figure 2: an artist's tags."""
    fig, (ax,) = _figure(6, 4.6)
    ax.barh(TAGS, found.catalogue.vectors[artist], color=BLUE)
    ax.invert_yaxis()
    ax.set(title=f"Tags of {found.catalogue.names[artist]}", xlabel="weight, normalised to unit length", xlim=(0, 1))
    return fig


def grid(found: Reproduction) -> Figure:
    """Figure 3: both scores over α and λ, with our optimum and the article's."""
    fig, axes = _figure(11, 4.4, 2)
    panels = ((found.scores.rmse, "RMSE of preferences", "viridis_r"), (found.scores.hits, "TOP20HITS", "viridis"))
    for ax, (values, title, colours) in zip(axes, panels):
        mesh = ax.pcolormesh(LAMS, ALPHAS, values, cmap=colours, shading="nearest")
        fig.colorbar(mesh, ax=ax)
        ax.plot(found.lam, found.alpha, "o", ms=11, mfc="none", mec=ORANGE, mew=2.5, label="our optimum")
        ax.plot(ARTICLE["lam"], ARTICLE["alpha"], "x", ms=9, color="black", mew=2, label="the article's")
        ax.set(xscale="log", xlabel="λ", ylabel="α", title=title)
        ax.legend(loc="upper left", framealpha=0.9)
    return fig


def histogram(found: Reproduction) -> Figure:
    """Figure 4: the distribution of hits20 over users."""
    fig, (ax,) = _figure(7, 3.6)
    counts = np.bincount(found.hits, minlength=21)
    ax.bar(np.arange(len(counts)), counts, color=BLUE)
    ax.axvline(found.hits.mean(), color=ORANGE, lw=2, label=f"mean {found.hits.mean():.2f}")
    ax.axvline(ARTICLE["top20hits"], color=GREY, lw=2, ls="--", label=f"the article's {ARTICLE['top20hits']:.2f}")
    ax.set(xlabel="hits20: artists of the true top 20 that were found", ylabel="users", xticks=range(0, 21, 2))
    ax.legend(frameon=False)
    return fig


def lists(found: Reproduction, people: list[tuple[str, Array, Array]]) -> Figure:
    """Figures 5 and 6: true and estimated top 20, side by side; hits are bold and dotted."""
    fig = Figure(figsize=(6.4 * len(people), 6.6), layout="constrained")
    for ax, (who, truth, estimate) in zip(fig.subplots(1, len(people), squeeze=False)[0], people):
        wanted, guessed = top(truth), top(estimate)
        both = set(wanted.tolist()) & set(guessed.tolist())
        ax.set_axis_off()
        ax.set(xlim=(0, 2), ylim=(len(wanted) + 0.5, -1.2), title=f"{who}: {len(both)} hits")
        for x, (title, chosen) in enumerate((("true top 20", wanted), ("estimated top 20", guessed))):
            ax.text(x + 0.06, -0.6, title, fontsize=11, color=GREY, va="center")
            for place, artist in enumerate(chosen):
                hit = int(artist) in both
                name = _shortened(found.catalogue.names[artist])
                if hit:
                    ax.plot(x + 0.03, place + 0.5, "o", ms=4, color=GREEN)
                weight = "bold" if hit else "normal"
                ax.text(x + 0.06, place + 0.5, f"{place + 1}. {name}", fontsize=10, weight=weight, va="center")
    return fig


def _shortened(name: str, most: int = 30) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def render(fig: Figure, form: str) -> bytes:
    """The figure as the bytes of a PNG or SVG file."""
    from io import BytesIO

    out = BytesIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "motet"}):
        fig.savefig(out, format=form, dpi=120, metadata={"Date": None} if form == "svg" else None)
    return out.getvalue()
