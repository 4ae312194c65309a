"""The published figures of privacy, of forecasts and of tuned settings, on few seeds: a guard, not the measurement."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from experiments.forecast import ERRORS, Record, Setting, cases, outcomes
from experiments.privacy_utility import covered, goals
from experiments.study import SIMULATION, Study, artists, learned, mechanism
from experiments.tables import PASSIVE
from experiments.tuning_coverage import CASES, Case, outcome
from experiments.tuning_music import GOAL, compare

from motet.music.simulation import simulate
from motet.privacy.ledger import Ledger
from motet.privacy.mechanism import release


def test_private_releases_keep_most_of_the_gain_of_sharing() -> None:
    shares = [list(goals(Study.of(simulate(artists(), 3000, 5, seed)), mechanism())) for seed in range(2)]
    assert (np.mean(shares, axis=0) >= [0.94, 0.89, 0.92]).all()  # means of ten seeds: 0.96, 0.93, 0.95


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_bands_hold_the_truth_as_often_as_they_say(epsilon: float) -> None:
    listeners, public = simulate(artists(), 3200, 5, seed=4), mechanism(SIMULATION)
    engine = learned(public.model, listeners, listeners.user < 3000)
    fractions = covered(release(engine, public, Ledger(epsilon=epsilon)).disclosed, listeners, 3000)
    assert 0.85 <= fractions[PASSIVE] <= 0.95


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_intervals_and_bands_of_tuned_settings_hold_the_truth(case: Case) -> None:
    outcomes = [outcome(case, seed) for seed in range(4)]
    inside = [held for one in outcomes for held in one.inside.values()]
    assert np.mean(inside) >= 0.8  # 0.95 over twenty seeds
    assert 0.85 <= np.mean([one.values for one in outcomes]) <= 0.95
    assert 0.85 <= np.mean([one.observations for one in outcomes]) <= 0.95


def test_settings_of_a_pilot_are_as_good_as_the_best_of_the_grid() -> None:
    compared = compare(seed=0, count=300, alphas=[0.0, 1 / 14, 2 / 14, 0.5, 1.0], lams=[1e-4, 10**-3.5, 1e-2])
    assert compared.ratio <= GOAL
    assert 0.03 < compared.tuned.alpha < 0.3  # simulated: 0.1
    assert compared.tuned.sigma2 == pytest.approx(SIMULATION.sigma2, rel=0.2)
    assert 0.0 < compared.best_alpha < 1.0  # so the settings matter


@pytest.mark.parametrize(("name", "bases"), [("4 columns, linear", 1), ("curves, Matérn", 2)])
def test_forecasts_are_within_ten_percent_beyond_doubt(name: str, bases: int) -> None:
    """A part of experiments/FORECAST.md: two standard errors leave no room for a forecast that is more off."""
    (case,) = (case for case in cases() if case.name == name)
    settings = [Setting(1.0, 60), Setting(5.0, 400, 2)]
    found = list(outcomes(replace(case, others=case.others[: bases - 1]), settings, 30, Record(None)))
    assert len(found) == 2 * bases
    for one in found:
        for error in ERRORS:
            doubt = 2 * one.happened.standard_error(error)
            assert doubt > 0
            assert abs(np.log(one.ratio(error))) + doubt <= np.log1p(0.1), f"{one.basis}, ε = {one.setting}: {error}"
        assert abs(one.coverage) <= 2.0


def test_a_record_of_what_happened_is_read_again(tmp_path: Path) -> None:
    case, settings = cases()[6], [Setting(1.0, 20), Setting(3.0, 20, 2)]
    record = Record(tmp_path / "happened.json")
    first, again = (list(outcomes(case, settings, 2, record)) for _ in range(2))
    assert first == again
    assert all(len(one.happened.rounds) == 2 for one in first)
    (more,) = outcomes(case, [Setting(1.0, 21)], 1, record)
    assert len(more.happened.rounds) == 1
    assert len(record.read("a mean alone, the bias")) == 3
