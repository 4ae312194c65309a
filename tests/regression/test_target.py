"""The output's scale: the logarithm where rows and tasks left out are predicted better by it, and what comes back."""

from __future__ import annotations

import re
import warnings
from typing import Any, Literal

import numpy as np
import pytest
from scipy.stats import lognorm, norm
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from motet import MixedEffectRegressor, compare, fit_table, plots, tune
from motet.errors import InvalidData, InvalidModel
from motet.kernels import RBF, ConstantKernel, DotProduct
from motet.regression import target as choice
from motet.regression.scales import IDENTITY, LOG
from motet.tables.rows import Rows
from motet.tuning.defaults import Settings
from motet.tuning.structures import MAX_GAIN_OF_ROW
from motet.tuning.tuning import model_by_evidence
from tests.oracles import Array

Data = tuple[Array, Array, Array]
SCALE_NAMES: tuple[Literal["auto", "identity"], ...] = ("auto", "identity")
HELD: dict[str, Any] = {
    "common": RBF(1.0),
    "individual": ConstantKernel(1.0) + DotProduct(0.3),
    "lam": 0.2,
    "bias": "linear",
    "optimizer": None,
}


def multiplied(seed: int = 0, tasks: int = 20, rows: int = 12) -> Data:
    """Growth of which the rate, the level and the noise multiply: the spread grows with the level."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(tasks), rows)
    X = rng.uniform(0, 4, size=(len(task), 1))
    level, rate = rng.normal(size=(2, tasks)) * np.array([[0.3], [0.15]])
    return X, np.exp(1 + level[task] + (0.8 + rate[task]) * X[:, 0] + 0.35 * rng.normal(size=len(task))), task


def added(seed: int, tasks: int = 20, rows: int = 12) -> Data:
    """The same of sums, all above 0, and some many times larger than others."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(tasks), rows)
    X = rng.uniform(0, 4, size=(len(task), 1))
    y = 3 + rng.normal(size=tasks)[task] + 4 * X[:, 0] + 1.2 * rng.normal(size=len(task))
    kept = y > 0.3
    return X[kept], y[kept], task[kept]


def small(seed: int = 0) -> Data:
    return multiplied(seed, tasks=5, rows=5)


def test_multiplied_noise_is_of_logarithms_and_bands_then_cover_everywhere() -> None:
    X, y, task = multiplied(tasks=60, rows=32)
    is_new = np.arange(len(y)) % 32 >= 8
    third = np.searchsorted(np.quantile(X[is_new, 0], [1 / 3, 2 / 3]), X[is_new, 0])
    told: dict[str, list[float]] = {}
    for name in SCALE_NAMES:
        reg = MixedEffectRegressor(target=name).fit(X[~is_new], y[~is_new], task=task[~is_new])
        low, high = reg.predict_quantiles(X[is_new], task[is_new], (0.05, 0.95)).T
        inside = (low < y[is_new]) & (y[is_new] < high)
        told[reg.target_] = [float(inside[third == k].mean()) for k in range(3)]
    assert all(0.85 <= share <= 0.95 for share in told["log"])
    assert any(not 0.85 <= share <= 0.95 for share in told["identity"])


@pytest.mark.parametrize("seed", range(4))
def test_sums_stay_as_they_are(seed: int) -> None:
    X, y, task = added(seed)
    assert y.max() > 10 * y.min() > 0
    reg = MixedEffectRegressor().fit(X, y, task=task)
    assert reg.target_ == "identity"
    assert reg.tuning_ is not None
    (attempt,) = [attempt for attempt in reg.tuning_.path if attempt.name == choice.LOGARITHM]
    assert not attempt.kept
    assert choice.LOGARITHM in reg.summary().structure["step"]
    plain = MixedEffectRegressor(target="identity").fit(X, y, task=task)
    assert choice.LOGARITHM not in plain.summary().structure["step"]
    for one, other in zip(*(r.predict(X, task, return_std=True, observation=True) for r in (reg, plain))):
        np.testing.assert_array_equal(one, other)


