"""Whether somebody is in a table, by the study file alone: a guess beside a pilot, and certain without one."""

from __future__ import annotations

from experiments.settings_membership import simulated, study_file, victims_of, without

SALT = "0123456789abcdef" * 2


def trials(share: float, most: int) -> list[bool]:
    """For each victim, whether the file shows that it is in; a guess is all that is left where it does not."""
    table = simulated(3, clients=45)
    present = study_file(table, SALT, share)
    victims = victims_of(table, SALT, share, most)
    return [study_file(without(table, victim), SALT, share) != present for victim in victims]


def test_with_a_pilot_the_file_shows_nobody() -> None:
    assert trials(0.2, 45) == [False] * 15


def test_without_one_it_shows_everybody() -> None:
    assert trials(1.0, 15) == [True] * 15
