"""What one client adds to a private sum: never more than one unit, to the last digit its own, on every machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as configured
from hypothesis import strategies as st

from motet import Engine, Features, Landmarks, Model
from motet.errors import InvalidData, InvalidModel
from motet.kernels import RBF, ConstantKernel, DotProduct, Matern
from motet.linalg import inverse
from motet.music import simulation as music
from motet.privacy import clipping
from motet.privacy.ledger import UNIT
from motet.privacy.mechanism import Mechanism
from tests.oracles import private_vector
from tests.privacy.worlds import CATALOGUE, GRID, MODELS, fingerprints, mechanism, music_model, rows_of, study


@pytest.mark.slow
@pytest.mark.parametrize("processor", ["Prescott", "Haswell"])
def test_coordinates_are_those_of_every_machine(processor: str) -> None:
    """Noisy sums outlive the machine that made them; OpenBLAS computes otherwise on another processor."""
    code = "import json; from tests.privacy.worlds import fingerprints; print(json.dumps(fingerprints()))"
    environment = os.environ | {"OPENBLAS_CORETYPE": processor}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    for there, here in zip(json.loads(done.stdout), fingerprints(), strict=True):
        np.testing.assert_allclose(there, here, rtol=0, atol=1e-9 * np.abs(here).max())


@pytest.mark.parametrize("name", MODELS)
def test_a_client_adds_its_clipped_information_in_whole_numbers(name: str) -> None:
    rng, clip = np.random.default_rng(1), mechanism(name).clip
    norms = []
    for n in (1, 3, 5, 30):
        X, y, noise = rows_of(name, rng, n), 2 * rng.normal(size=n), rng.uniform(0.5, 2.0, size=n)
        found, expected = clip.vector(X, y, noise), private_vector(clip, X, y, noise)
        assert found.dtype == np.int64
        np.testing.assert_allclose(found, UNIT * expected, atol=1.01 + 1e-8 * UNIT)
        norms.append(np.linalg.norm(found / UNIT))
    assert max(norms) > 0.999  # some are clipped, and then use all they may


@pytest.mark.parametrize(
    ("name", "clipped", "whole"),
    [
        ("features", [541147, -10955, 152002, 876572, -122746], [69840, 138386, 137102, 8282, 11604]),
        ("bias alone", [602634, 858104], [254019, 20997]),
    ],
)
def test_vectors_are_those_of_the_first_version(name: str, clipped: list[int], whole: list[int]) -> None:
    """Noisy sums of a study may come from several versions; another processor may round one digit differently."""
    X, y, noise = np.array([[-1.5], [0.25], [0.25], [2.0]]), np.array([0.5, -0.25, 0.75, 1.5]), np.array([1, 2, 0.5, 1])
    clip = mechanism(name).clip
    np.testing.assert_allclose(clip.vector(X, y, noise), clipped, rtol=0, atol=1)
    np.testing.assert_allclose(clip.vector(X[:1], y[:1] / 10, 3 * noise[:1]), whole, rtol=0, atol=1)


def test_about_half_the_clients_of_the_prior_are_clipped() -> None:
    model = music_model(40)
    listeners = music.simulate(music.artists(), 300, 5, seed=1)
    clip = Mechanism(model, examples=5).clip
    rows = music.artists().rows[listeners.artist].reshape(300, 5, -1)
    whole = [clip.vector(X, y, np.ones(5)) for X, y in zip(rows, listeners.rating.reshape(300, 5))]
    assert 0.3 < np.mean([np.linalg.norm(v / UNIT) > 0.9999 for v in whole]) < 0.8


hostile = st.floats(-1e149, 1e149) | st.sampled_from([0.0, 1e-300, 1e149, -1e149, 1e75])
variances = st.floats(1e-149, 1e149) | st.sampled_from([1e-149, 1e149, 1.0])


@pytest.mark.parametrize("name", ["landmarks", "linear bias", "features", "bias alone", "eigen"])
@given(rows=st.lists(st.tuples(hostile, hostile, variances, st.integers(1, 3)), min_size=1, max_size=20))
@configured(max_examples=60)
def test_no_row_is_longer_than_the_unit(name: str, rows: list[tuple[float, float, float, int]]) -> None:
    engine = Engine(MODELS[name])
    for x, y, noise, repeats in rows:
        input = CATALOGUE.rows[int(abs(x)) % 30] if name == "eigen" else [x]
        for _ in range(repeats):
            engine.learn("hostile", input, y, noise)
    whole = mechanism(name).clip.total(engine)
    assert sum(int(v) ** 2 for v in whole) <= UNIT**2


@pytest.mark.parametrize("name", MODELS)
def test_order_and_removal_leave_no_trace(name: str) -> None:
    clip = mechanism(name).clip
    kernel = ConstantKernel(0.5) * RBF(0.7)
    engine, turned = study(name, 150, kernel=kernel), Engine(MODELS[name], {3: kernel})
    total = clip.total(engine)
    rng = np.random.default_rng(2)
    for client in rng.permutation(150):
        turned.learn_many([int(client)] * len(engine._examples.of_task(client)[1]), *engine._examples.of_task(client))
    assert np.array_equal(clip.total(turned), total)
    for client in (3, 7, 149):
        own = engine._examples.of_task(client)
        alone = clip.vector(*own, kernel=kernel if client == 3 else None)
        assert np.array_equal(clip.total(engine, without=[client]), total - alone)
        engine.forget(client)
        total = total - alone
        assert np.array_equal(clip.total(engine), total)


def clients_off_points(sizes: list[int]) -> tuple[Engine, dict[int, tuple[Any, Any, Any]]]:
    """An engine of clients of these sizes, whose inputs are no public points, and their examples."""
    rng, engine = np.random.default_rng(5), Engine(MODELS["landmarks"])
    rows = {k: (rng.uniform(-2, 2, (n, 1)), rng.normal(size=n), rng.uniform(0.5, 2, n)) for k, n in enumerate(sizes)}
    for client, (X, y, noise) in rows.items():
        engine.learn_many([client] * len(X), X, y, noise)
    return engine, rows


def test_clients_off_the_points_are_summed_together_to_the_last_digit() -> None:
    """Of every size, below and above the one from which LAPACK takes them singly, in any company."""
    clip = mechanism("landmarks").clip
    engine, rows = clients_off_points([1 + k % 15 for k in range(300)])
    alone = {client: clip.vector(*own) for client, own in rows.items()}
    assert np.array_equal(clip.total(engine), sum(alone.values()))
    some = [client for client in rows if client % 7]
    assert np.array_equal(clip.total(engine, without=some), sum(v for k, v in alone.items() if k % 7 == 0))
    X, y, noise = rows[13]
    assert np.array_equal(clip.vector(X[::-1], y[::-1], noise[::-1]), alone[13])


def test_clients_off_the_points_are_not_evaluated_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """One by one, a million examples would keep a first release waiting for minutes."""
    clip, calls = mechanism("landmarks").clip, 0
    engine, _ = clients_off_points([5] * 640)

    def counted(V: Any) -> Any:
        nonlocal calls
        calls += 1
        return inverse(V)

    monkeypatch.setattr(clipping, "inverse", counted)
    clip.total(engine)
    assert calls == 640 // clipping.CLIENTS_PER_BLOCK


@pytest.mark.parametrize("name", MODELS)
def test_a_client_with_huge_values_changes_nobody_else(name: str) -> None:
    clip, engine = mechanism(name).clip, study(name, 70)
    before, X = clip.total(engine), rows_of(name, np.random.default_rng(3), 20)
    y, noise = np.full(20, 9e149), np.full(20, 1e-149)
    engine.learn_many(["huge"] * 20, X, y, noise)
    assert np.array_equal(clip.total(engine), before + clip.vector(X, y, noise))


@pytest.mark.parametrize("y", [9e149, -9e149])
def test_a_client_that_overflows_changes_nothing(y: float) -> None:
    model = Model(DotProduct(1.0), DotProduct(0.0), 0.5, 0.2, "none", Features(), 0.5)
    clip, engine = Mechanism(model, examples=3, points=GRID).clip, Engine(model)
    engine.learn_many(np.repeat(np.arange(90), 3), np.tile(GRID[:3], (90, 1)), np.arange(270.0))
    before = clip.total(engine)
    engine.learn("overflows", [0.0], y, 2e-150)
    assert np.array_equal(clip.total(engine), before)
    for x in GRID[:3, 0]:  # among the others' own size
        engine.learn("huge", [x], y, 2e-150)
    assert np.array_equal(clip.total(engine), before + clip.vector(GRID[:3], np.full(3, y), np.full(3, 2e-150)))


@pytest.mark.parametrize("size", [8, 20])
def test_a_solve_that_fails_is_nobody_elses_loss(size: int) -> None:
    model = Model(Matern(1.0), RBF(1.0), 0.5, 0.1, "constant", Landmarks(np.linspace(0, 1, 40)[:, None]), 1.0)
    clip, rng = Mechanism(model, examples=4).clip, np.random.default_rng(4)
    engine = Engine(model)
    for client in range(70):
        engine.learn_many([client] * size, clip.coordinates.points[rng.permutation(40)[:size]], rng.normal(size=size))
    before = clip.total(engine)
    engine.learn_many(["singular"] * size, clip.coordinates.points[:size], rng.normal(size=size), np.full(size, 1e-140))
    singular = engine._examples.of_task("singular")
    assert before.any()
    assert np.array_equal(clip.total(engine), before + clip.vector(*singular))


def test_there_is_nothing_private_about_a_growing_basis_and_the_refusal_says_what_to_do() -> None:
    base = MODELS["eigen"]
    for changes, reason in (
        ({"basis": None}, r"Eigen\(catalogue, rank\).*Landmarks.*Features"),
        ({"sigma2": None}, "public sigma2"),
        ({"alpha": 0.0}, "alpha 0"),
    ):
        with pytest.raises(InvalidModel, match=reason):
            Mechanism(replace(base, **changes), examples=5)
    with pytest.raises(InvalidModel, match="give points="):
        Mechanism(MODELS["features"], examples=5)
    with pytest.raises(InvalidModel, match="nothing is shared"):
        Mechanism(replace(MODELS["bias alone"], bias="none"), examples=5, points=GRID)
    with pytest.raises(InvalidData, match="whole number"):
        Mechanism(base, examples=0)
