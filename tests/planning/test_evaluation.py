"""Evaluations: against a dense Gaussian process, what may enter a release, and what is claimed of which data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from motet import Engine
from motet.arrays import Array, Index
from motet.errors import EmptyData, InvalidData, WrongDimension
from motet.planning.evaluation import FOLDS, Evaluation, Split, evaluate
from motet.planning.scores import Scored
from motet.privacy.ledger import Integers
from motet.privacy.mechanism import release as private_release
from motet.study.study import Study
from tests.oracles import DenseGP, Problem
from tests.privacy.worlds import rounded_gaussian
from tests.study.studies import EXACT, ITEMS, NAMED, SHORT, changed, load

pytestmark = pytest.mark.slow  # models are tuned or evaluated many times

ROUGH = {'"rbf"': '"rbf", length_scale = 0.3', '"matern"': '"matern", length_scale = 0.3'}
GROWING = changed(EXACT, ROUGH | {'[basis]\nkind = "landmarks"\ngrid = { from = 0.0, to = 1.0, count = 5 }': ""})
PRIVATE = changed(SHORT, ROUGH | {"dimension = 1": "dimension = 1\nbounds = [0, 1]"})


def curves(clients: int, rows: int, seed: int = 0) -> tuple[list[str], Array, Array, Array]:
    """Clients drawn from the study's own model, with noise of two sizes."""
    rng = np.random.default_rng(seed)
    client = np.repeat(np.arange(clients), rows)
    X, noise = rng.random((clients * rows, 1)), np.where(rng.random(clients * rows) < 0.5, 1.0, 2.0)
    p = problem(client, X, np.zeros(len(X)), noise)
    y = np.linalg.cholesky(p.V + 1e-10 * np.eye(len(X))) @ rng.normal(size=len(X))
    return [f"c{k}" for k in client], X, y, noise


def problem(client: Any, X: Array, y: Array, noise: Array) -> Problem:
    """The model of the short studies, as an oracle has it."""
    from motet.kernels import RBF, Matern

    return Problem(list(client), X, y, noise, RBF(0.3), Matern(0.3), 0.5, 0.1, "constant")


def of_kind(evaluation: Evaluation, kind: str) -> Scored:
    (group,) = [group for group in evaluation.groups if group.kind == kind]
    return group


# --- splits ---


def test_each_client_is_new_once_and_each_row_held_out_once() -> None:
    clients = [f"c{k}" for k in range(23) for _ in range(1 + k % 7)]
    splits = [Split.of(clients, fold, seed=3) for fold in range(FOLDS)]
    for split in splits:
        parts = split.learned, split.held_out, split.own, split.others
        assert sorted(np.concatenate(parts)) == list(range(len(clients)))
        known, new = ({clients[k] for k in (*a, *b)} for a, b in (parts[:2], parts[2:]))
        assert not known & new
        assert {clients[k] for k in split.held_out} <= {clients[k] for k in split.learned}
        for client in new:
            assert sum(clients[k] == client for k in split.own) == min(3, clients.count(client) - 1)
    several = [k for k, client in enumerate(clients) if clients.count(client) > 1]
    assert sorted(np.concatenate([split.held_out for split in splits])) == several
    assert sorted(client for split in splits for client in {clients[k] for k in split.others}) == sorted(set(clients))
    quarter = Split.of(["a"] * 8 + ["b"] * 8, 0)
    assert len(quarter.held_out) == 2


def test_without_a_fold_all_clients_are_new() -> None:
    split = Split.of(["a", "a", "a", "b", "c", "c"], None, new_rows=2)
    assert (len(split.learned), len(split.held_out)) == (0, 0)
    assert sorted(split.own) != sorted(split.others)
    assert (len(split.own), len(split.others)) == (3, 3)


# --- predictions ---


