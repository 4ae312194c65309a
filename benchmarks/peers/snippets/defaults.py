"""A table of tasks, fitted without any setting, and predictions for rows of tasks that were seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from motet.arrays import Array


def motet(X: Array, y: Array, task: Array, X_new: Array, task_new: Array) -> Array:
    from motet import MixedEffectRegressor

    return MixedEffectRegressor().fit(X, y, task=task).predict(X_new, task=task_new)


def lightgbm(X: Array, y: Array, task: Array, X_new: Array, task_new: Array) -> Array:
    from lightgbm import LGBMRegressor

    trees = LGBMRegressor(n_jobs=1, verbosity=-1)
    trees.fit(np.column_stack([task, X]), y, categorical_feature=[0])
    return trees.predict(np.column_stack([task_new, X_new]))


def gpboost(X: Array, y: Array, task: Array, X_new: Array, task_new: Array) -> Array:
    import gpboost

    effects = gpboost.GPModel(group_data=task, likelihood="gaussian")
    data = gpboost.Dataset(X, y)
    trees = gpboost.train({"verbose": -1, "num_threads": 1}, data, gp_model=effects, num_boost_round=100)
    return trees.predict(X_new, group_data_pred=task_new, pred_latent=False)["response_mean"]
