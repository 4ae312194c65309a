"""GPBoost: boosted trees for the average, a random intercept for each task and for each level of a large category.

Runs in an environment of its own, with numpy and this package. It has a variance of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.defaults.inner import Gaussian, folds
from experiments.defaults.protocol import KNOWN
from experiments.defaults.rows import Rows

if TYPE_CHECKING:
    from motet.arrays import Array


@dataclass(frozen=True)
class Trees:
    rate: float
    rounds: int
    depth: int
    newton: bool  # steps by leaf; those along the gradient are too long where the noise is small beside the tasks


CANDIDATES = (
    Trees(0.1, 50, 3, False),
    Trees(0.02, 100, 3, False),
    Trees(0.05, 100, 3, True),
    Trees(0.05, 100, 6, True),
)


class Fitted:
    def __init__(self, rows: Rows, trees: Trees) -> None:
        import gpboost

        self.center, self.scale = float(rows.y.mean()), float(rows.y.std()) or 1.0  # its steps have the size of 1
        effects = gpboost.GPModel(
            group_data=_groups(rows), likelihood="gaussian", num_parallel_threads=1, matrix_inversion_method="cholesky"
        )
        settings = {"learning_rate": trees.rate, "max_depth": trees.depth, "min_data_in_leaf": 5, "num_leaves": 31,
                    "leaves_newton_update": trees.newton, "num_threads": 1, "verbose": -1}  # fmt: skip
        data = gpboost.Dataset(_inputs(rows), (rows.y - self.center) / self.scale)
        self.booster: Any = gpboost.train(settings, data, gp_model=effects, num_boost_round=trees.rounds)

    def predict(self, new: Rows) -> Gaussian:
        told = self.booster.predict(data=_inputs(new), group_data_pred=_groups(new), predict_var=True,
                                    pred_latent=False)  # fmt: skip
        std = np.sqrt(np.maximum(np.asarray(told["response_var"]), 1e-12))
        return Gaussian(self.center + self.scale * np.asarray(told["response_mean"]), self.scale * std)


def _inputs(rows: Rows) -> Array:
    X = rows.dense()
    return X if X.shape[1] else np.zeros((len(rows), 1))


def _groups(rows: Rows) -> Array:
    return np.column_stack([rows.task, rows.X[:, rows.large_categories].astype(int)])


class GPBoost:
    """The trees that are best for known tasks, and those for new ones; fitted again with the rows that these bring."""

    def tune(self, rows: Rows, counts: Sequence[int]) -> None:
        self.rows = rows
        losses: dict[int, list[float]] = {cell: [0.0] * len(CANDIDATES) for cell in (KNOWN, 0)}
        for part in folds(rows, counts):
            for k, trees in enumerate(CANDIDATES):
                fitted = Fitted(rows.take(part.train), trees)
                for cell, sums in losses.items():
                    held_out = rows.take(part.test(cell))
                    sums[k] += float(np.sum((fitted.predict(held_out).mean - held_out.y) ** 2))
        self.chosen = {cell: CANDIDATES[int(np.argmin(sums))] for cell, sums in losses.items()}

    def predict(self, cell: int, own: Rows | None, new: Rows) -> Gaussian:
        return Fitted(self.rows.joined(own), self.chosen[min(cell, 0)]).predict(new)
