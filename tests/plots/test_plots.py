"""What is drawn: the data of matplotlib's artists, compared with the regressor's own numbers."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

from motet import MixedEffectRegressor, plots
from motet.arrays import Array
from motet.errors import InvalidData, UnknownTask, WrongDimension
from motet.plots.evaluation import MAX_DRAWN_POINTS, evaluation_figure
from motet.plots.forecast import forecast_figure

mpl.use("Agg")

BAND = 1.6448536269514722  # half of a 90 % band, in standard deviations


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    yield
    plt.close("all")


def rows(columns: int = 1) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(8), 6)
    X = rng.uniform(0, 5, size=(48, columns))
    return X, np.sin(X[:, 0]) + rng.normal(size=8)[task] + 0.1 * rng.normal(size=48), task


def fitted(columns: int = 1) -> MixedEffectRegressor:
    X, y, task = rows(columns)
    return MixedEffectRegressor(optimizer=None).fit(X, y, task=task)


def line(ax: Axes, label: str) -> Array:
    (only,) = [one for one in ax.lines if one.get_label() == label]
    return np.asarray(only.get_xydata())


def edges(ax: Axes, k: int = 0) -> tuple[Array, Array]:
    """Lower and upper edge of a band."""
    path = np.asarray(ax.collections[k].get_paths()[0].vertices)
    n = (len(path) - 3) // 2
    return path[1 : n + 1, 1], path[n + 2 : 2 * n + 2, 1][::-1]


def test_average_with_its_band() -> None:
    reg = fitted()
    ax = plots.average(reg)
    curve = line(ax, "average")
    mean, std = reg.disclosed_.average(curve[:, :1], return_std=True)
    np.testing.assert_allclose(curve[:, 1], mean)
    low, high = edges(ax)
    np.testing.assert_allclose(low, mean - BAND * std)
    np.testing.assert_allclose(high, mean + BAND * std)
    X, y, _ = rows()
    drawn = line(ax, "rows")
    assert sorted(map(tuple, drawn)) == sorted(zip(X[:, 0], y))
    assert (curve[0, 0], curve[-1, 0]) == (X.min(), X.max())
    assert ax.get_xlabel()
    assert ax.get_ylabel()


def test_individuals_over_their_rows() -> None:
    reg, (X, y, task) = fitted(), rows()
    figure, own = plt.subplots()
    ax = plots.individuals(reg, tasks=[5, 2], X=np.array([3.0, 1.0, 2.0]), ax=own)
    assert ax is own
    assert plt.get_fignums() == [figure.number]
    for name in (5, 2):
        curve = line(ax, str(name))
        assert curve[:, 0].tolist() == [1.0, 2.0, 3.0]
        np.testing.assert_allclose(curve[:, 1], reg.predict(curve[:, :1], task=[name] * 3))
    points = [tuple(p) for one in ax.lines if one.get_linestyle() == "None" for p in np.asarray(one.get_xydata())]
    chosen = np.isin(task, [5, 2])
    assert sorted(points) == sorted(zip(X[chosen, 0], y[chosen]))
    with pytest.raises(UnknownTask, match="'nobody'"):
        plots.individuals(reg, tasks=["nobody"])


def test_curves_of_many_columns_run_along_one() -> None:
    reg = fitted(3)
    with pytest.raises(InvalidData, match=r"3 columns.*column="):
        plots.average(reg)
    with pytest.raises(InvalidData, match="0 to 2"):
        plots.average(reg, column=3)
    X = np.tile(rows(3)[0].mean(axis=0), (200, 1))
    curve = line(plots.average(reg, column=1), "average")
    X[:, 1] = curve[:, 0]
    np.testing.assert_allclose(curve[:, 1], reg.disclosed_.average(X))


def test_columns_have_names() -> None:
    X, y, task = rows(2)
    reg = MixedEffectRegressor(optimizer=None, task="who")
    reg.fit(pd.DataFrame({"hours": X[:, 0], "dose": X[:, 1], "who": task}), y)
    assert plots.individuals(reg, column="dose").get_xlabel() == "dose"
    sites = pd.DataFrame({"site": np.resize(["a", "b", "c"], len(y)), "dose": X[:, 1], "who": task})
    assert plots.average(reg.fit(sites, y), column="dose").get_xlabel() == "dose"
    reg.fit(pd.DataFrame({"hours": X[:, 0], "dose": X[:, 1], "who": task}), y)
    with pytest.raises(InvalidData, match=r"'weight'.*hours, dose"):
        plots.average(reg, column="weight")


def test_shrinkage_pulls_tasks_towards_the_average() -> None:
    reg, (X, y, task) = fitted(), rows()
    ax = plots.shrinkage(reg)
    points = np.asarray(ax.collections[0].get_offsets())
    average = reg.disclosed_.average(X)
    for number, name in enumerate(reg.tasks_):
        own = task == name
        estimated = reg.predict(X[own], task=task[own])
        np.testing.assert_allclose(points[number], [np.mean((y - average)[own]), np.mean(estimated - average[own])])
    assert np.abs(points[:, 1]).sum() < np.abs(points[:, 0]).sum()


@pytest.mark.parametrize("as_pair", [True, False])
def test_profile_of_the_evidence(as_pair: bool) -> None:
    values, evidence = np.array([0.9, 0.1, 0.5]), np.array([-14.0, -12.0, -10.0])
    profile: Any = (values, evidence) if as_pair else SimpleNamespace(name="α", values=values, log_evidence=evidence)
    ax = plots.evidence_profile(profile, name="α" if as_pair else None)
    assert line(ax, "log evidence").tolist() == [[0.1, -2.0], [0.5, 0.0], [0.9, -4.0]]
    assert line(ax, "best: 0.5").tolist() == [[0.5, 0.0]]
    assert ax.get_xlabel() == "α"
    with pytest.raises(WrongDimension, match=r"\(3,\), \(2,\)"):
        plots.evidence_profile((values, evidence[:2]))


def test_residuals_are_in_units_of_each_rows_noise() -> None:
    X, y, task = rows()
    weight = np.where(np.arange(48) % 2, 1.0, 4.0)
    reg = MixedEffectRegressor(optimizer=None).fit(X, y, task=task, sample_weight=weight)
    drawn = line(plots.residuals(reg), "a row")
    mean = reg.predict(X, task=task)
    noise = np.sqrt(reg.components_.noise / weight)
    np.testing.assert_allclose(sorted(map(tuple, drawn)), sorted(zip(mean, (y - mean) / noise)), rtol=1e-9)


def test_calibration_counts_outputs_in_their_bands() -> None:
    reg = fitted()
    X, _, task = rows()
    mean, std = reg.predict(X, task=task, return_std=True, observation=True)
    z = np.random.default_rng(1).normal(size=len(X))
    drawn = line(plots.calibration(reg, X, mean + z * std, task=task), "48 rows")
    assert drawn[18, 0] == pytest.approx(0.9)
    assert drawn[18, 1] == np.mean(np.abs(z) <= BAND)
    assert drawn[0, 1] == 0
    assert drawn[-1, 1] == 1


def test_an_evaluation_shows_rows_errors_and_bands() -> None:
    rng = np.random.default_rng(2)
    sizes = {"known clients": 3 * MAX_DRAWN_POINTS, "new clients": 40}
    predictions = {kind: (rng.normal(size=n), rng.normal(size=n), np.full(n, 2.0)) for kind, n in sizes.items()}
    errors = {kind: {"this study": 1.4, "linear model + client's mean": 1.6} for kind in sizes}
    scatter, compare, calibrate = evaluation_figure(predictions, errors, title="visits.csv").axes
    points = [np.asarray(one.get_xydata()) for one in scatter.lines if len(one.get_xydata()) > 2]
    assert [len(xy) for xy in points] == [MAX_DRAWN_POINTS, 40]
    y, mean, std = predictions["new clients"]
    np.testing.assert_array_equal(points[1], np.column_stack([mean, y]))
    assert line(scatter, f"known clients, {MAX_DRAWN_POINTS:,} of {3 * MAX_DRAWN_POINTS:,}").shape == (0, 2)
    assert list(compare.lines[0].get_xdata()) == [1.4, 1.6]
    assert [text.get_text() for text in compare.get_yticklabels()] == ["this study", "linear model\n+ client's mean"]
    assert line(calibrate, "new clients")[18].tolist() == [0.9, np.mean(np.abs(y - mean) <= BAND * std)]


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def refuse(name: str, *arguments: Any, **options: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError("no matplotlib", name="matplotlib")
        return original(name, *arguments, **options)

    for module in [m for m in sys.modules if m.startswith("matplotlib")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ModuleNotFoundError, match=r"needs? matplotlib: pip install 'motet\[plots\]'"):
        plots.evidence_profile(([1.0], [0.0]))


def test_a_forecast_has_a_curve_for_each_epsilon() -> None:
    curves: dict[float | None, list[tuple[int, float]]] = {
        epsilon: [(n, error / n) for n in (10, 100)] for epsilon, error in ((1.0, 3.0), (3.0, 2.0), (None, 1.0))
    }
    ax = forecast_figure(curves, alone=0.5, clients=40, title="Visits").axes[0]
    for label, epsilon in (("ε = 1", 1.0), ("ε = 3", 3.0), ("without noise", None)):
        assert line(ax, label).tolist() == [list(point) for point in curves[epsilon]]
    assert line(ax, "each client alone")[:, 1].tolist() == [0.5, 0.5]
    assert line(ax, "40 clients")[:, 0].tolist() == [40, 40]
