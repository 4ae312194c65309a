"""``motet init``: options, and mistakes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from motet.kernels import ConstantKernel
from motet.study.study import Study
from tests.cli.program import check_mistakes, good, run
from tests.own_tables import glucose


def test_init_writes_a_study_that_loads(tmp_path: Path) -> None:
    (tmp_path / "items").mkdir()
    (tmp_path / "items" / "artists.csv").write_text("name,loud,fast\na,10,20\nb,40,60\nc,0,0\n", encoding="utf-8")
    path = tmp_path / "my study.toml"
    inputs = ["--title", 'Taste "1"', "--catalogue", tmp_path / "items" / "artists.csv"]
    said = good(run("init", path, *inputs, "--epsilon", 1, "--releases", 4, "--every", "12h"))
    assert f"motet serve '{path}'" in said
    assert "a study over 3 items, with private releases" in said
    study = Study.load(path)
    assert (study.name, study.release.epsilon, study.release.releases) == ('Taste "1"', 1.0, 4)
    assert study.release.seconds == 12 * 3600
    assert 'catalogue = "items/artists.csv"' in path.read_text(encoding="utf-8")
    assert "length_scale = 25.0" in path.read_text(encoding="utf-8")  # half of what is between the items
    numbers = ["--policy", "exact", "--dimension", 2, "--bounds", -2, 3]
    found = json.loads(good(run("init", path, "--force", *numbers, "--json")))
    assert found == {"study": str(path), "name": "A new study", "policy": "exact"}
    study = Study.load(path)
    assert (study.private, study.dimension, study.bounds) == (False, 2, ((-2.0, 3.0), (-2.0, 3.0)))


def test_init_mistakes(tmp_path: Path) -> None:
    there = tmp_path / "there.toml"
    there.write_text("mine", encoding="utf-8")
    new = tmp_path / "new.toml"
    check_mistakes(
        ("there.toml already exists: choose another name, or overwrite it with --force", ["init", there]),
        ("got --catalogue and --dimension", ["init", new, "--catalogue", "a.csv", "--dimension", 1]),
        ("missing: a table, --from FILE; or what inputs are: --inputs COLUMNS, --catalogue FILE", ["init", new]),
        ("--client is about a table: give the table too, --from FILE", ["init", new, "--client", "patient"]),
        ("cannot read a.csv: No such file or directory", ["init", new, "--catalogue", "a.csv"]),
        (
            'there.toml, release.every: expected a time such as "30s"',
            ["init", there, "--force", "--dimension", 1, "--every", "daily"],
        ),
    )
    assert there.read_text(encoding="utf-8") == "mine"
    assert not new.exists()
    assert run("init", new, "--policy", "secret").code == 2


@pytest.fixture(scope="module")
def pilot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pilot")
    glucose(5, 30).write(folder)
    return folder / "glucose.csv"


ROLES = ("--client", "patient", "--target", "glucose")


def test_init_from_a_table(pilot: Path, tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    options = ["--from", pilot, *ROLES, "--inputs", "hours", "--units", "hours=h", "--releases", 1]
    ended = run("init", path, *options)
    assert ended.code == 0, ended.err
    for words in ("30 clients", "left out", "this study", "mean of all", "Scored: known clients", "motet serve"):
        assert words in ended.out
    study = Study.load(path)
    assert study.model.columns is not None
    assert study.model.columns.columns[0].unit == "h"
    assert (study.table.client, study.table.target, study.name) == ("patient", "glucose", "study")
    ended = run("init", path, "--force", *options, "--policy", "exact", "--json")
    assert "--epsilon and --releases need a private study; with --policy exact, omit them" in ended.err
    found = json.loads(run("init", path, "--force", *options[:-2], "--policy", "exact", "--json").out)
    assert found["from"]["clients"] == 30
    assert found["evaluation"]["known"]["error"] < found["evaluation"]["known"]["baselines"]["mean of all"]["error"]


def test_init_from_a_table_mistakes(pilot: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.toml"
    check_mistakes(
        (
            "say which column is which with --client and --target",
            ["init", new, "--from", pilot],
        ),
        ("no column 'patients'", ["init", new, "--from", pilot, "--client", "patients", "--target", "glucose"]),
        ("--bounds is for a study without a table", ["init", new, "--from", pilot, *ROLES, "--bounds", 0, 1]),
        ("expected --units such as hours=h", ["init", new, "--from", pilot, *ROLES, "--units", "hours"]),
        ("different texts, too many", ["init", new, "--from", pilot, *ROLES, "--inputs", "note"]),
        ("cannot read none.csv", ["init", new, "--from", "none.csv", *ROLES]),
    )
    assert not new.exists()


def test_a_study_behind_a_baseline_is_compared_with_a_plain_one(tmp_path: Path) -> None:
    """Twelve clients and a tiny budget: a linear model without noise has to be better. The better structure is kept."""
    rng = np.random.default_rng(0)
    rows = [(f"c{k % 12}", x, 10 ** (x - z), z) for k, (x, z) in enumerate(rng.normal(size=(60, 2)))]
    lines = [f"{client},{x:.3f},{size:.5g},{5 * x + 3 * z + 0.5 * rng.normal():.3f}" for client, x, size, z in rows]
    (tmp_path / "table.csv").write_text("\n".join(["client,x,size,y", *lines]) + "\n", encoding="utf-8")
    options = ["--from", tmp_path / "table.csv", "--epsilon", 0.1, "--releases", 1]
    ended = run("init", tmp_path / "study.toml", *options)
    assert ended.code == 0, ended.err
    assert "read by their logarithms: size above" in ended.out
    (tried,) = [line for line in ended.out.splitlines() if line.startswith("A plain structure")]
    plain, full = map(float, re.findall(r"log score (\S+) against (\S+)\.", tried)[0])
    is_written = "is better, and written" in tried
    assert is_written == (plain < full) or plain == full
    study = Study.load(tmp_path / "study.toml")
    assert (type(study.model.individual) is ConstantKernel) == is_written
    assert study.model.columns is not None
    assert study.model.columns.columns[1].log_above is not None


def test_init_shows_what_each_input_tells_and_leaves_out_what_gives_the_output_away(tmp_path: Path) -> None:
    """The logarithm of a fare is no input; who names it gets it, and the question again."""
    rng = np.random.default_rng(0)
    client, km = rng.integers(0, 20, 200), rng.lognormal(1.0, 1.0, 200).round(2)
    fare = ((3 + 2 * km) * np.exp(0.2 * rng.normal(size=20)[client] + 0.1 * rng.normal(size=200))).round(2)
    lines = [f"d{k},{x},{np.log(y):.4f},{y}" for k, x, y in zip(client, km, fare)]
    (tmp_path / "fares.csv").write_text("\n".join(["driver,km,log_fare,fare", *lines]) + "\n", encoding="utf-8")
    options = ["--from", tmp_path / "fares.csv", "--client", "driver", "--target", "fare", "--policy", "exact"]
    ended = run("init", tmp_path / "study.toml", *options)
    assert ended.code == 0, ended.err
    assert "log_fare alone tells 100 % of fare, so it is left out: is it known when you predict?" in ended.out
    assert re.search(r"│ km +│ [78]\d\.?\d* % +│", ended.out)
    assert re.search(r"│ log_fare +│ 100 % +│", ended.out)
    columns = Study.load(tmp_path / "study.toml").model.columns
    assert columns is not None
    assert columns.names == ("km",)
    assert re.match(r"\[0:0\d\] Searching settings: at most 1000 evaluations\n", ended.err)
    ended = run("init", tmp_path / "named.toml", *options, "--inputs", "km,log_fare", "--json")
    assert ended.err == ""
    pilot = json.loads(ended.out)["from"]
    assert [(gain["input"], gain["left_out"]) for gain in pilot["gains"]] == [("km", False), ("log_fare", False)]
    assert pilot["gains"][1]["alone"] > 0.99 > pilot["gains"][0]["alone"]
    assert [
        note for note in pilot["notes"] if note.endswith("known when you predict? If not, leave it out of --inputs")
    ]
    columns = Study.load(tmp_path / "named.toml").model.columns
    assert columns is not None
    assert columns.names == ("km", "log_fare")


def test_init_on_many_items_bounds_the_search_and_says_so(tmp_path: Path) -> None:
    """Ratings of more items than a search is made on: which part of them it was made on is said, once."""
    rng = np.random.default_rng(1)
    client, item = np.repeat(np.arange(40), 40), np.concatenate([rng.choice(700, 40, replace=False) for _ in range(40)])
    stars = np.clip(np.round(3.5 + rng.normal(size=40)[client] + rng.normal(size=700)[item]), 1, 5)
    lines = [f"u{u},film {i},{y:.0f}" for u, i, y in zip(client, item, stars)]
    (tmp_path / "stars.csv").write_text("\n".join(["user,film,stars", *lines]) + "\n", encoding="utf-8")
    options = ["--from", tmp_path / "stars.csv", "--client", "user", "--target", "stars", "--name", "film"]
    ended = run("init", tmp_path / "study.toml", *options, "--policy", "exact")
    assert ended.code == 0, ended.err
    (note,) = [line for line in ended.out.splitlines() if "searched on" in line]
    numbers = re.search(r"searched on (\d+) rows of \d+ clients and (\d+) of \d+ items, at random", note)
    assert numbers is not None, note
    assert int(numbers[1]) < 1600
    assert int(numbers[2]) == 500
    assert "[0:00] Searching settings: at most 1000 evaluations" in ended.err
    assert "Evaluating on the rows of the settings: at most 5 folds" in ended.err
