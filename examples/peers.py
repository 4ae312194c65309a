"""What people use today for rows in groups, and Motet beside it: all behind one interface.

A learner ``tune``s its settings on rows, ``learn``s more rows with these settings (or refits, if it has no other way),
and ``predict``s mean and standard deviation of an observation.
"""

from __future__ import annotations

import copy
import importlib.util
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import WhiteKernel
from sklearn.model_selection import KFold, cross_val_predict

from examples.rows import Rows
from motet import MixedEffectRegressor
from motet.arrays import Array, Index
from motet.kernels import RBF, ConstantKernel, Identity, On

Prediction: TypeAlias = tuple[Array, Array]
PENALTIES = np.logspace(-3, 3, 25)  # of separate fits, inputs scaled
MAX_RESTARTED_ROWS = 300  # above which a Gaussian process would take minutes


class Learner(Protocol):
    """What the protocol asks of everyone."""

    name: str

    def tune(self, rows: Rows) -> None:
        """Choose settings, and learn these rows."""

    def learn(self, rows: Rows) -> None:
        """Learn these rows beside those tuned on, in place of others learned before."""

    def predict(self, X: Array, task: Index) -> Prediction:
        """Mean and standard deviation of an observation."""


class Refitting(ABC):
    """A learner that starts again with all rows."""

    rows: Rows

    def tune(self, rows: Rows) -> None:
        self.rows = rows
        self.fit(rows)

    def learn(self, rows: Rows) -> None:
        self.fit(self.rows.joined(rows))

    @abstractmethod
    def fit(self, rows: Rows) -> None:
        """Learn these rows and no others."""


class Motet:
    """``MixedEffectRegressor()`` without any setting, unless some are given."""

    name = "Motet, no setting"

    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    def tune(self, rows: Rows) -> None:
        self.tuned = MixedEffectRegressor(**self.settings).fit(rows.X, rows.y, task=rows.task)
        self.reg = self.tuned

    def learn(self, rows: Rows) -> None:
        self.reg = copy.deepcopy(self.tuned).partial_fit(rows.X, rows.y, task=rows.task)

    def predict(self, X: Array, task: Index) -> Prediction:
        return self.reg.predict(X, task=task, return_std=True, observation=True)


class Mean(Refitting):
    """The mean of all outputs."""

    name = "mean"

    def fit(self, rows: Rows) -> None:
        self.mean, self.std = float(rows.y.mean()), float(rows.y.std(ddof=1))

    def predict(self, X: Array, task: Index) -> Prediction:
        return np.full(len(X), self.mean), np.full(len(task), self.std)


class Separate(Refitting):
    """A ridge regression for each task; one penalty and one noise for all, by leave-one-out.

    A task without rows has the mean of all.
    """

    name = "ridge per task"

    def fit(self, rows: Rows) -> None:
        self.center, scale = rows.X.mean(axis=0), rows.X.std(axis=0)
        self.scale = np.where(scale > 0, scale, 1.0)
        self.every = Mean()
        self.every.fit(rows)
        Z = (rows.X - self.center) / self.scale
        tasks = {int(j): (Z[rows.task == j], rows.y[rows.task == j]) for j in np.unique(rows.task)}
        errors = {c: np.concatenate([self._left_out(*one, c) for one in tasks.values()]) for c in PENALTIES}
        penalty = min(errors, key=lambda c: float(np.mean(errors[c] ** 2)))
        self.std = float(np.sqrt(np.mean(errors[penalty] ** 2)))
        self.lines = {j: self._line(Zj, yj, penalty) for j, (Zj, yj) in tasks.items()}

    @staticmethod
    def _line(Z: Array, y: Array, penalty: float) -> tuple[Array, Array, float]:
        C = Z - Z.mean(axis=0)
        return Z.mean(axis=0), np.linalg.solve(C.T @ C + penalty * np.eye(Z.shape[1]), C.T @ y), float(y.mean())

    @staticmethod
    def _left_out(Z: Array, y: Array, penalty: float) -> Array:
        """Errors of each row predicted from the task's others: residual / (1 − leverage)."""
        if len(y) < 2:
            return np.empty(0)
        C = Z - Z.mean(axis=0)
        H = 1 / len(y) + C @ np.linalg.solve(C.T @ C + penalty * np.eye(Z.shape[1]), C.T)
        return np.asarray((y - H @ y) / np.maximum(1 - np.diag(H), 1e-6))

    def predict(self, X: Array, task: Index) -> Prediction:
        Z = (X - self.center) / self.scale
        mean, std = self.every.predict(X, task)
        for j in np.intersect1d(task, list(self.lines)):
            center, slope, level = self.lines[int(j)]
            mean[task == j], std[task == j] = level + (Z[task == j] - center) @ slope, self.std
        return mean, std


class Boosting(Refitting):
    """Gradient boosting with the task as a category; its errors in cross-validation are its standard deviation."""

    name = "gradient boosting, task as a category"

    def fit(self, rows: Rows) -> None:
        Z = np.column_stack([rows.X, rows.task])
        booster = HistGradientBoostingRegressor(
            categorical_features=[rows.X.shape[1]], min_samples_leaf=5, random_state=0
        )
        errors = rows.y - cross_val_predict(booster, Z, rows.y, cv=KFold(5, shuffle=True, random_state=0))
        self.booster, self.std = booster.fit(Z, rows.y), float(errors.std())

    def predict(self, X: Array, task: Index) -> Prediction:
        return self.booster.predict(np.column_stack([X, task])), np.full(len(X), self.std)


