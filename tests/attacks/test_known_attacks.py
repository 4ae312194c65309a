"""Attacks on other programs that promise differential privacy: through the digits of their noise, and through what is
published beside it."""

from __future__ import annotations

import numpy as np
from scipy import stats

from motet import Engine
from motet.privacy.ledger import UNIT, Integers, Ledger, opendp_noise
from motet.privacy.mechanism import release
from tests.privacy.worlds import mechanism

LEDGER = Ledger(epsilon=3.0, releases=4)
LOW_BITS = 64  # values of the last six bits


def test_the_last_digits_of_noise_do_not_tell_what_is_under_it() -> None:
    """Mironov 2012: sums of floating-point numbers with noise have digits that only one of two neighbours can have.

    Ours are whole numbers: each can come of every sum, and their last bits are as even as those of a fair draw.
    """
    p_values = []
    for total in (0, 1, UNIT - 1, 37 * UNIT + 12345):
        noisy = opendp_noise(np.full(20_000, total), LEDGER.scale * UNIT)
        assert noisy.dtype == np.int64
        counts = np.bincount(noisy % LOW_BITS, minlength=LOW_BITS)
        p_values.append(stats.chisquare(counts).pvalue)
    assert min(p_values) > 1e-5


def test_this_test_sees_noise_with_the_digits_of_floating_point_numbers() -> None:
    """Of 30 significant bits, as a draw in single precision and a sum would leave them."""
    noise = np.random.default_rng(1).normal(0.0, LEDGER.scale * UNIT, size=20_000)
    coarse = (noise / 2**4).round().astype(np.int64) * 2**4 + 37 * UNIT + 12345
    assert stats.chisquare(np.bincount(coarse % LOW_BITS, minlength=LOW_BITS)).pvalue < 1e-5


def test_a_private_release_follows_from_its_noisy_sums_and_from_nothing_else_of_the_data() -> None:
    """To the last byte: no digit, count, input or variance of the data is beside what has noise."""
    rng, name = np.random.default_rng(2), "features"
    public = mechanism(name)
    noisy = rng.integers(-UNIT, 30 * UNIT, size=public.clip.size)

    def fixed(_total: Integers, _deviation: float) -> Integers:
        return noisy

    files = set()
    for clients in (1, 2, 40):
        engine, rows = Engine(public.model), 3 * clients
        X, y = rng.uniform(-2.0, 2.0, size=(rows, 1)), 10.0**clients * rng.normal(size=rows)
        engine.learn_many(np.repeat(np.arange(clients), 3), X, y, rng.uniform(0.5, 2.0, size=rows))
        files.add(release(engine, public, LEDGER, noise=fixed).disclosed.to_bytes())
    assert len(files) == 1
