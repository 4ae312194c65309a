"""Settings by evidence on the music study, and predictions for long tasks, each beside one fit with given settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from benchmarks.measure import Row, peak_megabytes, timed
from motet import Engine, MixedEffectRegressor
from motet.arrays import Array
from motet.engine.system import System
from motet.kernels import RBF
from motet.music import simulation as music
from motet.tuning.components import Components
from motet.tuning.gradient import Slope, slope
from motet.tuning.tuning import tune_tasks

ALPHA, LAM = 0.0714, 3.16e-4
LONG_TASKS, LENGTH, ROWS = 4, 2_000, 1_000


def tuning() -> list[Row]:
    """3,000 listeners of 5 artists each, the article's kernels; all searched for but the structure."""
    artists = music.artists()
    listeners = music.simulate(artists, 3000, 5, seed=0)
    X, y, task = artists.vectors[listeners.artist], listeners.rating, listeners.user
    settings: dict[str, Any] = {"common": music.COMMON, "individual": music.INDIVIDUAL, "alpha": ALPHA, "lam": LAM}
    settings |= {"bias": "none", "basis": None}

    def fit(optimizer: Any) -> MixedEffectRegressor:
        return MixedEffectRegressor(**settings, optimizer=optimizer).fit(X, y, task=task)

    engine = fit(None).engine_
    given = partial(fit, None)
    one, r_one = timed(_evaluation(engine), given, 21)
    whole, r_whole = timed(partial(fit, "evidence"), given, 5)
    steps = len(tune_tasks(engine.model, *engine.folded()).log)
    job, against = "3,000 tasks × 5 on 489 inputs", "one fit with given settings"
    return [
        Row(f"evidence with gradient, {job}", one, against, r_one, 2.5),
        Row(f"fit that tunes, {job}", whole, against, r_whole, 40.0, note=f"{steps} evaluations with gradient"),
    ]


def _evaluation(engine: Engine) -> Callable[[], Slope]:
    ((_, folded, X),) = engine.tasks_by_kernel()
    model = Components.of(engine.model, X).searched
    return lambda: slope(System.of_tasks(model, folded, X))


# --- long tasks ---


@cache
def _long() -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(6)
    task = np.repeat(np.arange(LONG_TASKS), LENGTH)
    X = rng.uniform(-3, 3, size=(len(task), 2))
    return X, np.sin(X[:, 0]) + 0.3 * task * X[:, 1] + 0.1 * rng.normal(size=len(task)), task


def fit_long_tasks() -> MixedEffectRegressor:
    X, y, task = _long()
    return MixedEffectRegressor(RBF(1.0), RBF(2.0), lam=0.05, optimizer=None).fit(X, y, task=task)


def predict_long_tasks(reg: MixedEffectRegressor | None = None) -> None:
    """With standard deviations, equally many rows for each."""
    reg = fit_long_tasks() if reg is None else reg
    at = np.random.default_rng(7).uniform(-3, 3, size=(ROWS, 2))
    reg.predict(at, task=np.arange(ROWS) % LONG_TASKS, return_std=True)


def long_tasks() -> list[Row]:
    takes, r = timed(partial(predict_long_tasks, fit_long_tasks()), fit_long_tasks, 5)
    peak = peak_megabytes("predict_long_tasks")
    job = f"predictions with standard deviations, {ROWS:,} rows of {LONG_TASKS} tasks × {LENGTH:,}"
    return [
        Row(job, takes, "the fit of these tasks", r, 3.0),
        Row("the same with that fit, peak memory of the process", f"{peak:.0f} MB", "1 GB", peak / 1000, 1.0),
    ]
