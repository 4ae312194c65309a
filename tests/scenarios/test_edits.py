"""A study file that is edited between starts of the program: taken until something fixes it, and then refused."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.program import good, refused, run, table
from tests.scenarios.harness import CURVES, END, OPERATOR, Program, poll, program, write_study

BODY = f"""{CURVES}
[basis]
kind = "landmarks"
grid = {{ from = 0.0, to = 14.0, count = 5 }}
[limits]
y = [-10.0, 10.0]
[release]
policy = "private"
every = "1d"
epsilon = 3.0
releases = 10
"""
CHANGE_IT_BACK = "change it back, or start a new study with another database ([store] url)"


def edit(study: Path, old: str, new: str) -> None:
    text = study.read_text(encoding="utf-8")
    assert old in text
    study.write_text(text.replace(old, new), encoding="utf-8")


def check_refused(study: Path, old: str, new: str, *words: str) -> None:
    """The program does not start with an edited file, says why in one line, and starts with the old one."""
    edit(study, old, new)
    refused(run("serve", study, "--port", 0, MOTET_OPERATOR_TOKEN=OPERATOR), *words, CHANGE_IT_BACK)
    edit(study, new, old)


def check_verified(served: Program) -> None:
    checks = json.loads(good(run("verify", served.study, "--json")))["checks"]
    assert {check["state"] for check in checks} <= {"ok", "skipped"}, checks


def test_what_the_first_send_shows_to_be_wrong_is_edited_and_then_fixed(tmp_path: Path) -> None:
    study = write_study(tmp_path, BODY)
    own = table(tmp_path / "own.csv", "hours,y\n0.5,127.4\n3,140\n")
    with program(study, forked=True) as served:
        with served.operator() as operator:
            (ann,) = operator.enroll(["ann"])
        tokens = {"MOTET_URL": served.url, "MOTET_TOKEN": ann.token}
        refused(run("send", own, **tokens), "y must be a number from -10 to 10, got 127.4")
        served.end()
        edit(study, "y = [-10.0, 10.0]", "y = [20.0, 500.0]")
        served.start()
        assert "Not fixed yet: inputs and limits until the first example" in served.log()
        assert good(run("send", own, **tokens)) == "2 accepted, 0 already stored; 2 in total.\n"
        served.kill()

        fixed = "fixed since the first example"
        check_refused(study, "[20.0, 500.0]", "[-10.0, 10.0]", f"limits.y: expected [20.0, 500.0], {fixed}")
        check_refused(study, "epsilon = 3.0", "epsilon = 4.0", f"release.epsilon: expected 3 or less, {fixed}")
        check_refused(study, '"private"', '"exact"', f'release.policy: expected "private", {fixed}')
        edit(study, "alpha = 0.5", "alpha = 0.25")
        edit(study, "epsilon = 3.0", "epsilon = 2.0")
        served.start()
        assert "Not fixed yet: the model until the first release; the budget may become stricter" in served.log()
        check_verified(served)
        served.kill()  # the release would come tomorrow
        edit(study, 'every = "1d"', 'every = "2s"')
        served.start()
        with served.client(ann.token) as me:
            poll(lambda: me.study()["version"], END, "a release")
            assert me.disclosed().model.alpha == 0.25
            assert me.study()["budget"]["epsilon"] == 2.0
            assert me.me()["count"] == 2
        check_verified(served)
        served.end()
        since = "fixed since the first release"
        check_refused(study, "alpha = 0.25", "alpha = 0.5", f"model.alpha: expected 0.25, {since}, got 0.5")
        check_refused(study, "epsilon = 2.0", "epsilon = 1.0", f"release.epsilon: expected 2.0, {since}, got 1.0")
        check_refused(study, '"2s"', '"1s"', f"release.every: expected 2 s or more, {since}, got 1 s")
        edit(study, '"2s"', '"1h"')
        served.start()
        check_verified(served)
