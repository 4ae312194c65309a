"""``motet status``, ``release``, ``download`` and ``audit`` against a server."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import NOWHERE, good, motet, refused
from tests.cli.studies import Studies, answering
from tests.scenarios.harness import OPERATOR


def test_status(studies: Studies) -> None:
    places = studies.curves, studies.items
    told, data = [motet(place, "status") for place in places], [motet(place, "status", "--json") for place in places]
    exact, private = (dict(line.split(None, 1) for line in good(run).splitlines()) for run in told)
    assert exact.keys() == {"study", "policy", "settings", "release", "next"}
    assert exact["settings"] == "from the study file"
    assert exact["policy"] == "exact"
    assert private["release"] == "1"
    assert private["releases"] == "1 made of 1 planned; ε spent 3.00"
    assert private["next"].startswith("release  none: the budget (ε = 3) is spent: all 1 releases are out")
    exact, private = (json.loads(good(run)) for run in data)
    assert datetime.fromisoformat(exact["next_release"]) > datetime.now(UTC)
    assert (private["budget"]["made"], private["next_release"]) == (1, None)  # its budget is spent


def test_status_for_the_operator(studies: Studies) -> None:
    places = studies.curves, studies.items
    exact, private = (
        json.loads(good(motet(place, "status", "--json", operator=OPERATOR)))["operator"] for place in places
    )
    assert exact["enrolled"] >= 7  # other tests enroll more
    assert exact["enrolled"] > exact["taking_part"] >= 2
    assert exact["examples"] >= 14
    assert exact["forecast"]["function"] < exact["alone"]["function"]
    assert exact["shortened"] is None
    assert private["enrolled"] >= 1
    assert (private["taking_part"] == 0) == (private["forecast"] is None)
    told = good(motet(studies.curves, "status", operator=OPERATOR))
    assert re.search(r"clients       \d+ enrolled; \d+ with \d+ examples", told)
    assert "forecast      clients predict with an error of " in told
    ended = motet(studies.curves, "status", operator="wrong").result()
    assert "clients" not in ended.out
    assert "this token is not the operator's" in ended.err


@pytest.mark.parametrize(
    "answer", [{}, {"name": "a"}, [], {"name": "a", "policy": "exact", "version": 1, "next_release": 1e300}]
)
def test_status_of_nothing_that_is_known(answer: Any) -> None:
    with answering(json.dumps(answer).encode()) as (url, _):
        refused(motet(url, "status"), "upgrade motet" if isinstance(answer, dict) else "expected")
    refused(motet(NOWHERE, "status"), "Connection refused", "--url, MOTET_URL")


def test_status_of_an_older_server() -> None:
    """It says neither where its settings come from nor whether a release is withdrawn."""
    study = {"name": "a", "policy": "exact", "version": 1, "next_release": 0.0, "refused": None, "budget": None}
    with answering(json.dumps(study).encode()) as (url, _):
        assert re.search(r"^release +1$", good(motet(url, "status")), re.MULTILINE)


def test_downloads_and_audits_that_are_refused(studies: Studies, tmp_path: Path) -> None:
    curves, items = studies.curves, studies.items
    path = tmp_path / "items.safetensors"
    private = good(motet(items, "download", "--out", path, "--json", operator=OPERATOR))
    for run, *words in (
        (studies.early["download"], "the first release is due at 20", "try again then"),
        (studies.early["audit"], "the first release is due at 20", "try again then"),
        (
            motet(items, "download"),
            "a client's token (releases of this study are for its clients only), got none: set ",
        ),
        (motet(items, "download", client="wrong"), "set MOTET_TOKEN to another"),
        (motet(NOWHERE, "download"), "Connection refused", "--url, MOTET_URL"),
        (motet(items, "download", "--out", path, operator=OPERATOR), "items.safetensors already exists", "--force"),
        (motet(curves, "download", "--out", tmp_path / "no" / "where"), "No such file", "check the path"),
        (motet(curves, "audit", "127.0.0.1:8000"), "cannot read 127.0.0.1:8000", "an address with http://"),
        (motet(curves, "audit", curves.url, "--own", path), "give the later one too"),
        (motet(curves, "audit", NOWHERE), "Connection refused"),
        (motet(curves, "audit", ""), "cannot read : "),
    ):
        refused(run, *words)
    assert json.loads(private) == {"version": 1, "policy": "private", "out": str(path)}
