"""The file: not a bit changes, and nothing foreign is read. What a client asks of a release."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from motet import Catalogue, Disclosed, Eigen, Engine, Features, Landmarks, Model
from motet.errors import (
    InvalidData,
    InvalidRelease,
    MotetError,
    NotFinite,
    NotPositiveDefinite,
    UnknownName,
    WrongDimension,
)
from motet.kernels import RBF, DotProduct, ExpSineSquared, Identity
from motet.release.disclosed import TENSORS
from motet.release.file import pack
from tests.engine.grid import GRID, Triple, learned, triples
from tests.streams import CASES, engine_of, probes, problem

ITEMS = Catalogue(["a", "b", "c"], [[1.0, 0.1], [0.0, 1 / 3], [2.0, 5.0]])
MODELS = {
    "growing": Model(RBF(1.0), DotProduct(0.5), alpha=0.3, lam=0.1),
    "landmarks": Model(RBF(1.0), DotProduct(0.5), alpha=0.3, lam=0.1, basis=Landmarks(ITEMS.rows), bias="linear"),
    "eigen": Model(RBF(1.0), Identity(), alpha=0.3, lam=0.1, basis=Eigen(ITEMS, 2), catalogue=ITEMS),
    "features": Model(DotProduct(0.5), RBF(1.0), alpha=0.3, lam=0.1, basis=Features(), sigma2=2.0),
    "no average": Model(None, RBF(1.0), alpha=0.3, lam=0.1, bias="linear"),
}


def engine_for(name: str) -> Engine:
    engine = Engine(MODELS[name])
    engine.learn_many(
        ["u", "u", "v", "v", "w"], ITEMS.rows[[0, 1, 2, 0, 1]], [0.1, 1 / 3, 2.0, 7.0, 1e-3], [0.1, 1, 2, 1, 3]
    )
    return engine


def release_of(name: str) -> Disclosed:
    return engine_for(name).disclose()


@pytest.mark.parametrize("name", MODELS)
def test_a_file_there_and_back_changes_no_bit(name: str, tmp_path: Path) -> None:
    release = release_of(name)
    release.save(tmp_path / "release.motet")
    again = Disclosed.load(tmp_path / "release.motet")
    assert again.to_bytes() == release.to_bytes()
    for tensor in TENSORS:
        assert getattr(again, tensor).tobytes() == np.ascontiguousarray(getattr(release, tensor)).tobytes()
    assert (again.model, again.version, again.sigma2, again.policy) == (release.model, 1, release.sigma2, "exact")
    X = ITEMS.rows[:, :]
    mine, theirs = (r.estimate(X[:2], [1.0, 2.0]).predict(X, return_std=True) for r in (release, again))
    np.testing.assert_array_equal(mine, theirs)


@given(rows=st.lists(triples, min_size=1, max_size=12))
@settings(max_examples=40)
def test_any_release_there_and_back_changes_no_bit(rows: list[Triple]) -> None:
    release = learned(rows).disclose()
    again = Disclosed.from_bytes(release.to_bytes())
    assert again.to_bytes() == release.to_bytes()
    np.testing.assert_array_equal(again.average(GRID, return_std=True), release.average(GRID, return_std=True))


def test_the_file_is_what_the_docs_say() -> None:
    data = release_of("eigen").to_bytes()
    tensors = safetensors.numpy.load(data)
    assert set(tensors) == {"landmarks", "redundant", "A", "Lambda", "eta", "theta"}
    assert {a.dtype for a in tensors.values()} == {np.dtype("float64")}
    size = int.from_bytes(data[:8], "little")
    header = json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["motet"])
    settings = {"format", "sha256", "version", "policy", "sigma2", "noise_scale", "catalogue", "model"}
    assert set(header) == settings | {"missed"}
    assert header["catalogue"] == ITEMS.digest


def test_no_example_and_no_kernel_of_a_single_task_is_in_the_file() -> None:
    engine = Engine(MODELS["growing"], individual={"secret task": RBF(0.123456789)})
    engine.learn("secret task", [0.5], 3.25)
    engine.learn("other", [0.5], 1.0)
    data = engine.disclose().to_bytes()
    for private in (b"secret", b"0.123456789", np.float64(3.25).tobytes()):
        assert private not in data


@pytest.mark.parametrize(
    "data", [b"", b"short", b"\x00" * 100, b"\xff" * 100, safetensors.numpy.save({"A": np.zeros(2)})]
)
def test_a_foreign_file_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRelease, match="not a release"):
        Disclosed.from_bytes(data)


def test_a_damaged_release_is_refused() -> None:
    release = release_of("growing")
    n = len(release.theta)
    damages: list[tuple[dict[str, Any], str]] = [
        ({"theta": release.theta[:-1]}, "sums that fit the basis"),
        ({"eta": release.eta * np.nan}, "not finite"),
        ({"Lambda": release.Lambda + np.arange(n)}, "symmetric"),
        ({"A": release.A[:, :-1]}, "features that fit the landmarks"),
        ({"landmarks": release.landmarks[0]}, "tables of landmarks"),
        ({"redundant": np.zeros((1, 7))}, "inputs of one dimension"),
        ({"version": -1}, "a version"),
        ({"version": "one"}, "a version"),
        ({"policy": "open"}, "a policy"),
        ({"sigma2": -1.0}, "sigma2 as a number"),
        ({"noise_scale": "loud"}, "noise_scale as a number"),
    ]
    for damage, message in damages:
        arrays = {name: value for name, value in damage.items() if name in TENSORS}
        settings = {name: value for name, value in damage.items() if name not in TENSORS}
        broken = pack(release._header | settings, release._tensors | arrays)
        with pytest.raises(InvalidRelease, match=message):
            Disclosed.from_bytes(broken)
    other = pack(release._header | {"catalogue": "0" * 64}, release._tensors)
    with pytest.raises(InvalidRelease, match="its catalogue does not match"):
        Disclosed.from_bytes(other)
    with pytest.raises(InvalidRelease, match="expected the arrays"):
        Disclosed.from_bytes(pack(release._header, {"A": release.A}))
    with pytest.raises(InvalidRelease, match="format 9"):
        Disclosed.from_bytes(release.to_bytes().replace(b'\\"format\\": 1', b'\\"format\\": 9'))
    with pytest.raises(InvalidRelease, match="negative eigenvalue"):
        replace(release, Lambda=-1e6 * np.eye(len(release.eta))).estimate([[0.0, 0.0, 0.0]], [1.0])


def test_no_flipped_bit_goes_unnoticed() -> None:
    data = release_of("growing").to_bytes()
    rng = np.random.default_rng(0)
    for at in rng.integers(len(data), size=300):
        damaged = bytearray(data)
        damaged[at] ^= 1 << int(rng.integers(8))
        try:
            again = Disclosed.from_bytes(bytes(damaged))
        except MotetError:
            continue
        assert again.to_bytes() == data  # white space of the header


def test_a_release_cannot_be_written_to() -> None:
    """Nor can anything else that the engine gives out change it."""
    engine = Engine(MODELS["landmarks"])
    engine.learn_many(["u", "u", "v"], ITEMS.rows, [1.0, 2.0, 3.0])
    release = engine.disclose()
    for tensor in TENSORS:
        with pytest.raises(ValueError, match="read-only"):
            getattr(release, tensor)[:] = 7.0
    engine.learn("u", ITEMS.rows[2], 9.0)
    before = engine.coefficients("u", release).a.copy()
    c = engine.coefficients("u", release)
    assert c.released is not None
    for array in (c.inputs, c.y, c.noise, c.a, c.released.X, c.released.y, c.released.noise):
        array[:] = 99.0
    np.testing.assert_array_equal(engine.coefficients("u", release).a, before)


def test_a_passive_client_with_a_kernel_of_its_own_and_inputs_never_seen() -> None:
    """Equal to an engine in which that client is one of the tasks."""
    p = problem(CASES["ard"], seed=5, alpha=0.3, lam=0.1, bias="linear")
    mine = np.array([t == "t0" for t in p.tasks])
    p.X[mine] += 10.0  # far from everyone
    release = engine_of(p, ~mine).disclose()
    estimate = release.estimate(p.X[mine], p.y[mine], p.noise[mine], individual=p.kernels["t0"])
    together = engine_of(p)
    expected = together.disclose().active_estimate(together.coefficients("t0"))
    X = np.vstack([probes(p), probes(p) + 10.0])
    np.testing.assert_allclose(estimate.predict(X), expected.predict(X), rtol=0, atol=1e-8 * np.abs(p.y).max())
    np.testing.assert_allclose(estimate.a, expected.a, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", MODELS)
def test_an_active_clients_mean_comes_from_its_coefficients_alone(name: str) -> None:
    """Algorithm 6: nothing is factored before a standard deviation is asked for."""
    engine = engine_for(name)
    release, mine = Disclosed.from_bytes(engine.disclose().to_bytes()), engine.coefficients("u")
    estimate = release.active_estimate(mine)
    average, mean = release.average(ITEMS.rows), estimate.predict(ITEMS.rows)
    assert "posterior" not in vars(release)
    doubled = release.active_estimate(replace(mine, a=2 * mine.a)).predict(ITEMS.rows)
    np.testing.assert_allclose(doubled - average, 2 * (mean - average), rtol=1e-9, atol=1e-12)
    expected = engine.predict_many(["u"] * 3, ITEMS.rows, return_std=True)
    np.testing.assert_allclose(estimate.predict(ITEMS.rows, return_std=True), expected, rtol=1e-9)


def test_top_among_rows() -> None:
    estimate = release_of("growing").estimate(ITEMS.rows[:1], [5.0])
    best = estimate.top(2)
    values = estimate.predict(best)
    assert values[0] >= values[1]
    left = estimate.top(9, exclude=[best[0]])
    assert len(left) == 2
    assert not (left == best[0]).all(axis=1).any()
    np.testing.assert_array_equal(estimate.top(1, among=ITEMS.rows[2:]), ITEMS.rows[2:])


def test_too_few_examples_for_sigma2_is_told() -> None:
    engine = Engine(MODELS["growing"])
    engine.learn("a", [1.0], 2.0)
    release = Disclosed.from_bytes(engine.disclose().to_bytes())
    assert release.sigma2 is None
    assert release.average([[1.0]]) == pytest.approx(2.0)
    with pytest.raises(InvalidData, match="too few examples to estimate σ²"):
        release.average([[1.0]], return_std=True)


def test_a_clients_own_bad_data_is_refused() -> None:
    release = release_of("growing")
    with pytest.raises(WrongDimension, match="3 columns, got 2"):
        release.estimate([[1.0, 2.0]], [1.0])
    with pytest.raises(NotFinite, match="outputs"):
        release.estimate([[1.0, 2.0, 3.0]], [float("nan")])
    with pytest.raises(WrongDimension, match="expected 1 outputs"):
        release.estimate([[1.0, 2.0, 3.0]], [1.0, 2.0])
    with pytest.raises(WrongDimension, match="3 columns"):
        release.estimate([[1.0, 2.0, 3.0]], [1.0], individual=RBF([1.0, 2.0]))
    X = np.random.default_rng(0).normal(size=(30, 3))
    with pytest.raises(NotPositiveDefinite, match="another kernel"):
        release.estimate(X, X[:, 0], 1e-9, individual=ExpSineSquared(0.3, 0.5))
    with pytest.raises(InvalidData, match="whole number from 0, got -1"):
        release.estimate(X, X[:, 0]).top(-1)
    eigen = release_of("eigen").estimate(["a"], [1.0])
    assert eigen.top(5, exclude="a") == ["c", "b"]
    for row in ([7.0, 1.0, 0.1], [0.5, 1.0, 0.1], [0.0, 1.0, 0.2]):
        with pytest.raises(UnknownName, match="has no name"):
            eigen.top(1, among=[row])


def test_article_coefficients_of_features_basis() -> None:
    """L = x̆, D = I: H = (I + αx̆ᵀGx̆)⁻¹ and y̆ = x̆ᵀg (Algorithm 1, lines 8 and 9)."""
    model = Model(DotProduct(0.0), RBF(1.0), alpha=0.3, lam=0.1, basis=Features(), bias="none")
    engine, over = Engine(model), Engine(replace(model, basis=None))
    for e in (engine, over):
        e.learn_many(["u", "u", "v"], ITEMS.rows, [1.0, 2.0, 3.0])
    info = over.information()
    assert info.inputs is not None
    release = engine.disclose()
    np.testing.assert_allclose(release.H, np.linalg.inv(np.eye(3) + 0.3 * info.inputs.T @ info.G @ info.inputs))
    np.testing.assert_allclose(release.y, info.inputs.T @ info.g)


@pytest.mark.parametrize("others", [0, 1, 3])
def test_a_passive_client_that_alone_shows_the_bias(others: int) -> None:
    """Where the others do not identify the bias, the client's own examples do."""
    model = Model(RBF(1.0), DotProduct(0.5), alpha=0.3, lam=0.1, bias="linear", basis=Landmarks(GRID), sigma2=1.0)
    alone, together = Engine(model), Engine(model)
    own = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 9.0, 17.0])
    for task in range(others):
        for engine in (alone, together):
            engine.learn(task, [0.0], 1.0 + task)
    together.learn_many(["me"] * 3, *own)
    X = np.array([[-1.0], [0.5], [10.0]])
    passive = alone.disclose().estimate(*own).predict(X, return_std=True)
    active = together.disclose().active_estimate(together.coefficients("me")).predict(X, return_std=True)
    np.testing.assert_allclose(passive, active, rtol=1e-9)
