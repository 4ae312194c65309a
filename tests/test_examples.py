"""The examples' trial on little data: the splits keep their promises, and the table has a finite row of ours."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from examples.peers import GaussianProcess, LinearMixedModel, Motet, learners
from examples.protocol import KNOWN, OWN_ROWS, Scores, Trial, known_splits, new_splits
from examples.report import study
from examples.rows import Rows, load

from motet import MixedEffectRegressor
from motet.kernels import Linear


@pytest.fixture(scope="module")
def rows() -> Rows:
    return load("datasets", "Indometh", ["time"], "conc", "Subject")


def test_the_smallest_example(rows: Rows, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trial = study("indomethacin", rows, ("hours", "µg/mL"), tmp_path, seeds=1, folds=2)
    printed = capsys.readouterr().out
    assert printed == (tmp_path / "indomethacin.md").read_text(encoding="utf-8")
    (ours,) = [line for line in printed.splitlines() if line.startswith(f"| {Motet.name} |")]
    cells = ours.strip("| ").split(" | ")[1:]
    numbers = [float(number) for cell in cells for number in cell.split(" / ")]
    assert len(numbers) == 3 * (1 + len(OWN_ROWS)) + 1
    assert np.isfinite(numbers).all()
    assert all(re.search(rf"^\| {re.escape(one.name)} \|", printed, re.MULTILINE) for one in learners()[0])
    assert trial.scores[Motet.name, KNOWN].rmse < trial.scores["mean", KNOWN].rmse
    assert (tmp_path / "example-indomethacin.png").stat().st_size > 10_000


def test_rows_to_predict_are_never_learned(rows: Rows) -> None:
    for train, test in known_splits(rows, 3):
        assert not np.intersect1d(train, test).size
        assert np.isin(rows.task[test], rows.task[train]).all()
    predicted = []
    for train, own, test in new_splits(rows, 4):
        assert not np.intersect1d(rows.task[train], rows.task[test]).size
        assert not np.intersect1d(np.concatenate(own), test).size
        predicted.append(rows.task[test])
    assert set(np.concatenate(predicted)) == set(rows.task)  # every task is new once


def test_the_gap_between_learners_has_the_error_of_its_tasks() -> None:
    trial, rng = Trial(), np.random.default_rng(0)
    task = np.repeat(np.arange(9), 4)
    losses = {name: rng.normal(size=36) for name in ("ours", "peer")}
    for name, values in losses.items():
        rows = Rows(np.zeros((36, 1)), values, task)
        trial.scores[name, KNOWN] = scores = Scores()
        scores.add(rows, np.zeros(36), np.ones(36))
    gap, error = trial.gap("ours", "peer", KNOWN, "squared_error")
    means = (losses["ours"] ** 2 - losses["peer"] ** 2).reshape(9, 4).mean(axis=1)
    assert gap == pytest.approx(means.mean())
    assert error == pytest.approx(means.std() / 3)


def test_the_linear_mixed_model_predicts_as_ours_of_the_same_structure(rows: Rows) -> None:
    """The peer's predictions are by its own formulas: with its settings ours are the same."""
    peer = LinearMixedModel()
    peer.tune(rows)
    Z = peer._columns(rows.X)[:, 1:]
    individual = Linear((peer.covariance / peer.noise).tolist())
    reg = MixedEffectRegressor(None, individual, lam=1.0, bias="linear", sigma2=peer.noise, optimizer=None)
    reg.fit(Z, rows.y, task=rows.task)
    mean, std = reg.predict(Z, task=rows.task, return_std=True, observation=True)
    np.testing.assert_allclose(peer.predict(rows.X, rows.task), [mean, std], rtol=1e-6)


def test_the_gaussian_process_learns_more_rows_with_its_settings(rows: Rows) -> None:
    peer = GaussianProcess()
    peer.tune(rows.take(rows.task > 0))
    new = rows.take(rows.task == 0)
    before = np.abs(peer.predict(new.X, new.task)[0] - new.y).mean()
    peer.learn(new)
    assert np.abs(peer.predict(new.X, new.task)[0] - new.y).mean() < before
    assert peer.process.kernel_ == peer.tuned.kernel_
