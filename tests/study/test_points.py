"""Public inputs of a study: the digits on which private studies that have begun rely."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from motet.kernels import RBF
from motet.model.basis import Eigen
from motet.model.model import Model
from motet.study.points import SIMULATED_INPUTS, public_inputs, quasi_random_points
from motet.tables.catalogue import Catalogue
from motet.tables.columns import Columns

PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)


def radical_inverse(number: int, base: int) -> float:
    """The digits of a number, mirrored at the point."""
    total, place = 0.0, 1.0
    while number:
        number, digit = divmod(number, base)
        place /= base
        total += digit * place
    return total


def test_points_are_those_of_haltons_sequence_to_the_last_digit() -> None:
    low, high = np.linspace(-3.0, 1.0, len(PRIMES)), np.linspace(1.5, 70.0, len(PRIMES))
    unit = np.array([[radical_inverse(number, base) for base in PRIMES] for number in range(1, 1001)]).round(6)
    points = quasi_random_points(list(zip(low.tolist(), high.tolist())), None, 1000)
    np.testing.assert_array_equal(points, low + (high - low) * unit)


LOW, HIGH = np.array([0.0, -2.0]), np.array([6.0, 2.0])
BOUNDS = list(zip(LOW.tolist(), HIGH.tolist()))
NUMBERS = Model(RBF(1.0), RBF(2.0), 0.5, 0.2)
NAMED = replace(
    NUMBERS, columns=Columns.from_spec([{"name": "hours", "bounds": BOUNDS[0]}, {"name": "dose", "bounds": BOUNDS[1]}])
)
EIGEN = replace(NUMBERS, basis=Eigen(np.array([[0.0, 1.0], [2.0, 0.5]]), 1))
CATALOGUE = Catalogue(["a", "b"], [[0.5, 1.0], [1.5, -1.0]])
ITEMS = replace(NUMBERS, catalogue=CATALOGUE)


def test_private_releases_of_inputs_without_names_have_the_points_that_they_always_had() -> None:
    """By their digits: a study that began with them goes on with them."""
    points = public_inputs(NUMBERS, BOUNDS, for_releases=True)
    assert points is not None
    first = [[3.821770123928726, -0.9208531449445188], [0.24584114361716813, -1.9338894578858836]]
    assert (points.shape, points[:2].tolist()) == ((SIMULATED_INPUTS, 2), first)


@pytest.mark.parametrize("for_releases", [False, True])
def test_a_forecast_and_a_release_simulate_clients_at_the_same_inputs(for_releases: bool) -> None:
    """But where a basis has points, or inputs have no names: releases have always had their own then."""
    expected = quasi_random_points(BOUNDS, None, SIMULATED_INPUTS)

    def found(model: Model, bounds: Any = BOUNDS) -> Any:
        return public_inputs(model, bounds, for_releases=for_releases)

    np.testing.assert_array_equal(found(NAMED), expected)
    np.testing.assert_array_equal(found(ITEMS), CATALOGUE.rows)
    np.testing.assert_array_equal(found(EIGEN, None), EIGEN.public_points)
    np.testing.assert_array_equal(found(EIGEN), EIGEN.public_points if for_releases else expected)
    assert np.array_equal(found(NUMBERS), expected) is not for_releases
    assert found(NUMBERS, None) is None
