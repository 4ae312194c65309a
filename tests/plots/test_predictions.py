"""Pictures of predictions: which curves, bars and points they have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from motet import Catalogue, Disclosed, Engine, Model
from motet.client.predictions import Predictions, from_average, from_clients, from_examples, predict
from motet.kernels import RBF, DotProduct
from motet.plots.predictions import Z, draw, save
from motet.tables.columns import Columns

VISITS = Columns.from_spec([{"name": "visit", "since": "2024-01-01"}, {"name": "sex", "values": ["f", "m"]}])
ITEMS = Catalogue(["A$AP $", "Bach", "Dufay"], [[0.0], [1.0], [2.0]])


def release(X: Any, **inputs: Any) -> Disclosed:
    engine = Engine(Model(RBF(30.0), DotProduct(0.5), alpha=0.5, lam=0.1, sigma2=1.0, **inputs))
    engine.learn_many([0, 0, 1], X, [1.0, 2.0, 0.5])
    return engine.disclose()


def table(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def predicted(query: Any, **options: Any) -> Predictions:
    return predict(query, lambda _: None, **options)


def panels(found: Predictions, **options: Any) -> list[Any]:
    return list(draw(found, **options).axes)


def labels(ax: Any) -> list[str]:
    return ax.get_legend_handles_labels()[1]


def test_a_curve_for_each_client_over_all_inputs_and_examples(tmp_path: Path) -> None:
    numbers = release([[0.0], [5.0], [9.0]])
    own = table(tmp_path / "own.csv", "client,t,y\nann,2,1\nbob,12,3\nann,4,2\n")
    at, layout = table(tmp_path / "at.csv", "t\n5\n1\n"), numbers.layout
    found = predicted(from_clients(numbers, own, at, layout))
    (ax,) = panels(found)
    ann, points, bob, _ = ax.lines
    assert labels(ax) == ["ann", "bob"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("t", "y")
    assert (ann.get_xdata().min(), ann.get_xdata().max()) == (1.0, 12.0)
    assert sorted(points.get_xydata().tolist()) == [[2.0, 1.0], [4.0, 2.0]]
    mean, std = numbers.estimate([[12.0]], [3.0]).predict(bob.get_xdata()[:, None], return_std=True)
    np.testing.assert_allclose(bob.get_ydata(), mean)
    band = ax.collections[1].get_paths()[0].vertices
    assert band[:, 1].max() == pytest.approx((mean + Z * std).max())
    (ax,) = panels(predicted(from_average(numbers, at, layout)))
    assert (len(labels(ax)), ax.get_title()) == (0, "average of all clients")


def test_a_curve_for_each_value_of_a_category_along_dates(tmp_path: Path) -> None:
    dated = release([[0.0, 1.0, 0.0], [50.0, 0.0, 1.0], [90.0, 1.0, 0.0]], columns=VISITS)
    own = table(
        tmp_path / "own.csv", "sex,visit,y,client\nm,2024-02-01,1,ann\nf,2024-03-01,2,ann\nm,2024-02-09,3,bob\n"
    )
    at = table(tmp_path / "at.csv", "visit,sex\n2024-01-01,m\n2024-04-01,f\n")
    layout = dated.layout
    (ax,) = panels(predicted(from_examples(dated, own, at, layout, "ann")))
    assert labels(ax) == ["sex f", "sex m"]
    woman, point, *_ = ax.lines
    assert woman.get_xdata()[0] == np.datetime64("2024-01-01")
    assert point.get_xdata().tolist() == [np.datetime64("2024-03-01").astype("datetime64[s]").item()]
    each = panels(predicted(from_clients(dated, own, at, layout)))
    assert [(ax.get_title(), len(labels(ax))) for ax in each] == [("ann", 2), ("bob", 2)]


def test_the_best_items_of_each_client(tmp_path: Path) -> None:
    music = release(["Bach", "Dufay", "Bach"], catalogue=ITEMS)
    own = table(tmp_path / "own.csv", "client,name,y\nann,Bach,1\nbob,Dufay,3\n")
    found = predicted(from_clients(music, own, None, music.layout), top=2)
    ann, bob = panels(found)
    assert (ann.get_title(), bob.get_title()) == ("ann", "bob")
    assert [bar.get_width() for bar in ann.patches] == found.mean[:2]
    for name in ("top.png", "top.svg", "top.pdf"):
        save(found, tmp_path / name)
    assert "A$AP $" in (tmp_path / "top.svg").read_text(encoding="utf-8")


def test_several_inputs_that_vary_are_drawn_row_by_row(tmp_path: Path) -> None:
    wide = release([[0.0, 1.0], [2.0, 3.0], [4.0, 0.0]])
    along = table(tmp_path / "along.csv", "a,b\n0,1\n9,1\n")
    (ax,) = panels(predicted(from_average(wide, along, wide.layout)))
    curve = np.column_stack([ax.lines[0].get_xdata(), np.ones(len(ax.lines[0].get_xdata()))])
    np.testing.assert_allclose(ax.lines[0].get_ydata(), wide.average(curve))  # one input varies, the other is fixed
    own = table(tmp_path / "own.csv", "a,b,y\n1,2,3\n")
    at = table(tmp_path / "at.csv", "b,a,y\n1,2,0.5\n3,4,\n")
    found = predicted(from_examples(wide, own, at, wide.layout))
    (ax,) = panels(found, observation=True)
    (means, *_), observed = ax.containers[0], ax.lines[-1]
    assert means.get_ydata().tolist() == found.mean
    assert observed.get_xydata().tolist() == [[1.0, 0.5]]
