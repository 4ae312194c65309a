"""Predictions of many clients: each at its own inputs or all at the same, from one release or several, or new; and of
the average.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from motet import Catalogue, Engine, Model
from motet.client import predictions
from motet.client.predictions import (
    Predictions,
    Query,
    Source,
    client_rows,
    from_average,
    from_clients,
    from_examples,
    predict,
)
from motet.client.tables import catalogue_inputs, read_clients, read_inputs
from motet.errors import InvalidData
from motet.kernels import RBF, DotProduct
from motet.tables.roles import Layout

FRUIT = Catalogue(["apple", "fig", "pear", "plum", "quince"], [[0.0], [0.3], [0.7], [1.2], [2.0]])
MODEL = Model(RBF(1.0), DotProduct(0.5), alpha=0.4, lam=0.1, sigma2=1.0, catalogue=FRUIT)
FRUITS = Layout(catalogue=FRUIT)
OWN = "client,name,y\nann,apple,2\nbob,plum,-1\nann,plum,1\nann,apple,1.5\n"


def engine() -> Engine:
    learned = Engine(MODEL)
    learned.learn_many(["u", "u", "v", "w"], ["apple", "quince", "fig", "plum"], [1.0, -1.0, 0.5, 0.2])
    return learned


def table(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def means(found: Predictions, client: str) -> list[float]:
    return [one.mean for one in found.predictions if one.client == client]


def places(found: Predictions) -> list[tuple[str, int]]:
    return [(one.client, one.row) for one in found.predictions]


@pytest.mark.parametrize("inputs_per_step", [2000, 2])
def test_each_at_all_inputs_or_at_its_own(
    inputs_per_step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predictions, "INPUTS_PER_STEP", inputs_per_step)
    own, moved = table(tmp_path / "own.csv", OWN), list[int]()
    release = engine().disclose()
    ann = release.estimate(*read_clients(own, FRUITS)["ann"].triples)
    found = predict(from_clients(release, own, None, FRUITS), moved.append)
    assert places(found) == [(who, row) for who in ("ann", "bob") for row in range(5)]
    assert means(found, "ann") == pytest.approx(ann.predict(list(FRUIT.names)))
    assert sum(moved) == 10
    assert found.mean[:5] == predict(from_examples(release, own, None, FRUITS, "ann"), moved.append).mean

    asked = table(tmp_path / "asked.csv", "name,client\nfig,zoe\nplum,ann\nfig,bob\nfig,ann\npear,ann\n")
    found = predict(from_clients(release, own, asked, FRUITS), moved.append, observation=True)
    assert places(found) == [("zoe", 0), ("ann", 1), ("bob", 2), ("ann", 3), ("ann", 4)]
    assert found.query.new_clients == ["zoe"]
    mean, std = ann.predict(["plum", "fig", "pear"], return_std=True, observation=True)
    assert means(found, "ann") == pytest.approx(mean)
    assert [one.std for one in found.predictions if one.client == "ann"] == pytest.approx(std)
    average, spread = release.average(["fig"], return_std=True, observation=True)
    assert means(found, "zoe") == pytest.approx(average)
    assert found.std[0] > spread[0]

    whole = predict(from_average(release, asked, FRUITS), moved.append, observation=True)
    mean, std = release.average(["fig", "plum", "fig", "fig", "pear"], return_std=True, observation=True)
    assert whole.mean == pytest.approx(mean)
    assert whole.std == pytest.approx(std)
    assert whole.to_list()[1] == {"name": "plum", "client": "ann", "mean": whole.mean[1], "std": whole.std[1]}


def test_a_release_that_comes_while_clients_are_asked() -> None:
    teacher = engine()
    first = teacher.disclose()
    sources = {"u": Source(first, teacher.coefficients("u", first))}
    teacher.learn_many(["v", "x"], ["pear", "pear"], [3.0, 4.0])
    second = teacher.disclose()
    sources |= {who: Source(second, teacher.coefficients(who, second)) for who in ("v", "w")}
    whole, moved = catalogue_inputs(FRUITS), list[int]()
    query = Query(first, whole, sources, client_rows(whole, sources), "tokens.csv")
    found = predict(query, moved.append)
    assert query.version == second.version
    for client, source in sources.items():
        estimate = source.release.active_estimate(source.examples)  # type: ignore[arg-type]
        assert means(found, client) == pytest.approx(estimate.predict(list(FRUIT.names)))


def test_the_best_of_each(tmp_path: Path) -> None:
    own, moved = table(tmp_path / "own.csv", OWN), list[int]()
    release = engine().disclose()
    among = "name,client\nplum,ann\nfig,ann\nfig,ann\nquince,ann\nplum,zoe\napple,zoe\n"
    asked = table(tmp_path / "asked.csv", among)
    found = predict(from_clients(release, own, asked, FRUITS), moved.append, top=5)
    X = found.query.inputs.X
    ann = release.estimate(*read_clients(own, FRUITS)["ann"].triples)
    best = ann.top(5, exclude=["plum"], among=["fig", "quince"])
    assert [X[one.row] for one in found.predictions if one.client == "ann"] == best
    average = dict(zip(("plum", "apple"), release.average(["plum", "apple"])))
    best = sorted(average, key=lambda name: -average[name])
    assert [X[one.row] for one in found.predictions if one.client == "zoe"] == best
    assert ("ann", 2) not in places(found)  # the same item again
    assert np.isfinite(found.std).all()
    whole = predict(from_average(release, None, FRUITS), moved.append, top=2)
    order = np.argsort(-release.average(list(FRUIT.names)))
    assert [row["name"] for row in whole.to_list()] == [FRUIT.names[k] for k in order[:2]]


def test_a_study_without_a_catalogue_has_nothing_to_rank(tmp_path: Path) -> None:
    inputs = table(tmp_path / "inputs.csv", "x\n1\n")
    numbers = Engine(Model(RBF(1.0), DotProduct(0.5), alpha=0.4, lam=0.1))
    numbers.learn("u", [0.5], 1.0)
    release = numbers.disclose()
    with pytest.raises(InvalidData, match="a table with 1 column of numbers to predict at, got none"):
        read_inputs(None, release.layout)
    with pytest.raises(InvalidData, match="top= ranks the items of a catalogue, and this study has none"):
        predict(from_average(release, inputs, release.layout), list[int]().append, top=2)