def test_the_unit_of_outputs_does_not_matter() -> None:
    X, y, task = multiplied(1)
    regs = [MixedEffectRegressor().fit(X, unit * y, task=task) for unit in (1.0, 1000.0)]
    attempts = [reg.tuning_.path[0] for reg in regs if reg.tuning_ is not None]
    assert [reg.target_ for reg in regs] == ["log", "log"]
    for name in ("evidence", "left_out", "standard_error"):
        one, other = (getattr(attempt, name) for attempt in attempts)
        assert other == pytest.approx(one, rel=1e-3)
    one, other = (reg.predict_quantiles(X, task) for reg in regs)
    np.testing.assert_allclose(other, 1000 * one, rtol=1e-3)


@pytest.mark.parametrize(
    "settings", [{"common": "rbf"}, {"individual": "linear"}, {"sigma2": 0.1}, {"bias": [0]}, {"optimizer": None}]
)
def test_with_a_setting_nothing_else_is_chosen(settings: dict[str, Any]) -> None:
    X, y, task = multiplied()
    assert MixedEffectRegressor(**settings).fit(X, y, task=task).target_ == "identity"


@pytest.mark.parametrize(
    "change", [lambda y: np.where(np.arange(len(y)) == 3, 0.0, y), lambda y: -y, lambda y: y + 1e4]
)
def test_without_outputs_that_differ_by_factors_there_is_no_choice(change: Any) -> None:
    X, y, task = multiplied()
    reg = MixedEffectRegressor().fit(X, change(y), task=task)
    assert reg.target_ == "identity"
    assert reg.tuning_ is not None
    assert choice.LOGARITHM not in [attempt.name for attempt in reg.tuning_.path]


def test_the_choice_is_that_of_refitting_without_each_row_and_each_task() -> None:
    """By normal and lognormal densities of everything that is left out, settings held."""
    X, y, task = small(3)
    rows = Rows.of(task, X, y, np.ones(len(y)))
    settings = Settings(**HELD)
    fits = [choice.Fit(scale, settings.model(rows), None) for scale in (IDENTITY, LOG)]
    attempt = choice.compared(fits[0], fits[1], rows, settings)
    scores, squares = np.zeros((2, 2, len(y))), np.zeros((2, 2, len(y)))
    for k, outputs in enumerate((y, np.log(y))):
        sigma2 = MixedEffectRegressor(**HELD).fit(X, outputs, task=task).sigma2_
        for i in range(len(y)):
            for way, kept in enumerate((np.arange(len(y)) != i, task != task[i])):
                reg = MixedEffectRegressor(**HELD, sigma2=sigma2).fit(X[kept], outputs[kept], task=task[kept])
                m, s = (v[0] for v in reg.predict(X[[i]], task=task[[i]], return_std=True, observation=True))
                one = lognorm(s, scale=np.exp(m)) if k else norm(m, s)
                scores[k, way, i], squares[k, way, i] = one.logpdf(y[i]), (y[i] - one.mean()) ** 2
    gain = np.minimum((scores[1] - scores[0]).mean(axis=0), MAX_GAIN_OF_ROW)
    of_tasks = np.array([gain[task == j].sum() for j in range(5)])
    errors = [np.sqrt(len(parts)) * parts.std(ddof=1) for parts in (gain, of_tasks)]
    assert attempt.left_out == pytest.approx(gain.sum(), rel=1e-6)
    assert attempt.standard_error == pytest.approx(max(errors), rel=1e-6)
    ratio = np.sqrt(squares[1].mean(axis=1) / squares[0].mean(axis=1))
    assert attempt.kept == bool(gain.sum() > max(errors) and (ratio <= choice.MAX_ERROR_RATIO).all())


def test_where_small_outputs_scatter_as_large_ones_nothing_is_fitted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted: list[str] = []

    def counted(rows: Rows, *settings: Any, **more: Any) -> Any:
        fitted.append("log" if rows.y.min() < 0.0 else "identity")
        return model_by_evidence(rows, *settings, **more)

    monkeypatch.setattr(choice, "model_by_evidence", counted)
    MixedEffectRegressor().fit(*added(0)[:2], task=added(0)[2])
    assert fitted == ["identity"]
    X, y, task = multiplied()
    MixedEffectRegressor().fit(X, y / y.max(), task=task)
    assert fitted == ["identity", "identity", "log"]


