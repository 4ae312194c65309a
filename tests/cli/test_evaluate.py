"""``motet evaluate``: a study, a release and a server, its table, its picture, likely mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from motet.planning.evaluation import evaluate
from motet.study.study import Study
from tests.cli.program import check_mistakes, good, refused, run, table
from tests.cli.studies import ITEMS, PRIVATE, Studies

STUDY = """
[study]
name = "Glucose"
[model]
alpha = 0.5
lam = 0.05
sigma2 = 200.0
common = { kernel = "rbf", length_scale = 3.0 }
individual = { kernel = "constant", value = 1.0 }
[inputs]
columns = [{ name = "hours", bounds = [0.0, 14.0] }, { name = "drug", values = ["none", "new"] }]
[table]
client = "patient"
target = "glucose"
[basis]
kind = "growing"
[limits]
y = [20.0, 300.0]
[release]
policy = "exact"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty patients × 5, of a curve that a drug flattens and levels; three cells are missing, one is extreme."""
    folder, rng = tmp_path_factory.mktemp("evaluate"), np.random.default_rng(0)
    lines = []
    for patient in range(40):
        level = 10.0 * rng.normal()
        for hours, drug in zip(rng.uniform(0, 14, 5).round(1), rng.choice(["none", "new"], 5)):
            y = 120 + 20 * np.sin(hours / 2) * (drug == "none") + level + 3 * rng.normal()
            lines.append(f"{drug},P{patient},{y:.1f},{hours}")
    lines[3] = "none,P0,,3.0"
    lines[7] = "NA,P1,120,3.0"
    lines[11] = "none,P2,120,nan"
    lines[12] = "none,P2,900,3.0"
    table(folder / "visits.csv", "\n".join(["drug,patient,glucose,hours", *lines]) + "\n")
    table(folder / "study.toml", STUDY)
    return folder


def test_a_study_on_a_table(folder: Path) -> None:
    arguments = ["evaluate", folder / "study.toml", folder / "visits.csv", "--folds", 2]
    printed = good(run(*arguments))
    assert "visits.csv: 200 rows of 40 clients. Evaluated: a release without noise." in printed
    assert "Left out: 3 rows (missing value).\nLeft out: 1 row (y outside limits.y).\n" in printed
    assert "Better than every baseline for known and new clients." in printed
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in printed.splitlines() if line[0] == "│"]
    baselines = [
        "mean of all",
        "client's mean",
        "linear model + client's mean",
        "boosted trees + client's mean",
        "mixed model with splines",
    ]
    assert [row[:2] for row in rows] == [[kind, who] for kind in ("known", "new") for who in ("this study", *baselines)]
    found = json.loads(good(run(*arguments, "--json")))
    assert [row[2:4] for row in rows[::6]] == [
        [f"{found[kind]['error']:#.4g}", f"{found[kind]['log_score']:.3f}"] for kind in ("known", "new")
    ]


def test_the_figures_are_those_of_the_module(folder: Path) -> None:
    options = ["--folds", 1, "--seed", 7, "--new-rows", 1, "--json"]
    found = json.loads(good(run("evaluate", folder / "study.toml", folder / "visits.csv", *options)))
    study = Study.load(folder / "study.toml")
    cells = [line.split(",") for line in (folder / "visits.csv").read_text(encoding="utf-8").splitlines()[1:]]
    clients, y = [row[1] for row in cells], [float(row[2] or "nan") for row in cells]
    X = [[float(hours), drug == "none", drug == "new"] for drug, _, _, hours in cells]
    X[7][0] = np.nan
    expected = evaluate(study, clients, X, y, folds=1, seed=7, new_rows=1).to_dict()
    assert {key: found[key] for key in expected} == json.loads(json.dumps(expected))
    assert found["left_out"] == {"missing value": 3, "y outside limits.y": 1}
    assert (found["rows"], found["clients"], found["folds"], found["plot"]) == (200, 40, 1, None)


def test_other_columns_of_a_private_catalogue_and_its_picture(tmp_path: Path) -> None:
    rows = [f'"{name}",{k / 4},{(k * k) % 3}' for k, name in enumerate(ITEMS)]
    table(tmp_path / "items.csv", "\n".join(["name,a,b", *rows]))
    study = table(tmp_path / "study.toml", f'[study]\nname = "Items"\n{PRIVATE}')
    rng = np.random.default_rng(0)
    lines = [f'u{user},"{ITEMS[k]}",{rng.normal():.2f}' for user in range(30) for k in range(4)]
    ratings = table(tmp_path / "ratings.csv", "\n".join(["user,item,rating", *lines]))
    columns = ["--client", "user", "--name", "item", "--target", "rating"]
    for picture, start in (("one.png", b"\x89PNG"), ("one.svg", b"<?xml")):
        printed = good(run("evaluate", study, ratings, *columns, "--folds", 1, "--plot", tmp_path / picture))
        assert (tmp_path / picture).read_bytes().startswith(start)
        assert f"The picture is in {tmp_path / picture}." in printed
    assert "the first of 1 private release, ε = 3" in printed
    assert "Baselines have the same rows, without noise for privacy." in printed
    assert "item's + client's mean" in printed
    again = [study, ratings, *columns, "--plot", tmp_path / "one.png"]
    refused(run("evaluate", *again), "already exists", "--force")
    odd = table(tmp_path / "odd.csv", "user,item,rating\nu1,fig,1\nu1,figg,2\nu2,plum,1\n")
    refused(run("evaluate", study, odd, *columns), "odd.csv, row 3, column item", "did you mean 'fig'")


def test_a_release_from_a_file_or_a_server(studies: Studies, tmp_path: Path) -> None:
    rng, lines = np.random.default_rng(0), ["client,x,y"]
    for client in range(12):
        for x in rng.uniform(0, 2, 6):
            lines.append(f"c{client},{x:.3f},{np.sin(3 * x) + 0.1 * rng.normal():.3f}")
    visits = table(tmp_path / "visits.csv", "\n".join(lines))
    release = tmp_path / "release.safetensors"
    good(run("download", "--out", release, MOTET_URL=studies.curves.url))
    found, same = (
        json.loads(good(run("evaluate", source, visits, "--json"))) for source in (release, studies.curves.url)
    )
    assert found["known"] is None
    assert {**found, "source": ""} == {**same, "source": ""}
    assert (found["new"]["rows"], found["new"]["clients"]) == (36, 12)
    errors = {name: one["error"] for name, one in found["new"]["baselines"].items()}
    errors.pop("mixed model with splines")  # it has these very curves, which are all the same, and without noise
    assert found["new"]["error"] < min(errors.values())
    printed = good(run("evaluate", release, visits))
    assert "this release" in printed
    assert f"Evaluated: {found['subject']}." in printed


def test_likely_mistakes(folder: Path, tmp_path: Path) -> None:
    study, visits = folder / "study.toml", folder / "visits.csv"
    text = visits.read_text(encoding="utf-8")
    drug = table(tmp_path / "drug.csv", text.replace("new,P0", "newer,P0"))
    words = table(tmp_path / "words.csv", text.replace("none,P3,", "none,P3,about "))
    one = table(tmp_path / "one.csv", "drug,patient,glucose,hours\nnew,P0,120,1\n")
    empty = table(tmp_path / "empty.csv", "drug,patient,glucose,hours\nnew,P0,,1\n")
    check_mistakes(
        (
            "no column 'Patient'; got drug, patient, glucose, hours; did you mean 'patient'?",
            ["evaluate", study, visits, "--client", "Patient"],
        ),
        ("no column 'hours'", ["evaluate", study, table(tmp_path / "few.csv", "drug,patient,glucose\nnew,P0,1\n")]),
        ('column drug: expected "none" or "new", got "newer"', ["evaluate", study, drug]),
        ("column glucose: expected a finite number, got 'about", ["evaluate", study, words]),
        ("nothing to score: expected rows of several clients", ["evaluate", study, one]),
        ("every row has a missing value in patient, hours, drug, glucose", ["evaluate", study, empty]),
        ("releases must be a whole number from 1 to 1, got 2", ["evaluate", study, visits, "--releases", 2]),
        ("a picture is PNG, SVG or PDF: give --plot a name", ["evaluate", study, visits, "--plot", "picture.gif"]),
        ("cannot read", ["evaluate", tmp_path / "nothing.toml", visits]),
        ("give a release's file, or an address", ["evaluate", tmp_path / "nothing.safetensors", visits]),
        ("not a release", ["evaluate", visits, visits]),
    )
    error = json.loads(run("evaluate", study, drug, "--json").err)["error"]
    assert error["where"].startswith("drug.csv, row ")
