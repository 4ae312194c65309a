"""The private release: what a client adds, the noise, the ledger, and what clients make of the result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting import rdp
from hypothesis import given
from hypothesis import settings as configured
from hypothesis import strategies as st
from scipy import stats
from sklearn.gaussian_process.kernels import Kernel

from motet import Catalogue, Disclosed, Eigen, Engine, Features, Landmarks, Model
from motet.arrays import Array
from motet.errors import BudgetSpent, InvalidData, InvalidModel
from motet.kernels import RBF, ConstantKernel, DotProduct, Identity, Matern
from motet.music import simulation as music
from motet.privacy.attacks import membership_test
from motet.privacy.coordinates import Coordinates
from motet.privacy.denoise import combine_releases, estimate_Lambda
from motet.privacy.ledger import UNIT, Ledger, Whole, epsilon_of, opendp_noise
from motet.privacy.mechanism import Mechanism, best_rank, release
from tests.oracles import private_estimate, private_vector

GRID = np.linspace(-2.0, 2.0, 12)[:, None]
NAMES = [f"item {k}" for k in range(30)]
CATALOGUE = Catalogue(NAMES, np.random.default_rng(0).normal(size=(30, 3)))
MODELS = {
    "eigen": Model(RBF(2.0), DotProduct(0.0), 0.3, 0.05, "none", Eigen(CATALOGUE, 6), 0.7, CATALOGUE),
    "landmarks": Model(Matern(1.0), RBF(1.0), 0.5, 0.1, "constant", Landmarks(GRID), 1.3),
    "linear bias": Model(RBF(1.0), DotProduct(1.0), 0.4, 0.1, "linear", Landmarks(GRID[::3]), 1.0),
    "features": Model(DotProduct(1.0), DotProduct(0.5), 0.5, 0.2, "none", Features(), 0.5),
    "bias alone": Model(None, RBF(1.0), 0.0, 0.2, "constant", None, 0.5),
}
POINTS: dict[str, Any] = {"features": GRID, "bias alone": GRID}


@cache
def mechanism(name: str) -> Mechanism:
    return Mechanism(MODELS[name], examples=4, points=POINTS.get(name))


SQUARE = np.stack(np.meshgrid(*[np.linspace(-1.0, 1.0, 5)] * 2), axis=-1).reshape(-1, 2)  # many equal eigenvalues


def marks() -> list[list[float]]:
    square = [
        Model(RBF(0.7), RBF(1.0), 0.5, 0.1, "constant", basis, 1.0) for basis in (Eigen(SQUARE, 9), Landmarks(SQUARE))
    ]
    found = [mechanism(name).clip.coordinates for name in MODELS] + [Coordinates.of(model) for model in square]
    return [at.fingerprint.tolist() for at in found]


@pytest.mark.slow
@pytest.mark.parametrize("processor", ["Prescott", "Sandybridge", "Haswell"])
def test_coordinates_are_those_of_every_machine(processor: str) -> None:
    """Noisy sums outlive the machine that made them; OpenBLAS computes otherwise on another processor."""
    code = "import json; from tests.privacy.test_mechanism import marks; print(json.dumps(marks()))"
    environment = os.environ | {"OPENBLAS_CORETYPE": processor}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    for there, here in zip(json.loads(done.stdout), marks(), strict=True):
        np.testing.assert_allclose(there, here, rtol=0, atol=1e-9 * np.abs(here).max())


def rows_of(name: str, rng: np.random.Generator, n: int) -> Array:
    if name == "eigen":
        return CATALOGUE.rows[rng.integers(len(CATALOGUE), size=n)]
    public = rng.random(n) < 0.7
    return np.where(public[:, None], GRID[rng.integers(len(GRID), size=n)], rng.normal(size=(n, 1)))


def study(name: str, clients: int, seed: int = 0, kernel: Kernel | None = None) -> Engine:
    """Clients of one to twenty examples, on the public points and beside them."""
    rng = np.random.default_rng(seed)
    engine = Engine(MODELS[name], None if kernel is None else {3: kernel})
    for client in range(clients):
        n = int(rng.integers(1, 21))
        engine.learn_many([client] * n, rows_of(name, rng, n), rng.normal(size=n), rng.uniform(0.5, 2.0, size=n))
    return engine


def rounded_gaussian(seed: int, factor: float = 1.0) -> Callable[[Whole, float], Whole]:
    rng = np.random.default_rng(seed)
    return lambda total, deviation: total + np.rint(factor * deviation * rng.normal(size=len(total))).astype(np.int64)


def silent(total: Whole, deviation: float) -> Whole:  # noqa: ARG001
    return total


# --- what a client adds ---


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
@configured(max_examples=60, deadline=None)
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


# --- the ledger ---


@cache
def promised(epsilon: float, delta: float, releases: int) -> float:
    """The noise scale that another library asks for: the least whose Rényi accountant stays within ε."""
    low, high = 0.1, 1e3
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if accountant(middle, delta, releases) > epsilon else (low, middle)
    return high


def accountant(scale: float, delta: float, releases: int) -> float:
    orders = [1 + k / 20 for k in range(1, 400)] + list(range(21, 400)) + np.geomspace(400, 1e6, 400).tolist()
    found = rdp.RdpAccountant(orders=orders).compose(dp_accounting.GaussianDpEvent(scale), releases)
    return float(found.get_epsilon(delta))


@pytest.mark.parametrize("releases", [1, 10, 100])
@pytest.mark.parametrize("delta", [1e-5, 1e-8])
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 3.0, 8.0])
def test_the_ledger_agrees_with_another_accountant(epsilon: float, delta: float, releases: int) -> None:
    ledger = Ledger(epsilon=epsilon, delta=delta, releases=releases)
    assert accountant(ledger.scale, delta, releases) == pytest.approx(epsilon, abs=1e-2)
    some = max(1, releases // 3)
    assert epsilon_of(ledger.scale, delta, some) == pytest.approx(accountant(ledger.scale, delta, some), abs=1e-2)


def test_a_study_ends_when_its_budget_is_spent() -> None:
    engine, ledger, noisy = study("landmarks", 10), Ledger(epsilon=1.0, releases=2), list[Whole]()
    assert (ledger.left, ledger.epsilon_spent) == (2, 0.0)
    for version in (1, 2):
        made = release(engine, mechanism("landmarks"), ledger, earlier=noisy, version=version)
        ledger, noisy = made.ledger, [*noisy, made.noisy]
        assert made.disclosed.version == version
    assert ledger.left == 0
    assert 0.99 < ledger.epsilon_spent <= 1.0
    with pytest.raises(BudgetSpent, match="all 2 releases"):
        release(engine, mechanism("landmarks"), ledger, earlier=noisy)


def test_a_client_retires_and_the_study_goes_on() -> None:
    engine, clip = study("landmarks", 3), mechanism("landmarks").clip
    ledger = Ledger(epsilon=1.0, releases=2, per="client")
    assert "taken" not in repr(ledger)
    for _ in range(2):
        ledger = release(engine, mechanism("landmarks"), ledger, noise=silent).ledger
    assert ledger.retired(engine.tasks) == {0, 1, 2}
    assert 0.99 < ledger.epsilon_spent <= 1.0
    engine.learn_many(["late"] * 2, GRID[:2], [1.0, 2.0])
    made = release(engine, mechanism("landmarks"), ledger, noise=silent)
    assert np.array_equal(made.noisy, clip.vector(GRID[:2], np.array([1.0, 2.0]), np.ones(2)))
    assert made.ledger.taken["late"] == 1
    with pytest.raises(BudgetSpent, match="3 clients"):
        ledger.charged([0, 1, 2, "late"])


@pytest.mark.parametrize(
    "wrong",
    [{"epsilon": 0.0}, {"epsilon": 1e-300}, {"epsilon": 1.0, "spent": -5}, {"epsilon": 1.0, "taken": {"a": -1}}]
    + [{"epsilon": 50}, {"epsilon": "1"}, {"epsilon": 1.0, "delta": 0.1}]
    + [{"epsilon": 1.0, "releases": value} for value in (0, 1.5, True)]
    + [{"epsilon": 1.0, "per": "day"}],
)
def test_budgets_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidModel):
        Ledger(**wrong)


# --- the noise, as an attacker and as a statistician see it ---

SMALL = Model(RBF(1.0), RBF(1.0), 0.5, 0.1, "none", Landmarks(np.array([[-1.0], [0.0], [1.0]])), 1.0)
RUNS = 10_000
Noisy = Callable[[Whole, float], Whole]


@cache
def small() -> tuple[Mechanism, Whole, Whole]:
    """A study on three landmarks, its sum, and a victim's vector of full length."""
    found = Mechanism(SMALL, examples=3)
    engine, rng = Engine(SMALL), np.random.default_rng(5)
    engine.learn_many(np.repeat(np.arange(20), 3), rng.normal(size=(60, 1)).round(1), rng.normal(size=60))
    victim = found.clip.vector(np.array([[-1.0], [0.0], [1.0]]), np.array([3.0, -2.0, 3.0]), np.ones(3))
    assert np.linalg.norm(victim / UNIT) > 0.999
    return found, found.clip.total(engine), victim


