"""A site that speaks for many clients, as the real program: a table with a column client, and a file of tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from motet import Disclosed
from tests.cli.program import NOWHERE, good, motet, predictions, refused, rows, table
from tests.scenarios.harness import CURVES, OPERATOR, Place, parts, write_study

STUDY = f"""{CURVES}
[limits]
y = [-10.0, 10.0]
examples_per_client = 40
[release]
policy = "exact"
every = "1d"
"""
VISITS = "client,hours,y\n" + "".join(f"p{k % 4},{k / 5},{(k * k) % 7 - 3}\n" for k in range(60))


@dataclass
class Clinic:
    """A site with four clients who sent their visits, and one who sent nothing."""

    server: Place
    folder: Path
    before: Path  # the release before they came

    @property
    def tokens(self) -> Path:
        return self.folder / "tokens.csv"

    def token(self, client: str) -> str:
        return {row["client"]: row["token"] for row in rows(self.tokens.read_text(encoding="utf-8"))}[client]

    def file(self, name: str, text: str) -> Path:
        return table(self.folder / name, text)

    def with_tokens(self, name: str, **changed: str) -> Path:
        """The file of tokens, with others for some."""
        known = rows(self.tokens.read_text(encoding="utf-8"))
        return self.file(
            name, "client,token\n" + "".join(f"{r['client']},{changed.get(r['client'], r['token'])}\n" for r in known)
        )


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clinic]:
    folder = tmp_path_factory.mktemp("clinic")
    with parts(write_study(folder, STUDY)) as server:
        found = Clinic(server, folder, folder / "before.safetensors")
        with server.operator() as operator:
            (other,) = operator.enroll(["other"])
            with server.client(other.token) as client:
                client.send_many([[0.1], [1.0], [2.0]], [1.0, -1.0, 0.5])
            operator.release_now()
            operator.disclosed().save(found.before)
        names = found.file("names.txt", "p0\np1\np2\np3\np4\n")
        good(motet(server, "enroll", "--file", names, "--out", found.tokens, operator=OPERATOR))
        visits = found.file("visits.csv", VISITS)
        sent = good(motet(server, "send", visits, "--tokens", found.tokens))
        assert sent == "4 clients: 60 accepted, 0 already stored.\n"
        with server.operator() as operator:
            operator.release_now()
        yield found


def test_each_client_is_sent_for_under_its_own_token(clinic: Clinic) -> None:
    with clinic.server.operator() as operator:
        held = {client["name"]: client["examples"] for client in operator.clients()}
    assert held == {"other": 3, "p0": 15, "p1": 15, "p2": 15, "p3": 15, "p4": 0}
    with clinic.server.client(clinic.token("p2")) as client:
        assert sorted((e["x"][0], e["y"]) for e in client.examples()) == sorted(
            (float(row["hours"]), float(row["y"])) for row in rows(VISITS) if row["client"] == "p2"
        )
    more = clinic.file("more.csv", f"{VISITS}p4,1,2\n")
    later = clinic.file("later.csv", VISITS.replace("p3,", "p1,"))  # p1 had those of p3 as well
    again = json.loads(good(motet(clinic.server, "send", more, "--tokens", clinic.tokens, "--json")))
    assert {key: again[key] for key in ("accepted", "duplicates")} == {"accepted": 1, "duplicates": 60}
    assert again["clients"][0] == {"client": "p0", "accepted": 0, "duplicates": 15, "count": 15}
    assert again["clients"][4] == {"client": "p4", "accepted": 1, "duplicates": 0, "count": 1}
    assert good(motet(clinic.server, "send", later, "--tokens", clinic.tokens)).startswith(
        "3 clients: 15 accepted, 45 "
    )


def test_sending_for_many_that_is_refused(clinic: Clinic) -> None:
    server, tokens = clinic.server, clinic.tokens
    unknown = clinic.file("unknown.csv", VISITS.replace("p1,", "q1,").replace("p2,", "q2,"))
    high = clinic.file("high.csv", "client,hours,y\np4,70,1\np3,70,2\np4,80,1\np3,80,40\np2,90,1\n")
    wide = clinic.file("wide.csv", "client,hours,dose,y\np1,1,2,3\n")
    plain = clinic.file("plain.csv", "hours,y\n1,2\n")
    visits = clinic.folder / "visits.csv"
    runs: list[tuple[Any, ...]] = [
        (
            motet(server, "send", unknown, "--tokens", tokens),
            "unknown.csv: 2 of 4 clients have no token in tokens.csv (q1, q2), so nothing was changed: enroll them",
        ),
        (
            motet(server, "send", high, "--tokens", tokens),
            "high.csv, row 5, column y, client p3: y must be a number from -10 to 10, got 40",
            "all rows of 1 client (p4) are stored, and sending them again changes nothing",
        ),
        (
            motet(server, "send", wide, "--tokens", tokens),
            "wide.csv",
            "expected 1 input column",
            "got 2: hours, dose",
        ),
        (motet(server, "send", plain, "--tokens", tokens), "plain.csv: no column 'client'"),
        (motet(server, "send", visits, "--tokens", visits), "visits.csv: expected the columns client and token"),
        (
            motet(server, "send", visits, "--tokens", clinic.with_tokens("wrong.csv", p1="SECRET")),
            "the server refused the token of p1 in wrong.csv: put a new one there",
            "all rows of 1 client (p0) are done",
        ),
        (motet(NOWHERE, "send", visits, "--tokens", tokens), "Connection refused", "--url, MOTET_URL"),
    ]
    for run, *words in runs:
        refused(run, *words)
        assert "SECRET" not in run.result().err
    with server.client(clinic.token("p3")) as client:
        assert all(e["x"][0] < 70 for e in client.examples())


def test_a_site_corrects_what_it_sent(clinic: Clinic) -> None:
    """By ids, or by the rows' content; each under its own client's token."""
    server, tokens = clinic.server, clinic.tokens
    slip = clinic.file("slip.csv", "client,hours,y,id\np0,30,1,\np4,31,2,\np4,32,3,named\n")
    named = clinic.file("named.csv", "client,hours,y,id\np4,33,4,named\n")
    other = clinic.file("other.csv", "client,hours,y,id\np4,34,5,named\np3,1,1,other\n")
    good(motet(server, "send", slip, "--tokens", tokens))
    assert good(motet(server, "replace", named, "--tokens", tokens)).startswith("1 example replaced.")
    refused(
        motet(server, "replace", other, "--tokens", tokens),
        "other.csv, row 3, client p3: there is no example 'other' to replace; all rows of 1 client (p4) are replaced",
    )
    assert good(motet(server, "remove", "--examples", slip, "--tokens", tokens)).startswith("3 examples removed.")
    with (
        server.client(clinic.token("p0")) as p0,
        server.client(clinic.token("p4")) as p4,
        server.operator() as operator,
    ):
        assert not [e for me in (p0, p4) for e in me.examples() if 30 <= e["x"][0] < 40]
        operator.release_now()


def test_every_client_is_predicted_in_one_table(clinic: Clinic) -> None:
    """From what was sent as from what stayed here, with one download; at the same inputs, or at each client's own."""
    server, visits = clinic.server, clinic.folder / "visits.csv"
    at = clinic.file("at.csv", "hours\n0\n2.5\n20\n")
    out = clinic.folder / "passive.csv"
    active = motet(server, "predict", at, "--tokens", clinic.with_tokens("all.csv"))
    passive = motet(NOWHERE, "predict", at, "--own", visits, "--each", "--release", clinic.before, "--out", out)
    one = motet(NOWHERE, "predict", at, "--own", visits, "--only", "p2", "--release", clinic.before)
    own = clinic.file("own.csv", "hours,client\n2.5,p3\n1,new\n2.5,p2\n1,p4\n0,p2\n")
    chosen = motet(NOWHERE, "predict", own, "--own", visits, "--each", "--release", clinic.before)
    alike = motet(NOWHERE, "predict", own, "--own", visits, "--each", "--release", clinic.before, "--json")
    sent = motet(server, "predict", own, "--tokens", clinic.tokens, "--json")
    assert good(passive) == f"12 predictions for 4 clients, with release 1, in {out}.\n"
    written = out.read_text(encoding="utf-8")
    assert [(row["client"], row["hours"]) for row in rows(written)] == [
        (f"p{k}", hour) for k in range(4) for hour in ("0", "2.5", "20")
    ]
    assert written.startswith("client,hours,mean,std\n")
    assert predictions(written)[6:9] == pytest.approx(predictions(good(one)), rel=1e-9)

    done = chosen.result()
    assert (done.code, done.err.count("\n")) == (0, 1)
    assert done.err.startswith(
        "motet: 2 of 4 clients not in visits.csv (new, p4): predicted as new clients, the average"
    )
    assert [(row["client"], row["hours"]) for row in rows(done.out)] == [
        ("p3", "2.5"), ("new", "1"), ("p2", "2.5"), ("p4", "1"), ("p2", "0"),
    ]  # fmt: skip
    found = predictions(done.out)
    assert found[[4, 2]] == pytest.approx(predictions(written)[[6, 7]], rel=1e-9)
    average, spread = Disclosed.load(clinic.before).average([[1.0]], return_std=True)
    assert found[[1, 3], 0] == pytest.approx([average[0]] * 2)
    assert (found[[1, 3], 1] > spread[0]).all()
    told = json.loads(good(alike))
    assert (told["release"], told["clients"], told["new"]) == (1, 4, ["new", "p4"])
    assert [row["mean"] for row in told["predictions"]] == pytest.approx(found[:, 0].tolist())

    told = json.loads(good(sent))
    assert (told["clients"], told["new"]) == (4, ["new"])
    assert {row["client"] for row in rows(good(active))} == {"p0", "p1", "p2", "p3", "p4"}
    with server.client(clinic.token("p2")) as client:
        mean, std = client.estimate().predict([[0.0], [2.5], [20.0]], return_std=True)
    assert predictions(good(active))[6:9] == pytest.approx(np.column_stack([mean, std]), rel=1e-8)
    assert [row["mean"] for row in told["predictions"] if row["client"] == "p2"] == pytest.approx([mean[1], mean[0]])


def test_predictions_for_many_that_are_refused(clinic: Clinic) -> None:
    server, visits, tokens = clinic.server, clinic.folder / "visits.csv", clinic.tokens
    at, plain = clinic.file("at.csv", "hours\n0\n"), clinic.file("plain.csv", "hours,y\n1,2\n")
    for run, *words in (
        (
            motet(server, "predict", at, "--own", visits),
            "visits.csv has 4 clients",
            "with --only",
            "predict has --each",
        ),
        (motet(server, "predict", at, "--own", plain, "--each"), "plain.csv: no column 'client'"),
        (motet(server, "predict", "--tokens", tokens), "a table with 1 column of numbers", "give INPUTS"),
        (
            motet(server, "predict", at, "--tokens", clinic.with_tokens("wrong.csv", p3="SECRET")),
            "the server refused the token of p3 in wrong.csv: put a new one there",
        ),
    ):
        refused(run, *words)
