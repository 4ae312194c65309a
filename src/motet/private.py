"""Private releases: (ε, δ) differential privacy for every client, its whole history present or absent.

``Mechanism`` holds what is public and turns noisy sums into a ``Disclosed``; ``release`` makes the next one of an
engine and charges the ledger. Everything after the noise is post-processing, so it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from motet.arrays import Array
from motet.basis import Eigen
from motet.clip import Clip
from motet.coordinates import Coordinates
from motet.denoise import Shaped, combined, forecast, posterior, shaped
from motet.disclosed import Disclosed
from motet.engine import Engine
from motet.errors import InvalidData, InvalidModel
from motet.ledger import UNIT, Ledger, Noise, Whole, opendp_noise
from motet.model import Model
from motet.posterior import Posterior

__all__ = ["Ledger", "Mechanism", "PrivateRelease", "best_rank", "release"]

RANKS = (5, 10, 20, 30, 40, 60, 80, 120, 160)


class Mechanism:
    """What a study fixes in public before the first client comes.

    ``examples`` is how many examples a client is expected to have; ``points`` are inputs such as clients may have, by
    default the catalogue or the basis's own.
    """

    def __init__(
        self, model: Model, *, examples: int, points: Any = None, seed: int = 0, C_eta: float | None = None
    ) -> None:
        if isinstance(examples, bool) or not isinstance(examples, int) or examples < 1:
            raise InvalidData(f"examples must be a whole number from 1, got {examples!r}")
        self.model = model
        self.clip = Clip.of(Coordinates.of(model, points), examples, seed=seed, C_eta=C_eta)

    def __repr__(self) -> str:
        return f"Mechanism({self.model.basis!r}, {self.clip.size} numbers a client)"

    def disclosed(self, noisy: Sequence[Whole], *, scale: float, version: int = 1) -> Disclosed:
        """The best estimate from all noisy sums so far, oldest first, each with noise of this ``scale``."""
        clip, at = self.clip, self.clip.at
        if not noisy or any(np.shape(one) != (clip.size,) for one in noisy):
            raise InvalidData(f"expected noisy sums of {clip.size} numbers each, at least one")
        vectors = [np.asarray(one) / UNIT for one in noisy]
        sizes = [self._shaped(v, scale)[0].clients for v in vectors]
        total, effective = combined(vectors, sizes, scale, clip.spread)
        found, eta = self._shaped(total, effective)
        Lambda, eta = at.published(*posterior(at, found, eta, effective * clip.C_eta))
        theta = Posterior.of(Lambda, eta, at.basis.prior, self.model.common_share).theta
        landmarks = at.basis.landmarks
        arrays = (landmarks, landmarks[:0], at.basis.A, Lambda, eta, theta)
        return Disclosed(self.model, version, *arrays, at.sigma2, "private", effective)

    def _shaped(self, v: Array, scale: float) -> tuple[Shaped, Array]:
        Lambda, eta = self.clip.unpacked(v)
        return shaped(Lambda, self.clip.shape, scale * self.clip.C_Lambda), eta


def best_rank(model: Model, *, clients: int, examples: int, ledger: Ledger, ranks: Sequence[int] = RANKS) -> int:
    """The rank of ``Eigen`` that serves so many expected clients best under this budget, from public knowledge alone.

    A larger one misses less of K̄ and has more numbers to hide. Of ranks that are as good the smallest.
    """
    if not isinstance(model.basis, Eigen):
        raise InvalidModel(f"the rank is one of basis=Eigen(points, rank), this model has {model.basis!r}")
    points = model.basis.points
    fitting = [rank for rank in ranks if rank <= len(points)] or [len(points)]
    models = [replace(model, basis=Eigen(points, rank)) for rank in fitting]
    errors = [forecast(Mechanism(m, examples=examples).clip, clients, ledger.scale) for m in models]
    return next(rank for rank, error in zip(fitting, errors) if error <= 1.03 * min(errors))


@dataclass(frozen=True, eq=False)
class PrivateRelease:
    """A release, the ledger after it, and its noisy sum, which later releases build on."""

    disclosed: Disclosed
    ledger: Ledger
    noisy: Whole


def release(
    engine: Engine,
    mechanism: Mechanism,
    ledger: Ledger,
    *,
    earlier: Sequence[Whole] = (),
    version: int = 1,
    noise: Noise = opendp_noise,
) -> PrivateRelease:
    """The next private release of all that an engine holds; ``earlier`` are the noisy sums of those before it.

    Refuses when the budget is spent. Clients who have retired are left out.
    """
    retired = ledger.retired(engine.tasks)
    after = ledger.charged([task for task in engine.tasks if task not in retired])
    noisy = noise(mechanism.clip.total(engine, retired), ledger.scale * UNIT)
    return PrivateRelease(mechanism.disclosed([*earlier, noisy], scale=ledger.scale, version=version), after, noisy)
