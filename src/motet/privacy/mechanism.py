"""Private releases: (ε, δ) differential privacy for every client, its whole history present or absent.

``Mechanism`` holds the public part and makes a ``Disclosed`` from noisy sums; ``release`` makes the next release of an
engine and charges the ledger. Everything after the noise is post-processing, so it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from motet.arrays import Array, finite_number, is_whole_number
from motet.engine.engine import Engine
from motet.errors import InvalidData, InvalidModel, WrongDimension
from motet.model.model import Model
from motet.privacy.clipping import Clip
from motet.privacy.coordinates import Coordinates
from motet.privacy.denoise import LambdaEstimate, combine_releases, estimate_Lambda, weights_of_eta
from motet.privacy.ledger import UNIT, Integers, Ledger, Perturbation, opendp_noise
from motet.release.disclosed import Disclosed
from motet.release.posterior import Posterior
from motet.threads import blas_limit


class Mechanism:
    """The public part of a private study, fixed before the first client sends anything.

    ``examples`` is the number that a client is expected to have; ``points`` are inputs such as clients may have, by
    default the catalogue or the basis's own. If inputs lie between landmarks, give such points. ``center`` is a typical
    output: clients are clipped about it, so that a level that all have in common costs them nothing of their norm.
    """

    @blas_limit
    def __init__(
        self,
        model: Model,
        *,
        examples: int,
        points: Any = None,
        seed: int = 0,
        C_eta: float | None = None,
        center: float = 0.0,
    ) -> None:
        if not is_whole_number(examples) or examples < 1:
            raise InvalidData(f"examples must be a whole number from 1, got {examples!r}")
        if C_eta is not None:
            _check_between("C_eta", C_eta, 0.0, np.inf)
        if not is_whole_number(seed) or seed < 0:
            raise InvalidData(f"seed must be a whole number from 0, got {seed!r}")
        if finite_number(center) is None:
            raise InvalidData(f"center must be a finite number, got {center!r:.60}")
        if center and model.bias == "none":
            raise InvalidModel('center must be 0 when bias is "none"; omit center, or choose bias="constant"')
        self.model = model
        self.clip = Clip.of(Coordinates.of(model, points), examples, seed=seed, C_eta=C_eta, center=center)

    def __repr__(self) -> str:
        return f"Mechanism({self.model.basis!r}, {self.clip.size} numbers a client)"

    @blas_limit
    def disclose(
        self, noisy: Sequence[Integers], *, scale: float, version: int = 1, retiring: bool = False
    ) -> Disclosed:
        """The best estimate from all noisy sums so far, oldest first, each with noise of this ``scale``.

        ``retiring``: later sums may lack clients of earlier ones, because they have taken part in all their releases.
        """
        _check_between("scale", scale, 0.0, 1e9)
        clip, coordinates = self.clip, self.clip.coordinates
        if not noisy or any(np.shape(one) != (clip.size,) for one in noisy):
            raise InvalidData(f"expected at least one noisy sum, and {clip.size} numbers in each")
        vectors = [np.asarray(one) / UNIT for one in noisy]
        clients = [self._estimates(v, scale)[0].clients for v in vectors]
        total, scale = combine_releases(vectors, clients, scale, clip.client_variance, retiring=retiring)
        Lambda, eta = self._estimates(total, scale)
        sigma2, LS = coordinates.sigma2, weights_of_eta(coordinates, Lambda, eta, scale * clip.C_eta)
        precision = LS @ Lambda.mean  # formula 5, of the weights, less the prior's
        sums = coordinates.to_basis(sigma2 * (precision + precision.T) / 2, sigma2 * (LS @ eta))
        if clip.center:  # the weight of the constant, the first column behind the basis, is about the center
            sums[1][:] += clip.center * sums[0][:, coordinates.basis.rank]
        theta = Posterior.of(*sums, coordinates.basis.prior, self.model.common_share).theta
        landmarks = coordinates.basis.landmarks
        arrays = (landmarks, landmarks[:0], coordinates.basis.A, *sums, theta)
        return Disclosed(self.model, version, *arrays, sigma2, "private", scale)

    def _estimates(self, v: Array, scale: float) -> tuple[LambdaEstimate, Array]:
        """Λ̂ and η̃ of a noisy sum."""
        Lambda, eta = self.clip.to_sums(v)
        return estimate_Lambda(Lambda, self.clip.mean_Lambda, scale * self.clip.C_Lambda), eta


@dataclass(frozen=True, eq=False)
class PrivateRelease:
    """A release, the ledger after it, and its noisy sum, which later releases build on."""

    disclosed: Disclosed
    ledger: Ledger
    noisy: Integers


@blas_limit
def release(
    engine: Engine,
    mechanism: Mechanism,
    ledger: Ledger,
    *,
    earlier: Sequence[Integers] = (),
    version: int = 1,
    noise: Perturbation = opendp_noise,
) -> PrivateRelease:
    """The next private release of an engine; ``earlier`` are the noisy sums of the releases before it.

    Refuses if the budget is spent. Clients that have retired are left out.
    """
    if engine.model is not mechanism.model and engine.model != mechanism.model:
        raise InvalidModel("expected an engine and a mechanism of one model, got different models")
    if engine.dimension not in (None, dimension := mechanism.clip.coordinates.points.shape[1]):
        raise WrongDimension(f"the engine's inputs have {engine.dimension} columns, the mechanism's points {dimension}")
    retired = ledger.retired(engine.tasks)
    after = ledger.after_release([task for task in engine.tasks if task not in retired])
    noisy = noise(mechanism.clip.total(engine, retired), ledger.scale * UNIT)
    retiring = ledger.per == "client"
    disclosed = mechanism.disclose([*earlier, noisy], scale=ledger.scale, version=version, retiring=retiring)
    return PrivateRelease(disclosed, after, noisy)


def _check_between(name: str, value: Any, low: float, high: float) -> None:
    number = finite_number(value)
    if number is None or not low < number < high:
        raise InvalidData(f"{name} must be a number between {low:g} and {high:g}, got {value!r:.60}")
