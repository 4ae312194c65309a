"""``motet.propose``: what ``motet init --from`` writes, in Python."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import motet
from motet.cli.app import app
from motet.errors import InvalidData, InvalidStudy
from motet.planning.choice import choose
from motet.planning.pilot import Pilot, read_pilot
from motet.planning.proposal import Proposal
from motet.planning.sections import StudyFile
from motet.study.study import Study
from motet.study.template import Promise
from motet.tables.frames import table_of

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


# --- effects of items ---


def films(folder: Path, own: float, *, users: int = 80) -> Pilot:
    """Ratings of films that have one of two genres, and a quality of their own of this deviation."""
    rng = np.random.default_rng(0)
    genre, quality = rng.integers(2, size=30), own * rng.normal(size=30)
    names = [f"film {k}" for k in range(30)]
    seen = np.concatenate([rng.choice(30, size=8, replace=False) for _ in range(users)])
    user = np.repeat(np.arange(users), 8)
    taste = rng.normal(size=(users, 3))
    stars = taste[user, 0] + 0.5 * (1 + taste[user, 1]) * genre[seen] + quality[seen] + 0.5 * rng.normal(size=len(seen))
    pd.DataFrame({"name": names, "war": genre, "drama": 1 - genre}).to_csv(folder / "films.csv", index=False)
    frame = pd.DataFrame({"client": [f"u{k}" for k in user], "name": np.array(names)[seen], "y": stars.round(2)})
    return read_pilot(table_of(frame), catalogue=folder / "films.csv", policy="private", share=1.0)


@pytest.mark.slow  # settings are searched several times
@pytest.mark.parametrize("policy", ["exact", "private"])
def test_items_have_an_effect_of_their_own_if_that_predicts_better(tmp_path: Path, policy: Any) -> None:
    """Films of equal genres tie otherwise."""
    pilot = films(tmp_path, 0.7)
    promise = Promise(policy=policy, clients=600)
    chosen = choose(pilot if policy == "private" else replace(pilot, drawn=None), promise)
    assert chosen.reason.startswith("Items have an effect of their own beside their features: log score ")
    better, worse = map(float, re.findall(r"\d\.\d+", chosen.reason))
    assert better == pytest.approx(chosen.evaluation.log_score, abs=1e-3)
    assert better < worse - 0.05
    study = chosen.write(tmp_path / "study.toml")
    common, catalogue = study.model.common, study.model.catalogue
    assert common is not None
    assert catalogue is not None
    alike = catalogue.rows[catalogue.vectors[:, 0] == catalogue.vectors[0, 0]][:2]
    K, shifts = common(alike), study.model.individual(alike)
    assert K[0, 1] < K[0, 0] - 1e-3
    assert shifts[0, 1] == pytest.approx(shifts[0, 0])  # no client has an effect of its own for each item
    variance = study.model.alpha * (K[0, 0] - K[0, 1]) * study.model.sigma2
    assert variance == pytest.approx(0.49, rel=0.6)


@pytest.mark.slow  # settings are searched several times
def test_items_have_none_beside_features_that_tell_all(tmp_path: Path) -> None:
    chosen = choose(films(tmp_path, 0.0), Promise(clients=600))
    assert not chosen.proposal.has_item_effects
    assert "identity" not in StudyFile(chosen.proposal).study().model.to_json()
    assert chosen.reason.startswith(
        (
            "Items have no effect of their own beside their features.",
            "An effect of each item beside its features is not",
        )
    )


@pytest.mark.slow  # settings are searched several times
def test_an_effect_of_items_that_noise_would_drown_is_left_out(tmp_path: Path) -> None:
    """It pays in evidence, but the release of few clients under a small budget cannot tell it."""
    pilot = films(tmp_path, 0.3)
    strict = choose(pilot, Promise(clients=80, epsilon=0.05))
    assert Proposal.of(pilot, Promise(clients=80, epsilon=0.05)).with_items() is not None
    assert strict.reason.startswith(
        "An effect of each item beside its features is not better for predictions, and left"
    )
    assert not strict.proposal.has_item_effects
