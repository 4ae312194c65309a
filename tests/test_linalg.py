"""Eigenvectors that agree, triangles, half-vectors; stacks of small matrices against LAPACK; BLAS threads as before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from motet import Engine, MixedEffectRegressor, Model, linalg
from motet.arrays import Array
from motet.errors import InvalidData
from motet.kernels import RBF
from motet.linalg import (
    cholesky,
    clear_upper,
    eigen,
    inverse,
    inverse_of_low_rank,
    mirror_lower,
    smat,
    solve_lower,
    svec,
)
from motet.threads import BlasLimit, blas_limit


@pytest.mark.parametrize("size", [7, 8, 9, 40])
@pytest.mark.parametrize("order", ["C", "F"])
def test_large_triangles_go_to_lapack_in_parts(size: int, order: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else in the process can do anything until scipy's LAPACK has ended; numpy lets others go on."""
    monkeypatch.setattr(linalg, "MAX_LAPACK_ROWS", 8)
    rows = []

    def counted(call: Any, a: Array, *more: Any, **options: Any) -> Any:
        rows.append(len(a))
        return call(a, *more, **options)

    for name in ("dpotrf", "dtrtri", "dtrtrs"):
        monkeypatch.setattr(linalg, name, partial(counted, getattr(linalg, name)))
    rng = np.random.default_rng(size)
    V = rng.normal(size=(size, size))
    V, M = V @ V.T + np.eye(size), rng.normal(size=(size, 3))
    L = np.array(np.linalg.cholesky(V), order=order)
    np.testing.assert_allclose(cholesky(np.array(V, order=order)), L, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(inverse(V[None])[0][0], np.linalg.inv(V), rtol=1e-7, atol=1e-10)
    for transposed, triangle in ((False, L), (True, L.T)):
        expected = np.linalg.solve(triangle, M)
        np.testing.assert_allclose(solve_lower(L, M, transposed=transposed), expected, rtol=1e-8, atol=1e-10)
    assert max(rows) <= 8


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


@pytest.mark.parametrize("n", [1, 63, 64, 65, 200])
def test_triangles(n: int) -> None:
    A = np.random.default_rng(0).normal(size=(n, n))
    np.testing.assert_array_equal(clear_upper(A.copy()), np.tril(A))
    np.testing.assert_array_equal(mirror_lower(A.copy()), np.tril(A) + np.tril(A, -1).T)


@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (3, 5, 5), (2, 3, 2, 2), (7, 0, 0)])
def test_the_half_vector_is_an_isometry_and_comes_back(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    S, T = (A + A.swapaxes(-1, -2) for A in rng.normal(size=(2, *shape)))
    k = shape[-1]
    assert svec(S).shape == (*shape[:-2], k * (k + 1) // 2)
    np.testing.assert_allclose((svec(S) * svec(T)).sum(axis=-1), np.trace(S @ T, axis1=-2, axis2=-1), atol=1e-12)
    np.testing.assert_allclose(smat(svec(S)), S, rtol=1e-15)
    np.testing.assert_array_equal(smat(svec(S)), smat(svec(S)).swapaxes(-1, -2))
    np.testing.assert_allclose(3 * svec(S, unit=3.0), svec(S), rtol=1e-15)
    np.testing.assert_allclose(smat(svec(S, unit=3.0), unit=3.0), S, rtol=1e-15)


@pytest.mark.parametrize("values", [[3.0, 2.0, 1.0], [2.0, 2.0, 1.0], [1.0, 1.0, 1.0], [5.0, 0.0, 0.0, 1e-20], [0.0]])
def test_eigenvectors_do_not_depend_on_how_they_were_found(
    values: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other signs, and other vectors of equal eigenvalues, as another machine may find them."""
    rng = np.random.default_rng(len(values))
    Q = np.linalg.qr(rng.normal(size=(len(values), len(values))))[0]
    S, plain = (Q * values) @ Q.T, np.linalg.eigh
    S = (S + S.T) / 2
    F = rng.normal(size=(7, len(values)))
    found = [eigen(S), eigen(S, F)]
    for W, V in found:
        np.testing.assert_allclose(S @ V, V * W, atol=1e-13)
        np.testing.assert_allclose(V.T @ V, np.eye(len(V)), atol=1e-13)

    def otherwise(A: Array) -> tuple[Array, Array]:
        W, V = plain(A)
        for value in np.unique(W.round(12)):
            run = np.flatnonzero(W.round(12) == value)
            V[:, run] = V[:, run] @ np.linalg.qr(rng.normal(size=(len(run), len(run))))[0]
        return W, V

    monkeypatch.setattr(np.linalg, "eigh", otherwise)
    for (_, V), (_, again) in zip(found, [eigen(S), eigen(S, F)]):
        np.testing.assert_allclose(again, V, atol=1e-12)


# --- threads ---

BLAS = ThreadpoolController().select(user_api="blas")


def blas_threads() -> set[int]:
    return {library.get_num_threads() for library in BLAS.lib_controllers}


@pytest.fixture
def three_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("MOTET_BLAS_THREADS", raising=False)
    with BLAS.limit(limits=3):
        yield


X, y = np.arange(12.0)[:, None] / 4, np.sin(np.arange(12.0))
CALLS: dict[str, Callable[[], Any]] = {
    "fit": lambda: MixedEffectRegressor().fit(X, y, task=np.arange(12) % 3),
    "disclose": lambda: learned().disclose(),
    "estimate": lambda: learned().disclose().estimate(X, y),
    "deviations": lambda: learned().disclose().estimate(X, y).predict(X, return_std=True),
    "predictions": lambda: learned().predict_many(np.arange(12) % 3, X, return_std=True),
    "average": lambda: learned().disclose().average(X, return_std=True),
}


def learned() -> Engine:
    engine = Engine(Model(RBF(1.0), RBF(1.0), 0.5, 0.1))
    engine.learn_many(np.arange(12) % 3, X, y)
    return engine


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("name", CALLS)
def test_a_call_uses_one_blas_thread_and_leaves_the_users_setting(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    inside: list[set[int]] = []

    def recorded(S: Array) -> Array:
        inside.append(blas_threads())
        return cholesky(S)

    monkeypatch.setattr("motet.release.posterior.cholesky", recorded)
    CALLS[name]()
    assert inside
    assert all(threads == {1} for threads in inside)
    assert blas_threads() == {3}


@pytest.mark.usefixtures("three_threads")
def test_the_limit_lasts_from_the_first_call_to_the_last_in_all_threads() -> None:
    opened, close = Event(), Event()

    def other() -> None:
        with blas_limit:
            opened.set()
            close.wait()

    thread = Thread(target=other)
    with blas_limit:
        thread.start()
        opened.wait()
        with blas_limit:
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == {1}  # the other call has not ended
    close.set()
    thread.join()
    assert blas_threads() == {3}
    with pytest.raises(ZeroDivisionError), blas_limit:
        assert 1 / 0
    assert blas_threads() == {3}


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize(("setting", "expected"), [("1", 1), ("2", 2), ("8", 3), ("all", 3)])
def test_the_limit_can_be_set(setting: str, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTET_BLAS_THREADS", setting)
    with blas_limit:
        assert blas_threads() == {expected}
    assert blas_threads() == {3}


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("setting", ["0", "-1", "many", ""])
def test_a_wrong_limit_is_refused(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTET_BLAS_THREADS", setting)
    with pytest.raises(InvalidData, match="MOTET_BLAS_THREADS must be a whole number from 1, or all, got"):
        learned().disclose()
    monkeypatch.delenv("MOTET_BLAS_THREADS")
    with blas_limit:
        assert blas_threads() == {1}
    assert blas_threads() == {3}


@pytest.mark.usefixtures("three_threads")
def test_a_forked_process_has_no_open_calls() -> None:
    limit = BlasLimit()
    with limit:
        limit.reset()  # as after a fork in the child
        assert blas_threads() == {3}
        limit.__enter__()
    assert blas_threads() == {3}


def test_a_task_without_examples_has_an_empty_inverse(capfd: pytest.CaptureFixture[str]) -> None:
    R, log_det = inverse(np.empty((2, 0, 0)))
    assert (R.shape, log_det.tolist()) == ((2, 0, 0), [0.0, 0.0])
    assert capfd.readouterr() == ("", "")  # LAPACK prints what it does not like
