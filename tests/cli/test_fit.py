"""``motet tune`` and ``motet fit``: settings from a table, a release that ``motet predict`` takes, likely mistakes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import motet
from motet import Disclosed, MixedEffectRegressor
from motet.cli.app import app
from motet.store.releases import current
from motet.tuning.search import Step
from tests.cli.program import PROGRESS, check_mistakes, good, predictions, refused, run, table
from tests.store.local_study import EXACT, PRIVATE, local_study

HEADER = "subject,weeks,dose,y\n"


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve subjects × 4, of a slope of 2 a week and levels of their own."""
    rng = np.random.default_rng(0)
    rows = []
    for subject in range(12):
        level = 3.0 * rng.normal()
        for weeks, dose in zip(rng.uniform(0, 10, 4).round(1), rng.uniform(100, 300, 4).round()):
            rows.append(f"s{subject},{weeks},{dose},{5 + 2 * weeks + level + 0.2 * rng.normal():.3f}\n")
    return table(tmp_path_factory.mktemp("fit") / "visits.csv", HEADER + "".join(rows))


LINEAR = ["--task", "subject", "--common", "none", "--individual", "constant"]


def test_settings_are_those_of_the_regressor(visits: Path) -> None:
    found = json.loads(good(run("tune", visits, *LINEAR, "--inputs", "weeks", "--method", "ML", "--json")))
    cells = [line.split(",") for line in visits.read_text(encoding="utf-8").splitlines()[1:]]
    X, y = np.array([[float(row[1])] for row in cells]), np.array([float(row[3]) for row in cells])
    steps: list[Step] = []
    start = MixedEffectRegressor(None, "constant", method="ML")
    reg = motet.tune(start, X, y, task=[row[0] for row in cells], report=steps.append)
    assert reg.tuning_ is not None
    assert tuple(steps) == reg.tuning_.log
    assert found["evaluations"] == len(steps)
    assert (found["rows"], found["tasks"], found["inputs"], found["method"]) == (48, 12, ["weeks"], "ML")
    assert found["log_evidence"] == pytest.approx(reg.tuning_.log_evidence)
    intercept, noise = (component["variance"] for component in found["components"])
    assert noise == pytest.approx(reg.tuning_.noise_variance)
    assert intercept / noise == pytest.approx(reg.components_.individual / reg.components_.noise)
    assert 0.1 < noise**0.5 < 0.3  # simulated: 0.2
    assert 1.5 < intercept**0.5 < 6.0  # and 3
    assert found["model"]["sigma2"] == pytest.approx(reg.sigma2_)
    assert (found["converged"], found["rows_left_out"]) == (True, 0)


def test_without_options_units_and_structure_are_found(visits: Path) -> None:
    clients = table(
        visits.with_name("clients.csv"), visits.read_text(encoding="utf-8").replace(HEADER, "client,weeks,dose,y\n")
    )
    text = good(run("tune", clients))
    assert "48 rows of 12 tasks; inputs: weeks, dose" in text
    assert [word for word in ("shift: intercept", "noise", "evaluations") if word not in text] == []
    assert re.search(r"^Tried, and does not pay: .*smooth average", text, re.MULTILINE)


def test_a_release_predicts_for_a_task_that_was_never_seen(visits: Path, tmp_path: Path) -> None:
    out = tmp_path / "visits.safetensors"
    printed = good(run("fit", visits, "--task", "subject", "--inputs", "weeks", "--out", out))
    assert f"--release {out}" in printed
    own = table(tmp_path / "own.csv", "weeks,y\n1,17\n2,19\n")
    at = table(tmp_path / "at.csv", "weeks\n8\n")
    ((mean, std),) = predictions(good(run("predict", at, "--own", own, "--release", out)))
    assert mean == pytest.approx(15 + 2 * 8, abs=1.0)  # ten above the average
    assert std < 1.0
    refused(run("fit", visits, *LINEAR, "--out", out), "already exists", "--force")
    again = json.loads(good(run("fit", visits, *LINEAR, "--out", out, "--force", "--json")))
    assert again["out"] == str(out)


