"""Pictures of a table of predictions: curves along one input, the best items of a catalogue, or row by row.

``motet predict --plot`` writes one. Bands and bars hold 90 %. A figure is made without a window, for PNG, SVG or PDF.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from motet.arrays import Array
from motet.client.predictions import Predictions, Query, predict
from motet.client.tables import Inputs
from motet.plots.axes import BLUE, COLOURS, GREY, MARKERS, MAX_LABEL_LETTERS, POINTS, finished
from motet.tables.columns import Column, Columns
from motet.tables.files import Table, cell_number
from motet.text import count, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BAND = 0.9
Z = NormalDist().inv_cdf(0.5 + BAND / 2)
MAX_CLIENTS, MAX_CURVES, MAX_ITEMS = 6, 6, 20  # that are drawn
PANELS_IN_A_ROW = 3
WIDTH, HEIGHT = 6.4, 4.2  # of a panel, in inches
SMALLER = 0.75  # if there are several
DAY = 86_400  # seconds
PALE = "#B3D4E8"  # blue, so that error bars are seen on it


def draw(predicted: Predictions, *, observation: bool = False) -> Figure:
    """The picture that suits a study's inputs."""
    query = predicted.query
    if query.release.model.catalogue is not None:
        return _rankings(predicted, observation)
    abscissa = Abscissa.of(query.inputs)
    if abscissa is None:
        return _by_row(predicted, observation)
    return _curves(query, abscissa, observation)


def save(predicted: Predictions, path: Path, *, observation: bool = False) -> None:
    """Draw to a file, of the kind that its name ends with."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a font may lack letters of a name
        draw(predicted, observation=observation).savefig(path)


# --- curves ---


@dataclass(frozen=True, eq=False)
class Abscissa:
    """The input along which curves run, and the numbers of all inputs on each curve, one for each column."""

    columns: Columns
    place: int
    curves: Array

    @classmethod
    def of(cls, inputs: Inputs) -> Abscissa | None:
        """The only number or date that is not the same in all rows; None if there are several, or many curves."""
        layout = inputs.layout
        columns = layout.columns or Columns(Column(name=name) for name in layout.inputs(inputs.table))
        numbers = _numbers(columns, inputs.X)
        along = [k for k, column in enumerate(columns) if not column.values and np.ptp(numbers[:, k]) > 0]
        if len(along) != 1:
            return None
        numbers[:, along[0]] = 0.0
        curves = np.unique(numbers, axis=0)
        return cls(columns, along[0], curves) if len(curves) <= MAX_CURVES else None

    @property
    def column(self) -> Column:
        return self.columns.columns[self.place]

    @property
    def label(self) -> str:
        return f"{self.column.name} ({self.column.unit})" if self.column.unit else self.column.name

    def text(self, curve: Array) -> str:
        """In what a curve differs from the others."""
        differ = np.ptp(self.curves, axis=0) > 0
        cells = zip(self.columns, curve.tolist(), differ)
        return ", ".join(f"{column.name} {column.text(number)}" for column, number, differs in cells if differs)

    def rows(self, numbers: Array) -> Array:
        """The encoded inputs of all curves, one after the other."""
        table = np.repeat(self.curves, len(numbers), axis=0)
        table[:, self.place] = np.tile(numbers, len(self.curves))
        return self.columns.expand(table)

    def points(self, query: Query, client: str, curve: Array | None = None) -> tuple[Array, Array]:
        """A client's examples, of the categories of a curve: along the abscissa, and their outputs."""
        source = query.sources.get(client)
        if source is None:
            return np.empty(0), np.empty(0)
        numbers = self.columns.collapse(source.inputs)
        kinds = [k for k, column in enumerate(self.columns) if column.values]
        own = np.ones(len(numbers), dtype=bool) if curve is None else (numbers[:, kinds] == curve[kinds]).all(axis=1)
        return numbers[own, self.place], source.examples.y[own]

    def ticks(self, numbers: Array) -> Any:
        """Numbers as an axis shows them: dates as dates, and logarithms as what they are of."""
        if self.column.since is None:
            return np.array([self.column.cell(number) for number in numbers])
        return np.datetime64(self.column.since, "s") + np.round(DAY * numbers).astype("timedelta64[s]")


def _numbers(columns: Columns, X: Sequence[Any]) -> Array:
    """One number for each column and input."""
    return np.array([columns.row_numbers(x) if isinstance(x, dict) else x for x in X], dtype=float)


