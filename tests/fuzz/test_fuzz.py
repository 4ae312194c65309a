"""A small part of ``make fuzz`` with each run of the tests, always the same cases."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.fuzz.run import run
from tests.fuzz.targets import TARGETS

CASES = 1000  # of all targets together
FEWEST = 100  # of one target: with fewer, hypothesis finds none that is accepted


def test_no_case_of_any_test_fails_because_the_machine_is_busy() -> None:
    assert settings().deadline is None


def test_every_case_is_of_a_target() -> None:
    assert sum(target.share for target in TARGETS.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("name", TARGETS)
def test_whatever_is_read_is_taken_or_refused(name: str) -> None:
    done = run(name, max(FEWEST, round(CASES * TARGETS[name].share)), first_seed=1)
    assert 0 < done.accepted < done.cases  # cases that are all refused, or none, would show little
