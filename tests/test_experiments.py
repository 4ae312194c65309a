"""The published figures of privacy, on few seeds: a guard, not the measurement."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.privacy_utility import covered, goals
from experiments.study import SIMULATION, Study, artists, learned, mechanism
from experiments.tables import PASSIVE

from motet.music.simulation import simulate
from motet.privacy.ledger import Ledger
from motet.privacy.mechanism import release


def test_private_releases_keep_most_of_the_gain_of_sharing() -> None:
    shares = [list(goals(Study.of(simulate(artists(), 3000, 5, seed)), mechanism())) for seed in range(3)]
    assert (np.mean(shares, axis=0) >= [0.94, 0.89, 0.92]).all()  # means of ten seeds: 0.96, 0.93, 0.95


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_bands_hold_the_truth_as_often_as_they_say(epsilon: float) -> None:
    listeners, public = simulate(artists(), 3200, 5, seed=4), mechanism(SIMULATION)
    engine = learned(public.model, listeners, listeners.user < 3000)
    fractions = covered(release(engine, public, Ledger(epsilon=epsilon)).disclosed, listeners, 3000)
    assert 0.85 <= fractions[PASSIVE] <= 0.95