def test_predictions_are_of_what_logarithms_would_be_drawn() -> None:
    """Mean, deviation and quantiles: of a million observations, and of functions, the means over their noise."""
    X, y, task = small()
    reg = MixedEffectRegressor(target="log", **HELD).fit(X, y, task=task)
    inner = MixedEffectRegressor(**HELD).fit(X, np.log(y), task=task)
    at, who = np.array([[0.5], [3.0]]), np.array([task[0], -1])
    rng = np.random.default_rng(0)
    m, s = inner.predict(at, who, return_std=True)
    noise = inner.components_.noise
    f = m + s * rng.normal(size=(1_000_000, 2))
    draws = {False: np.exp(f + noise / 2), True: np.exp(f + noise**0.5 * rng.normal(size=f.shape))}
    for observation, drawn in draws.items():
        mean, std = reg.predict(at, who, return_std=True, observation=observation)
        np.testing.assert_allclose(mean, drawn.mean(axis=0), rtol=0.01)
        np.testing.assert_allclose(std, drawn.std(axis=0), rtol=0.05)
        bands = reg.predict_quantiles(at, who, (0.05, 0.5, 0.95), observation=observation)
        np.testing.assert_allclose(bands, np.quantile(drawn, (0.05, 0.5, 0.95), axis=0).T, rtol=0.01)
    np.testing.assert_allclose(reg.predict(at, who), reg.predict(at, who, return_std=True)[0])
    np.testing.assert_allclose(reg.predict_quantiles(at, who, 0.5), np.exp(m))
    assert reg.score(X, y, task) == pytest.approx(r2_score(y, reg.predict(X, task)))


def test_quantiles_of_outputs_as_they_are() -> None:
    X, y, task = small()
    reg = MixedEffectRegressor(**HELD).fit(X, y, task=task)
    for observation in (False, True):
        mean, std = reg.predict(X, task, return_std=True, observation=observation)
        bands = reg.predict_quantiles(X, task, (0.1, 0.5), observation=observation)
        np.testing.assert_allclose(bands, np.stack([mean - 1.2815515655446004 * std, mean], axis=1))
    wrongs: list[Any] = [0.0, 1.0, (0.5, 2.0), [[0.5]]]
    for wrong in wrongs:
        with pytest.raises(InvalidData, match="between 0 and 1"):
            reg.predict_quantiles(X, task, wrong)


def test_what_is_left_out_is_of_outputs_and_residuals_are_of_logarithms() -> None:
    X, y, task = small()
    reg = MixedEffectRegressor(target="log", **HELD).fit(X, y, task=task)
    inner = MixedEffectRegressor(**HELD).fit(X, np.log(y), task=task)
    for name in ("rows", "new"):
        table, of_logs = getattr(reg.loo(), name), getattr(inner.loo(), name)
        one = lognorm(of_logs["std"], scale=np.exp(of_logs["mean"]))
        np.testing.assert_allclose(table["observed"], y)
        np.testing.assert_allclose(table["mean"], one.mean())
        np.testing.assert_allclose(table["std"], one.std())
        np.testing.assert_allclose(table["residual"], y - one.mean(), atol=1e-9)
        np.testing.assert_allclose(table["log_score"], one.logpdf(y))
    jacobian = [float(np.log(y[task == j]).sum()) for j in reg.tasks_]
    np.testing.assert_allclose(reg.loo().tasks["log_score"], inner.loo().tasks["log_score"] - jacobian)
    for table, other in (
        (reg.diagnostics(), inner.diagnostics()),
        (reg.fixed_effects(), inner.fixed_effects()),
        (reg.random_effects(), inner.random_effects()),
    ):
        assert table.title == f"{other.title} (of the logarithm of the output)"
        np.testing.assert_array_equal(table[table.columns[-1]], other[other.columns[-1]])
    assert "logarithm of the output" in str(reg.summary()).splitlines()[0]
    assert any("multiplies the output by exp(b)" in note for note in reg.summary().notes)
    assert str(reg.components_) == str(inner.components_)
    with pytest.raises(InvalidData, match="same target="):
        compare(reg, inner)