def many(noise: Noisy, total: Whole, deviation: float, runs: int) -> Array:
    return noise(np.tile(total, runs), deviation).reshape(runs, -1) / UNIT


def tells_members_apart(noise: Noisy, ledger: Ledger) -> bool:
    """Whether the likelihood ratio of ten thousand runs shifts more than the promise allows."""
    _, total, victim = small()
    deviation = ledger.scale * UNIT
    with_victim, without = many(noise, total + victim, deviation, RUNS), many(noise, total, deviation, RUNS)
    return bool(
        membership_test(with_victim, without, victim / UNIT).lower > 1 / promised(ledger.epsilon, ledger.delta, 1)
    )


def p_values(noise: Noisy, ledger: Ledger, releases: int) -> list[float]:
    """χ² of the noise of each release by block, and of its sum over composed releases, against the promised scale."""
    found, total, _ = small()
    a, b = np.triu_indices(len(found.clip.mean_Lambda))
    blocks = [np.flatnonzero(a == b), np.flatnonzero(a != b), len(a) + np.arange(len(found.clip.mean_Lambda))]
    scale = promised(ledger.epsilon, ledger.delta, releases)
    runs = 400
    z = np.array([many(noise, total, ledger.scale * UNIT, runs) - total / UNIT for _ in range(releases)]) / scale
    parts = [z[:, :, block] for block in blocks] + [z.sum(axis=0) / np.sqrt(releases)]
    tails = [stats.chi2(part.size).cdf((part**2).sum()) for part in parts]
    return [2 * min(tail, 1 - tail) for tail in tails]


