"""Private releases: (ε, δ) differential privacy for every client, its whole history present or absent.

``Mechanism`` holds what is public and turns noisy sums into a ``Disclosed``; ``release`` makes the next one of an
engine and charges the ledger. Everything after the noise is post-processing, so it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from motet.arrays import Array, finite_number, is_whole_number
from motet.errors import InvalidData, InvalidModel, WrongDimension
from motet.learning.engine import Engine
from motet.model.model import Model
from motet.privacy.clipping import Clip
from motet.privacy.coordinates import Coordinates
from motet.privacy.denoise import Shaped, combined, forecast, posterior, shaped
from motet.privacy.ledger import UNIT, Ledger, Noise, Whole, opendp_noise
from motet.release.disclosed import Disclosed
from motet.release.posterior import Posterior

__all__ = ["Ledger", "Mechanism", "PrivateRelease", "best_rank", "release"]

RANKS = (5, 10, 20, 30, 40, 60, 80, 120, 160)


class Mechanism:
    """What a study fixes in public before the first client comes.

    ``examples`` is how many examples a client is expected to have; ``points`` are inputs such as clients may have, by
    default the catalogue or the basis's own. Where inputs lie between landmarks, give some such points.
    """

    def __init__(
        self, model: Model, *, examples: int, points: Any = None, seed: int = 0, C_eta: float | None = None
    ) -> None:
        if not is_whole_number(examples) or examples < 1:
            raise InvalidData(f"examples must be a whole number from 1, got {examples!r}")
        if C_eta is not None:
            _check("C_eta", C_eta, 0.0, np.inf)
        if not is_whole_number(seed) or seed < 0:
            raise InvalidData(f"seed must be a whole number from 0, got {seed!r}")
        self.model = model
        self.clip = Clip.of(Coordinates.of(model, points), examples, seed=seed, C_eta=C_eta)

    def __repr__(self) -> str:
        return f"Mechanism({self.model.basis!r}, {self.clip.size} numbers a client)"

    def disclosed(self, noisy: Sequence[Whole], *, scale: float, version: int = 1, retiring: bool = False) -> Disclosed:
        """The best estimate from all noisy sums so far, oldest first, each with noise of this ``scale``.

        ``retiring``: clients who have paid for their releases are not in the later sums.
        """
        _check("scale", scale, 0.0, 1e9)
        clip, at = self.clip, self.clip.at
        if not noisy or any(np.shape(one) != (clip.size,) for one in noisy):
            raise InvalidData(f"expected noisy sums of {clip.size} numbers each, at least one")
        vectors = [np.asarray(one) / UNIT for one in noisy]
        sizes = [self._shaped(v, scale)[0].clients for v in vectors]
        total, effective = combined(vectors, sizes, scale, clip.spread, retiring=retiring)
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
    basis = model.basis
    points = None if basis is None or "rank" not in basis.settings() else basis.public_points
    if basis is None or points is None:
        raise InvalidModel(f"the rank is one of basis=Eigen(points, rank), this model has {basis!r}")
    _check("clients", clients, 0, 1e12)
    fitting = [rank for rank in ranks if rank <= len(points)] or [len(points)]
    models = [replace(model, basis=replace(basis, rank=rank)) for rank in fitting]  # type: ignore[call-arg]
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
    if engine.model is not mechanism.model and engine.model != mechanism.model:
        raise InvalidModel("engine and mechanism are of different models: make both of one")
    if engine.dimension not in (None, mechanism.clip.at.points.shape[1]):
        raise WrongDimension(f"inputs have {engine.dimension} columns, the mechanism's points another number")
    retired = ledger.retired(engine.tasks)
    after = ledger.charged([task for task in engine.tasks if task not in retired])
    noisy = noise(mechanism.clip.total(engine, retired), ledger.scale * UNIT)
    sums, retiring = [*earlier, noisy], ledger.per == "client"
    disclosed = mechanism.disclosed(sums, scale=ledger.scale, version=version, retiring=retiring)
    return PrivateRelease(disclosed, after, noisy)


def _check(name: str, value: Any, low: float, high: float) -> None:
    number = finite_number(value)
    if number is None or not low < number < high:
        raise InvalidData(f"{name} must be a number between {low:g} and {high:g}, got {value!r:.60}")