def test_rows_with_missing_values_are_refused_or_counted_and_noise_is_read(visits: Path, tmp_path: Path) -> None:
    lines = visits.read_text(encoding="utf-8").splitlines()
    lines[1], lines[2], lines[3] = "s0,,200,7", "s0,1,NA,8", "s0,2,200,"
    noisy = [f"{line},{'noise' if k == 0 else 1 + k % 2}" for k, line in enumerate(lines)]
    path = table(tmp_path / "gaps.csv", "\n".join(noisy) + "\n")
    place, advice = "gaps.csv, row 2, column weeks", "fill it in, or leave such rows out with --skip-missing"
    for command in (["tune"], ["fit", "--out", tmp_path / "gaps.safetensors"]):
        ended = run(*command, path, *LINEAR, "--refuse-missing")
        refused(ended, f"{place}: expected a value, got nothing: {advice}")
    ended = run("tune", path, *LINEAR)
    assert ended.code == 0
    assert ended.err == "motet: 3 of 48 rows left out: a value is missing\n"
    assert "45 rows of 12 tasks; inputs: weeks, dose" in ended.out  # and the noise is none of them
    data = json.loads(good(run("tune", path, *LINEAR, "--skip-missing", "--json")))
    assert data["rows_left_out"] == 3


def test_likely_mistakes(visits: Path, tmp_path: Path) -> None:
    text = visits.read_text(encoding="utf-8")
    drugs = table(tmp_path / "drugs.csv", text.replace("dose", "drug").replace("283.0", "aspirin"))
    drug_at = "drugs.csv, row 2, column drug"
    few = table(tmp_path / "few.csv", "client,x,y\nann,1,2\n")
    empty = table(tmp_path / "gaps.csv", "client,x,y\nann,,2\nbob,1,\n")
    wrong = table(tmp_path / "noise.csv", "client,x,y,noise\nann,1,2,1\nbob,1,2,0\n")
    check_mistakes(
        ("no column 'client'; got subject, weeks, dose, y; name another with --client", ["tune", visits]),
        (
            "no column 'Subject'; got subject, weeks, dose, y; did you mean 'subject'?",
            ["fit", visits, "--task", "Subject"],
        ),
        ("no column 'score'", ["tune", visits, "--task", "subject", "--target", "score"]),
        ("no column 'week'", ["tune", visits, "--task", "subject", "--inputs", "dose,week"]),
        (
            "--target and --inputs must be different columns, both are 'y'",
            ["tune", visits, "--task", "subject", "--inputs", "weeks,y"],
        ),
        ("--client and --target must be different columns, both are 'y'", ["tune", visits, "--task", "y"]),
        (
            f"{drug_at}: expected a finite number, got 'aspirin'",
            ["tune", drugs, "--task", "subject"],
        ),
        ("unknown kernel 'rbff': known are rbf,", ["tune", visits, *LINEAR, "--individual", "rbff"]),
        ("1 row of 1 task are too few, or too alike", ["fit", few, "--out", tmp_path / "few.safetensors"]),
        ("nothing to learn: expected at least one complete row", ["tune", empty]),
        ("noise.csv, row 3, column noise: expected a variance above 0", ["tune", wrong]),
        ("cannot read", ["tune", tmp_path / "nothing.csv"]),
    )
    assert not (tmp_path / "few.safetensors").exists()
    error = json.loads(run("tune", drugs, "--task", "subject", "--json").err)["error"]
    assert (error["code"], error["where"]) == ("invalid_data", drug_at)


