"""Forecasts of error and coverage, against dense formulas, and against what the mechanism does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from motet import Engine, Landmarks
from motet.arrays import Array
from motet.errors import InvalidData, InvalidModel
from motet.privacy.forecast import (
    ClippedPopulation,
    Draw,
    alone,
    best_rank,
    forecast,
    mean_forecast,
    without_noise,
)
from motet.privacy.ledger import Ledger
from motet.privacy.mechanism import Mechanism, release
from motet.privacy.population import Population
from motet.privacy.simulation import SimulatedStudy, World
from motet.privacy.truths import MEAN_SQUARE_WEIGHT, Truths
from tests.privacy.worlds import CATALOGUE, GRID, MODELS, POINTS, mechanism, music_model, rounded_gaussian

BUDGET = Ledger(epsilon=1.0)


@pytest.mark.parametrize("name", MODELS)
def test_a_client_alone_has_the_variance_of_a_dense_gaussian_process(name: str) -> None:
    population = Population.draw(mechanism(name).clip.coordinates, [1, 3, 4])
    coordinates, lam, clients = population.coordinates, MODELS[name].lam, 384
    K = (population.columns * coordinates.prior_variance) @ population.columns.T + population.K
    variances = []
    for k in range(clients):
        there, new = population.h[k][population.has[k]], population.new[k]
        K_new = K[np.ix_(new, there)]
        explained = K_new @ np.linalg.solve(K[np.ix_(there, there)] + lam * np.eye(len(there)), K_new.T)
        variances.append(np.diag(K[np.ix_(new, new)] - explained))
    found, sigma2 = alone(population), coordinates.sigma2
    assert found.function == pytest.approx(np.sqrt(sigma2 * np.mean(variances)), rel=1e-6)
    assert found.observation**2 - found.function**2 == pytest.approx(sigma2 * lam)
    assert found.coverage == pytest.approx(0.9)


def test_the_clip_pulls_the_rest_of_a_client_towards_zero_as_steins_lemma_says() -> None:
    clip, rng = mechanism("landmarks").clip, np.random.default_rng(0)
    population, sigma2 = Population.draw(clip.coordinates, 4), clip.coordinates.sigma2
    theta = np.sqrt(sigma2 * clip.coordinates.prior_variance) * rng.normal(size=len(clip.mean_Lambda))
    pulls, rests = [], []
    for _ in range(60):
        n = np.sqrt(sigma2) * np.linalg.cholesky(population.V) @ rng.normal(size=(*population.V.shape[:2], 1))
        rho = (population.FR @ n)[:, :, 0]
        draw = Draw.of(theta, clip, population.Lambda, rho)
        pulls.append(draw.pull)
        rests.append(np.mean(draw.factor[:, None] * rho, axis=0))
    pull, rest, error = np.mean(pulls, axis=0), np.mean(rests, axis=0), np.std(rests, axis=0) / np.sqrt(60)
    assert np.abs(pull + rest).max() < 4 * error.max()
    assert np.linalg.norm(pull) > 20 * error.max()  # so there is something to see


def test_rests_of_clipped_clients_fall_with_their_information() -> None:
    """So sums of other clients scatter as forecast: those of cη less than if cΛθ and cρ had nothing to do with it."""
    clip, rng = mechanism("landmarks").clip, np.random.default_rng(0)
    sigma2, theta = clip.coordinates.sigma2, 2 * np.sqrt(clip.coordinates.sigma2 * clip.coordinates.prior_variance)

    def draw(seed: int) -> tuple[Draw, Array, Array]:
        population = Population.draw(clip.coordinates, 4, seed=seed)
        n = np.sqrt(sigma2) * np.linalg.cholesky(population.V) @ rng.normal(size=(*population.V.shape[:2], 1))
        rho = (population.FR @ n)[:, :, 0]
        one = Draw.of(theta, clip, population.Lambda, rho)
        return one, one.factor[:, None] * (population.Lambda @ theta), one.factor[:, None] * rho

    (known, _, _), (_, signal, rest) = draw(0), draw(1)
    total, apart = np.cov(signal + rest, rowvar=False), np.cov(signal, rowvar=False) + np.cov(rest, rowvar=False)
    both = np.eye(len(theta)) + known.slope
    forecast = both @ np.cov(signal, rowvar=False) @ both.T + known.rest_covariance
    assert np.trace(forecast) == pytest.approx(np.trace(total), rel=0.05)
    assert np.trace(total) < 0.9 * np.trace(apart)


@pytest.mark.parametrize("name", ["landmarks", "bias alone", "eigen"])
def test_truths_have_the_priors_moments_and_rare_ones_are_among_them(name: str) -> None:
    clip = mechanism(name).clip
    deviation = np.sqrt(clip.coordinates.sigma2 * clip.coordinates.prior_variance)
    for even in (False, True):
        truths = Truths.draw(clip, 4000, np.random.default_rng(0), even=even)
        z, weights = truths.theta / deviation, truths.weights
        assert np.mean(weights) == pytest.approx(1.0)
        assert np.mean(weights**2) == pytest.approx(MEAN_SQUARE_WEIGHT, rel=0.05)
        assert np.average(z**2, axis=0, weights=weights) == pytest.approx(np.ones(len(deviation)), abs=0.08)
        assert np.average(z**4, axis=0, weights=weights) == pytest.approx(np.full(len(deviation), 3.0), abs=0.6)
        assert np.mean(weights < 0.5) > 0.1  # drawn more than twice as often as the prior does
        assert weights[(z**2).sum(axis=1).argmax()] < 0.5


@pytest.mark.parametrize("name", ["landmarks", "eigen", "bias alone"])
def test_simulated_sums_are_those_of_an_engine(name: str) -> None:
    model, points = MODELS[name], POINTS.get(name)
    center = 2.0 if model.bias == "constant" else 0.0
    public = Mechanism(model, examples=4, points=points, center=center)
    study = SimulatedStudy(World(public.clip.coordinates, [1, 3, 4], points, center=center), 150, seed=5)
    engine = Engine(model)
    study.learn(engine, slice(20, 120))
    difference = study.total(public.clip, slice(20, 120)) - public.clip.total(engine)
    assert np.abs(difference).max() <= 2  # the last digit of a client may be rounded otherwise
    later = study.total(public.clip, slice(20, 50)) + study.total(public.clip, slice(50, 120))
    assert (later == study.total(public.clip, slice(20, 120))).all()


def test_errors_fall_with_clients_and_with_epsilon() -> None:
    clip = mechanism("landmarks").clip
    population = Population.draw(clip.coordinates, 4)
    clipped, scales = ClippedPopulation(population, clip), [Ledger(epsilon=e).scale for e in (0.5, 3.0)]
    errors = [alone(population)]
    errors += [clipped.forecast(clients, scale) for clients in (50, 1000) for scale in scales]
    errors += [without_noise(population, 1000)]
    for kind in ("average", "function", "observation"):
        values = [getattr(one, kind) for one in errors]
        assert values == sorted(values, reverse=True)
    assert all(one.function < one.observation and 0.85 < one.coverage < 0.95 for one in errors)
    assert clipped.shortened == pytest.approx(0.5, abs=0.05)


def test_ten_releases_of_the_same_clients_tell_what_one_tells() -> None:
    clip = mechanism("eigen").clip
    clipped = ClippedPopulation(Population.draw(clip.coordinates, 4), clip)
    scale = Ledger(epsilon=3.0, releases=10).scale
    together, once = clipped.forecast([300] * 10, scale), clipped.forecast(300, scale / np.sqrt(10))
    assert together.average == pytest.approx(once.average, rel=1e-6)
    growing = clipped.forecast(list(range(30, 301, 30)), scale)
    assert together.average < growing.average < clipped.forecast(300, scale).average


def test_a_model_is_enough_to_forecast_and_settings_are_checked() -> None:
    settings: dict[str, Any] = {"points": POINTS["features"], "examples": [2, 4, 9]}
    private = forecast(MODELS["features"], clients=200, ledger=BUDGET, **settings)
    exact = forecast(MODELS["features"], clients=200, ledger=None, **settings)
    assert exact.function < private.function
    assert exact.shortened == 0 < private.shortened
    with pytest.raises(InvalidData, match="clients must be"):
        forecast(MODELS["features"], clients=-1, ledger=BUDGET, **settings)
    with pytest.raises(InvalidData, match="examples must be"):
        forecast(MODELS["eigen"], clients=10, examples=0, ledger=BUDGET)


def test_the_best_rank_grows_with_clients() -> None:
    settings: dict[str, Any] = {"examples": 5, "ledger": BUDGET, "ranks": (20, 40, 80)}
    model = music_model(1)
    assert best_rank(model, clients=1000, **settings) == 40
    assert best_rank(model, clients=3000, **settings) == 80
    with pytest.raises(InvalidModel, match="Eigen"):
        best_rank(MODELS["landmarks"], clients=10, examples=5, ledger=BUDGET)


@pytest.mark.parametrize("name", ["eigen", "landmarks", "bias alone"])
def test_simulated_studies_are_as_good_as_forecast(name: str) -> None:
    """A few of them: experiments/forecast.py has many."""
    public, points = mechanism(name), POINTS.get(name)
    population = Population.draw(public.clip.coordinates, 4, points)
    private, exact = (
        ClippedPopulation(population, public.clip).forecast(300, BUDGET.scale),
        without_noise(population, 300),
    )
    world, found = World(public.clip.coordinates, 4, points), []
    studies = [SimulatedStudy(world, 300, seed=seed, others=60) for seed in range(20)]
    for study in studies:
        engine = Engine(MODELS[name])
        study.learn(engine, slice(None))
        released = release(engine, public, BUDGET, noise=rounded_gaussian(3)).disclosed
        found.append((study.measure(released), study.measure(engine.disclose())))
    for expected, measured in zip((private, exact), map(mean_forecast, zip(*found))):
        assert measured.function == pytest.approx(expected.function, rel=0.1)
        assert measured.observation == pytest.approx(expected.observation, rel=0.1)
        assert measured.coverage == pytest.approx(expected.coverage, abs=0.03)


def test_what_a_basis_misses_is_shared_and_so_the_average_is_better_than_if_it_were_not() -> None:
    """Of few landmarks: the best fit to a smooth average is nearer to it than the one through the landmarks."""
    model = replace(MODELS["landmarks"], basis=Landmarks(GRID[::5]))
    public = Mechanism(model, examples=4)
    population = Population.draw(public.clip.coordinates, 4, np.linspace(-2, 2, 60)[:, None])
    many = without_noise(population, 100_000)
    residual = np.sqrt(public.clip.coordinates.sigma2 * np.mean(np.diag(population.residual)))
    columns, K = population.columns, population.residual * public.clip.coordinates.sigma2
    fit = np.eye(len(K)) - columns @ np.linalg.pinv(columns)
    best = np.sqrt(np.trace(fit @ K @ fit.T) / len(K))
    assert best < many.average < 0.95 * residual
    assert many.average == pytest.approx(best, rel=0.25)


def test_inputs_that_a_table_has_often_are_drawn_often() -> None:
    coordinates = mechanism("eigen").clip.coordinates
    rows = np.repeat(CATALOGUE.rows, [20] * 3 + [1] * 27, axis=0)
    population = Population.draw(coordinates, 2, rows)
    times = np.bincount(population.h.ravel(), minlength=30)
    assert np.sort(times)[-3:].sum() > 0.5 * times.sum()
    assert (population.h[:, 0] != population.h[:, 1]).all()
