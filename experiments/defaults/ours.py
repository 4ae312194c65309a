"""The regressor without any setting, behind the interface of its peers."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

from experiments.defaults.rows import Rows
from motet import MixedEffectRegressor
from motet.arrays import Array
from motet.errors import InvalidData
from motet.regression.scales import SCALES, Distribution, Scale
from motet.tuning.robust import ChosenNoise

ONE_DEVIATION = NormalDist().cdf(1.0)


class Motet:
    """``MixedEffectRegressor()``: categories as they are if it takes them, else as indicators, large ones left out."""

    def tune(self, rows: Rows, counts: Sequence[int]) -> None:  # noqa: ARG002
        warnings.simplefilter("ignore")
        self.rows = rows
        self.frame = _texts if rows.levels.any() else _numbers
        try:
            self.tuned = MixedEffectRegressor().fit(self.frame(rows), rows.y, task=rows.task)
        except (TypeError, ValueError):
            if self.frame is _numbers:
                raise
            self.frame = _numbers
            self.tuned = MixedEffectRegressor().fit(self.frame(rows), rows.y, task=rows.task)

    def predict(self, cell: int, own: Rows | None, new: Rows) -> Distribution | WithNoise:  # noqa: ARG002
        reg: Any = self.tuned
        if own is not None:
            try:
                reg = copy.deepcopy(self.tuned).partial_fit(self.frame(own), own.y, task=own.task)
            except InvalidData:  # a level of a category that no row had: as its message says, all is learned anew
                rows = self.rows.joined(own)
                reg = MixedEffectRegressor().fit(self.frame(rows), rows.y, task=rows.task)
        scale: Scale = SCALES[reg.target_]
        median, above = scale.learned(reg.predict_quantiles(self.frame(new), new.task, (0.5, ONE_DEVIATION))).T
        predicted = scale.observed(median, above - median)
        return predicted if reg.noise_ is None else WithNoise(predicted, scale, reg.noise_, median, above - median)


@dataclass(frozen=True, eq=False)
class WithNoise:
    """Means and bands of a prediction, and the log density that observations have by the noise that was chosen."""

    predicted: Distribution
    scale: Scale
    noise: ChosenNoise
    median: Array
    deviation: Array

    @property
    def mean(self) -> Array:
        return self.predicted.mean

    def quantile(self, p: float) -> Array:
        return self.predicted.quantile(p)

    def log_density(self, y: Array) -> Array:
        residual = self.scale.learned(y) - self.median
        return self.noise.log_scores(residual, self.deviation) + self.scale.log_jacobian(y)


def _numbers(rows: Rows) -> pd.DataFrame:
    X = rows.dense()
    return pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])


def _texts(rows: Rows) -> pd.DataFrame:
    """Numbers, and a column of texts for each category."""
    columns = {f"x{k}": x if not levels else np.char.add("level ", x.astype(int).astype(str)).astype(object)
               for k, (x, levels) in enumerate(zip(rows.X.T, rows.levels))}  # fmt: skip
    return pd.DataFrame(columns)
