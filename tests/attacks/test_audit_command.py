"""``motet audit``: from files alone, in a table, in JSON, and one line for every mistake."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from motet import Disclosed, Engine, Landmarks, Model
from motet.cli.app import app
from motet.kernels import RBF
from tests.attacks.victims import Trials, small_model


def run(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["audit", *map(str, arguments)], env={"COLUMNS": "200"})
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Before and after two ratings, and clients of the attacker's own, were sent."""
    folder = tmp_path_factory.mktemp("releases")
    paths = folder / "before.safetensors", folder / "after.safetensors"
    trials = Trials(small_model(None))
    names = trials.catalogue.names
    trials.engine.disclose().save(paths[0])
    trials.engine.learn_many(["victim"] * 2, [names[3], names[40]], [4.5, -2.25])
    trials.engine.learn_many(["mine", "mine", "mine too"], [names[3], names[5], names[3]], [9.0, 8.0, 7.0], [1, 1, 50])
    trials.engine.disclose().save(paths[1])
    (folder / "own.csv").write_text(
        f'client,name,y,noise\na,"{names[3]}",9,\na,"{names[5]}",8,1\nb,"{names[3]}",7,50\n', encoding="utf-8"
    )
    return paths


def test_two_releases_and_what_one_sent_oneself(files: tuple[Path, Path]) -> None:
    names = Disclosed.load(files[0]).model.catalogue
    assert names is not None
    victim = {names.names[3]: 4.5, names.names[40]: -2.25}
    for first, second in (files, files[::-1]):
        code, out, _ = run(first, second, "--own", files[0].parent / "own.csv", "--json")
        assert code == 0
        report = json.loads(out)
        assert (report["policy"], report["releases"]) == ("exact", [1, 2])
        attacks = {attack["attack"]: attack for attack in report["attacks"]}
        for attack in ("differencing", "client 1"):
            found = attacks[attack]
            assert (found["certain"], found["came"]) == ("yes", True)
            assert dict(zip(found["inputs"], found["outputs"])) == pytest.approx(victim, abs=1e-8)
        assert np.shape(attacks["inversion"]["G"]) == (len(attacks["inversion"]["inputs"]),) * 2
    code, out, _ = run(*files)
    assert code == 0
    assert all(word in out for word in ("differencing", "certain", "inputs", *victim))


def test_who_is_in(files: tuple[Path, Path], tmp_path: Path) -> None:
    names = Disclosed.load(files[0]).model.catalogue
    assert names is not None
    rows = [("victim", 3, 4.5), ("victim", 40, -2.25), ("nobody", 7, 1.0), ("nobody", 50, 2.0)]
    table = [f'{who},"{names.names[k]}",{y}' for who, k, y in rows]
    (tmp_path / "suspects.csv").write_text("\n".join(["client,name,y", *table]), encoding="utf-8")
    own = files[0].parent / "own.csv"
    code, out, _ = run(*files, "--own", own, "--suspects", tmp_path / "suspects.csv", "--json")
    assert code == 0
    found = [attack for attack in json.loads(out)["attacks"] if attack["attack"] == "membership"]
    assert [attack["certain"] for attack in found] == ["yes", "no"]
    assert found[0]["share"] == pytest.approx(1.0, abs=1e-8)


def test_a_table_of_many_suspects_shows_a_few_and_what_the_number_means(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    names = Disclosed.load(files[0]).model.catalogue
    assert names is not None
    table = [f'suspect {k},"{names.names[k]}",1.5' for k in range(9)]
    table += [f'victim,"{names.names[k]}",{y}' for k, y in ((3, 4.5), (40, -2.25))]
    (tmp_path / "suspects.csv").write_text("\n".join(["client,name,y", *table]), encoding="utf-8")
    code, out, _ = run(*files, "--own", files[0].parent / "own.csv", "--suspects", tmp_path / "suspects.csv")
    assert code == 0
    assert out.count("membership") == 5
    assert "victim: this client was added (overlap 1)" in out
    assert "and 5 more suspects, all of them in the JSON" in out
    assert "Overlap of exactly 1: this client alone was added." in out


def test_one_release(files: tuple[Path, Path]) -> None:
    code, out, _ = run(files[0])
    assert code == 0
    assert all(words in out for words in ("pairs of inputs from one client", "motet audit FILE LATER"))
    assert "Examples:\n  motet audit" in run("--help")[1]


def test_a_noisy_release_leaves_guesses(files: tuple[Path, Path], tmp_path: Path) -> None:
    release, rng = Disclosed.load(files[1]), np.random.default_rng(0)
    noise = rng.normal(size=release.Lambda.shape)
    noisy = replace(release, Lambda=release.Lambda + noise + noise.T, policy="private", noise_scale=1.0)
    noisy.save(tmp_path / "noisy.safetensors")
    first = replace(release, policy="private", noise_scale=1.0)
    first.save(tmp_path / "first.safetensors")
    code, out, _ = run(tmp_path / "first.safetensors", tmp_path / "noisy.safetensors")
    assert code == 0
    assert "no better than guessing" in out
    attacks = json.loads(run(tmp_path / "first.safetensors", tmp_path / "noisy.safetensors", "--json")[1])["attacks"]
    assert next(a for a in attacks if a["attack"] == "differencing")["certain"] == "no"


def test_inputs_that_are_numbers(tmp_path: Path) -> None:
    grid = np.linspace(0.0, 1.0, 9)[:, None]
    engine = Engine(Model(RBF(0.2), RBF(0.5), 0.5, 0.1, basis=Landmarks(grid)))
    engine.learn_many([0, 1, 1], grid[:3], [1.0, 2.0, 3.0])
    engine.disclose().save(tmp_path / "1")
    engine.learn_many(["mine", "victim"], grid[[4, 6]], [1.0, 5.0])
    engine.disclose().save(tmp_path / "2")
    (tmp_path / "own.csv").write_text("client,time,y\nme,0.5,1\n")
    code, out, _ = run(tmp_path / "1", tmp_path / "2", "--own", tmp_path / "own.csv")
    assert code == 0
    assert "sent: (0.75) 5" in out


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ("client,name\na,b\n", "own.csv: no column 'y'"),
        ("client,name,y\na,Nobody Ever,1\n", "own.csv, row 2, column name: 'Nobody Ever' is not among"),
        ("client,name,y\na,Radiohead,much\n", "own.csv, row 2, column y: expected a finite number, got 'much'"),
        ("client,x,y\na,1,1\n", "no column 'name'"),
        (None, "cannot read"),
    ],
)
def test_bad_tables_are_one_line(own: str | None, message: str, files: tuple[Path, Path], tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    if own is not None:
        path.write_text(own)
    code, _, err = run(*files, "--own", path)
    assert (code, err.count("\n")) == (1, 1)
    assert err.startswith("motet: ")
    assert message in err


def test_bad_files_are_one_line(files: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "text").write_text("nothing of the kind")
    other = Engine(Model(RBF(1.0), RBF(1.0), 0.3, 0.1))
    other.learn("a", [1.0], 2.0)
    other.disclose().save(tmp_path / "other")
    for arguments, message in (
        ([tmp_path / "none"], "cannot read"),
        ([tmp_path], "cannot read"),
        ([tmp_path / "text"], "not a release"),
        ([files[0], tmp_path / "other"], "different models"),
        ([files[0], "--own", tmp_path / "text"], "give the later one too"),
    ):
        code, _, err = run(*arguments)
        assert (code, err.count("\n")) == (1, 1)
        assert err.startswith("motet: ")
        assert message in err