def test_an_exact_study_is_scored_as_a_dense_gaussian_process_predicts(tmp_path: Path) -> None:
    study, (clients, X, y, noise) = load(tmp_path, GROWING), curves(7, 6)
    found = evaluate(study, clients, X, y, noise, seed=5, new_rows=2)
    mean, std = {}, {}
    for fold in range(FOLDS):
        split = Split.of(clients, fold, seed=5, new_rows=2)
        for own, at in ((split.learned[:0], split.held_out), (split.own, split.others)):
            for k in at:
                rows = np.concatenate([split.learned, [other for other in own if clients[other] == clients[k]]])
                rows = rows.astype(int)
                gp = DenseGP(problem([clients[i] for i in rows], X[rows], y[rows], noise[rows]), sigma2=1.0)
                place = (len(own) > 0, k)
                (mean[place],), (deviation,) = gp.predict(X[[k]], clients[k])
                std[place] = np.sqrt(deviation**2 + 0.1 * noise[k])
    for group, is_new in ((of_kind(found, "known"), False), (of_kind(found, "new"), True)):
        np.testing.assert_allclose(group.mean, [mean[is_new, k] for k in group.row], atol=1e-6)
        np.testing.assert_allclose(group.std, [std[is_new, k] for k in group.row], rtol=1e-6)
        np.testing.assert_array_equal(group.y, y[group.row])
        z = (group.y - group.mean) / group.std
        densities = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) / group.std
        assert group.score.log_score == pytest.approx(-np.log(densities).mean())
        assert group.score.error == pytest.approx(np.linalg.norm(group.y - group.mean) / len(z) ** 0.5)
        assert group.score.coverage == np.mean(np.abs(z) < 1.6448536)
    assert len(of_kind(found, "known").row) == 42
    assert len(of_kind(found, "new").row) == 28


@pytest.mark.parametrize("releases", [1, 3])
def test_a_private_study_is_scored_by_the_release_that_it_would_serve(tmp_path: Path, releases: int) -> None:
    study, (clients, X, y, noise) = load(tmp_path, PRIVATE), curves(40, 5, seed=1)
    y = np.clip(y, -5, 5)
    draw = rounded_gaussian(9)
    found = evaluate(study, clients, X, y, noise, folds=1, releases=releases, draw=rounded_gaussian(9))
    split, mechanism, ledger = Split.of(clients), study.mechanism(), study.ledger()
    assert mechanism is not None
    assert ledger is not None
    engine, noisy = Engine(study.model), list[Integers]()
    engine.learn_many([clients[k] for k in split.learned], X[split.learned], y[split.learned], noise[split.learned])
    for _ in range(releases):
        made = private_release(engine, mechanism, ledger, earlier=noisy, noise=draw)
        ledger, noisy = made.ledger, [*noisy, made.noisy]
    for group, own in ((of_kind(found, "known"), split.learned), (of_kind(found, "new"), split.own)):
        for k, mean, std in zip(group.row, group.mean, group.std):
            mine = [i for i in own if clients[i] == clients[k]]
            estimate = made.disclosed.estimate(X[mine], y[mine], noise[mine])
            expected, deviation = estimate.predict(X[[k]], return_std=True)
            assert mean == pytest.approx(expected[0], abs=1e-9)
            assert std == pytest.approx(np.sqrt(deviation[0] ** 2 + 0.1 * noise[k]))
    order = "the first" if releases == 1 else "number 3"
    assert found.subject == f"{order} of 3 private releases, ε = 1"


def test_a_release_learns_nothing_and_all_clients_are_new_to_it(tmp_path: Path) -> None:
    study, (clients, X, y, noise) = load(tmp_path, GROWING), curves(12, 5)
    engine = Engine(study.model)
    engine.learn_many(clients[:30], X[:30], y[:30], noise[:30])
    release = engine.disclose()
    found = evaluate(release, clients, X, y, noise)
    split = Split.of(clients, None)
    assert found.known is None
    new = of_kind(found, "new")
    np.testing.assert_array_equal(new.row, split.others)
    for k, mean in zip(new.row, new.mean):
        mine = [i for i in split.own if clients[i] == clients[k]]
        assert mean == pytest.approx(release.estimate(X[mine], y[mine], noise[mine]).predict(X[[k]])[0], abs=1e-7)
    assert found.subject == "release 1, without noise"


