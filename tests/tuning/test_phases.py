"""What a fit says while it runs, and the bound on its search: a sample of the tasks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from motet import MixedEffectRegressor
from motet.kernels import ConstantKernel, Identity
from motet.tables.rows import Rows
from motet.tuning.phases import Phases, duration
from motet.tuning.search import Step
from tests.oracles import Array


def study(tasks: int, rows: int, seed: int = 0) -> tuple[Array, Array, Array]:
    rng, task = np.random.default_rng(seed), np.repeat(np.arange(tasks), rows)
    X = rng.uniform(-2, 2, size=(len(task), 1))
    return X, np.sin(2 * X[:, 0]) + rng.normal(size=tasks)[task] + 0.2 * rng.normal(size=len(task)), task


def step(evaluation: int) -> Step:
    return Step(0, evaluation, -12.345, (0.0,))


# --- in words ---


def test_a_search_has_a_line_every_few_seconds_with_what_it_will_take() -> None:
    lines: list[str] = []
    now = [100.0]
    phases = Phases(lines.append, 5.0, lambda: now[0])
    phases.begin("settings")
    for k in range(60):
        now[0] += 2.0
        phases.step(step(k))
    assert lines[:3] == [
        "settings",
        "settings, step 3: log evidence -12.35, 6 s so far, about 94 s more",
        "settings, step 6: log evidence -12.35, 12 s so far, about 88 s more",
    ]
    assert lines[-1] == "settings, step 60: log evidence -12.35, 2 min so far, more than most searches take"
    assert len(lines) == 21
    now[0] += 1000.0
    phases.step(step(0))  # of another search
    assert lines[-1].startswith("settings, step 1: log evidence -12.35, 0 s so far")
    assert [duration(seconds) for seconds in (7.4, 99, 150, 5400, 7200)] == ["7 s", "99 s", "2 min", "90 min", "2.0 h"]


def test_verbose_tells_the_phases_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    X, y, task = study(12, 4)
    silent = MixedEffectRegressor("rbf", "constant").fit(X, y, task=task)
    assert capsys.readouterr() == ("", "")
    told = MixedEffectRegressor("rbf", "constant", verbose=1).fit(X, y, task=task)
    out, err = capsys.readouterr()
    lines = [line.removeprefix("[MixedEffectRegressor] ") for line in err.splitlines()]
    assert out == ""
    assert lines[0] == "model: 48 rows of 12 tasks, 1 column of inputs"
    assert lines[1] == "settings by evidence"
    assert lines[-1] == "fit of 48 rows of 12 tasks"
    np.testing.assert_array_equal(told.predict(X, task=task), silent.predict(X, task=task))
    every = MixedEffectRegressor("rbf", "constant", verbose=2).fit(X, y, task=task)
    assert every.tuning_ is not None
    assert capsys.readouterr().err.count("log evidence") == len(every.tuning_.log)


# --- the sample ---


def rows_of(sizes: Any) -> Rows:
    task = np.random.default_rng(1).permutation(np.repeat(np.arange(len(sizes)), sizes))
    X = np.arange(len(task), dtype=float)[:, None]
    return Rows.of(task, X, X[:, 0], np.ones(len(task)))


def test_a_sample_has_whole_tasks() -> None:
    rows = rows_of(np.random.default_rng(0).integers(1, 9, size=2000))
    sample = rows.sample(3000)
    whole = np.bincount(rows.tasks)
    kept = np.bincount(sample.tasks, minlength=2000)
    assert 2990 <= len(sample.y) <= 3000
    assert ((kept == 0) | (kept == whole)).all()
    assert len({*np.flatnonzero(kept)} & set(range(1000))) == pytest.approx(np.count_nonzero(kept) / 2, rel=0.1)
    assert rows.sample(len(rows.y)) is rows


def test_a_sample_of_few_tasks_has_some_rows_of_each() -> None:
    rows = rows_of([500, 3, 40, 60, 1000])
    sample = rows.sample(200)
    assert np.bincount(sample.tasks).tolist() == [52, 3, 40, 52, 52]
    assert len(np.unique(sample.X)) == len(sample.y)
    assert len(rows_of([1] * 500).sample(10).y) == 400  # tasks before rows
    assert len(rows_of([700]).sample(100).y) == 100


def test_settings_of_a_large_table_come_from_a_sample_and_all_rows_are_fitted() -> None:
    X, y, task = study(500, 4)
    reg = MixedEffectRegressor("rbf", "constant", tuning_rows=1600).fit(X, y, task=task)
    tuning = reg.tuning_
    assert tuning is not None
    assert (tuning.rows, tuning.table_rows, len(reg.engine_)) == (1600, 2000, 2000)
    assert tuning.notes[0] == "settings were chosen on a sample, 1,600 of 2,000 rows"
    notes = reg.summary().notes
    assert tuning.notes[0] in notes
    assert not any("forgotten since" in note for note in notes)
    reg.forget(3)
    assert "settings were chosen on 2000 rows; rows were added or forgotten since" in reg.summary().notes
    assert reg.components_.individual == pytest.approx(1.0, rel=0.2)


def test_a_table_below_the_bound_is_searched_whole() -> None:
    X, y, task = study(30, 4)
    given, without = (MixedEffectRegressor("rbf", "constant", tuning_rows=n).fit(X, y, task=task) for n in (120, None))
    assert given.tuning_ is not None
    assert without.tuning_ is not None
    assert (given.tuning_.log, given.tuning_.table_rows) == (without.tuning_.log, 0)
    np.testing.assert_array_equal(given.predict(X, task=task), without.predict(X, task=task))


@pytest.mark.parametrize("kernels", [(None, "linear"), (Identity(), ConstantKernel(1.0))], ids=["linear", "levels"])
def test_linear_models_and_levels_take_all_rows(kernels: Any) -> None:
    X, y, task = study(30, 4)
    reg = MixedEffectRegressor(kernels[0], kernels[1], bias="constant", tuning_rows=60).fit(np.round(X), y, task=task)
    assert reg.tuning_ is not None
    assert (reg.tuning_.rows, reg.tuning_.table_rows) == (120, 0)
