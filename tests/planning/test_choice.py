"""``motet.propose``: what ``motet init --from`` writes, in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import motet
from motet.cli.app import app
from motet.errors import InvalidData, InvalidStudy
from motet.study.study import Study

SALT = "0123456789abcdef" * 2


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve clients, one input of very different sizes, and outputs that a linear model tells."""
    rng = np.random.default_rng(0)
    rows = [(f"c{k % 12}", x, 10 ** (x - z), z) for k, (x, z) in enumerate(rng.normal(size=(60, 2)))]
    lines = [f"{client},{x:.3f},{size:.5g},{5 * x + 3 * z + 0.5 * rng.normal():.3f}" for client, x, size, z in rows]
    file = tmp_path_factory.mktemp("tables") / "table.csv"
    file.write_text("\n".join(["client,x,size,y", *lines]) + "\n", encoding="utf-8")
    return file


@pytest.mark.slow  # settings are searched several times
@pytest.mark.parametrize("promise", [{"epsilon": 0.1, "releases": 1, "joins": True}, {"policy": "exact"}])
def test_python_writes_what_the_command_writes(
    table: Path, tmp_path: Path, promise: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Byte for byte, of a file and of a data frame, whose file has no name."""
    monkeypatch.setattr("motet.planning.pilot.secrets.token_hex", lambda _: SALT)
    names = {"joins": "--pilot-joins"}
    options = [
        part
        for key, value in promise.items()
        for part in [names.get(key, f"--{key}"), *([] if value is True else [str(value)])]
    ]
    ended = CliRunner().invoke(app, ["init", str(tmp_path / "study.toml"), "--from", str(table), *options])
    assert ended.exit_code == 0, ended.output
    written = (tmp_path / "study.toml").read_bytes()
    (tmp_path / "ours").mkdir()
    chosen = motet.propose(table, **promise)
    study = chosen.write(tmp_path / "ours" / "study.toml")
    assert (tmp_path / "ours" / "study.toml").read_bytes() == written
    assert (chosen.reason == "") == ("A plain structure" not in ended.output)
    assert chosen.reason in ended.output
    assert chosen.evaluation.known is not None
    assert chosen.study.pinned() == study.pinned() == Study.load(tmp_path / "study.toml").pinned()
    with pytest.raises(InvalidData, match="already exists"):
        chosen.write(tmp_path / "study.toml")
    (tmp_path / "frame").mkdir()
    motet.propose(pd.read_csv(table), **promise).write(tmp_path / "frame" / "study.toml", title="study")
    of_frame = (tmp_path / "frame" / "study.toml").read_bytes()
    assert of_frame.replace(b"the data frame", b"table.csv") == written


def test_what_is_missing_is_said_at_once(table: Path) -> None:
    frame = pd.read_csv(table).rename(columns={"client": "who", "y": "what"})
    with pytest.raises(InvalidData, match=r"the data frame has who, x, size, what: .* with client= and target="):
        motet.propose(frame)
    with pytest.raises(InvalidData, match=r"with target=$"):
        motet.propose(frame, client="who")
    with pytest.raises(InvalidData, match="expected a file or a data frame with columns, got list"):
        motet.propose([[1, 2]])
    with pytest.raises(InvalidData, match="epsilon= and releases= need a private study"):
        motet.propose(table, policy="exact", epsilon=1.0)
    with pytest.raises(InvalidData, match="share= and joins= need a private study"):
        motet.propose(table, policy="exact", share=0.5)
    with pytest.raises(InvalidStudy, match=r"release\.every: expected a time such as"):
        motet.propose(table, policy="exact", every="daily")
