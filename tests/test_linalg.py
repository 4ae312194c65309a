"""Stacks of small matrices against LAPACK, one by one."""

from __future__ import annotations

import numpy as np
import pytest

from motet.linalg import inverse, inverse_of_low_rank


@pytest.mark.parametrize("m", [1, 64, 200])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 12, 13, 20])
def test_inverses(size: int, m: int) -> None:
    rng = np.random.default_rng(size)
    V = rng.normal(size=(m, size, size))
    V = V @ V.swapaxes(1, 2) + 0.1 * np.eye(size)
    before = V.copy()
    R, log_det = inverse(V)
    np.testing.assert_allclose(R, np.linalg.inv(before), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(log_det, -np.linalg.slogdet(before)[1], rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(R, R.swapaxes(1, 2))
    np.testing.assert_array_equal(V, before)


@pytest.mark.parametrize(("size", "rank"), [(2, 1), (5, 2), (9, 3), (20, 4)])
def test_inverses_of_low_rank(size: int, rank: int) -> None:
    rng = np.random.default_rng(size)
    U, diagonal = rng.normal(size=(70, size, rank)), 10 ** rng.uniform(-2, 2, size=(70, size))
    V = U @ U.swapaxes(1, 2) + np.eye(size) * diagonal[:, None, :]
    R, log_det = inverse_of_low_rank(U, diagonal)
    np.testing.assert_allclose(R, np.linalg.inv(V), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(log_det, -np.linalg.slogdet(V)[1], rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("m", [1, 80])
def test_what_is_not_positive_definite_is_marked(m: int) -> None:
    V = np.tile(np.array([[1.0, 2.0], [2.0, 1.0]]), (m, 1, 1))
    assert np.isnan(inverse(V)[1]).all()
