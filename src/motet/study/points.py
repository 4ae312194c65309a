"""Public inputs of a study, points of Halton's sequence between its bounds: for a basis, and for clients that are
simulated, by a forecast or by private releases.

They are the same on every machine and follow from the study file alone, so they say nothing of anyone's data.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats.qmc import Halton

from motet.arrays import Array
from motet.model.model import Model
from motet.tables.columns import QUANTILES, Columns

COORDINATE_DIGITS = 6  # of a coordinate, as a share of its range: on these, and on the sequence, private studies rely
SIMULATED_INPUTS = 400  # between the bounds, for clients that are simulated


def public_inputs(
    model: Model, bounds: Sequence[Sequence[float]] | None, *, for_releases: bool = False
) -> Array | None:
    """Inputs that clients are simulated at: the catalogue, some between the bounds, or the points of the basis; None if
    there is none of it.

    Private releases take their clip and their coordinates from those ``for_releases``: the points of a basis come first
    then. Between bounds of inputs without columns these are pseudo-random, as they always were, and studies that have
    begun rely on their digits. Another sequence for later studies would have to be pinned in the database, and the
    study file alone would no longer say by which coordinates its releases are made.
    """
    points = model.public_points
    if bounds is None or model.catalogue is not None or (for_releases and points is not None):
        return points
    if for_releases and model.columns is None:
        low, high = np.array(bounds).T
        return np.asarray(low + (high - low) * np.random.default_rng(0).random((SIMULATED_INPUTS, len(low))))
    return quasi_random_points([(low, high) for low, high in bounds], model.columns, SIMULATED_INPUTS)


def quasi_random_points(bounds: Sequence[tuple[float, float]], columns: Columns | None, count: int) -> Array:
    """``count`` points between the bounds, or by quantiles, as rows; a category takes all its values in turn."""
    dimension = len(bounds) if columns is None else len(columns)
    sequence = Halton(dimension, scramble=False).random(count + 1)[1:]  # the first point is a corner
    unit = sequence.round(COORDINATE_DIGITS)
    if columns is None:
        low, high = np.array(bounds).T
        return np.asarray(low + (high - low) * unit)
    numbers = np.empty(unit.shape)
    for k, column in enumerate(columns):
        low, high = column.bounds or (0.0, 1.0)
        if column.values:
            numbers[:, k] = np.floor(unit[:, k] * len(column.values))
        elif column.quantiles:
            numbers[:, k] = np.interp(unit[:, k], [0.0, *QUANTILES, 1.0], [low, *column.quantiles, high])
        else:
            numbers[:, k] = low + (high - low) * unit[:, k]
    return columns.expand(numbers)
