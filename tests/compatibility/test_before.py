"""What the version before wrote is read by this one: releases, studies with their database and ledger, backups.

``make.py`` says how the files in ``before`` were made. Texts, counts and bytes are equal; numbers agree to 1e-12.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from typer.testing import CliRunner

from motet import Client, Disclosed, Engine, Model
from motet.cli.app import app
from motet.errors import Unauthorized
from tests.compatibility.make import CALLS, ITEMS, MORE, OPERATOR, OWN, POINTS, STUDIES, predictions
from tests.scenarios.harness import END, Place, parts, poll, program, with_free_port

BEFORE = Path(__file__).parent / "before"


def answers(name: str) -> Any:
    return json.loads((BEFORE / name / "answers.json").read_text(encoding="utf-8"))


def inputs(name: str) -> Any:
    return ITEMS if name == "private" else POINTS


def check(found: Any, expected: Any, where: str = "") -> None:
    """All that was there is there: numbers to 1e-12, the rest as it was. There may be more keys now."""
    if isinstance(expected, dict):
        assert expected.keys() <= found.keys(), where
        for key, value in expected.items():
            check(found[key], value, f"{where}.{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for k, value in enumerate(expected):
            check(found[k], value, f"{where}.{k}")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-13), where
    else:
        assert (type(found), found) == (type(expected), expected), where


def motet(*arguments: object) -> Any:
    """What a command prints, as JSON."""
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


# --- releases ---


@pytest.mark.parametrize("name", [*STUDIES, "landmarks"])
def test_a_release(name: str) -> None:
    """Growing, eigen and landmarks; with noise and without."""
    path, then = BEFORE / name / "release.safetensors", answers(name)
    release = Disclosed.load(path)
    assert (release.digest, release.to_bytes()) == (then["digest"], path.read_bytes())
    at, y, noise = OWN
    mean, std = release.average(inputs(name), return_std=True)
    check({"mean": mean.tolist(), "std": std.tolist()}, then["average"])
    check(predictions(release.estimate([inputs(name)[k] for k in at], y, noise), inputs(name)), then["passive"])


@pytest.mark.parametrize("name", [*STUDIES, "landmarks"])
def test_a_model(name: str) -> None:
    text = answers(name)["model"]
    assert Model.from_json(text).to_json() == text


@pytest.mark.parametrize("name", STUDIES)
def test_a_client_of_this_version_asks_a_server_of_the_version_before(name: str) -> None:
    then = answers(name)

    def server(request: httpx.Request) -> httpx.Response:
        assert request.headers["Authorization"] == f"Bearer {then['tokens']['ann']}"
        if request.url.path == "/v1/disclosed":
            return httpx.Response(200, content=(BEFORE / name / "release.safetensors").read_bytes())
        return httpx.Response(200, json=then["responses"][request.url.path])

    with (
        httpx.Client(transport=httpx.MockTransport(server)) as http,
        Client("https://study", then["tokens"]["ann"], http=http) as ann,
    ):
        check(predictions(ann.estimate(), inputs(name)), then["active"])
        assert list(ann.examples()) == then["responses"]["/v1/me/examples"]["examples"]
        assert ann.me() == then["responses"]["/v1/me"]
        assert ann.study()["version"] == then["responses"]["/v1/study"]["version"]


# --- studies ---


@pytest.fixture(params=STUDIES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def study(name: str, tmp_path: Path) -> Path:
    """A copy of a study's files."""
    shutil.copytree(BEFORE / name, tmp_path / name)
    return tmp_path / name / "study.toml"


def test_the_commands_of_its_operator(name: str, study: Path, tmp_path: Path) -> None:
    then = answers(name)
    for who, id in then["ids"].items():
        del then["exports"][who]["notes"]  # words
        check(motet("export", study, id), then["exports"][who])
    check_verified(study, then, chain="skipped")
    restored = motet("restore", study.parent / "backup.zip", tmp_path / "restored", "--json")
    version = then["responses"]["/v1/study"]["version"]
    assert (restored["version"], restored["last"]) == (version, version)  # the next one is due in a hundred years
    check_verified(Path(restored["study"]), then)


