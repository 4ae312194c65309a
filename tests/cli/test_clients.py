"""``motet enroll`` and ``motet clients``: tokens that are shown once, and mistakes."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from motet import Client
from motet.errors import Unauthorized
from tests.cli.program import NOWHERE, good, motet, refused, rows, table
from tests.cli.studies import Studies
from tests.scenarios.harness import OPERATOR


def test_enrollment(studies: Studies, tmp_path: Path) -> None:
    curves = studies.curves
    long = "Zoë [of] the " + "very " * 30 + "long name"
    shown = good(motet(curves, "enroll", long, operator=OPERATOR))
    assert long in shown
    (token,) = [word for word in shown.split() if len(word) == 43]
    names = [f"site {k}" for k in range(150)]
    listed = table(tmp_path / "names.csv", "city,name\n" + "".join(f"Rome,{name}\n" for name in names[:149]))
    out = tmp_path / "tokens.csv"
    told = good(motet(curves, "enroll", names[149], "--file", listed, "--out", out, operator=OPERATOR))
    assert told == f"150 clients enrolled; the tokens are in {out}, which only you can read.\n"
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    written = rows(out.read_text(encoding="utf-8"))
    assert [row["name"] for row in written] == [names[149], *names[:149]]
    (made,) = json.loads(good(motet(curves, "enroll", "hal", "--json", operator=OPERATOR)))["clients"]
    for name, opens in ((long, token), (written[7]["name"], written[7]["token"]), ("hal", made["token"])):
        with curves.client(opens) as client:
            assert client.me()["name"] == name


def test_enrollments_that_are_refused(studies: Studies, tmp_path: Path) -> None:
    curves, out, kept = studies.curves, tmp_path / "tokens.csv", table(tmp_path / "kept.csv", "precious")
    taken = motet(curves, "enroll", "nobody", "ann", "bea", "--out", out, operator=OPERATOR)
    for run, *words in (
        (taken, "'ann' and 1 more are already enrolled, so no one was", "choose other names"),
        (motet(curves, "enroll", "ida", "ida", operator=OPERATOR), "expected each name once, got 'ida' 2 times"),
        (motet(curves, "enroll", operator=OPERATOR), "got none: give them as arguments, or in a file"),
        (
            motet(curves, "enroll", "ida", "--out", kept, operator=OPERATOR),
            "already exists: choose another name",
            "another name",
        ),
        (motet(curves, "enroll", "ida"), "expected the operator's token, got none: set MOTET_OPERATOR_TOKEN"),
        (motet(curves, "enroll", "ida", operator="not-a-token"), "not the operator's", "set MOTET_OPERATOR_TOKEN"),
        (motet(curves, "enroll", "ida", operator=studies.clients["cem"].token), "this token is not the operator's"),
    ):
        refused(run, *words)
    assert (out.exists(), kept.read_text(encoding="utf-8")) == (False, "precious")
    with curves.operator() as operator:
        assert not {"ida", "nobody"} & {client["name"] for client in operator.clients()}


def test_clients_are_listed_revoked_and_let_in_again(studies: Studies) -> None:
    curves, fay, gus = studies.curves, studies.clients["fay"], studies.clients["gus"]
    told = good(motet(curves, "clients", "--revoke", "fay", operator=OPERATOR))
    assert told == "fay: the token is revoked; the examples stay.\n"
    known = json.loads(good(motet(curves, "clients", "--json", operator=OPERATOR)))["clients"]
    by_name = {client["name"]: client for client in known}
    common = {"left_out": None}
    assert by_name["fay"] == common | {"id": fay.id, "name": "fay", "revoked": True, "examples": 0}
    assert by_name["dora"] == common | {
        "id": studies.clients["dora"].id,
        "name": "dora",
        "revoked": False,
        "examples": 7,
    }
    shown = good(motet(curves, "clients", operator=OPERATOR))
    listed = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines()]
    assert ["fay", fay.id, "0", "yes"] in listed
    assert ["dora", studies.clients["dora"].id, "7", ""] in listed
    again = good(motet(curves, "clients", "--rotate", fay.id, operator=OPERATOR)).split()[-1]
    made = json.loads(good(motet(curves, "clients", "--rotate", "gus", "--json", operator=OPERATOR)))
    for old, new, name in ((fay, again, "fay"), (gus, made["token"], "gus")):
        with Client(curves.url, new) as client, Client(curves.url, old.token) as locked_out:
            assert client.me()["name"] == name
            with pytest.raises(Unauthorized):
                locked_out.me()


def test_clients_and_releases_that_are_refused(studies: Studies) -> None:
    curves, cem = studies.curves, studies.clients["cem"].token
    both = motet(curves, "clients", "--revoke", "fay", "--rotate", "gus", operator=OPERATOR)
    runs: list[tuple[Any, ...]] = [
        (motet(curves, "clients", "--revoke", "nobody", operator=OPERATOR), "'nobody'", "motet clients lists them"),
        (both, "got both: do one after the other"),
        (motet(studies.items, "release", operator=OPERATOR), "the budget is spent"),
    ]
    for command in ("clients", "release"):
        runs += [
            (motet(curves, command), "set MOTET_OPERATOR_TOKEN"),
            (motet(curves, command, operator=cem), "this token is not the operator's"),
            (motet(NOWHERE, command, operator=OPERATOR), "Connection refused", "--url, MOTET_URL"),
        ]
    for run, *words in runs:
        refused(run, *words)


def test_a_token_that_is_asked_for_is_not_shown(studies: Studies) -> None:
    ours, theirs = pty.openpty()
    env = {key: value for key, value in os.environ.items() if not key.startswith("MOTET")}
    command = [sys.executable, "-m", "motet", "clients", "--json", "--url", studies.curves.url]
    with subprocess.Popen(
        command, env=env, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as asked:
        os.close(theirs)
        seen = os.read(ours, 1000)
        while not seen.endswith(b": "):  # its last letter comes when nothing is echoed any more
            seen += os.read(ours, 1000)
        os.write(ours, f"{OPERATOR}\n".encode())
        out, _ = asked.communicate(timeout=60)
    with suppress(OSError):  # where all of it was read
        while more := os.read(ours, 1000):
            seen += more
    os.close(ours)
    assert (asked.returncode, seen.decode().split()) == (0, ["The", "operator's", "token:"])
    assert "ann" in [client["name"] for client in json.loads(out)["clients"]]
    assert OPERATOR not in out