def test_more_rows_and_fewer_tasks() -> None:
    X, y, task = small()
    whole = MixedEffectRegressor(target="log", **HELD).fit(X, y, task=task)
    parts = MixedEffectRegressor(target="log", **HELD)
    for which in (task < 2, task >= 2):
        parts.partial_fit(X[which], y[which], task=task[which])
    np.testing.assert_allclose(parts.predict(X, task), whole.predict(X, task), rtol=1e-9)
    fewer = MixedEffectRegressor(target="log", **HELD).fit(X[task > 0], y[task > 0], task=task[task > 0])
    np.testing.assert_allclose(parts.forget(0).predict(X, task), fewer.predict(X, task), rtol=1e-9)
    before = whole.predict(X, task)
    for wrong in (0.0, -1.5):
        with pytest.raises(
            InvalidData, match=re.escape(f'above 0, whose logarithm is learned (target="log"), got y = {wrong:g}')
        ):
            whole.partial_fit(X[:2], np.array([1.0, wrong]), task=task[:2])
    np.testing.assert_array_equal(whole.predict(X, task), before)


def test_a_choice_is_kept_by_tune_and_by_clones() -> None:
    X, y, task = multiplied()
    tuned = tune(MixedEffectRegressor(), X, y, task=task)
    assert (tuned.target, tuned.target_) == ("log", "log")
    again = clone(tuned).fit(X, y, task=task)
    np.testing.assert_allclose(again.predict(X, task), tuned.predict(X, task), rtol=1e-6)
    more = MixedEffectRegressor().fit(X, y, task=task).partial_fit(X[:1], y[:1], task=task[:1])
    assert more.target_ == "log"
    assert MixedEffectRegressor().partial_fit(X, y, task=task).target_ == "identity"


def test_the_choice_on_some_of_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is then that of all rows; and what was refused warns of nothing."""
    monkeypatch.setattr(choice, "STRUCTURE_ROWS", 120)
    X, y, task = multiplied()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reg = MixedEffectRegressor().fit(X, y, task=task)
    assert reg.target_ == "log"
    given = MixedEffectRegressor(target="log").fit(X, y, task=task)
    np.testing.assert_allclose(reg.predict(X, task), given.predict(X, task), rtol=1e-9)


def test_rows_without_tasks_have_a_scale_too() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 4, size=(150, 1))
    reg = MixedEffectRegressor().fit(X, np.exp(X[:, 0] + 0.4 * rng.normal(size=150)))
    assert reg.target_ == "log"


def test_what_cannot_be() -> None:
    X, y, task = small()
    with pytest.raises(InvalidModel, match="target must be"):
        MixedEffectRegressor(target="sqrt").fit(X, y, task=task)  # type: ignore[arg-type]
    with pytest.raises(InvalidData, match=r"above 0.*got y = 0"):
        MixedEffectRegressor(target="log").fit(X, np.where(task == 0, 0.0, y), task=task)
    with pytest.raises(InvalidModel, match="column of logarithms"):
        fit_table("none.csv", task="task", target="y", regressor=MixedEffectRegressor(target="log"))


def test_pictures_are_of_outputs() -> None:
    mpl = pytest.importorskip("matplotlib")
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    X, y, task = small()
    reg = MixedEffectRegressor(target="log", **HELD).fit(X, y, task=task)
    for ax, of, points in (
        (plots.average(reg), None, y),
        (plots.individuals(reg, [task[0]]), task[0], y[task == task[0]]),
    ):
        drawn = [np.asarray(line.get_ydata()) for line in ax.lines if line.get_linestyle() == "None"]
        np.testing.assert_allclose(np.sort(np.concatenate(drawn)), np.sort(points))
        (curve,) = [line for line in ax.lines if line.get_label() == ("average" if of is None else str(of))]
        at = np.asarray(curve.get_xdata())[:, None]
        labels = None if of is None else [of] * len(at)
        np.testing.assert_allclose(curve.get_ydata(), reg.predict(at, labels))
        edges = np.asarray(ax.collections[0].get_paths()[0].vertices)
        bands = reg.predict_quantiles(at, labels, (0.05, 0.95), observation=False)
        np.testing.assert_allclose(edges[1 : len(at) + 1, 1], bands[:, 0])
    shares = np.asarray(plots.calibration(reg, X, y, task).lines[-1].get_ydata())
    low, high = reg.predict_quantiles(X, task, (0.25, 0.75)).T
    assert shares[10] == np.mean((low <= y) & (y <= high))
    plt.close("all")


@parametrize_with_checks([MixedEffectRegressor(target="log", sigma2=0.1, optimizer=None)])  # type: ignore[untyped-decorator]
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)
