"""The noise, as an attacker and as a statistician see it: as large as promised, in every block and over releases."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from scipy import stats

from motet import Engine, Landmarks, Model
from motet.arrays import Array
from motet.attacks.attacks import membership_test
from motet.kernels import RBF
from motet.privacy.ledger import UNIT, Integers, Ledger, opendp_noise
from motet.privacy.mechanism import Mechanism
from tests.privacy.accountant import promised
from tests.privacy.worlds import rounded_gaussian, silent

SMALL = Model(RBF(1.0), RBF(1.0), 0.5, 0.1, "none", Landmarks(np.array([[-1.0], [0.0], [1.0]])), 1.0)
RUNS = 10_000
Noisy = Callable[[Integers, float], Integers]


@cache
def small() -> tuple[Mechanism, Integers, Integers]:
    """A study on three landmarks, its sum, and a victim's vector of full length."""
    mechanism = Mechanism(SMALL, examples=3)
    engine, rng = Engine(SMALL), np.random.default_rng(5)
    engine.learn_many(np.repeat(np.arange(20), 3), rng.normal(size=(60, 1)).round(1), rng.normal(size=60))
    victim = mechanism.clip.vector(np.array([[-1.0], [0.0], [1.0]]), np.array([3.0, -2.0, 3.0]), np.ones(3))
    assert np.linalg.norm(victim / UNIT) > 0.999
    return mechanism, mechanism.clip.total(engine), victim


def noisy_runs(noise: Noisy, total: Integers, deviation: float, runs: int) -> Array:
    return noise(np.tile(total, runs), deviation).reshape(runs, -1) / UNIT


def tells_members_apart(noise: Noisy, ledger: Ledger) -> bool:
    """Whether the likelihood ratio of ten thousand runs shifts more than the promise allows."""
    _, total, victim = small()
    deviation = ledger.scale * UNIT
    with_victim, without = noisy_runs(noise, total + victim, deviation, RUNS), noisy_runs(noise, total, deviation, RUNS)
    return bool(
        membership_test(with_victim, without, victim / UNIT).lower > 1 / promised(ledger.epsilon, ledger.delta, 1)
    )


def p_values(noise: Noisy, ledger: Ledger, releases: int) -> list[float]:
    """χ² of the noise of each release by block, and of its sum over composed releases, against the promised scale."""
    mechanism, total, _ = small()
    a, b = np.triu_indices(len(mechanism.clip.mean_Lambda))
    blocks = [np.flatnonzero(a == b), np.flatnonzero(a != b), len(a) + np.arange(len(mechanism.clip.mean_Lambda))]
    scale = promised(ledger.epsilon, ledger.delta, releases)
    runs = 400
    z = np.array([noisy_runs(noise, total, ledger.scale * UNIT, runs) - total / UNIT for _ in range(releases)]) / scale
    parts = [z[:, :, block] for block in blocks] + [z.sum(axis=0) / np.sqrt(releases)]
    tails = [stats.chi2(part.size).cdf((part**2).sum()) for part in parts]
    return [2 * min(tail, 1 - tail) for tail in tails]


ONE, TEN = Ledger(epsilon=1.0), Ledger(epsilon=3.0, releases=10)


@pytest.mark.slow
def test_membership_shifts_no_more_than_promised() -> None:
    assert not tells_members_apart(opendp_noise, ONE)


@pytest.mark.parametrize(("ledger", "releases"), [(ONE, 1), (TEN, 10)])
def test_the_noise_is_as_large_as_promised_in_every_block_and_over_releases(ledger: Ledger, releases: int) -> None:
    assert min(p_values(opendp_noise, ledger, releases)) > 1e-4


def test_these_tests_see_noise_that_is_off_or_too_small_or_not_composed() -> None:
    fair, small_noise = rounded_gaussian(6), rounded_gaussian(7, np.sqrt(0.5))
    assert not tells_members_apart(fair, ONE)
    assert min(p_values(fair, TEN, 10)) > 1e-4
    for noise in (silent, small_noise):
        assert tells_members_apart(noise, ONE)
        assert max(p_values(noise, ONE, 1)) < 1e-4
    forgotten = Ledger(epsilon=3.0, releases=1)  # each of ten releases with the noise of one
    assert max(p_values(fair, forgotten, 10)) < 1e-4
    assert composed_shift(fair, TEN) <= 1 / promised(3.0, 1e-5, 1)
    assert composed_shift(fair, forgotten) > 1 / promised(3.0, 1e-5, 1)


def composed_shift(noise: Noisy, ledger: Ledger) -> float:
    """The lower bound of the shift that an attacker sees who averages ten releases of the same sum."""
    _, total, victim = small()
    deviation = ledger.scale * UNIT
    seen = [sum(noisy_runs(noise, t, deviation, RUNS) for _ in range(10)) / 10 for t in (total + victim, total)]
    return membership_test(seen[0], seen[1], victim / UNIT).lower


def test_noise_once_drawn_is_not_drawn_again() -> None:
    _, total, _ = small()
    stuck = opendp_noise(np.tile(total, 400), TEN.scale * UNIT) - np.tile(total, 400)
    assert p_values(lambda t, _: t + stuck, TEN, 10)[-1] < 1e-4