@pytest.mark.parametrize("text", [GROWING, PRIVATE])
def test_rows_that_are_scored_change_no_prediction(tmp_path: Path, text: str) -> None:
    study, (clients, X, y, noise) = load(tmp_path, text), curves(10, 5, seed=2)
    y = np.clip(y, -4, 4)
    split = Split.of(clients)
    changes: dict[str, tuple[Index, list[str]]] = {
        "of known clients": (split.held_out, []),
        "of new clients": (split.others, []),
        "that new clients keep": (split.own, ["new"]),
        "that are learned": (split.learned, ["known", "new"]),
    }
    before = evaluate(study, clients, X, y, noise, folds=1, draw=rounded_gaussian(0))
    for what, (rows, differ) in changes.items():
        other = y.copy()
        other[rows] += 0.5
        after = evaluate(study, clients, X, other, noise, folds=1, draw=rounded_gaussian(0))
        for kind in ("known", "new"):
            one, two = of_kind(before, kind), of_kind(after, kind)
            assert np.array_equal(one.mean, two.mean) == (kind not in differ), (what, kind)
            if not differ:
                assert np.array_equal(one.std, two.std)
                assert all(np.array_equal(one.baselines[name], two.baselines[name]) for name in one.baselines)


# --- rows that take no part ---


def test_rows_outside_the_limits_are_counted_and_left_out(tmp_path: Path) -> None:
    text = changed(PRIVATE, {"y = [-5.0, 5.0]": "y = [-5.0, 5.0]\nexamples_per_client = 4"})
    study, (clients, X, y, noise) = load(tmp_path, text), curves(8, 6)
    X, y = X.copy(), np.clip(y, -5, 5)
    X[0], y[1], y[2], noise[3] = 1.5, np.nan, 6.0, 1000.0
    found = evaluate(study, clients, X, y, noise, draw=rounded_gaussian(0))
    assert found.left_out == {
        "missing value": 1,
        "input outside inputs.bounds": 1,
        "y outside limits.y": 1,
        "noise outside limits.noise": 1,
        "more than limits.examples_per_client": 7 * 2,
    }
    kept = {k for group in found.groups for k in group.row.tolist()}
    assert kept == {k for k in range(4, 48) if k < 6 or k % 6 < 4}
    y[6] = np.nan  # a missing row takes no place among the client's
    assert evaluate(study, clients, X, y, noise, draw=rounded_gaussian(0)).left_out == found.left_out | {
        "missing value": 2,
        "more than limits.examples_per_client": 7 * 2 - 1,
    }
    release = Engine(study.model).disclose()
    assert evaluate(release, clients, X, y, noise).left_out == {"missing value": 2}


def test_clients_that_no_release_can_have_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motet.planning.evaluation.MAX_BASIS_POINTS", 40)
    clients, X, y, noise = curves(13, 4)
    clients[:12] = ["flood"] * 12
    found = evaluate(load(tmp_path, GROWING), clients, X, y, noise)
    ((reason, count),) = found.left_out.items()
    assert reason.startswith("there are more different inputs than a release can have")
    assert count == 12
    assert {k for group in found.groups for k in group.row.tolist()} == set(range(12, 52))


def test_what_cannot_be_evaluated_is_refused(tmp_path: Path) -> None:
    study, (clients, X, y, noise) = load(tmp_path, PRIVATE), curves(4, 3)
    refusals: list[tuple[dict[str, Any], str]] = [
        ({"folds": 6}, "folds must be a whole number from 1 to 5, got 6"),
        ({"new_rows": -1}, "new_rows must be a whole number from 0"),
        ({"releases": 4}, "releases must be a whole number from 1 to 3, got 4"),
    ]
    for settings, message in refusals:
        with pytest.raises(InvalidData, match=message):
            evaluate(study, clients, X, y, noise, **settings)
    with pytest.raises(InvalidData, match="new_rows must be a whole number from 1"):
        evaluate(Engine(study.model).disclose(), clients, X, y, new_rows=0)
    with pytest.raises(WrongDimension, match=r"got 12 clients, inputs of shape \(12, 1\) and outputs of shape \(3,\)"):
        evaluate(study, clients, X, y[:3])
    with pytest.raises(EmptyData, match=r"expected rows of several clients$"):
        evaluate(study, ["a"], X[:1], np.zeros(1))
    with pytest.raises(EmptyData, match=r"several clients; 12 rows left out \(y outside limits.y\)"):
        evaluate(study, clients, X, y + 100.0)


