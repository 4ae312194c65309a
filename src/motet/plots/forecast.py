"""One picture of a forecast: the error of a client's function over the number of clients, for some ε."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from motet.plots.axes import BLUE, GREEN, GREY, ORANGE, finished

EPSILON_STYLES = ((ORANGE, "o", ":"), (BLUE, "s", "-"), (GREEN, "^", "--"))  # small, the study's, large


def forecast_figure(
    curves: Mapping[float | None, Sequence[tuple[int, float]]], *, alone: float, clients: int | None, title: str
) -> Any:
    """``curves`` are numbers of clients and errors by ε, None without noise; ``alone`` is a client's error alone."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.6), layout="constrained")
    ax = figure.subplots()
    private = [epsilon for epsilon in curves if epsilon is not None]
    for epsilon, (colour, marker, line) in zip(private, EPSILON_STYLES):
        x, errors = zip(*curves[epsilon])
        ax.plot(x, errors, marker + line, color=colour, ms=5, label=f"ε = {epsilon:g}")
    x, errors = zip(*curves[None])
    ax.plot(x, errors, "-", color="black", lw=1.2, label="without noise")
    ax.axhline(alone, color=GREY, lw=1.2, ls="--", label="each client alone")
    if clients is not None:
        ax.axvline(clients, color=GREY, lw=1, ls=":", label=f"{clients:,} clients")
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    return finished(ax, xlabel="clients", ylabel="error of a client's function (root mean square)", title=title).figure