class GaussianProcess:
    """scikit-learn's Gaussian process on rows with their task: smooth average, and within a task a shift.

    The kernel is c₁ RBF(x) + [same task] · (c₂ + c₃ RBF(x)) + noise, tuned from three starts if rows are few.
    """

    name = "Gaussian process, labelled kernel"

    def tune(self, rows: Rows) -> None:
        self.rows = rows
        self.center, self.scale = rows.X.mean(axis=0), np.where((s := rows.X.std(axis=0)) > 0, s, 1.0)
        columns = list(range(rows.X.shape[1]))
        smooth = [On(RBF(np.ones(len(columns)), (1e-2, 1e2)), columns) for _ in range(2)]
        shift = ConstantKernel(1.0) + ConstantKernel(1.0) * smooth[1]
        kernel = ConstantKernel(1.0) * smooth[0] + On(Identity(), [len(columns)]) * shift + WhiteKernel(0.1)
        restarts = 2 if len(rows) < MAX_RESTARTED_ROWS else 0
        self.process = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=restarts, random_state=0)
        self._fit(self.process, rows)
        self.tuned = self.process

    def learn(self, rows: Rows) -> None:
        self.process = GaussianProcessRegressor(self.tuned.kernel_, optimizer=None, normalize_y=True)
        self._fit(self.process, self.rows.joined(rows))

    def _fit(self, process: Any, rows: Rows) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # parameters at their bounds
            process.fit(self._inputs(rows.X, rows.task), rows.y)

    def _inputs(self, X: Array, task: Index) -> Array:
        return np.column_stack([(X - self.center) / self.scale, task])

    def predict(self, X: Array, task: Index) -> Prediction:
        return self.process.predict(self._inputs(X, task), return_std=True)


class LinearMixedModel:
    """statsmodels' MixedLM by REML: intercept and slopes, fixed and random; predictions by the exact formulas."""

    name = "linear mixed model"

    def tune(self, rows: Rows) -> None:
        from statsmodels.regression.mixed_linear_model import MixedLM

        self.rows = self.known = rows
        self.center, self.scale = rows.X.mean(axis=0), np.where((s := rows.X.std(axis=0)) > 0, s, 1.0)
        Z = self._columns(rows.X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # variances at their bounds
            result = MixedLM(rows.y, Z, groups=rows.task, exog_re=Z).fit(reml=True)
        self.noise, self.covariance = float(result.scale), np.asarray(result.cov_re)

    def learn(self, rows: Rows) -> None:
        self.known = self.rows.joined(rows)

    def _columns(self, X: Array) -> Array:
        return np.column_stack([np.ones(len(X)), (X - self.center) / self.scale])

    def predict(self, X: Array, task: Index) -> Prediction:
        """Universal kriging: random effects are a covariance within tasks, fixed ones are estimated by GLS."""
        Z, Zn = self._columns(self.known.X), self._columns(X)
        K = (Z @ self.covariance @ Z.T) * (self.known.task[:, None] == self.known.task)
        k = (Zn @ self.covariance @ Z.T) * (task[:, None] == self.known.task)
        V = np.linalg.inv(K + self.noise * np.eye(len(Z)))
        B = np.linalg.inv(Z.T @ V @ Z)
        beta = B @ Z.T @ V @ self.known.y
        rest = Zn - k @ V @ Z
        prior = np.einsum("ij,jk,ik->i", Zn, self.covariance, Zn)
        variance = prior - np.einsum("ij,jk,ik->i", k, V, k) + np.einsum("ij,jk,ik->i", rest, B, rest) + self.noise
        return Zn @ beta + k @ V @ (self.known.y - Z @ beta), np.sqrt(np.maximum(variance, 1e-12))


class BoostedMixedModel(Refitting):
    """GPBoost: boosted trees for the average, a random intercept for each task."""

    name = "GPBoost"

    def fit(self, rows: Rows) -> None:
        import gpboost

        self.center, self.scale = float(rows.y.mean()), float(rows.y.std()) or 1.0  # its steps have the size of 1
        effects = gpboost.GPModel(group_data=rows.task, likelihood="gaussian")  # with slopes some fits do not end
        settings = {"learning_rate": 0.05, "max_depth": 3, "min_data_in_leaf": 5, "verbose": -1}
        data = gpboost.Dataset(rows.X, (rows.y - self.center) / self.scale)
        self.booster = gpboost.train(params=settings, train_set=data, gp_model=effects, num_boost_round=100)

    def predict(self, X: Array, task: Index) -> Prediction:
        found = self.booster.predict(data=X, group_data_pred=task, predict_var=True, pred_latent=False)
        std = np.sqrt(np.asarray(found["response_var"]))
        return self.center + self.scale * np.asarray(found["response_mean"]), self.scale * std


PACKAGES = {LinearMixedModel: "statsmodels", BoostedMixedModel: "gpboost"}


def learners() -> tuple[list[Learner], list[str]]:
    """Motet first, then its peers; and what is left out because its package is not installed."""
    every: Sequence[Any] = (LinearMixedModel, GaussianProcess, BoostedMixedModel, Boosting, Separate, Mean)
    missing = [kind for kind in every if kind in PACKAGES and importlib.util.find_spec(PACKAGES[kind]) is None]
    return [Motet(), *(kind() for kind in every if kind not in missing)], [kind.name for kind in missing]
