"""``motet predict`` for one client and of the average."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.program import good, motet, predictions, refused, rows, table
from tests.cli.studies import ITEMS, Studies, answering
from tests.client.fake_server import learned

OWN = "name,y\napple,2\nplum,-1\n"


def test_passive_sends_nothing_but_a_get(tmp_path: Path) -> None:
    release = learned().disclose()
    own = table(tmp_path / "own.csv", "x,y\n0.5,1\n1.5,3\n")
    study = {"model": release.model.to_spec(), "dimension": 1}
    with answering(release.to_bytes(), json.dumps(study).encode()) as (url, requests):
        shown = good(motet(url, "predict", own, "--own", own, "--observation", "--json", client="a-token-of-mine"))
    assert requests == [("GET", path, None, None) for path in ("/v1/disclosed", "/v1/study")]
    found = json.loads(shown)
    mean, std = release.estimate([[0.5], [1.5]], [1.0, 3.0]).predict([[0.5], [1.5]], return_std=True, observation=True)
    assert [row["mean"] for row in found["predictions"]] == pytest.approx(mean.tolist())
    assert [row["std"] for row in found["predictions"]] == pytest.approx(std.tolist())
    assert [(row["x"], row["y"]) for row in found["predictions"]] == [(0.5, 1.0), (1.5, 3.0)]


def test_predictions_over_a_catalogue(studies: Studies, tmp_path: Path) -> None:
    items, own = studies.items, table(tmp_path / "own.csv", OWN)
    among = table(tmp_path / "among.csv", "shelf,name\n1,plum\n2,quince\n3,quince\n")
    whole = motet(items, "predict", "--own", own, client=studies.guest)
    chosen = motet(items, "predict", among, "--own", own, "--top", "5", client=studies.guest)
    with items.client(studies.guest) as client:
        mean, std = client.estimate(["apple", "plum"], [2.0, -1.0]).predict(ITEMS, return_std=True)
    best = sorted({"fig", "pear, green", "quince"}, key=lambda name: -mean[ITEMS.index(name)])
    assert [row["name"] for row in rows(good(whole))] == ITEMS
    assert predictions(good(whole)) == pytest.approx(np.column_stack([mean, std]), rel=1e-8)
    assert [(row["shelf"], row["name"]) for row in rows(good(chosen))] == [("2", "quince")]
    rated = table(tmp_path / "rated.csv", "name\nplum\n")
    none = motet(items, "predict", rated, "--own", own, "--top", "5", client=studies.guest).result()
    assert (none.code, rows(none.out)) == (0, [])
    assert "the client rated every item already" in none.err
    average = motet(items, "predict", among, "--average", "--json", client=studies.guest)
    with items.client(studies.guest) as client:
        mean, std = client.disclosed().average(["plum", "quince", "quince"], return_std=True)
    told = json.loads(good(average))["predictions"]
    assert [(row["shelf"], row["mean"], row["std"]) for row in told] == list(zip("123", mean.tolist(), std.tolist()))
    sent = motet(items, "send", own, client=studies.guest).result()
    assert (sent.code, "motet: no later release will have what was sent" in sent.err) == (0, True)
    assert [row["name"] for row in rows(good(motet(items, "predict", "--top", "2", client=studies.guest)))] == best[:2]


def test_predictions_that_are_refused(studies: Studies, tmp_path: Path) -> None:
    curves, cem = studies.curves, studies.clients["cem"].token
    own = table(tmp_path / "own.csv", "x,y\n1,2\n")
    wide = table(tmp_path / "wide.csv", "x,z\n1,2\n")
    kept = table(tmp_path / "kept.csv", "precious")
    usage = motet(curves, "predict", "--top", "0")
    for run, *words in (
        (studies.early["predict"], "nothing is released yet: the first release is due at 20", "try again then"),
        (motet(curves, "predict", own), "set MOTET_TOKEN"),
        (motet(curves, "predict", "--release", own), "with --own FILE"),
        (motet(curves, "predict", own, "--own", own, "--release", own), "own.csv: not a release: expected"),
        (motet(curves, "predict", own, "--own", own, "--out", kept), "kept.csv already exists: choose", "--force"),
        (motet(curves, "predict", own, "--out", "p.parquet"), "written as CSV", "predictions.csv"),
        (motet(curves, "predict", client=cem), "a table with 1 column of numbers", "give INPUTS"),
        (motet(curves, "predict", wide, "--own", own), "wide.csv", "expected 1 input column", "got 2: x, z"),
    ):
        refused(run, *words)
    assert usage.result().code == 2
    assert "expected a whole number from 1, got '0'" in usage.result().err
    assert kept.read_text(encoding="utf-8") == "precious"
    good(motet(curves, "predict", own, "--own", own, "--out", kept, "--force"))
    assert kept.read_text(encoding="utf-8").startswith("x,y,mean,std\n1,2,")