def check_verified(study: Path, then: Any, *, chain: str = "ok") -> None:
    """As many checks as before, and none that does not apply; and the chain, which begins with the first start."""
    verified = motet("verify", study, "--json")
    states = {check["name"]: check["state"] for check in verified["checks"]}
    assert (verified["ok"], states.pop("chain")) == (True, chain)
    assert list(states.values()) == ["ok"] * len(then["verify"]["checks"])


@pytest.fixture
def served(name: str, study: Path) -> Iterator[Place]:
    """The program once, under the operator's token that the database keeps; else its parts, which begin faster."""
    with_free_port(study)
    with program(study, token=None) if name == "exact" else parts(study, OPERATOR) as running:
        yield running


def test_a_study_goes_on(name: str, served: Place) -> None:
    then = answers(name)
    with Client(served.url, OPERATOR) as operator:
        clients = {who: operator.with_token(token) for who, token in then["tokens"].items()}
        answers_are_the_same(name, served, clients, then)
        for who in ("dora", "eve"):  # revoked, and forgotten
            with pytest.raises(Unauthorized):
                clients[who].me()
        again = clients["ann"].send_many(inputs(name)[:2], [0.0, 0.0], ids=["a", "b"])  # b was removed
        assert (again.accepted, again.duplicates, again.count) == (0, 2, len(then["exports"]["ann"]["examples"]))
        k, y, noise = MORE
        assert clients["bob"].send(inputs(name)[k], y, noise, "more").accepted == 1
        if name == "exact":
            next_release_has_all(operator, clients["bob"], then)
        else:
            next_release_is_charged(served, operator, then)
    check_verified(served.study, then)


def answers_are_the_same(name: str, served: Place, clients: dict[str, Client], then: Any) -> None:
    for who, paths in CALLS.items():
        for path in paths:
            headers = {"Authorization": f"Bearer {then['tokens'].get(who, OPERATOR)}"}
            check(httpx.get(f"{served.url}{path}", headers=headers, timeout=END).json(), then["responses"][path], path)
    released = httpx.get(f"{served.url}/v1/disclosed", timeout=END).content
    assert released == (BEFORE / name / "release.safetensors").read_bytes()
    check(predictions(clients["ann"].estimate(), inputs(name)), then["active"])


def next_release_has_all(operator: Client, bob: Client, then: Any) -> None:
    """As the version before made it, and as an engine that learns it all at once."""
    assert operator.release_now() == then["after"]["version"]
    check(predictions(bob.estimate(), POINTS), then["after"]["bob"])
    engine = Engine(Model.from_json(then["model"]))
    for who, export in then["exports"].items():
        for example in export["examples"]:
            engine.learn(who, example["x"], example["y"], example["noise"])
    k, y, noise = MORE
    engine.learn("bob", POINTS[k], y, noise)
    for found, expected in zip(
        *(release.average(POINTS, True) for release in (operator.disclosed(), engine.disclose()))
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def next_release_is_charged(served: Place, operator: Client, then: Any) -> None:
    """Its time has come: the ledger goes on where it was."""
    version = then["responses"]["/v1/study"]["version"] + 1
    with closing(sqlite3.connect(served.study.with_suffix(".db"), timeout=10)) as database, database:
        database.execute("UPDATE settings SET value = '0' WHERE key = 'next'")
    poll(lambda: operator.study()["version"] == version, END, "the next release")
    check(operator.study()["budget"], then["after"]["budgets"][str(version)])
    charged, made = ([v for (v,) in served.rows(f"SELECT version FROM {table}")] for table in ("ledger", "releases"))
    assert charged == made == list(range(1, version + 1))
    assert operator.disclosed().version == version