def _curves(query: Query, abscissa: Abscissa, observation: bool) -> Figure:
    """A curve for each client, or for each value of the categories; if there are several of both, a panel for each
    client."""
    clients = _drawn(query)
    asked = _numbers(abscissa.columns, query.inputs.X)[:, abscissa.place]
    span = np.concatenate([asked, *(abscissa.points(query, client)[0] for client in clients)])
    numbers = np.linspace(span.min(), span.max(), POINTS)
    X = abscissa.rows(numbers)
    grid = replace(
        query,
        inputs=Inputs(Table("", [], [], []), X.tolist(), query.inputs.layout),
        rows=dict.fromkeys(clients, range(len(X))),
    )
    curves = predict(grid, lambda _: None, observation=observation)
    shape = len(clients), len(abscissa.curves), POINTS
    mean, half = np.reshape(curves.mean, shape), Z * np.reshape(curves.std, shape)
    together = 1 in shape[:2]
    figure, panels = _figure(1 if together else len(clients))
    styles = cycle(zip(COLOURS, MARKERS))
    for k, client in enumerate(clients):
        ax = panels[0 if together else k]
        styles = styles if together else cycle(zip(COLOURS, MARKERS))
        for curve, center, width, (colour, marker) in zip(abscissa.curves, mean[k], half[k], styles):
            x, label = abscissa.ticks(numbers), [client] * together + [abscissa.text(curve)]
            ax.fill_between(x, center - width, center + width, color=colour, alpha=0.18, lw=0)
            ax.plot(x, center, color=colour, label=_plain(", ".join(filter(None, label))) or None)
            own, y = abscissa.points(query, client, curve)
            ax.plot(abscissa.ticks(own), y, marker, color=colour, ms=5, mec="white", mew=0.5)
        if abscissa.column.log_above is not None:
            ax.set_xscale("asinh", linear_width=abscissa.column.log_above)
        _finish(ax, abscissa.label, query.inputs.layout.target, _title(query, "" if together else client))
        ax.label_outer()
    _note(figure, query, clients, observation)
    return figure


# --- items of a catalogue ---


def _rankings(predicted: Predictions, observation: bool) -> Figure:
    """The best items of each client, the best at the top."""
    query = predicted.query
    clients = _drawn(query)
    lists = {client: [one for one in predicted.predictions if one.client == client] for client in clients}
    figure, panels = _figure(len(clients), items=min(MAX_ITEMS, max(map(len, lists.values()), default=0)))
    for ax, (client, own) in zip(panels, lists.items()):
        best = sorted(own, key=lambda one: -one.mean)[:MAX_ITEMS]
        names = [_plain(query.inputs.X[one.row]) for one in best]
        places, error = np.arange(len(best)), {"ecolor": BLUE, "elinewidth": 1.5, "capsize": 2}
        ax.barh(places, [one.mean for one in best], xerr=[Z * one.std for one in best], color=PALE, error_kw=error)
        ax.set_yticks(places, names)
        ax.invert_yaxis()
        _finish(ax, query.inputs.layout.target, "", _title(query, client))
    _note(figure, query, clients, observation)
    return figure


# --- row by row ---


def _by_row(predicted: Predictions, observation: bool) -> Figure:
    """Every row's prediction, beside the output that the table has of it."""
    query = predicted.query
    figure, (ax,) = _figure(1)
    layout = query.inputs.layout
    observed = [cell_number(cell, layout.unit) for cell in query.inputs.table.cells(layout.target)]
    clients = _drawn(query)
    for client, (colour, marker) in zip(clients, cycle(zip(COLOURS, MARKERS))):
        own = [(k, one) for k, one in enumerate(predicted.predictions, start=1) if one.client == client]
        place, mean = [k for k, _ in own], [one.mean for _, one in own]
        style = {"color": colour, "ms": 5, "elinewidth": 1.2, "capsize": 2}
        label = _plain(client or "predicted")
        ax.errorbar(place, mean, [Z * one.std for _, one in own], fmt=marker, label=label, **style)
        if known := [(k, y) for k, one in own if (y := observed[one.row]) is not None]:
            ax.plot(*zip(*known), "x", color="black", ms=6, label="in the table" if client == clients[0] else None)
    ax.xaxis.get_major_locator().set_params(integer=True)
    _finish(ax, "row of the predictions", query.inputs.layout.target, _title(query, ""))
    _note(figure, query, clients, observation)
    return figure


# --- figures ---


def _drawn(query: Query) -> list[str]:
    """The clients of a picture: the first few."""
    return list(query.rows)[:MAX_CLIENTS]


def _figure(panels: int, items: int = 0) -> tuple[Figure, list[Any]]:
    from matplotlib.figure import Figure

    across = min(panels, PANELS_IN_A_ROW)
    down = -(-panels // across)
    scale = 1.0 if panels == 1 else SMALLER
    height = 1.2 + 0.24 * items if items else HEIGHT
    figure = Figure(figsize=(scale * WIDTH * across, scale * height * down), layout="constrained", dpi=150)
    axes = figure.subplots(down, across, squeeze=False, sharey=not items).ravel()
    for ax in axes[panels:]:
        ax.set_visible(False)
    return figure, list(axes[:panels])


def _plain(text: str) -> str:
    """Foreign text, short, in which a dollar begins no formula."""
    return shortened(text, MAX_LABEL_LETTERS).replace("$", r"\$")


def _title(query: Query, client: str) -> str:
    return "average of all clients" if query.average else _plain(client)


def _finish(ax: Any, xlabel: str, ylabel: str, title: str) -> None:
    finished(ax, xlabel=_plain(xlabel), ylabel=_plain(ylabel), title=title)


def _note(figure: Figure, query: Query, clients: Sequence[str], observation: bool) -> None:
    """What bands and bars are, and how many clients there are if not all are drawn."""
    bands = "of new observations" if observation else "bands of the function"
    text = f"{100 * BAND:g} % {bands}; release {query.version}"
    if len(query.rows) > len(clients):
        text = f"the first {len(clients)} of {count(len(query.rows), 'client')}; {text}"
    figure.supxlabel(text, fontsize="x-small", color=GREY)


__all__ = ["draw", "save"]