# --- claims ---


def test_bands_and_verdict_of_data_from_the_model_itself(tmp_path: Path) -> None:
    study = load(tmp_path, GROWING)
    found = evaluate(study, *curves(100, 7, seed=4))
    assert found.verdict == "Better than every baseline for known and new clients."
    assert found.notes == []
    for group in found.groups:
        assert (group.outcome, group.bands) == ("better", "right")
        assert group.score.coverage == pytest.approx(0.9, abs=0.03)
        assert group.difference < -2 * group.standard_error


def test_bands_that_are_too_narrow_are_told(tmp_path: Path) -> None:
    found = evaluate(load(tmp_path, changed(GROWING, {"sigma2 = 1.0": "sigma2 = 0.1"})), *curves(60, 6, seed=4))
    assert found.notes[0].startswith("The 90 % bands of known clients are too narrow: they hold")
    wide = evaluate(load(tmp_path, changed(GROWING, {"sigma2 = 1.0": "sigma2 = 9.0"})), *curves(60, 6, seed=4))
    assert [group.bands for group in wide.groups] == ["too wide", "too wide"]


@pytest.mark.parametrize("text", [GROWING, PRIVATE, NAMED])
def test_nothing_is_claimed_of_data_without_structure(tmp_path: Path, text: str) -> None:
    study, rng = load(tmp_path, text), np.random.default_rng(6)
    clients, y = np.repeat(np.arange(80), 6), np.clip(rng.normal(size=480), -5, 5)
    X = rng.random((480, 1))
    if study.model.catalogue is not None:
        X = study.model.catalogue.rows[rng.integers(len(ITEMS.splitlines()) - 1, size=480)]
    found = evaluate(study, clients, X, y, draw=rounded_gaussian(2))
    assert [group.outcome for group in found.groups if group.outcome == "better"] == []
    known = of_kind(found, "known")
    assert known.outcome == "not better"
    best = known.baseline_scores[known.best_baseline].error
    assert found.verdict.startswith(
        f'Not better than the baseline "{known.best_baseline}" for known clients '
        f"(error {known.score.error:#.4g} against {best:#.4g})"
    )


def test_few_clients_cannot_tell(tmp_path: Path) -> None:
    study = load(tmp_path, GROWING)
    found = evaluate(study, *curves(3, 4, seed=1))
    assert "3 new clients are too few to tell whether it is better than the baseline" in found.verdict
    alone = evaluate(study, *curves(1, 12))
    assert alone.new is None
    assert of_kind(alone, "known").standard_error == np.inf
    assert alone.to_dict()["known"]["standard_error"] is None


def test_standard_errors_take_clients_as_independent() -> None:
    """The same rows many times are no more evidence."""
    rng = np.random.default_rng(3)
    client, y = np.repeat(np.arange(50), 4), rng.normal(size=200)
    means = {"mean of all": np.zeros(200)}
    once = Scored("known", np.arange(200), client, y, 0.1 * y, np.ones(200), means)
    many = Scored.joined([once] * 10)
    assert many.standard_error == pytest.approx(once.standard_error)
    singles = Scored("known", np.arange(200), np.arange(200), y, 0.1 * y, np.ones(200), means)
    squares = (0.9 * y) ** 2 - y**2
    error = singles.score.error + singles.baseline_scores["mean of all"].error
    assert singles.standard_error == pytest.approx(squares.std(ddof=1) / np.sqrt(200) / error)


def test_a_study_is_the_same_each_time(tmp_path: Path) -> None:
    study: Study = load(tmp_path, GROWING)
    data = curves(9, 5)
    one, two, other = (evaluate(study, *data, seed=seed).to_dict() for seed in (1, 1, 2))
    assert one == two != other
