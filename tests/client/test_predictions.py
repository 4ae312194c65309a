"""Predictions of many clients: each at its own inputs or all at the same, from one release or from several, or new."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from motet import Catalogue, Engine, Model
from motet.client import predictions as forecasts
from motet.client.predictions import Known, Prediction, passive, predict, rows_of
from motet.client.tables import inputs_of, read_clients, read_inputs
from motet.kernels import RBF, DotProduct

FRUIT = Catalogue(["apple", "fig", "pear", "plum", "quince"], [[0.0], [0.3], [0.7], [1.2], [2.0]])
MODEL = Model(RBF(1.0), DotProduct(0.5), alpha=0.4, lam=0.1, sigma2=1.0, catalogue=FRUIT)
OWN = "client,name,y\nann,apple,2\nbob,plum,-1\nann,plum,1\nann,apple,1.5\n"


def engine() -> Engine:
    found = Engine(MODEL)
    found.learn_many(["u", "u", "v", "w"], ["apple", "quince", "fig", "plum"], [1.0, -1.0, 0.5, 0.2])
    return found


def table(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def means(found: list[Prediction], client: str) -> list[float]:
    return [one.mean for one in found if one.client == client]


@pytest.mark.parametrize("at_once", [2000, 2])
def test_each_at_all_inputs_or_at_its_own(at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecasts, "AT_ONCE", at_once)
    release, examples = engine().disclose(), read_clients(table(tmp_path / "own.csv", OWN), FRUIT)
    known, moved = passive(release, examples), list[int]()
    ann = release.estimate(*examples["ann"].triples)
    whole = inputs_of(FRUIT)
    found = predict(release, known, whole, rows_of(whole, known), moved.append)
    assert [(one.client, one.row) for one in found] == [(who, row) for who in ("ann", "bob") for row in range(5)]
    assert means(found, "ann") == pytest.approx(ann.predict(list(FRUIT.names)))
    assert sum(moved) == 10

    asked = table(tmp_path / "asked.csv", "name,client\nfig,zoe\nplum,ann\nfig,bob\nfig,ann\npear,ann\n")
    at = read_inputs(asked, FRUIT)
    found = predict(release, known, at, rows_of(at, known), moved.append, observation=True)
    assert [(one.client, one.row) for one in found] == [("zoe", 0), ("ann", 1), ("bob", 2), ("ann", 3), ("ann", 4)]
    mean, std = ann.predict(["plum", "fig", "pear"], return_std=True, observation=True)
    assert means(found, "ann") == pytest.approx(mean)
    assert [one.std for one in found if one.client == "ann"] == pytest.approx(std)
    average, spread = release.average(["fig"], return_std=True, observation=True)
    assert means(found, "zoe") == pytest.approx(average)
    assert found[0].std > spread[0]


def test_a_release_that_comes_while_clients_are_asked() -> None:
    teacher = engine()
    first = teacher.disclose()
    known: dict[str, Known] = {"u": (first, teacher.coefficients("u", first))}
    teacher.learn_many(["v", "x"], ["pear", "pear"], [3.0, 4.0])
    second = teacher.disclose()
    known |= {who: (second, teacher.coefficients(who, second)) for who in ("v", "w")}
    whole, moved = inputs_of(FRUIT), list[int]()
    found = predict(first, known, whole, rows_of(whole, known), moved.append)
    for client, (release, own) in known.items():
        assert means(found, client) == pytest.approx(release.active_estimate(own).predict(list(FRUIT.names)))  # type: ignore[arg-type]


def test_the_best_of_each(tmp_path: Path) -> None:
    release = engine().disclose()
    known = passive(release, read_clients(table(tmp_path / "own.csv", OWN), FRUIT))
    among = "name,client\nplum,ann\nfig,ann\nfig,ann\nquince,ann\nplum,zoe\napple,zoe\n"
    at, moved = read_inputs(table(tmp_path / "asked.csv", among), FRUIT), list[int]()
    found = predict(release, known, at, rows_of(at, known), moved.append, top=5)
    ann = release.estimate(*read_clients(tmp_path / "own.csv", FRUIT)["ann"].triples)
    assert [at.X[one.row] for one in found if one.client == "ann"] == ann.top(
        5, exclude=["plum"], among=["fig", "quince"]
    )
    average = dict(zip(("plum", "apple"), release.average(["plum", "apple"])))
    assert [at.X[one.row] for one in found if one.client == "zoe"] == sorted(average, key=lambda name: -average[name])
    assert [one.row for one in found if one.client == "ann"].count(2) == 0  # the same item again
    assert np.isfinite([one.std for one in found]).all()
