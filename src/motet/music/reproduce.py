"""The article's experiment, from end to end: its section 5, on our catalogue, as numbers.

``run`` simulates the listeners, learns their tastes over the article's grid of α and λ, and at the optimum learns the
same ratings online and as passive clients. ``motet.music.report`` writes the result.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from motet.arrays import Array
from motet.engine.engine import Engine
from motet.music import simulation as music
from motet.tables.catalogue import Catalogue
from motet.threads import blas_limit

ALPHAS = np.linspace(0.0, 1.0, 15)
LAMS = np.logspace(-7, 0, 15)
ARTICLE = {"alpha": 0.0714, "lam": 3.1623e-4, "top20hits": 8.3583}
TOP = 20  # artists of a list
PASSIVE_USERS = 40


@dataclass(frozen=True, eq=False)
class Scores:
    """Errors of preferences and hits in the top 20, over the grid: a row for each α, a column for each λ."""

    rmse: Array
    hits: Array

    @property
    def best(self) -> tuple[int, int]:
        i, j = np.unravel_index(np.argmin(self.rmse), self.rmse.shape)
        return int(i), int(j)


@dataclass(frozen=True, eq=False)
class Reproduction:
    """The numbers of the report."""

    catalogue: Catalogue
    listeners: music.Listeners
    scores: Scores
    average: Array  # estimated at the optimum, over all artists
    tastes: Array  # estimated at the optimum, a row for each user
    hits: Array  # at the optimum, by user
    online: float  # largest difference of preferences learned online
    passive: float  # and of those of passive clients
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def alpha(self) -> float:
        return float(ALPHAS[self.scores.best[0]])

    @property
    def lam(self) -> float:
        return float(LAMS[self.scores.best[1]])

    def to_dict(self) -> dict[str, Any]:
        """The content of ``results.json``; separate and pooled are each at their own best λ."""
        rmse, hits = self.scores.rmse, self.scores.hits
        separate, pooled = int(np.argmin(rmse[0])), int(np.argmin(rmse[-1]))
        return {
            "alpha": self.alpha,
            "lam": self.lam,
            "rmse": float(rmse[self.scores.best]),
            "top20hits": float(hits[self.scores.best]),
            "rmse_separate": float(rmse[0, separate]),
            "rmse_pooled": float(rmse[-1, pooled]),
            "top20hits_separate": float(hits[0, separate]),
            "top20hits_pooled": float(hits[-1, pooled]),
            "max_difference_online": self.online,
            "max_difference_passive": self.passive,
            "users": len(self.listeners.tastes),
            "artists": len(self.catalogue),
            "examples": len(self.listeners.rating),
            "article": ARTICLE,
            "seconds": self.seconds["total"],
            "seconds_by_part": self.seconds,
            "grid": {
                "alpha": ALPHAS.tolist(),
                "lam": LAMS.tolist(),
                "rmse": rmse.tolist(),
                "top20hits": hits.tolist(),
            },
        }


def preference(f: Array) -> Array:
    """s = 1 / (1 + e^{−f/2})."""
    return 1.0 / (1.0 + np.exp(-f / 2))


def top(scores: Array, k: int = TOP) -> Array:
    """The ``k`` best columns of every row, best first."""
    return np.argsort(-scores, axis=-1, kind="stable")[..., :k]


def hits(truth: Array, estimate: Array) -> Array:
    """hits20: how many of the true top 20 are in the estimated one, for every row; ``truth`` marks the former."""
    best = np.argpartition(-estimate, TOP, axis=1)[:, :TOP] if estimate.shape[1] > TOP else top(estimate)
    return np.take_along_axis(truth, best, axis=1).sum(axis=1)


def run(
    catalogue: Catalogue, users: int, examples: int, seed: int, advance: Callable[[], None] = lambda: None
) -> Reproduction:
    """The whole experiment; ``advance`` is called after each of the 225 points of the grid."""
    begin = time.perf_counter()
    # Matrices of some hundred rows: one thread each, and the points of the grid side by side.
    with blas_limit, ThreadPoolExecutor(os.cpu_count()) as pool:
        listeners = music.simulate(catalogue, users, examples, seed)
        preferences = preference(listeners.tastes)
        true_top = np.zeros(preferences.shape, dtype=bool)
        np.put_along_axis(true_top, top(preferences), True, axis=1)
        scores = Scores(np.empty((len(ALPHAS), len(LAMS))), np.empty((len(ALPHAS), len(LAMS))))

        def score(point: tuple[int, ...]) -> None:
            engine = _learn(catalogue, listeners, float(ALPHAS[point[0]]), float(LAMS[point[1]]))
            tastes = engine.predict_all(catalogue.rows)
            scores.rmse[point] = np.sqrt(np.mean((preference(tastes) - preferences) ** 2))
            scores.hits[point] = hits(true_top, tastes).mean()
            advance()

        list(pool.map(score, np.ndindex(scores.rmse.shape)))
        grid_seconds = time.perf_counter() - begin
        best = float(ALPHAS[scores.best[0]]), float(LAMS[scores.best[1]])
        engine = _learn(catalogue, listeners, *best)
        tastes, average = engine.predict_all(catalogue.rows), engine.disclose().average(catalogue.rows)
        online = np.abs(_online(catalogue, listeners, *best, seed) - preference(tastes)).max()
        passive = np.abs(_passive(catalogue, listeners, *best) - preference(tastes[:PASSIVE_USERS])).max()
        seconds = _timings(catalogue, listeners, *best)
    seconds |= {"grid": grid_seconds, "total": time.perf_counter() - begin}
    differences = float(online), float(passive)
    return Reproduction(catalogue, listeners, scores, average, tastes, hits(true_top, tastes), *differences, seconds)


def _learn(
    catalogue: Catalogue, listeners: music.Listeners, alpha: float, lam: float, rows: Any = slice(None)
) -> Engine:
    """An engine that has learned these rows of the ratings."""
    engine = Engine(music.model(catalogue, alpha, lam))
    engine.learn_many(listeners.user[rows], catalogue.rows[listeners.artist[rows]], listeners.rating[rows])
    return engine


def _online(catalogue: Catalogue, listeners: music.Listeners, alpha: float, lam: float, seed: int) -> Array:
    """Preferences learned from the same ratings, one by one in random order."""
    engine, rows = Engine(music.model(catalogue, alpha, lam)), catalogue.rows
    for k in np.random.default_rng(seed).permutation(len(listeners.rating)):
        engine.learn(int(listeners.user[k]), rows[listeners.artist[k]], float(listeners.rating[k]))
    by_user = np.argsort(np.array(engine.tasks))
    return preference(engine.predict_all(rows)[by_user])


def _passive(catalogue: Catalogue, listeners: music.Listeners, alpha: float, lam: float) -> Array:
    """Preferences of the first users, each from its own ratings and a release of the others."""
    preferences = []
    for user in range(PASSIVE_USERS):
        rows = listeners.user == user
        release = _learn(catalogue, listeners, alpha, lam, ~rows).disclose()
        estimate = release.estimate(catalogue.rows[listeners.artist[rows]], listeners.rating[rows])
        preferences.append(preference(estimate.predict(catalogue.rows)))
    return np.array(preferences)


def _timings(catalogue: Catalogue, listeners: music.Listeners, alpha: float, lam: float) -> dict[str, float]:
    """One fit; the article's n³m operations at this machine's speed; the direct solve, measured small and scaled up."""
    m, rows = len(listeners.tastes), len(listeners.rating)
    fit = min(_seconds(lambda: _learn(catalogue, listeners, alpha, lam).disclose()) for _ in range(3))
    K = music.COMMON(catalogue.vectors)
    product = min(_seconds(lambda: K @ K) for _ in range(3))
    part = slice(min(2000, rows))
    X, user = catalogue.vectors[listeners.artist[part]], listeners.user[part]
    V = alpha * music.COMMON(X) + (1 - alpha) * (user[:, None] == user) * music.INDIVIDUAL(X) + lam * np.eye(len(X))
    direct = _seconds(lambda: np.linalg.solve(V, listeners.rating[part]))
    bound = product / 2 * m  # a product is 2n³ operations
    return {"fit": fit, "article_bound": bound, "direct_extrapolated": direct * (rows / len(X)) ** 3}


def _seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin
