"""The same attacks against private releases: over a hundred victims they do no better than guessing.

They are tried on the published file and on more than is ever published, the noisy sums behind it. On the latter each
succeeds as soon as the noise is off, so that it is the noise that protects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TypeAlias

import numpy as np
import pytest

from motet import Catalogue, Disclosed, Eigen, Engine, Model
from motet.music import simulation as music
from motet.privacy.ledger import UNIT, Integers, Ledger, opendp_noise
from motet.privacy.mechanism import Mechanism, PrivateRelease, release
from tests.attacks.victims import (
    INDIVIDUAL,
    Release,
    Score,
    Trials,
    inputs_score,
    inversion_score,
    separation_score,
    signs_score,
    small_catalogue,
)

pytestmark = pytest.mark.slow
VICTIMS, LISTENERS = 120, 20
NAMES = small_catalogue().names[::4]
CATALOGUE = Catalogue(NAMES, small_catalogue().vectors[::4])  # few enough that the basis loses nothing
MODEL = Model(music.COMMON, INDIVIDUAL, 0.0714, 1e-2, "none", Eigen(CATALOGUE, len(NAMES)), 0.6, CATALOGUE)


@cache
def mechanism() -> Mechanism:
    return Mechanism(MODEL, examples=5)


@cache
def drawn(deviation: float, version: int, size: int) -> Integers:  # noqa: ARG001
    """OpenDP's noise of one release; every attack has releases of its own, and sees the same noise in them."""
    return opendp_noise(np.zeros(size, dtype=np.int64), deviation)


Releases: TypeAlias = dict[int, PrivateRelease]  # by version


def private(planned: int, releases: Releases, *, sums: bool, noise: bool) -> Release:
    """A study with ε = 1 over the releases that an attack sees: the file, or the noisy sums in its place.

    A version that is in ``releases`` is not made again: the same trials see it in another way.
    """

    def next_one(engine: Engine, version: int) -> Disclosed:
        def with_noise(total: Integers, deviation: float) -> Integers:
            return total + drawn(deviation, version, len(total)) if noise else total

        if version not in releases:
            ledger = Ledger(epsilon=1.0, releases=planned)
            releases[version] = release(engine, mechanism(), ledger, version=version, noise=with_noise)
        made = releases[version]
        if not sums:
            return made.disclosed
        clip = mechanism().clip
        Lambda, eta = clip.coordinates.to_basis(*clip.to_sums(made.noisy / UNIT))
        return replace(made.disclosed, Lambda=Lambda, eta=eta)

    return next_one


ATTACKS: dict[str, tuple[int, Callable[[Trials], Score]]] = {
    "inversion": (1, lambda t: inversion_score(t, VICTIMS)),
    "differencing, inputs": (2, lambda t: inputs_score(t, VICTIMS)),
    "differencing, outputs": (2, lambda t: signs_score(t, VICTIMS)),
    "separation": (2, lambda t: separation_score(t, VICTIMS // 2, size=3)),
    "deletion": (2, lambda t: inputs_score(t, VICTIMS, leaving=True)),
    "probing": (2, lambda t: inputs_score(t, VICTIMS, own=9)),
}


def score(name: str, releases: Releases, *, sums: bool, noise: bool = True) -> Score:
    planned, attack = ATTACKS[name]
    return attack(Trials(MODEL, private(planned, releases, sums=sums, noise=noise), seed=3, listeners=LISTENERS))


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_on_private_releases_do_no_better_than_guessing(name: str) -> None:
    releases: Releases = {}
    for sums in (False, True):
        result = score(name, releases, sums=sums)
        assert result.trials >= 100
        assert result.p_value > 1e-4, (sums, result)


@pytest.mark.parametrize("name", ATTACKS)
def test_the_same_attacks_succeed_as_soon_as_the_noise_is_off(name: str) -> None:
    result = score(name, {}, sums=True, noise=False)
    assert result.p_value < 1e-4, result