def test_parquet(visits: Path, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.read_csv(visits)
    frame.loc[0, "weeks"] = np.nan
    frame.to_parquet(tmp_path / "visits.parquet")
    options = ["--task", "subject", "--inputs", "weeks", "--common", "none", "--individual", "linear", "--json"]
    options.append("--skip-missing")
    data = json.loads(good(run("tune", tmp_path / "visits.parquet", *options)))
    assert (data["rows"], data["rows_left_out"]) == (47, 1)
    assert [one["component"] for one in data["components"]] == ["shift: intercept and slopes", "noise"]


def test_a_large_table_goes_through_settings_predictions_and_coefficients(visits: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    settings = table(tmp_path / "settings.json", good(run("tune", visits, *LINEAR, "--inputs", "weeks", "--json")))
    written = [tmp_path / name for name in ("m.safetensors", "p.parquet", "c.parquet")]
    outputs = ["--out", written[0], "--predictions", written[1], "--coefficients", written[2]]
    options = ["--task", "subject", "--inputs", "weeks", "--settings", settings]
    data = json.loads(good(run("fit", visits, *options, *outputs, "--json")))
    told = json.loads(settings.read_text(encoding="utf-8"))
    assert data["log_evidence"] == pytest.approx(told["log_evidence"], rel=1e-6)
    assert (data["rows"], data["tasks"], data["shuffled"]) == (48, 12, False)
    assert parquet.read_table(written[1]).column_names == ["subject", "weeks", "mean", "std"]
    lines = visits.read_text(encoding="utf-8").splitlines()[1:]
    assert parquet.read_table(written[2]).num_rows == len({tuple(line.split(",")[:2]) for line in lines})
    again = [*options[:-1], written[0], "--out", tmp_path / "again.safetensors"]
    assert "Log evidence of all rows" in good(run("fit", visits, *again))
    refused(run("fit", visits, *options, *outputs), "already exists")
    refused(run("fit", visits, *options[:-1], visits, "--out", tmp_path / "x"), "not a release")


def test_a_studys_database_is_fitted_as_its_server_would(tmp_path: Path) -> None:
    """Also while it is open elsewhere; privacy is not given away, and what would be ignored is refused."""
    file, out = tmp_path / "study.toml", tmp_path / "model.safetensors"
    with local_study(tmp_path, EXACT) as study:
        assert study.release() == [1]
        with study.store.snapshot() as connection:
            released = current(connection)
        assert released is not None
        data = json.loads(good(run("fit", file, "--out", out, "--json")))
        assert (data["rows"], data["tasks"], data["inputs"]) == (6, 3, ["x0"])
        found, expected, at = Disclosed.load(out), Disclosed.from_bytes(released.data), [[-1.0], [0.25], [1.0]]
        np.testing.assert_allclose(found.average(at), expected.average(at), rtol=1e-9)
        assert found.sigma2 == pytest.approx(expected.sigma2, rel=1e-9)
        assert "6 rows of 3 tasks" in good(run("fit", file, "--out", tmp_path / "again.safetensors"))
    refused(
        run("fit", file, "--out", tmp_path / "x", "--dask", "local"),
        "--dask is for tables",
        "study.toml says what is fitted",
    )
    file.write_text(PRIVATE, encoding="utf-8")
    refused(run("fit", file, "--out", tmp_path / "x"), "promises privacy")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("command", ["tune", "fit"])
def test_without_a_terminal_lines_tell_how_far_it_is(
    visits: Path, tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("motet.tuning.phases.PAUSE_SECONDS", 0.0)
    arguments = [command, visits, *LINEAR]
    if command == "fit":
        arguments += ["--out", tmp_path / "a.safetensors", "--force"]
    told = CliRunner().invoke(app, [str(argument) for argument in arguments])
    lines = told.stderr.splitlines()
    assert (told.exit_code, "settings" in told.stdout) == (0, False)
    assert lines[0] == "motet: Reading: 48 of about 48 rows"
    assert any(re.match(r"motet: settings, step 1: log evidence .* so far, about .* more$", line) for line in lines)
    assert PROGRESS.sub("", told.stderr) == ""
    as_json = CliRunner().invoke(app, [*(str(argument) for argument in arguments), "--json"])
    assert (as_json.exit_code, as_json.stderr) == (0, "")
