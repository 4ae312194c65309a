"""Baselines: means shrunk as an analysis of variance says, plain models, and the mixed model that statsmodels has."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from statsmodels.regression.mixed_linear_model import MixedLM

from motet.arrays import Array, Index
from motet.planning.baselines import MIXED_MODEL, baseline_means, group_means, mixed_model, spline_columns


def test_groups_are_shrunk_by_as_much_as_they_are_alike() -> None:
    rng = np.random.default_rng(0)
    group, level = np.repeat(np.arange(3000), 4), 0.5 * rng.normal(size=3000)
    values = level[group] + rng.normal(size=len(group))
    means = group_means(group, np.arange(len(group)), values)
    plain = values.reshape(-1, 4).mean(axis=1)
    np.testing.assert_allclose(means[::4] / plain, 4 / (4 + 1 / 0.25), rtol=0.1)
    assert not group_means(group, np.arange(8), values[:8])[8:].any()
    flat = np.tile([1.0, -1.0, 1.0, -1.0], 3000)
    assert not group_means(group, np.arange(len(group)), flat).any()


@pytest.mark.slow  # boosted trees
def test_baselines_of_numbers_and_of_items() -> None:
    rng = np.random.default_rng(1)
    client, item = np.repeat(np.arange(200), 10), rng.integers(20, size=2000)
    X, levels, quality = rng.random((2000, 2)), rng.normal(size=200), rng.normal(size=20)
    learned, at = np.arange(2000)[np.arange(2000) % 10 < 8], np.arange(2000)[np.arange(2000) % 10 >= 8]
    noise = 0.1 * rng.normal(size=2000)

    def errors(y: Array, item: Index | None, X: Array = X) -> dict[str, float]:
        means = baseline_means(client, X, y, learned, item)
        return {name: float(np.sqrt(np.mean((mean - y)[at] ** 2))) for name, mean in means.items()}

    of_items = errors(quality[item] + levels[client] + noise, item, item[:, None].astype(float))
    assert list(of_items) == ["mean of all", "client's mean", "item's mean", "item's + client's mean"]
    assert of_items["item's + client's mean"] < 0.2 < 0.5 < of_items["item's mean"]
    features = np.column_stack([item, rng.normal(size=20)[item]])
    of_features = errors(np.cos(2 * features[:, 1]) + levels[client] + noise, item, features)
    assert list(of_features) == [*of_items, MIXED_MODEL]
    assert of_features[MIXED_MODEL] < 0.2
    linear = errors(3 * X[:, 0] - 2 * X[:, 1] + levels[client] + noise, None)
    assert linear["linear model + client's mean"] < 0.12 < 0.5 < linear["client's mean"]
    assert linear[MIXED_MODEL] < 0.12
    bent = errors(2 * np.sin(9 * X[:, 0]) + levels[client] + noise, None)
    assert bent["boosted trees + client's mean"] < 0.3 < 0.5 < bent["linear model + client's mean"]
    assert bent[MIXED_MODEL] < 0.3


# --- the linear mixed model ---


def curves(seed: int = 0, clients: int = 40) -> tuple[Index, Array, Array]:
    """Clients of one to nine rows; a curve, a slope and a category."""
    rng = np.random.default_rng(seed)
    client = np.repeat(np.arange(clients), rng.integers(1, 10, size=clients))
    X = np.column_stack([1e4 + 300 * rng.normal(size=(len(client), 2)), rng.integers(2, size=len(client))])
    y = 50 + 8 * np.sin(X[:, 0] / 200) + 0.02 * (X[:, 1] - 1e4) + 3 * X[:, 2]
    return client, X, y + 4 * rng.normal(size=clients)[client] + 2 * rng.normal(size=len(client))


def test_the_mixed_model_predicts_as_statsmodels_does() -> None:
    """Known clients with their BLUP, and clients of whom no row was learned by the average."""
    client, X, y = curves()
    rng = np.random.default_rng(5)
    learned = np.flatnonzero((rng.random(len(y)) < 0.8) & (client < 30))
    design = np.column_stack([np.ones(len(y)), spline_columns(X, learned)])
    assert design.shape[1] == 1 + 4 + 4 + 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = MixedLM(y[learned], design[learned], client[learned]).fit(reml=True, gtol=1e-9)
    levels = {name: float(np.asarray(effect)[0]) for name, effect in fitted.random_effects.items()}
    expected = design @ fitted.fe_params + np.array([levels.get(one, 0.0) for one in client])
    ours = mixed_model(client, X, y, learned)
    assert set(client[learned]) < set(client)
    np.testing.assert_allclose(ours, expected, atol=1e-4 * y.std())


def test_splines_are_natural_cubic_splines_with_as_many_knots_as_rows_allow() -> None:
    rng = np.random.default_rng(2)
    x, weights = rng.gamma(2.0, 50.0, size=400), rng.normal(size=4)
    for rows, quantiles in (
        (400, (0.05, 0.275, 0.5, 0.725, 0.95)),
        (30, (0.05, 0.35, 0.65, 0.95)),
        (20, (0.1, 0.5, 0.9)),
    ):
        S = spline_columns(x[:, None], np.arange(rows))
        assert S.shape[1] == len(quantiles) - 1
        curve, knots = S @ weights[: S.shape[1]], np.quantile(x[:rows], quantiles)
        exact = spline_columns(np.append(x, knots)[:, None], np.arange(rows))[len(x) :] @ weights[: S.shape[1]]
        natural, inside = CubicSpline(knots, exact, bc_type="natural"), (x >= knots[0]) & (x <= knots[-1])
        np.testing.assert_allclose(curve[inside], natural(x[inside]), atol=1e-9 * np.ptp(curve))
        above = x > knots[-1]
        line = exact[-1] + natural(knots[-1], 1) * (x[above] - knots[-1])
        np.testing.assert_allclose(curve[above], line, atol=1e-9 * np.ptp(curve))
    assert spline_columns(x[:, None], np.arange(15)).shape[1] == 1
    many = spline_columns(rng.normal(size=(400, 30)), np.arange(400))
    assert many.shape[1] == 30
    zeros = np.where(rng.random(400) < 0.95, 0.0, x)
    assert spline_columns(zeros[:, None], np.arange(400)).shape[1] == 1


@pytest.mark.filterwarnings("error")
def test_the_mixed_model_has_an_answer_for_every_table() -> None:
    client, X, y = curves(3)
    every = np.arange(len(y))
    one_each = np.unique(client, return_index=True)[1]
    twice = np.column_stack([X, X, np.full(len(y), 7.0), X[:, 2] == 0.0])
    tables = {
        "columns twice, and one that is constant": (client, twice, y, every),
        "one row of each client": (client, X, y, one_each),
        "a row of two clients": (client, X, y, one_each[:2]),
        "one row": (client, X, y, every[:1]),
        "one client": (np.zeros_like(client), X, y, every),
        "more columns than rows": (client, np.random.default_rng(0).normal(size=(len(y), 30)), y, every[:20]),
        "one output": (client, X, np.full(len(y), 3.0), every),
        "no noise": (client, X, X[:, 1], every),
    }
    for name, table in tables.items():
        predicted = mixed_model(*table)
        assert np.isfinite(predicted).all(), name
    plain = mixed_model(client, X, y, every)
    np.testing.assert_allclose(mixed_model(*tables["columns twice, and one that is constant"]), plain, atol=1e-4)
    np.testing.assert_allclose(mixed_model(*tables["one output"]), 3.0)
    np.testing.assert_allclose(mixed_model(*tables["no noise"]), X[:, 1], rtol=1e-6)
