"""``motet enroll``, ``clients`` and ``forget``: tokens that are shown once, clients that leave, and mistakes."""

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
from tests.scenarios.harness import OPERATOR, START, Place


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
    assert [row["client"] for row in written] == [names[149], *names[:149]]
    (made,) = json.loads(good(motet(curves, "enroll", "hal", "--json", operator=OPERATOR)))["clients"]
    for name, opens in ((long, token), (written[7]["client"], written[7]["token"]), ("hal", made["token"])):
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
    told = good(motet(curves, "clients", "revoke", "fay", operator=OPERATOR))
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
    told = good(motet(curves, "clients", "rotate", fay.id, operator=OPERATOR))
    assert told.startswith("fay was revoked, and is let in again: a new token, which is not shown again: ")
    again = told.split()[-1]
    made = json.loads(good(motet(curves, "clients", "rotate", "gus", "--json", operator=OPERATOR)))
    assert not made["was_revoked"]
    for old, new, name in ((fay, again, "fay"), (gus, made["token"], "gus")):
        with Client(curves.url, new) as client, Client(curves.url, old.token) as locked_out:
            assert client.me()["name"] == name
            with pytest.raises(Unauthorized):
                locked_out.me()


def test_clients_and_releases_that_are_refused(studies: Studies) -> None:
    curves, cem = studies.curves, studies.clients["cem"].token
    runs: list[tuple[Any, ...]] = [
        (motet(curves, "clients", "revoke", "nobody", operator=OPERATOR), "'nobody'", "motet clients lists them"),
        (motet(curves, "clients", "remove", "nobody", "--yes", operator=OPERATOR), "'nobody'"),
        (motet(curves, "clients", "remove", "cem", operator=OPERATOR), "expected --yes", "Delete cem with 0 examples"),
        (motet(curves, "forget", client=cem), "expected --yes where there is no terminal to ask: Delete cem"),
        (motet(curves, "forget", "cem", "--yes", operator=cem), "this token is not the operator's"),
        (motet(curves, "forget", "--yes"), "set MOTET_TOKEN"),
        (motet(studies.items, "release", operator=OPERATOR), "the budget (ε = 3) is spent", "no more will come"),
    ]
    with curves.client(cem) as me:
        assert me.me()["name"] == "cem"
    for command in ("clients", "release"):
        runs += [
            (motet(curves, command), "set MOTET_OPERATOR_TOKEN"),
            (motet(curves, command, operator=cem), "this token is not the operator's"),
            (motet(NOWHERE, command, operator=OPERATOR), "Connection refused", "--url, MOTET_URL"),
        ]
    for run, *words in runs:
        refused(run, *words)


def test_a_client_who_withdraws_is_forgotten(studies: Studies, tmp_path: Path) -> None:
    """By the operator, by itself, and by the site that has its token."""
    curves, names = studies.curves, ["iva", "jon", "kim", "lea"]
    with curves.operator() as operator:
        tokens = {client.name: client.token for client in operator.enroll(names)}
        for token in tokens.values():
            with curves.client(token) as me:
                me.send_many([[0.5], [1.5]], [1.0, 2.0])
        listed = table(tmp_path / "tokens.csv", "name,token\n" + "".join(f"{n},{t}\n" for n, t in tokens.items()))
        runs = [
            motet(curves, "clients", "remove", "iva", "--yes", operator=OPERATOR),
            motet(curves, "forget", "jon", "--yes", "--json", operator=OPERATOR),
            motet(curves, "forget", "--yes", client=tokens["kim"]),
            motet(curves, "forget", "lea", "--tokens", listed, "--yes"),
        ]
        told = [good(run) for run in runs]
        assert told[0].startswith("iva and 2 examples are deleted; releases computed later do not contain them.")
        assert json.loads(told[1]) | {"erased": True} == {"name": "jon", "removed": 2, "erased": True}
        assert [line.split()[0] for line in told[2:]] == ["kim", "lea"]
        assert not set(names) & {client["name"] for client in operator.clients()}
    for token in tokens.values():
        with curves.client(token) as me, pytest.raises(Unauthorized):
            me.me()
    swapped = table(tmp_path / "swapped.csv", f"name,token\nbea,{studies.clients['cem'].token}\n")
    refused(
        motet(curves, "forget", "bea", "--tokens", swapped, "--yes"), "swapped.csv: the token of bea is that of 'cem'"
    )
    refused(motet(curves, "forget", "cem", "--tokens", swapped, "--yes"), "swapped.csv: no token of 'cem'")


def answered(at: Place, *arguments: str, answer: str, **variables: str) -> tuple[int, str, str]:
    """The program at a terminal, where its question is answered: exit code, what the terminal showed, and output."""
    ours, theirs = pty.openpty()
    env = {key: value for key, value in os.environ.items() if not key.startswith("MOTET")} | variables
    command = [sys.executable, "-m", "motet", *arguments, "--url", at.url]
    with subprocess.Popen(
        command, env=env, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as asked:
        os.close(theirs)
        seen = os.read(ours, 1000)
        while not seen.endswith(b": "):  # its last letter comes when nothing is echoed any more
            seen += os.read(ours, 1000)
        os.write(ours, f"{answer}\n".encode())
        out, _ = asked.communicate(timeout=START)
    with suppress(OSError):  # where all of it was read
        while more := os.read(ours, 1000):
            seen += more
    os.close(ours)
    return asked.returncode, seen.decode(), out


def test_what_cannot_be_undone_is_asked_for_at_a_terminal(studies: Studies) -> None:
    with studies.curves.operator() as operator:
        operator.enroll(["max"])
        for answer, code in (("n", 1), ("y", 0)):
            ended = answered(studies.curves, "forget", "max", answer=answer, MOTET_OPERATOR_TOKEN=OPERATOR)
            assert (ended[0], ended[2].startswith("max and 0 examples are deleted")) == (code, code == 0)
            assert ended[1].startswith("Delete max with 0 examples? This cannot be undone. [y/N]: ")
            assert ("motet: not confirmed, so nothing was deleted" in ended[1]) == (code == 1)
            assert ("max" in {client["name"] for client in operator.clients()}) == (code == 1)


def test_a_token_that_is_asked_for_is_not_shown(studies: Studies) -> None:
    code, seen, out = answered(studies.curves, "clients", "--json", answer=OPERATOR)
    assert (code, seen.split()) == (0, ["The", "operator's", "token:"])
    assert "ann" in [client["name"] for client in json.loads(out)["clients"]]
    assert OPERATOR not in out
