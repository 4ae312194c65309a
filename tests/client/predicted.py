"""Predictions with chosen numbers, to see how they are written."""

from __future__ import annotations

from motet import Engine, Model
from motet.client.predictions import Prediction, Predictions, Query
from motet.client.tables import Inputs
from motet.kernels import RBF


def predicted(inputs: Inputs, *rows: tuple[str, int, float, float], file: str = "") -> Predictions:
    """Of these clients at these rows of the inputs: means and standard deviations."""
    engine = Engine(Model(RBF(1.0), RBF(1.0), alpha=0.5, lam=0.1))
    engine.learn("ann", [0.0], 1.0)
    return Predictions(Query(engine.disclose(), inputs, {}, {}, file), [Prediction(*row) for row in rows])