ONE, TEN = Ledger(epsilon=1.0), Ledger(epsilon=3.0, releases=10)


@pytest.mark.slow
def test_membership_shifts_no_more_than_promised() -> None:
    assert not tells_members_apart(opendp_noise, ONE)


@pytest.mark.parametrize(("ledger", "releases"), [(ONE, 1), (TEN, 10)])
def test_the_noise_is_as_large_as_promised_in_every_block_and_over_releases(ledger: Ledger, releases: int) -> None:
    assert min(p_values(opendp_noise, ledger, releases)) > 1e-4


def test_these_tests_see_noise_that_is_off_or_too_small_or_not_composed() -> None:
    fair, small_noise = rounded_gaussian(6), rounded_gaussian(7, np.sqrt(0.5))
    assert not tells_members_apart(fair, ONE)
    assert min(p_values(fair, TEN, 10)) > 1e-4
    for noise in (silent, small_noise):
        assert tells_members_apart(noise, ONE)
        assert max(p_values(noise, ONE, 1)) < 1e-4
    forgotten = Ledger(epsilon=3.0, releases=1)  # each of ten releases with the noise of one
    assert max(p_values(fair, forgotten, 10)) < 1e-4
    assert composed_shift(fair, TEN) <= 1 / promised(3.0, 1e-5, 1)
    assert composed_shift(fair, forgotten) > 1 / promised(3.0, 1e-5, 1)


