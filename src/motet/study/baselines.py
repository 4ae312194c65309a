"""Plain predictions that a study has to beat: the mean of all, the client's mean, and plain models beside it.

All learn from the same rows and predict others. A client's mean is shrunk towards that of all by as much as clients
are alike, so that few rows do no harm; a client without rows has the mean of all.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np

from motet.arrays import Array, Index

Fit: TypeAlias = Callable[[Array], Array]  # from outputs at the rows learned to predictions at all rows

ROUNDS = 2  # of backfitting


def baseline_means(client: Index, X: Array, y: Array, learned: Index, item: Index | None) -> dict[str, Array]:
    """Predictions of every baseline at all rows, from those that are ``learned``, by their places.

    ``client`` numbers the clients, and ``item`` the items if inputs are names.
    """
    centre = np.full(len(y), y[learned].mean())
    of_clients = partial(group_means, client, learned)
    means = {"mean of all": centre, "client's mean": centre + of_clients((y - centre)[learned])}
    if item is not None:
        of_items: Fit = partial(group_means, item, learned)
        return means | {
            "item's mean": centre + of_items((y - centre)[learned]),
            "item's + client's mean": centre + beside_clients(of_items, of_clients, y - centre, learned),
        }
    models = {"linear model": _linear, "boosted trees": _trees}
    return means | {
        f"{name} + client's mean": beside_clients(partial(fit, X, learned), of_clients, y, learned)
        for name, fit in models.items()
    }


def beside_clients(model: Fit, of_clients: Fit, y: Array, learned: Index) -> Array:
    """A model of what clients have in common, and each client's mean distance from it, by backfitting."""
    common = np.full(len(y), y[learned].mean())
    for _ in range(ROUNDS):
        common = model((y - of_clients((y - common)[learned]))[learned])
    return common + of_clients((y - common)[learned])


def group_means(group: Index, learned: Index, values: Array) -> Array:
    """Σr / (n + κ) of each row's group, with κ the variance within groups as a multiple of that between them.

    Both are the estimates of an analysis of variance (Searle, Casella and McCulloch 1992, section 3.6).
    """
    at, groups = group[learned], int(group.max(initial=0)) + 1
    n, total = np.bincount(at, minlength=groups), np.bincount(at, values, groups)
    means, used = total / np.maximum(n, 1), np.count_nonzero(n)
    if used in (1, len(at)):  # nothing to compare: as if both variances were equal
        return np.asarray((total / (n + 1))[group])
    within = ((values - means[at]) ** 2).sum() / (len(at) - used)
    squares = (n * (means - values.mean()) ** 2).sum()
    between = (squares - (used - 1) * within) / (len(at) - (n**2).sum() / len(at))
    return np.asarray((total / (n + within / between))[group] if between > 0 else np.zeros(len(group)))


def _linear(X: Array, learned: Index, y: Array) -> Array:
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return np.asarray(make_pipeline(StandardScaler(), Ridge(1.0)).fit(X[learned], y).predict(X))


def _trees(X: Array, learned: Index, y: Array) -> Array:
    return boosted_trees(X[learned], y)(X)


def boosted_trees(X: Array, y: Array, *, rows_per_leaf: int = 20) -> Fit:
    """Trees that have learned these rows: a function from other rows to predictions."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="openmp"):  # on a busy machine threads of small tables wait for each other
        trees = HistGradientBoostingRegressor(min_samples_leaf=rows_per_leaf, random_state=0).fit(X, y)

    def predict(at: Array) -> Array:
        with threadpool_limits(1, user_api="openmp"):
            return np.asarray(trees.predict(at))

    return predict
