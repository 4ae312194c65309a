"""The same attacks against private releases: over a hundred victims they do no better than guessing.

They are tried on the published file and on more than is ever published, the noisy sums behind it. On the latter each
succeeds as soon as the noise is off, so that it is the noise that protects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from motet import Catalogue, Disclosed, Eigen, Engine, Model
from motet.music import simulation as music
from motet.privacy.ledger import UNIT, Ledger, Noise, opendp_noise
from motet.privacy.mechanism import Mechanism, release
from tests.privacy.victims import (
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

VICTIMS, LISTENERS = 120, 30
NAMES = small_catalogue().names[::3]
CATALOGUE = Catalogue(NAMES, small_catalogue().vectors[::3])  # few enough that the basis loses nothing
MODEL = Model(music.COMMON, INDIVIDUAL, 0.0714, 1e-2, "none", Eigen(CATALOGUE, len(NAMES)), 0.6, CATALOGUE)


@cache
def mechanism() -> Mechanism:
    return Mechanism(MODEL, examples=5)


def private(releases: int, *, sums: bool, noise: Noise = opendp_noise) -> Release:
    """A study with ε = 1 over the releases that an attack sees: the file, or the noisy sums in its place."""

    def next_one(engine: Engine, version: int) -> Disclosed:
        ledger = Ledger(epsilon=1.0, releases=releases)
        made = release(engine, mechanism(), ledger, version=version, noise=noise)
        if not sums:
            return made.disclosed
        clip = mechanism().clip
        Lambda, eta = clip.at.published(*clip.unpacked(made.noisy / UNIT))
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


def tried(name: str, *, sums: bool, noise: Noise = opendp_noise) -> Score:
    releases, attack = ATTACKS[name]
    return attack(Trials(MODEL, private(releases, sums=sums, noise=noise), seed=3, listeners=LISTENERS))


@pytest.mark.parametrize("sums", [False, True], ids=["file", "sums"])
@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_on_private_releases_do_no_better_than_guessing(name: str, sums: bool) -> None:
    score = tried(name, sums=sums)
    assert score.trials >= 100
    assert score.p_value > 1e-4, score


@pytest.mark.parametrize("name", ATTACKS)
def test_the_same_attacks_succeed_as_soon_as_the_noise_is_off(name: str) -> None:
    score = tried(name, sums=True, noise=lambda total, deviation: total)  # noqa: ARG005
    assert score.p_value < 1e-4, score