def composed_shift(noise: Noisy, ledger: Ledger) -> float:
    """The lower bound of the shift that an attacker sees who averages ten releases of the same sum."""
    _, total, victim = small()
    deviation = ledger.scale * UNIT
    seen = [sum(many(noise, t, deviation, RUNS) for _ in range(10)) / 10 for t in (total + victim, total)]
    return membership_test(seen[0], seen[1], victim / UNIT).lower


def test_noise_once_drawn_is_not_drawn_again() -> None:
    _, total, _ = small()
    stuck = opendp_noise(np.tile(total, 400), TEN.scale * UNIT) - np.tile(total, 400)
    assert p_values(lambda t, _: t + stuck, TEN, 10)[-1] < 1e-4


# --- what clients make of it ---


def music_model(rank: int) -> Model:
    catalogue = music.artists()
    basis = Eigen(catalogue, rank)
    return Model(music.COMMON, music.INDIVIDUAL, 0.0714, 3.1623e-4, "none", basis, 0.6, catalogue)


@pytest.mark.parametrize("name", ["eigen", "landmarks", "features"])
def test_without_noise_and_clip_a_client_gets_the_posterior_of_its_model(name: str) -> None:
    found, engine, rng = mechanism(name), study(name, 40), np.random.default_rng(8)
    wide = Mechanism(MODELS[name], examples=4, points=POINTS.get(name))
    wide.clip = replace(found.clip, C_Lambda=300 * found.clip.C_Lambda, C_eta=300 * found.clip.C_eta)
    made = wide.disclose([wide.clip.total(engine)], scale=1e-9)
    X, y, at = rows_of(name, rng, 4), rng.normal(size=4), rows_of(name, rng, 9)
    mean, std = made.estimate(X, y).predict(at, return_std=True)
    expected = private_estimate(made, [engine._examples.of_task(t) for t in engine.tasks], (X, y, np.ones(4)), at)
    np.testing.assert_allclose(mean, expected[0], atol=2e-3)
    np.testing.assert_allclose(std, expected[1], rtol=2e-3)


@pytest.mark.parametrize("name", MODELS)
def test_active_and_passive_clients_agree_and_the_file_says_private(name: str, tmp_path: Any) -> None:
    engine = study(name, 40)
    made = release(engine, mechanism(name), Ledger(epsilon=1.0))
    made.disclosed.save(tmp_path / "release")
    loaded = Disclosed.load(tmp_path / "release")
    assert (loaded.policy, loaded.noise_scale) == ("private", made.disclosed.noise_scale)
    at = rows_of(name, np.random.default_rng(9), 6)
    active = loaded.active_estimate(engine.coefficients(5, loaded)).predict(at, return_std=True)
    passive = loaded.estimate(*engine._examples.of_task(5)).predict(at, return_std=True)
    np.testing.assert_allclose(active, passive, rtol=1e-7, atol=1e-9)


@pytest.mark.slow
def test_bands_widen_as_epsilon_falls() -> None:
    engine = study("eigen", 200)
    widths = []
    for epsilon in (10.0, 2.0, 0.5, 0.1):
        drawn = [
            release(engine, mechanism("eigen"), Ledger(epsilon=epsilon), noise=rounded_gaussian(k)) for k in range(9)
        ]
        widths.append(np.mean([made.disclosed.average(CATALOGUE.rows, return_std=True)[1] for made in drawn]))
    assert widths == sorted(widths)
    prior = np.sqrt(0.7 * 0.3)
    assert widths[-1] < 1.01 * prior


@pytest.mark.parametrize("name", MODELS)
def test_an_empty_study_is_released_as_its_prior(name: str) -> None:
    made = release(Engine(MODELS[name]), mechanism(name), Ledger(epsilon=1.0))
    mean, std = made.disclosed.average(mechanism(name).clip.coordinates.points, return_std=True)
    assert np.abs(mean).max() < 5 * std.max()


