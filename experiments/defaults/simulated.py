"""Simulated tables with one known flaw each, of the kind that real tables have and models assume away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pandas as pd

from motet.arrays import Array, Index

Random: TypeAlias = np.random.Generator


@dataclass(frozen=True)
class Flawed:
    """What is wrong, and the frame of so many tasks of so many rows, another one for each seed."""

    flaw: str
    make: Callable[[Random, Index], pd.DataFrame]
    tasks: int
    rows: int

    def draw(self, seed: int) -> pd.DataFrame:
        task = np.repeat(np.arange(self.tasks), self.rows)
        return self.make(np.random.default_rng(seed), task).assign(task=task)


def _frame(X: Array, y: Array) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"x{k + 1}" for k in range(X.shape[1])]).assign(y=y)


def _of_tasks(rng: Random, task: Index, std: float | Array = 1.0, size: int = 1) -> Array:
    """A random effect of each task, by rows."""
    return np.asarray((std * rng.normal(size=(task.max() + 1, size)))[task])


def _noise(rng: Random, task: Index, std: float = 0.5) -> Array:
    return std * rng.normal(size=len(task))


def slopes(rng: Random, task: Index) -> pd.DataFrame:
    """Thirteen columns whose slopes vary from not at all to as much as their mean."""
    X = rng.normal(size=(len(task), 13))
    own = _of_tasks(rng, task, np.geomspace(0.01, 1.0, 13), 13)
    return _frame(X, np.sum(X * (rng.normal(size=13) + own), axis=1) + _of_tasks(rng, task)[:, 0] + _noise(rng, task))


def constant_columns(rng: Random, task: Index) -> pd.DataFrame:
    X = np.column_stack([rng.normal(size=(len(task), 2)), _of_tasks(rng, task, size=2)])
    own = _of_tasks(rng, task, np.array([0.8, 0.4]), 2)
    return _frame(X, own[:, 0] + (1 + own[:, 1]) * X[:, 0] + 0.5 * X[:, 2] - 0.5 * X[:, 3] + _noise(rng, task))


def linear(columns: int) -> Callable[[Random, Index], pd.DataFrame]:
    def make(rng: Random, task: Index) -> pd.DataFrame:
        X = rng.normal(size=(len(task), columns))
        return _frame(X, X @ rng.normal(size=columns) + 0.5 * _of_tasks(rng, task)[:, 0] + _noise(rng, task, 0.4))

    return make


def lognormal(rng: Random, task: Index) -> pd.DataFrame:
    """Growth: the spread is a share of the level."""
    time = rng.uniform(0.0, 10.0, len(task))
    own = _of_tasks(rng, task, np.array([0.4, 0.06]), 2)
    return _frame(time[:, None], np.exp(1.0 + own[:, 0] + (0.25 + own[:, 1]) * time + _noise(rng, task, 0.25)))


def useless(columns: int) -> Callable[[Random, Index], pd.DataFrame]:
    def make(rng: Random, task: Index) -> pd.DataFrame:
        X = rng.normal(size=(len(task), columns + 2))
        own = _of_tasks(rng, task, np.array([1.0, 0.5]), 2)
        y = np.sin(2 * X[:, 0]) + X[:, 1] + own[:, 0] + own[:, 1] * X[:, 0] + _noise(rng, task, 1.13)
        return _frame(X, y)

    return make


def _curve(rng: Random, task: Index) -> tuple[Array, Array]:
    """A smooth average of one column, and an intercept and a slope of each task."""
    x = rng.uniform(-2.0, 2.0, len(task))
    own = _of_tasks(rng, task, np.array([0.8, 0.4]), 2)
    return x[:, None], np.sin(1.5 * x) + own[:, 0] + own[:, 1] * x


def outliers(rng: Random, task: Index) -> pd.DataFrame:
    x, f = _curve(rng, task)
    is_outlier = rng.random(len(task)) < 0.03
    std = np.where(is_outlier, 20.0 * 0.5, 0.5)
    return _frame(x, f + std * rng.normal(size=len(task))).assign(outlier=is_outlier)


def noise_of_tasks(rng: Random, task: Index) -> pd.DataFrame:
    x, f = _curve(rng, task)
    return _frame(x, f + 0.5 * np.exp(_of_tasks(rng, task, 0.8)[:, 0]) * rng.normal(size=len(task)))


def short_wave(rng: Random, task: Index) -> pd.DataFrame:
    x = rng.uniform(0.0, 6.0, len(task))
    return _frame(x[:, None], np.sin(4 * np.pi * x) + _of_tasks(rng, task, 0.5)[:, 0] + _noise(rng, task, 0.3))


def serial(rng: Random, task: Index) -> pd.DataFrame:
    """The shift is a random walk that comes back, by steps of time; little noise beside it."""
    time = np.concatenate([np.arange(count) for count in np.bincount(task)]).astype(float)
    shift = rng.normal(size=len(task))
    for i in np.flatnonzero(time > 0):
        shift[i] = 0.85 * shift[i - 1] + np.sqrt(1 - 0.85**2) * shift[i]
    return _frame(time[:, None], 0.1 * time + shift + _noise(rng, task, 0.3))


def catalogue(rng: Random, task: Index) -> pd.DataFrame:
    """Items with genres, an effect of each item beside them, and users who like genres more or less."""
    genres = (rng.random((100, 6)) < 0.3).astype(float)
    item = rng.integers(0, len(genres), len(task))
    likes = rng.normal(0.0, 0.3, 6) + _of_tasks(rng, task, 0.4, 6)
    y = 3.5 + np.sum(genres[item] * likes, axis=1) + rng.normal(0.0, 0.6, len(genres))[item]
    frame = pd.DataFrame(genres[item], columns=[f"genre {k + 1}" for k in range(6)])
    names = np.array([f"item {k}" for k in range(len(genres))])
    return frame.assign(item=names[item], y=y + _of_tasks(rng, task, 0.3)[:, 0] + _noise(rng, task, 0.6))


TABLES = {
    "13 slopes": Flawed("13 columns, slopes of different variances", slopes, 80, 12),
    "constant columns": Flawed("two of four columns are constant within a task", constant_columns, 60, 12),
    "linear, 8 columns": Flawed("plain linear data, 8 columns", linear(8), 40, 12),
    "linear, 13 columns": Flawed("plain linear data, 13 columns, few tasks", linear(13), 12, 40),
    "lognormal": Flawed("the spread grows with the level", lognormal, 60, 10),
    "20 useless": Flawed("20 useless columns beside two", useless(20), 50, 14),
    "200 useless": Flawed("200 useless columns beside two", useless(200), 50, 14),
    "outliers": Flawed("3 % of outliers of 20 deviations", outliers, 60, 12),
    "noise of tasks": Flawed("noise that differs by task", noise_of_tasks, 60, 12),
    "short wave": Flawed("a short wave", short_wave, 30, 25),
    "serial": Flawed("a serially correlated shift", serial, 40, 20),
    "catalogue": Flawed("items with genres, and an effect of each item", catalogue, 60, 15),
}
