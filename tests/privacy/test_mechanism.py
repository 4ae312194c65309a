"""Private releases: what clients make of them, and how they use noisy sums as well as they can."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from motet import Disclosed, Engine
from motet.errors import InvalidData, InvalidModel
from motet.kernels import Identity
from motet.music import simulation as music
from motet.privacy.denoise import combine_releases, estimate_Lambda
from motet.privacy.ledger import UNIT, Integers, Ledger, opendp_noise
from motet.privacy.mechanism import Mechanism, release
from tests.oracles import private_estimate
from tests.privacy.worlds import (
    CATALOGUE,
    MODELS,
    NAMES,
    POINTS,
    mechanism,
    music_model,
    rounded_gaussian,
    rows_of,
    study,
)


@pytest.mark.parametrize("name", ["eigen", "landmarks", "features"])
def test_without_noise_and_clip_a_client_gets_the_posterior_of_its_model(name: str) -> None:
    clip, engine, rng = mechanism(name).clip, study(name, 40), np.random.default_rng(8)
    wide = Mechanism(MODELS[name], examples=4, points=POINTS.get(name))
    wide.clip = replace(clip, C_Lambda=300 * clip.C_Lambda, C_eta=300 * clip.C_eta)
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


@pytest.mark.parametrize("name", ["landmarks", "linear bias", "bias alone"])
def test_outputs_about_a_center_are_released_as_well_as_outputs_about_zero(name: str) -> None:
    """The same noise and the same clients, at another level: the same release at that level."""
    about_zero, level = study(name, 40), 100.0
    shifted = Engine(MODELS[name])
    for task in about_zero.tasks:
        X, y, noise = about_zero._examples.of_task(task)
        shifted.learn_many([task] * len(y), X, y + level, noise)
    at = rows_of(name, np.random.default_rng(3), 6)
    releases = []
    for engine, center in ((about_zero, 0.0), (shifted, level)):
        public = Mechanism(MODELS[name], examples=4, points=POINTS.get(name), center=center)
        releases.append(release(engine, public, Ledger(epsilon=1.0), noise=rounded_gaussian(1)).disclosed)
    (mean, std), (high, same) = (one.average(at, return_std=True) for one in releases)
    np.testing.assert_allclose(high, mean + level, atol=1e-4)
    np.testing.assert_allclose(same, std, rtol=1e-4)


def test_a_center_needs_a_bias() -> None:
    with pytest.raises(InvalidModel, match='center must be 0 when bias is "none"'):
        Mechanism(replace(MODELS["landmarks"], bias="none"), examples=4, points=POINTS.get("landmarks"), center=1.0)


@pytest.mark.slow
def test_bands_widen_as_epsilon_falls() -> None:
    public, widths = mechanism("eigen"), []
    total = public.clip.total(study("eigen", 200))
    for scale in (Ledger(epsilon=epsilon).scale for epsilon in (10.0, 2.0, 0.5, 0.1)):
        noisy = (rounded_gaussian(k)(total, scale * UNIT) for k in range(9))
        releases = [public.disclose([one], scale=scale) for one in noisy]
        widths.append(np.mean([one.average(CATALOGUE.rows, return_std=True)[1] for one in releases]))
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
    engine, noisy, errors = Engine(public.model), list[Integers](), list[float]()
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