def test_what_retired_clients_told_is_not_forgotten() -> None:
    listeners, rows = music.simulate(music.artists(), 1220, 5, seed=3), music.artists().rows
    public, ledger = Mechanism(music_model(40), examples=5), Ledger(epsilon=3.0, per="client")
    engine, noisy, errors = Engine(public.model), list[Whole](), list[float]()
    for which in (listeners.user < 1200, listeners.user >= 1200):
        engine.learn_many(listeners.user[which], rows[listeners.artist[which]], listeners.rating[which])
        made = release(engine, public, ledger, earlier=noisy)
        ledger, noisy = made.ledger, [*noisy, made.noisy]
        errors.append(float(np.sqrt(np.mean((made.disclosed.average(rows) - 0.25 * listeners.average) ** 2))))
    assert errors[1] < 1.2 * errors[0]


def test_engine_and_mechanism_are_of_one_study() -> None:
    with pytest.raises(InvalidModel, match="different models"):
        release(study("eigen", 2), mechanism("landmarks"), Ledger(epsilon=1.0))
    engine = Engine(MODELS["features"])
    engine.learn(0, [1.0, 2.0], 1.0)
    with pytest.raises(InvalidData, match="2 columns"):
        release(engine, mechanism("features"), Ledger(epsilon=1.0))
    with pytest.raises(InvalidData, match="C_eta"):
        Mechanism(MODELS["eigen"], examples=5, C_eta=float("nan"))
    with pytest.raises(InvalidData, match="scale"):
        mechanism("eigen").disclose([np.zeros(mechanism("eigen").clip.size, dtype=np.int64)], scale=-1.0)


def test_the_noisy_matrix_tells_how_many_clients_there_are() -> None:
    engine = Engine(music_model(40))
    listeners = music.simulate(music.artists(), 2000, 5, seed=2)
    engine.learn_many(listeners.user, music.artists().rows[listeners.artist], listeners.rating)
    clip = Mechanism(engine.model, examples=5).clip
    noisy = opendp_noise(clip.total(engine), 4 * UNIT) / UNIT
    assert estimate_Lambda(clip.to_sums(noisy)[0], clip.mean_Lambda, 4 * clip.C_Lambda).clients == pytest.approx(
        2000, rel=0.05
    )


def test_the_best_rank_grows_with_clients() -> None:
    settings: dict[str, Any] = {"examples": 5, "ledger": Ledger(epsilon=1.0), "ranks": (20, 40, 80, 120)}
    assert best_rank(music_model(1), clients=1000, **settings) == 40
    assert best_rank(music_model(1), clients=3000, **settings) == 80
    with pytest.raises(InvalidModel, match="Eigen"):
        best_rank(MODELS["landmarks"], clients=10, examples=5, ledger=Ledger(epsilon=1.0))


def test_releases_combine_by_their_precision() -> None:
    rng = np.random.default_rng(11)
    m, scale, spread = np.array([100.0, 200.0, 400.0]), 5.0, 0.01
    mean = rng.normal(size=2000)
    steps = [n * mean + np.sqrt(spread * n) * rng.normal(size=2000) for n in np.diff(m, prepend=0)]
    truth = np.cumsum(steps, axis=0)
    noisy = [t + scale * rng.normal(size=2000) for t in truth]
    together, effective = combine_releases(noisy, m.tolist(), scale, spread)
    assert effective < scale
    assert np.std(together - truth[-1]) < np.std(noisy[-1] - truth[-1])
    alone, same = combine_releases(noisy[-1:], m[-1:].tolist(), scale, spread)
    np.testing.assert_allclose(alone, noisy[-1])
    assert same == pytest.approx(scale)


def test_a_name_is_an_input_and_an_own_kernel_is_allowed() -> None:
    engine = study("eigen", 30)
    made = release(engine, mechanism("eigen"), Ledger(epsilon=3.0)).disclosed
    best = made.estimate(["item 3", "item 4"], [2.0, -1.0], individual=Identity()).top(3)
    assert set(best) <= set(NAMES)
