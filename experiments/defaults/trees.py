"""LightGBM and CatBoost: the task as a category, as the mean of its outputs, or not at all, as cross-validation likes.

Runs in an environment of its own, with numpy and these packages.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from experiments.defaults.inner import Mean, Refitted, level_means, out_of_fold
from experiments.defaults.rows import Rows

if TYPE_CHECKING:
    from motet.arrays import Array

Encoding: TypeAlias = Literal["category", "mean", "none"]
ENCODINGS: tuple[Encoding, ...] = ("category", "mean", "none")


@dataclass(frozen=True)
class TreeSettings:
    """How the task is encoded, the size of a tree (leaves or depth), and how many there are."""

    encoding: Encoding
    size: int
    rounds: int


class Boosting(Refitted):
    @abstractmethod
    def boost(self, X: Array, y: Array, categories: Sequence[int], size: int, rounds: int) -> Callable[..., Array]:
        """Fit trees, and return what predicts by the first so many of them."""

    def fit(self, rows: Rows, settings: Sequence[TreeSettings]) -> Sequence[Mean]:
        """Settings that differ in rounds alone share a fit, of the most rounds."""
        level, scale = float(rows.y.mean()), float(rows.y.std()) or 1.0
        boosters: dict[tuple[Encoding, int], tuple[Callable[..., Array], Any]] = {}
        for encoding, size in dict.fromkeys((one.encoding, one.size) for one in settings):
            rounds = max(one.rounds for one in settings if (one.encoding, one.size) == (encoding, size))
            column = _column(rows, encoding)
            categories = [int(c) for c in np.flatnonzero(rows.levels)]
            categories += [rows.X.shape[1]] if encoding == "category" else []
            X = np.column_stack([rows.X, column(rows, True)])
            boosters[encoding, size] = self.boost(X, (rows.y - level) / scale, categories, size, rounds), column

        def mean(one: TreeSettings) -> Mean:
            booster, column = boosters[one.encoding, one.size]
            return lambda new: level + scale * booster(np.column_stack([new.X, column(new, False)]), one.rounds)

        return [mean(one) for one in settings]


def _column(rows: Rows, encoding: Encoding) -> Callable[[Rows, bool], Array]:
    """The task's column, of the rows that are learned and of others."""
    if encoding == "none":
        return lambda at, _: np.empty((len(at), 0))
    if encoding == "category":
        return lambda at, _: at.task[:, None].astype(float)
    encode, learned = level_means(rows.task, rows.y), out_of_fold(rows.task, rows.y)
    return lambda at, is_learned: (learned if is_learned else encode(at.task))[:, None]


class LightGBM(Boosting):
    candidates = tuple(TreeSettings(e, size, rounds) for e in ENCODINGS for size in (4, 15) for rounds in (30, 80, 200))

    def boost(self, X: Array, y: Array, categories: Sequence[int], size: int, rounds: int) -> Callable[..., Array]:
        import lightgbm

        data = lightgbm.Dataset(X, y, categorical_feature=list(categories), params={"verbosity": -1})
        settings = {"objective": "l2", "num_leaves": size, "learning_rate": 0.06, "min_data_in_leaf": 5,
                    "min_data_per_group": 5, "cat_smooth": 5, "cat_l2": 5, "num_threads": 1, "verbosity": -1,
                    "seed": 0, "deterministic": True}  # fmt: skip
        booster = lightgbm.train(settings, data, num_boost_round=rounds)
        return lambda at, count: np.asarray(booster.predict(at, num_iteration=count, num_threads=1))


class CatBoost(Boosting):
    candidates = tuple(TreeSettings(e, size, rounds) for e, size in zip((*ENCODINGS, "category"), (4, 4, 4, 6))
                       for rounds in (60, 200))  # fmt: skip

    def boost(self, X: Array, y: Array, categories: Sequence[int], size: int, rounds: int) -> Callable[..., Array]:
        import catboost

        def pool(at: Array, output: Array | None = None) -> Any:
            if not categories:
                return catboost.Pool(at, output)
            cells = at.astype(object)
            cells[:, categories] = at[:, categories].astype(int)
            return catboost.Pool(cells, output, cat_features=list(categories))

        booster = catboost.CatBoostRegressor(iterations=rounds, depth=size, learning_rate=0.08, thread_count=1,
                                             random_seed=0, verbose=False, allow_writing_files=False)  # fmt: skip
        booster.fit(pool(X, y))
        return lambda at, count: np.asarray(booster.predict(pool(at), ntree_end=count, thread_count=1))
