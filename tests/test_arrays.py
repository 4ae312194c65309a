"""Rows by exact value: few or many, seen early or late, and when hashes fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet import arrays
from motet.arrays import Array, distinct, match, outliers, slices, stable_order


def assert_told_apart(X: Array, first: Array, same_as: Array) -> None:
    np.testing.assert_array_equal(X[first][same_as], X)
    assert len(first) == len(np.unique(X + 0.0, axis=0))


@pytest.mark.parametrize("pool", [3, 900, 40_000])
@pytest.mark.parametrize("rows", [1, 50, 5_000, 40_000])
def test_distinct_rows(rows: int, pool: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(-5, 5, size=(pool, 3)).astype(float)[rng.integers(pool, size=rows)] * rng.choice(
        [0.1, 1.0], size=(rows, 1)
    )
    assert_told_apart(X, *distinct(X))


def test_values_that_come_late() -> None:
    """Beyond the sample whose values are expected of the others, a few new ones and many."""
    for late in (10, 5_000):
        X = np.concatenate([np.tile(np.arange(100.0), 300), 1000 + np.arange(float(late))])[:, None]
        assert_told_apart(X, *distinct(X))


def test_rows_that_share_a_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "_hash", lambda X: np.zeros(len(X), dtype=np.uint64))
    X = np.random.default_rng(0).integers(5, size=(500, 2)).astype(float)
    assert_told_apart(X, *distinct(X))


@pytest.mark.parametrize("rows", [7, 3_000])
def test_matching_among_known_rows(rows: int) -> None:
    rng = np.random.default_rng(1)
    known: dict[bytes, int] = {}
    kept = np.empty((0, 2))
    for _ in range(4):
        X = rng.integers(30, size=(rows, 2)).astype(float)
        number, new = match(X, known)
        kept = np.vstack([kept, X[new]])
        np.testing.assert_array_equal(kept[number], X)
    assert len(kept) == len(known) == len(np.unique(kept, axis=0))


def test_slices() -> None:
    assert [list(range(10))[part] for part in slices(10, 4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert slices(0, 5) == []
    assert len(slices(3, 0)) == 3


@pytest.mark.parametrize(
    "values", [[1j], ["1"], [[1.0], [1.0, 2.0]], [10**400], np.array(["2026-01-01"], dtype="M8[D]"), {}]
)
def test_what_is_not_numbers(values: Any) -> None:
    with pytest.raises(ValueError, match="must be real numbers"):
        arrays.numbers(values, "things")


@pytest.mark.parametrize("largest", [5, 2**40, 2**62])
def test_the_order_of_whole_numbers_is_stable_whether_or_not_they_fit_beside_their_places(largest: int) -> None:
    key = np.random.default_rng(0).integers(0, 4, size=3000) * (largest // 4)
    assert np.array_equal(stable_order(key.copy()), np.argsort(key, kind="stable"))


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=40, max_size=200, unique=True),
    st.floats(1e13, 1e100),
    st.floats(-3, 3),
)
def test_outliers_are_found_whatever_the_unit(values: list[float], far: float, unit: float) -> None:
    """A number far from all others is found, alone, and the spread is that of the others."""
    numbers = np.array([*values, far])
    numbers[: len(values)] += np.arange(len(values))
    found, spread = outliers(10**unit * numbers)
    assert found.tolist() == [len(values)]
    assert spread == pytest.approx(10**unit * np.std(numbers[:-1]), rel=1e-9)
    assert not len(outliers(10**unit * np.tan(np.linspace(-1.5, 1.5, 99)))[0])  # tails of a Cauchy distribution
