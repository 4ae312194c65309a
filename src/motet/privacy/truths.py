"""Draws of θ from the prior by Latin hypercube and importance sampling, so that few are like many.

If θ is large the clip shortens all clients, the noise counts for more, and the error grows faster than θ: a mean square
is made by draws that are rare. So the directions of θ that clients show most are drawn from a wider normal law, with
weights that make up for it, and every direction is drawn once from each of as many equal parts of its law as there are
draws.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from motet.arrays import Array
from motet.privacy.clipping import Clip

MEAN_SQUARE_WEIGHT = 1.25  # of importance; 1 would be draws from the prior itself
WIDE_SHARE = 0.2  # of the largest information of a direction, from which one is drawn wide


@dataclass(frozen=True, eq=False)
class Truths:
    """Rows ``theta`` (n, k), and their ``weights``, of mean 1."""

    theta: Array
    weights: Array

    @classmethod
    def draw(cls, clip: Clip, number: int, rng: np.random.Generator, *, even: bool = False) -> Truths:
        """That many draws from the prior of this clip's coordinates.

        At random in its part, a draw is truly one from the prior. With ``even`` it is in the middle of it, and each
        direction has the prior's variance over all draws: for means that vary less.
        """
        deviation = np.sqrt(clip.coordinates.sigma2 * clip.coordinates.prior_variance)
        information, directions = np.linalg.eigh(deviation[:, None] * clip.mean_Lambda * deviation)
        wide = information >= WIDE_SHARE * information.max()
        # As qmc.LatinHypercube, whose digits are others: ranks of studies follow from these.
        part = rng.permuted(np.tile(np.arange(number), (len(deviation), 1)), axis=1).T
        z = ndtri((part + (0.5 if even else rng.uniform(size=part.shape))) / number)
        widths = np.where(wide, width(int(wide.sum())), 1.0)
        weights = np.exp(-0.5 * ((widths**2 - 1) * z**2).sum(axis=1))
        weights /= weights.mean()
        z *= widths
        if even:
            z /= np.sqrt(np.average(z**2, axis=0, weights=weights))
        return cls(deviation * (z @ directions.T), weights)


def width(directions: int) -> float:
    """The standard deviation that so many directions are drawn with, in units of the prior's."""
    square = MEAN_SQUARE_WEIGHT ** (2 / directions)
    return float(np.sqrt(square + np.sqrt(square**2 - square)))
