"""``motet init``: options, questions at a terminal, and mistakes."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

from motet.study.study import Study
from tests.cli.program import ENVIRONMENT, check_mistakes, good, run
from tests.scenarios.harness import START


def test_init_writes_a_study_that_loads(tmp_path: Path) -> None:
    (tmp_path / "items").mkdir()
    (tmp_path / "items" / "artists.csv").write_text("name,loud,fast\na,10,20\nb,40,60\nc,0,0\n", encoding="utf-8")
    path = tmp_path / "my study.toml"
    inputs = ["--name", 'Taste "1"', "--catalogue", tmp_path / "items" / "artists.csv"]
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
        ("expected --catalogue or --dimension, got both", ["init", new, "--catalogue", "a.csv", "--dimension", 1]),
        ("cannot read a.csv: No such file or directory", ["init", new, "--catalogue", "a.csv"]),
        ('there.toml, release.every: expected a time such as "30s"', ["init", there, "--force", "--every", "daily"]),
    )
    assert there.read_text(encoding="utf-8") == "mine"
    assert not new.exists()
    assert run("init", new, "--policy", "secret").code == 2


def test_init_asks_at_a_terminal(tmp_path: Path) -> None:
    """What an option gives is not asked for, and what cannot be is asked again."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "motet", "init", "study.toml", "--releases", "2"]
    with subprocess.Popen(command, cwd=tmp_path, env=ENVIRONMENT, stdin=theirs, stdout=-1, stderr=theirs) as asking:
        os.write(ours, b"Growth\n2\n5 1\n0, 10\n\n99\n0.5\n2h\n")
        said = asking.communicate(timeout=START)[0].decode()
    os.close(theirs)
    asked = os.read(ours, 100_000).decode()
    os.close(ours)
    assert "a study over inputs of 2 numbers, with private releases" in said
    assert "expected two numbers such as 0 1, the lower one first, got '5 1'" in asked
    assert "expected a number above 0 (1e-6 or more) and at most 20, got '99'" in asked
    assert "How many releases" not in asked
    study = Study.load(tmp_path / "study.toml")
    assert (study.name, study.bounds, study.release.epsilon) == ("Growth", ((0.0, 10.0), (0.0, 10.0)), 0.5)
    assert (study.release.releases, study.release.seconds) == (2, 7200.0)
