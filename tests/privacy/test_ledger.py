"""The privacy budget: how much noise it asks for, what is spent, and when a study or a client is done."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from motet.errors import BudgetSpent, InvalidModel
from motet.privacy.ledger import Integers, Ledger, epsilon_of
from motet.privacy.mechanism import release
from tests.privacy.accountant import accountant
from tests.privacy.worlds import GRID, mechanism, silent, study


@pytest.mark.slow
@pytest.mark.parametrize("releases", [1, 10, 100])
@pytest.mark.parametrize("delta", [1e-5, 1e-8])
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 3.0, 8.0])
def test_the_ledger_agrees_with_another_accountant(epsilon: float, delta: float, releases: int) -> None:
    ledger = Ledger(epsilon=epsilon, delta=delta, releases=releases)
    assert accountant(ledger.scale, delta, releases) == pytest.approx(epsilon, abs=1e-2)
    some = max(1, releases // 3)
    assert epsilon_of(ledger.scale, delta, some) == pytest.approx(accountant(ledger.scale, delta, some), abs=1e-2)


def test_a_study_ends_when_its_budget_is_spent() -> None:
    engine, ledger, noisy = study("landmarks", 10), Ledger(epsilon=1.0, releases=2), list[Integers]()
    assert (ledger.releases_left, ledger.epsilon_spent) == (2, 0.0)
    for version in (1, 2):
        made = release(engine, mechanism("landmarks"), ledger, earlier=noisy, version=version)
        ledger, noisy = made.ledger, [*noisy, made.noisy]
        assert made.disclosed.version == version
    assert ledger.releases_left == 0
    assert 0.99 < ledger.epsilon_spent <= 1.0
    with pytest.raises(BudgetSpent, match="all 2 releases"):
        release(engine, mechanism("landmarks"), ledger, earlier=noisy)


def test_a_client_retires_and_the_study_goes_on() -> None:
    engine, clip = study("landmarks", 3), mechanism("landmarks").clip
    ledger = Ledger(epsilon=1.0, releases=2, per="client")
    assert "participation" not in repr(ledger)
    for _ in range(2):
        ledger = release(engine, mechanism("landmarks"), ledger, noise=silent).ledger
    assert ledger.retired(engine.tasks) == {0, 1, 2}
    assert 0.99 < ledger.epsilon_spent <= 1.0
    engine.learn_many(["late"] * 2, GRID[:2], [1.0, 2.0])
    assert ledger.charged(engine.tasks) == ["late"]
    assert Ledger(epsilon=1.0, releases=2).charged(engine.tasks) == []
    made = release(engine, mechanism("landmarks"), ledger, noise=silent)
    assert np.array_equal(made.noisy, clip.vector(GRID[:2], np.array([1.0, 2.0]), np.ones(2)))
    assert made.ledger.participation["late"] == 1
    with pytest.raises(BudgetSpent, match="3 clients"):
        ledger.after_release([0, 1, 2, "late"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0.0},
        {"epsilon": 1e-300},
        {"epsilon": 1.0, "releases_made": -5},
        {"epsilon": 1.0, "participation": {"a": -1}},
    ]
    + [{"epsilon": 50}, {"epsilon": "1"}, {"epsilon": 1.0, "delta": 0.1}]
    + [{"epsilon": 1.0, "releases": value} for value in (0, 1.5, True)]
    + [{"epsilon": 1.0, "per": "day"}],
)
def test_budgets_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidModel):
        Ledger(**wrong)
