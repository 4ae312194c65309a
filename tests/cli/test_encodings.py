"""Output to a terminal or pipe that does not take every character, such as Windows' cp1252."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.program import good, run
from tests.server.world import PRIVATE as SERVED
from tests.server.world import world
from tests.store.local_study import PRIVATE, local_study

ENCODINGS = pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
LETTERS = "Zoë Łódź ε"


@ENCODINGS
def test_commands_on_a_private_study(tmp_path: Path, encoding: str) -> None:
    with local_study(tmp_path, PRIVATE.replace("Growth", LETTERS)) as study:
        study.enroll(LETTERS)
        study.release()
        path = study.study.path
        table = good(run("verify", path, PYTHONIOENCODING=encoding))
        assert "epsilon spent" in table
        assert "\\u0141\\xf3d\\u017a" in table if encoding == "ascii" else "Zoë \\u0141ód\\u017a epsilon" in table
        data = good(run("export", path, LETTERS, PYTHONIOENCODING=encoding))
        assert json.loads(data)["name"] == LETTERS
        refused = run("export", path, "ń", PYTHONIOENCODING=encoding)
        assert (refused.code, "'\\u0144'" in refused.err) == (1, True)


@ENCODINGS
def test_status_of_a_private_study(tmp_path: Path, encoding: str) -> None:
    for served in world(tmp_path, SERVED):
        shown = good(run("status", "--url", served.http.base_url, PYTHONIOENCODING=encoding))
        assert "epsilon = 1, delta = 1e-05" in shown


def test_unicode_stays_unicode(tmp_path: Path) -> None:
    with local_study(tmp_path, PRIVATE.replace("Growth", LETTERS)) as study:
        study.release()
        table = good(run("verify", study.study.path))
    assert LETTERS in table
    assert "ε spent" in table
