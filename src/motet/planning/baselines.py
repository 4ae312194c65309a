"""Baselines: predictions by means, and by plain models, that learn from the same rows as what is evaluated.

A client's mean is shrunk towards that of all by as much as clients are alike; a client without rows has the mean of
all. Plain models tell what clients have in common: a ridge regression and boosted trees, each beside the client's mean
distance from it, and the linear mixed model with a natural cubic spline in each input and a random intercept of each
client, by REML. If inputs are names, items have means of their own too.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from motet.arrays import Array, Index
from motet.engine.engine import Engine
from motet.errors import NoEvidence
from motet.kernels.classes import ConstantKernel
from motet.model.model import Model
from motet.tables.rows import Rows
from motet.tuning.defaults import Settings
from motet.tuning.tuning import fit_settings

BACKFITTING_ROUNDS = 2  # of backfitting
MIXED_MODEL = "mixed model with splines"
KNOTS = {5: (0.05, 0.275, 0.5, 0.725, 0.95), 4: (0.05, 0.35, 0.65, 0.95), 3: (0.1, 0.5, 0.9)}  # Harrell's quantiles
MIN_GAP = 0.01  # between knots, of the distance of the first and the last
ROWS_PER_WEIGHT, MAX_SPLINE_WEIGHTS = 10, 100  # that all splines together may have

Fit: TypeAlias = Callable[[Array], Array]  # from outputs at the rows learned to predictions at all rows


def baseline_means(client: Index, X: Array, y: Array, learned: Index, item: Index | None) -> dict[str, Array]:
    """Predictions of every baseline at all rows, from those that are ``learned``, by their places.

    ``client`` numbers the clients, and ``item`` the items if inputs are names: X then has their features behind them.
    """
    centre = np.full(len(y), y[learned].mean())
    of_clients = partial(group_means, client, learned)
    means = {"mean of all": centre, "client's mean": centre + of_clients((y - centre)[learned])}
    if item is not None:
        of_items: Fit = partial(group_means, item, learned)
        means |= {
            "item's mean": centre + of_items((y - centre)[learned]),
            "item's + client's mean": centre + beside_clients(of_items, of_clients, y - centre, learned),
        }
        return means | ({MIXED_MODEL: mixed_model(client, X[:, 1:], y, learned)} if X.shape[1] > 1 else {})
    models: dict[str, Fit] = {
        "linear model": partial(_linear, X, learned),
        "boosted trees": lambda y: boosted_trees(X[learned], y)(X),
    }
    beside = {name: beside_clients(model, of_clients, y, learned) for name, model in models.items()}
    means |= {f"{name} + client's mean": predicted for name, predicted in beside.items()}
    return means | {MIXED_MODEL: mixed_model(client, X, y, learned)}


# --- means ---


def beside_clients(model: Fit, of_clients: Fit, y: Array, learned: Index) -> Array:
    """A model of what clients have in common, and each client's mean distance from it, by backfitting."""
    common = np.full(len(y), y[learned].mean())
    for _ in range(BACKFITTING_ROUNDS):
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


# --- plain models of what clients have in common ---


def _linear(X: Array, learned: Index, y: Array) -> Array:
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return np.asarray(make_pipeline(StandardScaler(), Ridge(1.0)).fit(X[learned], y).predict(X))


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


# --- the linear mixed model ---


def mixed_model(client: Index, X: Array, y: Array, learned: Index) -> Array:
    """y = s(x)ᵀβ + bⱼ + ε by REML, with splines s and a random intercept bⱼ of each client, predicted by its BLUP.

    If the rows tell no variances, noise and intercepts have the same.
    """
    S, noise = spline_columns(X, learned), np.ones(len(learned))
    center, size = y[learned].mean(), float(np.std(y[learned])) or 1.0
    z = (y[learned] - center) / size
    model = Model(None, ConstantKernel(1.0), 0.0, 1.0, "linear")
    rows = Rows.of(client[learned].tolist(), S[learned], z, noise)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = fit_settings(rows, Settings.of(model)).model
    except NoEvidence:
        pass
    engine = Engine(model)
    engine.learn_many(client[learned].tolist(), S[learned], z, noise)
    return center + size * np.asarray(engine.predict_many(client.tolist(), S))


def spline_columns(X: Array, learned: Index) -> Array:
    """Every input's natural cubic spline, at all rows; inputs of two values, such as categories, are as they are.

    There are fewer knots if rows are few or inputs are many.
    """
    sample, most = X[learned], min(len(learned) / ROWS_PER_WEIGHT, MAX_SPLINE_WEIGHTS)
    curved = [k for k, column in enumerate(sample.T) if len(np.unique(column)) > 2]
    count = next((count for count in KNOTS if len(curved) * (count - 1) <= most), 0)
    parts = []
    for k, column in enumerate(X.T):
        knots = _knots(sample[:, k], KNOTS[count]) if count and k in curved else column[:0]
        low, high = (knots[0], knots[-1]) if len(knots) else (sample[:, k].min(), sample[:, k].max())
        unit = (high - low) or 1.0
        parts.append(natural_spline((column - low) / unit, (knots - low) / unit))
    return np.hstack(parts)


def _knots(column: Array, quantiles: tuple[float, ...]) -> Array:
    """Quantiles that differ; none if fewer than three do."""
    knots = np.quantile(column, quantiles)
    knots = knots[np.append(True, np.diff(knots) > MIN_GAP * (knots[-1] - knots[0]))]
    return knots if len(knots) > 2 else knots[:0]


def natural_spline(x: Array, knots: Array) -> Array:
    """x, and (x−tⱼ)₊³ − (x−s)₊³ (t−tⱼ)/(t−s) + (x−t)₊³ (s−tⱼ)/(t−s) for each knot tⱼ before the last two, s and t.

    It is linear outside the knots (Harrell 2015, section 2.4.5).
    """
    if not len(knots):
        return x[:, None]
    s, t = knots[-2:]
    cube_s, cube_t = (np.maximum(x - knot, 0.0) ** 3 for knot in (s, t))
    bent = [
        np.maximum(x - knot, 0.0) ** 3 - cube_s * (t - knot) / (t - s) + cube_t * (s - knot) / (t - s)
        for knot in knots[:-2]
    ]
    return np.column_stack([x, *bent])
