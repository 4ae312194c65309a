"""Frames as they are: words, categories, truth values, dates and missing cells in ``fit`` and ``predict``."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from motet import Disclosed, MixedEffectRegressor
from motet.errors import EmptyData, InvalidData, InvalidModel
from motet.kernels import RBF, ConstantKernel
from tests.oracles import Array

FRAMES = [pd.DataFrame, pl.DataFrame]
SETTINGS: dict[str, Any] = {"common": RBF(3.0), "individual": ConstantKernel(1.0), "lam": 0.1, "optimizer": None}
LEVELS = {"coast": 1.0, "hill": -2.0, "town": 4.0}
KNOWN = ["dose", "sex", "place", "smoker", "visit"]


def regressor(**changes: Any) -> MixedEffectRegressor:
    """With settings that stay as they are, and tasks in the column ``who``."""
    return MixedEffectRegressor(**SETTINGS | {"task": "who", "bias": "linear"} | changes)


def visits(frame: Any = pd.DataFrame, rows: int = 160, seed: int = 0, **changes: Any) -> tuple[Any, Array]:
    """A frame with columns of all kinds, and outputs."""
    rng = np.random.default_rng(seed)
    sex, place = rng.choice(["female", "male"], rows), rng.choice(list(LEVELS), rows)
    dose, smoker, day = rng.uniform(0, 2, rows), rng.random(rows) < 0.3, rng.integers(0, 50, rows)
    who = rng.integers(20, size=rows)
    y = dose + 2.0 * (sex == "male") + pd.Series(place).map(LEVELS).to_numpy() + 0.5 * smoker + 0.02 * day
    y = y + rng.normal(size=20)[who] + 0.1 * rng.normal(size=rows)
    visit = np.datetime64("2024-03-01") + day.astype("timedelta64[D]")
    cells = {"dose": dose, "sex": sex, "place": place, "smoker": smoker, "visit": visit.astype("datetime64[us]")}
    return frame({name: changes.get(name, column) for name, column in cells.items()} | {"who": who}), y


def numbers(table: Any) -> Array:
    """The same columns by hand."""
    columns = {name: np.asarray(table[name]) for name in KNOWN}
    places = [columns["place"] == level for level in LEVELS]
    days = (columns["visit"] - columns["visit"].min()) / np.timedelta64(1, "D")
    return np.column_stack([columns["dose"], columns["sex"] == "male", *places, columns["smoker"], days]).astype(float)


def with_text(table: Any, name: str, texts: list[Any]) -> Any:
    cells = {column: list(table[column]) for column in table.columns}
    return type(table)(cells | {name: texts})


# --- the same numbers as by hand ---


@pytest.mark.parametrize("frame", FRAMES)
def test_a_frame_is_fitted_as_its_columns_would_be_by_hand(frame: Any) -> None:
    table, y = visits(frame)
    X, who = numbers(table), np.asarray(table["who"])
    mine, theirs = regressor().fit(table, y), regressor(task=None).fit(X, y, task=who)
    np.testing.assert_allclose(mine.predict(table), theirs.predict(X, task=who), rtol=1e-10)
    np.testing.assert_allclose(
        mine.predict(table[KNOWN], return_std=True), theirs.predict(X, return_std=True), rtol=1e-8
    )
    assert list(mine.feature_names_in_) == KNOWN
    assert mine.n_features_in_ == len(KNOWN)


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize(
    "kind",
    [
        lambda frame, texts: pd.Categorical(texts) if frame is pd.DataFrame else pl.Series(texts, dtype=pl.Categorical),
        lambda frame, texts: (
            pd.Categorical(texts, categories=list(LEVELS))
            if frame is pd.DataFrame
            else pl.Series(texts, dtype=pl.Enum(list(LEVELS)))
        ),
        lambda frame, texts: pd.Series(texts, dtype="string") if frame is pd.DataFrame else texts,
        lambda frame, texts: pd.Series(texts, dtype=object) if frame is pd.DataFrame else texts,
    ],
)
def test_categories_of_every_type_are_read_alike(frame: Any, kind: Any) -> None:
    table, y = visits(frame)
    expected = regressor().fit(table, y).predict(table)
    other = with_text(table, "place", kind(frame, list(table["place"])))
    np.testing.assert_array_equal(regressor().fit(other, y).predict(other), expected)


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("form", ["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "date", "zoned"])
def test_dates_of_every_form_are_read_alike(frame: Any, form: str) -> None:
    table, y = visits(frame)
    expected = regressor().fit(table, y).predict(table)
    days = pd.Series(np.asarray(table["visit"]))
    cells: Any = days.dt.date.tolist() if form == "date" else days.dt.strftime(form).tolist()
    if form == "zoned":
        cells = days.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")
        cells = cells if frame is pd.DataFrame else pl.from_pandas(cells)
    other = with_text(table, "visit", cells)
    np.testing.assert_allclose(regressor().fit(other, y).predict(other), expected, rtol=1e-12)


def test_numbers_that_are_declared_a_category_are_one() -> None:
    table, y = visits()
    codes = table.place.map(dict(zip(LEVELS, [10, 20, 30])))
    reg = regressor().fit(table.assign(place=codes.astype("category")), y)
    np.testing.assert_allclose(reg.predict(table.assign(place=codes)), regressor().fit(table, y).predict(table))
    assert [name for name in reg.fixed_effects()["effect"] if "place" in name] == [
        "place = 10",
        "place = 20",
        "place = 30",
    ]


def test_numbers_with_a_unit_are_numbers() -> None:
    table, y = visits()
    texts = [f"{dose} mg" for dose in table.dose]
    reg = regressor().fit(table.assign(dose=texts), y)
    np.testing.assert_allclose(reg.predict(table), regressor().fit(table, y).predict(table), rtol=1e-12)


# --- what it says ---


def test_effects_have_plain_names_and_a_category_is_counted_from_its_mean() -> None:
    table, y = visits()
    reg = regressor(common=None).fit(table, y)
    effects = dict(zip(reg.fixed_effects()["effect"], reg.fixed_effects()["estimate"]))
    places = [f"place = {level}" for level in LEVELS]
    assert list(effects) == ["intercept", "dose", "sex = male", *places, "smoker", "visit"]
    assert effects["sex = male"] == pytest.approx(2.0, abs=0.1)
    assert sum(effects[name] for name in places) == pytest.approx(0.0, abs=1e-8)
    assert [effects[name] for name in places] == pytest.approx([0.0, -3.0, 3.0], abs=0.2)
    told = str(reg.summary())
    assert "· effects of the levels of place are counted from their mean" in told
    assert "· visit is in days since 2024-03-01" in told
    assert {"sex = male", *places} <= set(reg.diagnostics().columns)


def test_a_bias_names_columns_of_the_frame() -> None:
    table, y = visits()
    reg = regressor(bias=["dose", "place"]).fit(table, y)
    assert reg.fixed_effects()["effect"].tolist() == ["intercept", "dose", *(f"place = {level}" for level in LEVELS)]
    assert regressor(bias=["sex = male"]).fit(table, y).engine_.model.bias == (1,)
    with pytest.raises(InvalidModel, match="'places', the inputs have"):
        regressor(bias=["places"]).fit(table, y)


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([f"p{k}" for k in range(160)], "160 different words in 160 rows.*leave it out, or give it fewer levels$"),
        (["1.2.2024", "3.4.2024"] * 80, "'place' may have the day or the month first, such as 1.2.2024; write them as"),
        ([*map(str, range(155)), *["low"] * 5], "expected numbers in the column 'place': 5 of 160 cells are no number"),
        ([["a"], ["b"]] * 80, "expected numbers, words or dates in the column 'place', got .*; encode it, or"),
    ],
)
def test_a_column_that_cannot_be_read_is_refused_by_name(frame: Any, cells: Any, message: str) -> None:
    table, y = visits(frame)
    with pytest.raises(InvalidData, match=message):
        regressor().fit(with_text(table, "place", cells), y)


@pytest.mark.parametrize("frame", FRAMES)
def test_other_columns_are_refused(frame: Any) -> None:
    table, y = visits(frame)
    reg = regressor().fit(table, y)
    with pytest.raises(InvalidData, match="a data frame with the columns dose, sex, place, smoker, visit, got ndarray"):
        regressor(task=None).fit(table[KNOWN], y, task=np.asarray(table["who"])).predict(numbers(table))
    with pytest.raises(ValueError, match="feature names should match"):
        reg.predict(table[["dose", "sex", "who"]])
    with pytest.raises(InvalidData, match=r"the column 'visit': expected a date such as .*, got \"soon\""):
        reg.predict(with_text(table, "visit", ["soon"] * len(y)))
    with pytest.raises(InvalidData, match="the column 'dose': expected a number, got \"much\""):
        reg.predict(with_text(table, "dose", ["much"] * len(y)))


# --- levels that were not learned ---


@pytest.mark.parametrize("frame", FRAMES)
def test_an_unseen_level_is_one_more_of_those_learned(frame: Any) -> None:
    """The mean over the levels, and the variance between them beside that of each: by hand."""
    table, y = visits(frame)
    reg = regressor().fit(table, y)
    unseen = with_text(table[:8], "place", ["lake", "coast"] * 4)
    mean, std = reg.predict(unseen, return_std=True)
    each = [reg.predict(with_text(unseen, "place", [level] * 8), return_std=True) for level in LEVELS]
    m, s = np.array([one[0] for one in each]), np.array([one[1] for one in each])
    np.testing.assert_allclose(mean[::2], m.mean(axis=0)[::2], rtol=1e-9)
    few = (2.920 / 1.645) ** 2  # 95 % points of Student's t with two degrees of freedom, and of a normal distribution
    variance = (s**2).mean(axis=0) + few * (1 + 1 / 3) * m.var(axis=0, ddof=1)
    np.testing.assert_allclose(std[::2] ** 2, variance[::2], rtol=1e-3)
    np.testing.assert_allclose(mean[1::2], m[0, 1::2], rtol=1e-9)
    np.testing.assert_allclose(std[1::2], s[0, 1::2], rtol=1e-9)
    np.testing.assert_allclose(reg.predict(unseen), mean, rtol=1e-12)


@pytest.mark.parametrize("sites", [3, 8, 30])
def test_bands_hold_at_levels_that_were_not_learned(sites: int) -> None:
    """Sites are exchangeable: the outputs of others lie in their bands as often as these say."""
    shares = []
    for seed in range(300 // sites):
        rng = np.random.default_rng(seed)
        effect, site = rng.normal(size=sites + 50), np.repeat(np.arange(sites + 50), 8)
        table = pd.DataFrame({"x": rng.uniform(size=len(site)), "site": [f"site {k}" for k in site]})
        y = table.x + effect[site] + 0.1 * rng.normal(size=len(site))
        settings = {"common": None, "individual": ConstantKernel(0.01), "lam": 0.01, "task": None}
        own = site < sites
        reg = regressor(**settings).fit(table[own], y[own], task=np.arange(sum(own)) % 10)
        mean, std = reg.predict(table[~own], return_std=True, observation=True)
        shares.append(np.mean(np.abs(y[~own] - mean) < 1.645 * std))
    assert 0.85 < np.mean(shares) < 0.95


def test_a_declared_level_without_rows_is_not_learned_either() -> None:
    table, y = visits()
    declared = pd.CategoricalDtype([*LEVELS, "lake"])
    reg = regressor().fit(table.astype({"place": declared}), y)
    other = regressor().fit(table, y)
    unseen = table.assign(place="lake")
    np.testing.assert_allclose(reg.predict(unseen, return_std=True), other.predict(unseen, return_std=True), rtol=1e-6)


# --- more rows, and fewer ---


@pytest.mark.parametrize("missing", ["leave out", "indicator"])
@pytest.mark.parametrize("frame", FRAMES)
def test_partial_fit_and_forget_are_exact(frame: Any, missing: str) -> None:
    dose, place = np.array(visits()[0].dose), visits()[0].place.tolist()
    if missing == "indicator":  # else rows are left out, with a warning
        dose[::7], place[3] = np.nan, None
    table, y = visits(frame, dose=dose, place=place)
    more, outputs = visits(frame, seed=1)
    parts = regressor(missing=missing).fit(table, y)
    parts.partial_fit(more[:40], outputs[:40]).partial_fit(more[40:], outputs[40:])
    alone = regressor(missing=missing).fit(table, y)
    own = np.flatnonzero(np.asarray(more["who"]) == 3)
    alone.partial_fit(more[own] if frame is pl.DataFrame else more.iloc[own], outputs[own])
    for who in set(np.asarray(table["who"]).tolist()) - {3}:
        parts.forget(who)
        alone.forget(who)
    assert parts.tasks_ == alone.tasks_ == [3]
    np.testing.assert_allclose(parts.predict(table), alone.predict(table), rtol=1e-7)


def test_a_new_level_is_refused_to_learn() -> None:
    table, y = visits()
    reg = regressor().fit(table, y)
    with pytest.raises(InvalidData, match=r'levels of place that were fitted \(coast, hill, town\), got "lake"; fit'):
        reg.partial_fit(table[:1].assign(place="lake"), y[:1])
    again = regressor().partial_fit(table, y)
    np.testing.assert_array_equal(again.predict(table), reg.predict(table))


# --- missing cells ---


def gaps(frame: Any) -> tuple[Any, Array]:
    """Doses are missing where outputs are higher by 3; some places and sexes, and truth values, too."""
    full, y = visits()
    rng = np.random.default_rng(5)
    absent = rng.random(len(y)) < 0.25
    dose = np.where(absent, np.nan, full.dose)
    place = [None if rng.random() < 0.1 else cell for cell in full.place]
    sex = ["NA" if rng.random() < 0.1 else cell for cell in full.sex]
    smoker = [None if rng.random() < 0.1 else cell for cell in full.smoker]
    return visits(frame, dose=dose, place=place, sex=sex, smoker=smoker)[0], y + 3.0 * absent


@pytest.mark.parametrize("frame", FRAMES)
def test_rows_with_missing_cells_are_left_out_and_counted_by_column(frame: Any) -> None:
    table, y = gaps(frame)
    absent = pd.isna(pd.DataFrame({name: list(table[name]) for name in KNOWN}).replace("NA", None))
    dose, sex, place, smoker, _ = absent.sum()
    with pytest.warns(UserWarning, match=f"{dose} in dose, {sex} in sex, {place} in place, {smoker} in smoker$"):
        reg = regressor().fit(table, y)
    mean, std = reg.predict(table, return_std=True)
    np.testing.assert_array_equal(np.isnan(mean), absent.any(axis=1))
    np.testing.assert_array_equal(np.isnan(std), absent.any(axis=1))
    assert len(reg.engine_) == (~absent.any(axis=1)).sum()


@pytest.mark.parametrize("frame", FRAMES)
def test_an_indicator_keeps_rows_with_missing_cells(frame: Any) -> None:
    table, y = gaps(frame)
    reg = regressor(common=None, missing="indicator").fit(table, y)
    assert len(reg.engine_) == len(y)
    assert np.isfinite(reg.predict(table)).all()
    effects = dict(zip(reg.fixed_effects()["effect"], reg.fixed_effects()["estimate"]))
    assert effects["dose is missing"] == pytest.approx(3.0, abs=0.3)
    assert {"sex = male", "sex is missing", "place is missing", "smoker is missing"} <= effects.keys()
    number = np.isnan(np.array(list(table["dose"]), dtype=float)).sum()
    assert f"· dose is missing in {number} of 160 rows: there it is read as 1.1" in str(reg.summary())


@pytest.mark.parametrize("missing", ["leave out", "indicator"])
def test_nullable_columns_of_pandas_may_lack_cells(missing: str) -> None:
    table, y = visits()
    smoker, dose = table.smoker.astype("boolean"), (10 * table.dose).round().astype("Int64")
    smoker[4], dose[7] = pd.NA, pd.NA
    gaps = table.assign(smoker=smoker, dose=dose)
    if missing == "leave out":
        with pytest.warns(UserWarning, match="2 of 160 rows .*: 1 in dose, 1 in smoker"):
            reg = regressor(missing=missing).fit(gaps, y)
    else:
        reg = regressor(missing=missing).fit(gaps, y)
    assert np.isnan(reg.predict(gaps)).sum() == (2 if missing == "leave out" else 0)
    numbers = gaps.assign(smoker=smoker.astype(float), dose=dose.astype(float))
    np.testing.assert_array_equal(reg.predict(numbers), reg.predict(gaps))


def test_missing_numbers_of_an_array_have_an_indicator_too() -> None:
    table, y = gaps(pd.DataFrame)
    X = np.column_stack([table.dose, np.arange(len(y)) % 7])
    reg = regressor(task=None, missing="indicator").fit(X, y, task=table.who)
    dose, mean = table.dose.to_numpy(), np.nanmean(table.dose)
    by_hand = np.column_stack([np.where(np.isnan(dose), mean, dose), np.isnan(dose), X[:, 1]])
    other = regressor(task=None).fit(by_hand, y, task=table.who)
    np.testing.assert_allclose(reg.predict(X, task=table.who), other.predict(by_hand, task=table.who), rtol=1e-10)
    assert reg.fixed_effects()["effect"].tolist() == ["intercept", "column 0", "column 0 is missing", "column 1"]
    assert reg.disclosed_.model.columns is None


@pytest.mark.parametrize("named", [True, False])
def test_a_cell_that_is_missing_for_the_first_time_is_any_of_those_learned(named: bool) -> None:
    full, y = visits()
    X: Any = full[["dose", "who"]].iloc[:50] if named else full[["dose"]].iloc[:50].to_numpy()
    task = None if named else full.who[:50]
    reg = regressor(task="who" if named else None, missing="indicator").fit(X, y[:50], task=task)
    gap: Any = X[:1].assign(dose=np.nan) if named else np.full((1, 1), np.nan)
    every: Any = pd.DataFrame({"dose": full.dose[:50], "who": full.who[0]}) if named else X
    labels = None if named else np.full(50, full.who[0])
    m, s = reg.predict(every, task=labels, return_std=True)
    mean, std = reg.predict(gap, task=None if named else [full.who[0]], return_std=True)
    assert mean[0] == pytest.approx(m.mean())
    assert std[0] ** 2 == pytest.approx((s**2).mean() + (1.677 / 1.645) ** 2 * (1 + 1 / 50) * m.var(ddof=1), rel=1e-3)


def test_a_gap_whose_rows_are_gone_is_not_learned() -> None:
    """By forgetting, or because their outputs are missing."""
    full, y = visits()
    table = full[["dose", "who"]]
    gap = table[:1].assign(dose=np.nan)
    expected = regressor(missing="indicator").fit(table[1:], y[1:]).predict(gap, return_std=True)
    with pytest.warns(UserWarning, match="1 of 160 rows have missing values and are left out: 1 in y"):
        reg = regressor(missing="indicator").fit(pd.concat([gap, table[1:]]), np.r_[np.nan, y[1:]])
    np.testing.assert_allclose(reg.predict(gap, return_std=True), expected, rtol=1e-6)
    alone = pd.concat([gap.assign(who=77), table[1:]])
    reg = regressor(missing="indicator").fit(alone, y).forget(77)
    np.testing.assert_allclose(reg.predict(gap, return_std=True), expected, rtol=1e-6)


def test_numbers_of_a_frame_with_gaps_may_come_as_an_array() -> None:
    full, y = visits()
    table = full[["dose"]].mask(full.dose > 1.9)
    reg = regressor(task=None, missing="indicator").fit(table, y, task=full.who)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        np.testing.assert_array_equal(reg.predict(table.to_numpy()), reg.predict(table))


def test_a_column_without_a_value_is_refused() -> None:
    table, y = visits(dose=np.full(160, np.nan))
    with pytest.raises(InvalidData, match="dose has no value in any row: leave it out"):
        regressor(missing="indicator").fit(table, y)
    with pytest.raises(EmptyData, match="every row has missing values: 160 in dose"):
        regressor().fit(table, y)
    with pytest.raises(InvalidModel, match='missing must be "leave out" or "indicator", got \'mean\''):
        regressor(missing="mean").fit(table, y)


def test_a_formula_leaves_incomplete_rows_out() -> None:
    table, y = visits()
    with pytest.raises(InvalidModel, match='omit missing="indicator"'):
        MixedEffectRegressor.from_formula("y ~ dose + (1 | who)", table.assign(y=y), missing="indicator")


# --- numbers are as they were ---


@pytest.mark.parametrize("missing", ["leave out", "indicator"])
def test_a_frame_of_numbers_is_the_array_of_its_numbers(missing: str) -> None:
    table, y = visits()
    plain = table[["dose", "smoker"]]
    mine = regressor(task=None, missing=missing).fit(plain, y, task=table.who)
    array = regressor(task=None).fit(plain.to_numpy(dtype=float), y, task=table.who)
    assert mine.disclosed_.digest == array.disclosed_.digest
    np.testing.assert_array_equal(
        mine.predict(plain, task=table.who), array.predict(plain.to_numpy(float), task=table.who)
    )


# --- scikit-learn's machinery, and releases ---


def test_cross_validation_grids_and_pipelines_take_frames() -> None:
    table, y = gaps(pd.DataFrame)
    reg = regressor(missing="indicator")
    folds = KFold(4, shuffle=True, random_state=0)
    assert cross_val_score(reg, table, y, cv=folds).mean() > 0.8
    search = GridSearchCV(reg, {"lam": [0.1, 1e3]}, cv=folds).fit(table, y)
    assert search.best_params_ == {"lam": 0.1}
    scale = ColumnTransformer(
        [("scale", StandardScaler(), ["dose"])], remainder="passthrough", verbose_feature_names_out=False
    )
    pipeline = make_pipeline(scale.set_output(transform="pandas"), clone(reg)).fit(table, y)
    assert pipeline.score(table, y) > 0.9


def test_clones_copies_and_other_frames() -> None:
    table, y = gaps(pd.DataFrame)
    reg = regressor(missing="indicator").fit(table, y)
    assert not hasattr(clone(reg), "encoding_")
    assert clone(reg).get_params()["missing"] == "indicator"
    np.testing.assert_array_equal(deepcopy(reg).predict(table), reg.predict(table))
    plain = clone(reg).fit(table[["smoker", "who"]].assign(smoker=1.0), y)
    assert plain.fit(table, y).n_features_in_ == len(KNOWN)
    np.testing.assert_array_equal(plain.predict(table), reg.predict(table))


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("missing", ["leave out", "indicator"])
def test_others_read_the_same_tables_with_the_release_alone(frame: Any, missing: str, tmp_path: Path) -> None:
    table, y = gaps(frame) if missing == "indicator" else visits(frame)
    reg = regressor(common=None, missing=missing).fit(table, y)
    reg.disclosed_.save(tmp_path / "release.safetensors")
    release = Disclosed.load(tmp_path / "release.safetensors")
    inputs = table[KNOWN]
    np.testing.assert_allclose(
        release.average(inputs, return_std=True), reg.predict(inputs, return_std=True), rtol=1e-9
    )
    own = inputs[:9]
    estimate = release.estimate(own, y[:9] + 5.0).predict(inputs)
    reg.partial_fit(with_text(own, "who", [99] * 9), y[:9] + 5.0)
    np.testing.assert_allclose(estimate, reg.predict(with_text(inputs, "who", [99] * len(y))), rtol=1e-8)
    with pytest.raises(InvalidData, match=r'row 0, place: expected .*got "lake"'):
        release.average(with_text(own, "place", ["lake"] * 9))
