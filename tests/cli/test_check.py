"""``motet check``: a study alone, and with a table that fits it or does not; its picture, likely mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.program import check_mistakes, good, refused, run, table

STUDY = """
[study]
name = "Glucose"
[model]
alpha = 0.5
lam = 0.05
sigma2 = 400.0
common = { kernel = "rbf", length_scale = 3.0 }
individual = { kernel = "constant", value = 1.0 }
[inputs]
columns = [{ name = "hours", bounds = [0.0, 14.0] }]
[table]
client = "patient"
target = "glucose"
[basis]
kind = "eigen"
spread = 30
rank = 5
[limits]
y = [20.0, 300.0]
examples_per_client = 10
[release]
policy = "private"
epsilon = 3.0
releases = 4
examples = 6
center = 120.0
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty patients of 3 to 9 rows from the study's model; one row has no output, two are outside."""
    folder, rng = tmp_path_factory.mktemp("check"), np.random.default_rng(0)
    grid = np.linspace(0, 14, 141)
    K = np.exp(-((grid[:, None] - grid) ** 2) / 18) + 1e-9 * np.eye(141)
    average = 120 + np.sqrt(200) * np.linalg.cholesky(K) @ rng.normal(size=141)
    lines = []
    for patient in range(60):
        level = np.sqrt(200) * rng.normal()
        for k in rng.integers(141, size=3 + patient % 7):
            y = average[k] + level + np.sqrt(20) * rng.normal()
            lines.append(f"P{patient},{grid[k]:.1f},{y:.1f}")
    lines += ["P0,3.0,", "P1,15.5,120", "P2,3.0,900"]
    table(folder / "visits.csv", "\n".join(["patient,hours,glucose", *lines]) + "\n")
    table(folder / "study.toml", STUDY)
    return folder


def test_a_study_alone_shows_how_many_clients_it_needs(folder: Path) -> None:
    printed = good(run("check", folder / "study.toml"))
    assert "Glucose: private, ε = 3, δ = 1e-05, 4 releases." in printed
    assert all(f"│ {clients} " in printed for clients in ("50", "150", "500", "1,500", "5,000"))
    assert printed.splitlines()[-1].startswith(("From about ", "With 5,000 clients "))


def test_a_table_that_fits(folder: Path) -> None:
    picture = folder / "forecast.svg"
    arguments = ["check", folder / "study.toml", folder / "visits.csv"]
    printed = good(run(*arguments, "--plot", picture))
    assert "Warning" not in printed
    assert "visits.csv: 357 rows of 60 clients, 6 each in the median, 3 to 9." in printed
    for left_out in (
        "1 row (missing value)", "1 row (hours outside its bounds, 0 to 14)", "1 row (y outside limits.y)"
    ):  # fmt: skip
        assert f"Left out: {left_out}." in printed
    assert "The clip would shorten " in printed
    assert "It serves: " in printed
    assert picture.read_bytes().startswith(b"<?xml")
    found = json.loads(good(run(*arguments, "--json")))
    rows = {row["label"]: row for row in found["rows"]}
    errors = {label: row["forecast"]["function"] for label, row in rows.items()}
    order = "each client alone", "this study, release 1", "this study, release 4", "without noise"
    assert [errors[label] for label in order] == sorted((errors[label] for label in order), reverse=True)
    assert errors["the same, simulated"] == pytest.approx(errors["this study, release 4"], rel=0.15)
    assert {row["rank"] for row in found["rows"] if row["label"] == "another rank"} == {2, 10}
    assert (found["clients"], found["table"]["clients"], found["warnings"]) == (60, 60, [])
    assert 0.2 < found["table"]["shortened"] < 0.8
    assert found["table"]["sigma2"] == pytest.approx(400, rel=0.3)


@pytest.mark.parametrize(
    ("setting", "other", "warning"),
    [
        ("sigma2 = 400.0", "sigma2 = 1.0", "model.sigma2 is 1, and the table makes"),
        ("lam = 0.05", "lam = 2.0", "is much likelier by the table"),
        ("center = 120.0", "center = 0.0", "release.center, 0: clients would spend their norm on it; set it to 1"),
        ("examples = 6", "examples = 60", "release.examples is 60, and half of the clients have 6 or more"),
        ("y = [20.0, 300.0]", "y = [-600.0, 600.0]", "which are 20.5 by the model: sigma2 may be too small"),
    ],
)
def test_settings_that_a_table_contradicts(folder: Path, setting: str, other: str, warning: str) -> None:
    study = table(folder / "wrong.toml", STUDY.replace(setting, other))
    printed = good(run("check", study, folder / "visits.csv"))
    assert warning in printed
    trusted = "cannot be trusted" not in printed.splitlines()[-1]
    assert trusted == ("examples" in setting or "y =" in setting)


def test_a_study_without_noise(folder: Path) -> None:
    exact = STUDY[: STUDY.index("[basis]")] + '[limits]\ny = [20.0, 300.0]\n[release]\npolicy = "exact"\n'
    study = table(folder / "exact.toml", exact.replace("sigma2 = 400.0\n", ""))
    printed = good(run("check", study, folder / "visits.csv"))
    assert "Glucose: without noise; 60 clients expected." in printed
    assert "ε =" not in printed
    assert "It serves: " in printed
    found: dict[str, Any] = json.loads(good(run("check", study, "--clients", 20, "--json")))
    assert "no model.sigma2" in found["warnings"][0]


def test_mistakes(folder: Path) -> None:
    study, empty = folder / "study.toml", table(folder / "empty.csv", "patient,hours,glucose\nP1,40,120\n")
    check_mistakes(
        ("the study would refuse every row (input outside inputs.bounds: 1 row)", ["check", study, empty]),
        ("no column 'nurse'", ["check", study, folder / "visits.csv", "--client", "nurse"]),
        ("a picture is PNG, SVG or PDF", ["check", study, "--plot", folder / "picture.txt"]),
        ("cannot read", ["check", study, folder / "nothing.csv"]),
    )
    free = (
        STUDY.replace(", bounds = [0.0, 14.0]", "")
        .replace("private", "exact")
        .replace("epsilon = 3.0\nreleases = 4", "")
    )
    nowhere = table(folder / "free.toml", free.replace('kind = "eigen"\nspread = 30\nrank = 5', 'kind = "growing"'))
    refused(run("check", nowhere), "give inputs.bounds, or a table of rows such as theirs")
