"""``motet send``, ``replace`` and ``remove`` of one client: what is stored, counted once, changed, and refused."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from motet.client.tables import read_tokens
from tests.cli.program import NOWHERE, good, motet, predictions, refused, table
from tests.cli.studies import Studies
from tests.scenarios.harness import OPERATOR


def test_active_is_passive_and_a_release_tells_what_was_sent(studies: Studies, tmp_path: Path) -> None:
    curves, ann = studies.curves, studies.clients["ann"].token
    before = tmp_path / "before.safetensors"
    with curves.operator() as operator:
        operator.release_now()
    assert "exact" in good(motet(curves, "download", "--out", before))
    own = table(tmp_path / "ann.csv", "x,y,noise\n0.25,2,1\n1.5,-1,0.5\n1.5,-1,0.5\n3,0.5,\n")
    at = table(tmp_path / "at.csv", "x\n0\n1.25\n4\n")
    assert good(motet(curves, "send", own, client=ann)) == "4 accepted, 0 already stored; 4 in total.\n"
    assert json.loads(good(motet(curves, "release", "--json", operator=OPERATOR)))["version"] > 1
    active = motet(curves, "predict", at, "--out", tmp_path / "active.csv", client=ann)
    passive = motet(NOWHERE, "predict", at, "--own", own, "--release", before)
    audited = motet(NOWHERE, "audit", before, curves.url, "--json")
    assert good(active).startswith("3 predictions, with release ")
    written = (tmp_path / "active.csv").read_text(encoding="utf-8")
    assert written.startswith("x,mean,std\n0,")
    assert predictions(written) == pytest.approx(predictions(good(passive)), rel=1e-8)
    found = json.loads(good(audited))
    difference = next(attack for attack in found["attacks"] if attack["attack"] == "differencing")
    assert sorted(x for (x,) in difference["inputs"]) == pytest.approx([0.25, 1.5, 3.0])
    assert sorted(difference["outputs"]) == pytest.approx([-1, 0.5, 2])


def test_sending_again_changes_nothing(studies: Studies, tmp_path: Path) -> None:
    """In many requests, and from Parquet as from CSV."""
    bea = studies.clients["bea"].token
    y = [(k * k) % 7 - 3 for k in range(60)]
    own = table(tmp_path / "own.csv", "x,y\n" + "".join(f"{k // 2},{value}\n" for k, value in enumerate(y)))
    assert good(motet(studies.curves, "send", own, client=bea)).startswith("60 accepted, 0 already")
    added = pa.table({"x": [-1, *(k // 2 for k in range(60))], "y": [1.5, *y], "client": ["bea"] * 61})
    parquet.write_table(added, tmp_path / "own.parquet")
    sent = json.loads(good(motet(studies.curves, "send", tmp_path / "own.parquet", "--json", client=bea)))
    assert sent == {"accepted": 1, "duplicates": 60, "count": 61}


def test_what_no_later_release_will_have_is_said_in_one_line(studies: Studies, tmp_path: Path) -> None:
    """Of a study whose only release is out."""
    end = "the budget (ε = 3) is spent: all 1 releases are out; the last one stays valid, and no more will come\n"
    tokens, own = tmp_path / "tokens.csv", table(tmp_path / "own.csv", "name,y\nplum,0.5\n")
    enrolled = motet(studies.items, "enroll", "tardy", "--out", tokens, operator=OPERATOR).result()
    assert (enrolled.code, enrolled.err) == (0, f"motet: no later release will have these clients: {end}")
    tardy = read_tokens(tokens)["tardy"]
    sent = motet(studies.items, "send", own, client=tardy).result()
    assert (sent.code, sent.err) == (0, f"motet: no later release will have what was sent: {end}")
    assert sent.out == "1 accepted, 0 already stored; 1 in total.\n"
    many = table(tmp_path / "many.csv", "client,name,y\ntardy,fig,0.25\n")
    sent = motet(studies.items, "send", many, "--tokens", tokens).result()
    assert sent.err == f"motet: no later release will have what 1 client (tardy) sent: {end}"
    again = json.loads(good(motet(studies.items, "send", own, "--json", client=tardy)))
    assert again == {"accepted": 0, "duplicates": 1, "count": 2, "ended": end.strip()}


def test_sending_that_is_refused(studies: Studies, tmp_path: Path) -> None:
    curves, cem = studies.curves, studies.clients["cem"].token
    own = table(tmp_path / "own.csv", "x,y\n1,2\n")
    high = table(tmp_path / "high.csv", "x,y\n1,2\n\n3,40\n")
    many = table(tmp_path / "many.csv", "x,y\n" + "".join(f"{k},1\n" for k in range(120)))
    text = table(tmp_path / "text.csv", "x,y\n1,much\n")
    wide = table(tmp_path / "wide.csv", "x,z,y\n1,2,3\n")
    usage = motet(curves, "send")
    for run, *words in (
        (
            motet(curves, "send", high, client=cem),
            "high.csv, row 4, column y: y must be a number from -10 to 10, got 40",
        ),
        (
            motet(curves, "send", many, client=cem),
            "limit of 100 examples per client exceeded",
            "sending them again changes nothing",
        ),
        (motet(curves, "send", wide, client=cem), "wide.csv: expected 1 input column beside"),
        (motet(curves, "send", text, client=cem), "text.csv, row 2, column y: expected a finite number, got 'much'"),
        (motet(curves, "send", tmp_path / "none", client=cem), "cannot read", "check the file's name"),
        (motet(curves, "send", own), "expected a client's token, got none: set MOTET_TOKEN"),
        (motet(curves, "send", own, client="not-a-token"), "set MOTET_TOKEN to another"),
        (motet(NOWHERE, "send", own, client="any"), "Connection refused", "check address", "--url, MOTET_URL"),
    ):
        refused(run, *words)
    assert usage.result().code == 2


def test_rows_of_another_client_are_refused(studies: Studies, tmp_path: Path) -> None:
    """Nobody's rows become those of the client whose token happens to be set."""
    curves = studies.curves
    with curves.operator() as operator:
        nan, pia = operator.enroll(["nan", "pia"])
    other = table(tmp_path / "other.csv", "client,x,y\nzz,1,2\nzz,2,3\n")
    mixed = table(tmp_path / "mixed.csv", "client,x,y\nnan,1,2\nzz,2,3\n")
    mine = table(tmp_path / "mine.csv", f"client,id,x,y\n{nan.id},a,1,2\n")
    for run, *words in (
        (
            motet(curves, "send", other, client=nan.token),
            "other.csv, row 2, column client: expected 'nan', whose token this is, got 'zz', so nothing was done",
        ),
        (motet(curves, "send", mixed, "--only", "zz", client=nan.token), "mixed.csv, row 3", "got 'zz'"),
        (motet(curves, "send", mixed, client=nan.token), "mixed.csv has 2 clients, nan, zz: choose one"),
        (
            motet(curves, "replace", table(tmp_path / "r.csv", "client,id,x,y\nzz,a,1,2\n"), client=nan.token),
            "got 'zz'",
        ),
        (motet(curves, "remove", "--examples", other, client=nan.token), "got 'zz'"),
        (motet(curves, "predict", other, client=nan.token), "other.csv, row 2, column client", "got 'zz'"),
        (
            motet(curves, "send", mixed, "--tokens", table(tmp_path / "t.csv", f"name,token\nnan,{pia.token}\nzz,z\n")),
            "t.csv: the token of nan is that of 'pia': correct the file",
        ),
    ):
        refused(run, *words)
    with curves.client(nan.token) as me, curves.client(pia.token) as not_me:
        assert (me.me()["count"], not_me.me()["count"]) == (0, 0)
    assert good(motet(curves, "send", mine, client=nan.token)).startswith("1 accepted")  # a client's id is as good
    assert good(motet(curves, "send", mixed, "--only", "nan", client=nan.token)).startswith("1 accepted")


def test_examples_are_taken_back_and_replaced(studies: Studies, tmp_path: Path) -> None:
    curves = studies.curves
    with curves.operator() as operator:
        (ole,) = operator.enroll(["ole"])

    def stored() -> dict[str, tuple[float, float]]:
        with curves.client(ole.token) as me:
            return {e["id"]: (e["x"][0], e["y"]) for e in me.examples()}

    with_ids = table(tmp_path / "ids.csv", "id,x,y\na,1,1\nb,2,2\nc,3,3\n")
    without = table(tmp_path / "without.csv", "x,y\n7,1\n8,2\n8,2\n")
    good(motet(curves, "send", with_ids, client=ole.token))
    good(motet(curves, "send", without, client=ole.token))
    corrected = table(tmp_path / "corrected.csv", "y,x,id,client\n5,6,b,ole\n")
    assert good(motet(curves, "replace", corrected, client=ole.token)).startswith("1 example replaced.")
    assert good(motet(curves, "remove", "a", "c", client=ole.token)).startswith("2 examples removed.")
    wrong = table(tmp_path / "wrong.csv", "x,y\n8,2\n")
    removed = json.loads(good(motet(curves, "remove", "--examples", wrong, "--json", client=ole.token)))
    assert (removed["removed"], removed.keys()) == (1, {"removed", "erased"})
    left = stored()
    assert sorted(left.values()) == [(6.0, 5.0), (7.0, 1.0), (8.0, 2.0)]
    assert left["b"] == (6.0, 5.0)

    high = table(tmp_path / "high.csv", "id,x,y\nb,1,1\nb2,2,2\n")
    steep = table(tmp_path / "steep.csv", "id,x,y\n\nb,1,40\n")
    for run, *words in (
        (motet(curves, "replace", wrong, client=ole.token), "wrong.csv: no column 'id'"),
        (
            motet(curves, "replace", high, client=ole.token),
            "high.csv, row 3: there is no example 'b2' to replace; the rows above row 3 are replaced",
        ),
        (motet(curves, "replace", steep, client=ole.token), "steep.csv, row 3", "y must be a number from -10 to 10"),
        (motet(curves, "remove", "a"), "set MOTET_TOKEN"),
        (motet(NOWHERE, "remove", "a", client="any"), "Connection refused", "--url, MOTET_URL"),
    ):
        refused(run, *words)
    some = motet(curves, "remove", "b", "a", "none", client=ole.token)
    refused(some, "got 2 that are not stored (a, none): motet export http", "; 1 other example removed")
    assert sorted(stored().values()) == [(7.0, 1.0), (8.0, 2.0)]
    assert good(motet(curves, "send", without, client=ole.token)).startswith("0 accepted, 3 already")  # gone for good


def test_a_token_for_another_machine_is_not_sent_in_plain_text_without_a_warning(
    studies: Studies, tmp_path: Path
) -> None:
    """One line, also where a command makes several connections; not in the way of a program."""
    away, cem = studies.curves.url.replace("127.0.0.1", "0.0.0.0"), studies.clients["cem"].token
    own = table(tmp_path / "own.csv", "x,y\n1,40\n")
    plain = motet(away, "send", own, client=cem).result()
    assert plain.err.splitlines()[0] == (
        f"motet: {away} is not encrypted: whoever is on the way can read the token and the data; use an address with "
        "https://"
    )
    assert (plain.code, plain.err.count("\n")) == (1, 2)
    data = motet(away, "send", own, "--json", client=cem).result()
    assert json.loads(data.err)["error"]["code"] == "invalid_data"
