"""The commands over HTTP, as the real program: what each does, and its likeliest mistakes in one line.

Two studies run: exact curves, whose server takes small requests only, and a private catalogue, whose releases are for
its clients.
"""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from motet import Client
from motet.client.client import Enrolled
from motet.errors import Unauthorized
from tests.cli.program import NOWHERE, Run, good, motet, predictions, refused, rows, table
from tests.client.fake_server import learned
from tests.scenarios.harness import CURVES, OPERATOR, Place, parts, poll, write_study

EXACT = f"""{CURVES}
[limits]
y = [-10.0, 10.0]
examples_per_client = 100
[release]
policy = "exact"
every = "1d"
"""
PRIVATE = """
[model]
alpha = 0.3
lam = 0.2
sigma2 = 1.0
common = { kernel = "rbf", length_scale = 0.8 }
individual = { kernel = "dot_product", sigma_0 = 0.5 }
[inputs]
catalogue = "items.csv"
[basis]
kind = "eigen"
rank = 3
[limits]
y = [-10.0, 10.0]
[release]
policy = "private"
every = "1s"
epsilon = 3.0
releases = 1
"""
ITEMS = ["apple", "fig", "pear, green", "plum", "quince"]
OWN = "name,y\napple,2\nplum,-1\n"
CLIENTS = ("ann", "bea", "cem", "dora", "eve", "fay", "gus")


@dataclass
class Studies:
    curves: Place
    items: Place
    clients: dict[str, Enrolled]  # of the curves
    guest: str  # a token of the items'
    early: dict[str, Run]  # what was answered before the first release


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studies]:
    places = {name: tmp_path_factory.mktemp(name) for name in ("curves", "items")}
    rows = [f'"{name}",{k / 4},{(k * k) % 3}' for k, name in enumerate(ITEMS)]
    table(places["items"] / "items.csv", "\n".join(["name,a,b", *rows]))
    files = {name: write_study(places[name], body) for name, body in (("curves", EXACT), ("items", PRIVATE))}
    for name, more in (("curves", "max_body = 2000"), ("items", 'download = "clients"')):
        files[name].write_text(files[name].read_text(encoding="utf-8") + more + "\n", encoding="utf-8")
    with ExitStack() as stack:
        curves, items = (stack.enter_context(parts(files[name])) for name in ("curves", "items"))
        early = {name: motet(curves, *arguments) for name, arguments in _early(tmp_path_factory, curves).items()}
        wait(early.values())
        with curves.operator() as operator, items.operator() as other:
            (guest,) = other.enroll(["guest"])
            clients = {client.name: client for client in operator.enroll(CLIENTS)}
            _teach(curves, clients["dora"], 1.0)
            _teach(curves, clients["eve"], -1.0)
            operator.release_now()
            poll(lambda: other.study()["version"], 60, "a private release")
        yield Studies(curves, items, clients, guest.token, early)


def _early(factory: pytest.TempPathFactory, curves: Place) -> dict[str, tuple[object, ...]]:
    own = table(factory.mktemp("early") / "own.csv", "x,y\n1,2\n")
    return {"predict": ("predict", own, "--own", own), "download": ("download",), "audit": ("audit", curves.url)}


def _teach(curves: Place, who: Enrolled, sign: float) -> None:
    x = np.linspace(0.0, 2.0, 7)
    with curves.client(who.token) as client:
        client.send_many(x[:, None], np.sin(3 * x) + sign * 0.3 * x)


# --- a client's ---


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


def test_sending_that_is_refused(studies: Studies, tmp_path: Path) -> None:
    curves, cem = studies.curves, studies.clients["cem"].token
    own = table(tmp_path / "own.csv", "x,y\n1,2\n")
    high = table(tmp_path / "high.csv", "x,y\n1,2\n\n3,40\n")
    many = table(tmp_path / "many.csv", "x,y\n" + "".join(f"{k},1\n" for k in range(120)))
    text = table(tmp_path / "text.csv", "x,y\n1,much\n")
    wide = table(tmp_path / "wide.csv", "x,z,y\n1,2,3\n")
    usage = motet(curves, "send")
    for run, *words in (
        (motet(curves, "send", high, client=cem), "high.csv, row 4: y must be a number from -10 to 10, got 40"),
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


def test_status(studies: Studies) -> None:
    places = studies.curves, studies.items
    told, data = [motet(place, "status") for place in places], [motet(place, "status", "--json") for place in places]
    exact, private = (dict(line.split(None, 1) for line in good(run).splitlines()) for run in told)
    assert exact.keys() == {"study", "policy", "release", "next"}
    assert exact["policy"] == "exact"
    assert private["release"] == "1"
    assert private["releases"] == "1 made of 1 planned; ε spent 3.00"
    exact, private = (json.loads(good(run)) for run in data)
    assert datetime.fromisoformat(exact["next_release"]) > datetime.now(UTC)
    assert (private["budget"]["made"], private["next_release"]) == (1, None)  # its budget is spent


@pytest.mark.parametrize(
    "answer", [{}, {"name": "a"}, [], {"name": "a", "policy": "exact", "version": 1, "next_release": 1e300}]
)
def test_status_of_nothing_that_is_known(answer: Any) -> None:
    with answering(json.dumps(answer).encode()) as (url, _):
        refused(motet(url, "status"), "upgrade motet" if isinstance(answer, dict) else "expected")
    refused(motet(NOWHERE, "status"), "Connection refused", "--url, MOTET_URL")


@contextmanager
def answering(data: bytes) -> Iterator[tuple[str, list[tuple[str | None, ...]]]]:
    """The address of a server that gives the same to everybody, and what it was asked."""
    requests: list[tuple[str | None, ...]] = []

    class Recorder(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append((self.command, self.path, self.headers["Authorization"], self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Recorder) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", requests
        finally:
            server.shutdown()


def test_passive_sends_nothing_but_a_get(tmp_path: Path) -> None:
    release = learned().disclose()
    own = table(tmp_path / "own.csv", "x,y\n0.5,1\n1.5,3\n")
    with answering(release.to_bytes()) as (url, requests):
        shown = good(motet(url, "predict", own, "--own", own, "--observation", "--json", client="a-token-of-mine"))
    assert requests == [("GET", "/v1/disclosed", None, None)]
    found = json.loads(shown)
    mean, std = release.estimate([[0.5], [1.5]], [1.0, 3.0]).predict([[0.5], [1.5]], return_std=True, observation=True)
    assert [row["mean"] for row in found["predictions"]] == pytest.approx(mean.tolist())
    assert [row["std"] for row in found["predictions"]] == pytest.approx(std.tolist())
    assert [(row["x"], row["y"]) for row in found["predictions"]] == [(0.5, 1.0), (1.5, 3.0)]


def test_predictions_over_a_catalogue(studies: Studies, tmp_path: Path) -> None:
    items, own = studies.items, table(tmp_path / "own.csv", OWN)
    among = table(tmp_path / "among.csv", "shelf,name\n1,plum\n2,quince\n3,quince\n")
    whole = motet(items, "predict", "--own", own, client=studies.guest)
    chosen = motet(items, "predict", among, "--own", own, "--top", "5", client=studies.guest)
    with items.client(studies.guest) as client:
        mean, std = client.estimate(["apple", "plum"], [2.0, -1.0]).predict(ITEMS, return_std=True)
    best = sorted({"fig", "pear, green", "quince"}, key=lambda name: -mean[ITEMS.index(name)])
    assert [row["name"] for row in rows(good(whole))] == ITEMS
    assert predictions(good(whole)) == pytest.approx(np.column_stack([mean, std]), rel=1e-8)
    assert [(row["shelf"], row["name"]) for row in rows(good(chosen))] == [("2", "quince")]
    average = motet(items, "predict", among, "--average", "--json", client=studies.guest)
    with items.client(studies.guest) as client:
        mean, std = client.disclosed().average(["plum", "quince", "quince"], return_std=True)
    told = json.loads(good(average))["predictions"]
    assert [(row["shelf"], row["mean"], row["std"]) for row in told] == list(zip("123", mean.tolist(), std.tolist()))
    good(motet(items, "send", own, client=studies.guest))
    assert [row["name"] for row in rows(good(motet(items, "predict", "--top", "2", client=studies.guest)))] == best[:2]


def test_predictions_that_are_refused(studies: Studies, tmp_path: Path) -> None:
    curves, cem = studies.curves, studies.clients["cem"].token
    own = table(tmp_path / "own.csv", "x,y\n1,2\n")
    wide = table(tmp_path / "wide.csv", "x,z\n1,2\n")
    kept = table(tmp_path / "kept.csv", "precious")
    usage = motet(curves, "predict", "--top", "0")
    for run, *words in (
        (studies.early["predict"], "nothing is released yet: the first release is due at 20", "try again then"),
        (motet(curves, "predict", own), "set MOTET_TOKEN"),
        (motet(curves, "predict", "--release", own), "with --own FILE"),
        (motet(curves, "predict", own, "--own", own, "--release", own), "own.csv: not a disclosed database: expected"),
        (motet(curves, "predict", own, "--own", own, "--out", kept), "kept.csv already exists: choose", "--force"),
        (motet(curves, "predict", own, "--out", "p.parquet"), "written as CSV", "predictions.csv"),
        (motet(curves, "predict", client=cem), "a table with 1 column of numbers", "give INPUTS"),
        (motet(curves, "predict", wide, "--own", own), "wide.csv", "expected 1 input column", "got 2: x, z"),
    ):
        refused(run, *words)
    assert usage.result().code == 2
    assert "expected a whole number from 1, got '0'" in usage.result().err
    assert kept.read_text(encoding="utf-8") == "precious"
    good(motet(curves, "predict", own, "--own", own, "--out", kept, "--force"))
    assert kept.read_text(encoding="utf-8").startswith("x,y,mean,std\n1,2,")


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
    ):
        refused(run, *words)
    assert json.loads(private) == {"version": 1, "policy": "private", "out": str(path)}


# --- the operator's ---


def test_enrolment(studies: Studies, tmp_path: Path) -> None:
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


def test_enrolments_that_are_refused(studies: Studies, tmp_path: Path) -> None:
    curves, out, kept = studies.curves, tmp_path / "tokens.csv", table(tmp_path / "kept.csv", "precious")
    taken = motet(curves, "enroll", "nobody", "ann", "bea", "--out", out, operator=OPERATOR)
    for run, *words in (
        (taken, "'ann' and 1 more are already enrolled, so no one was", "choose other names"),
        (motet(curves, "enroll", "ida", "ida", operator=OPERATOR), "expected each name once, got 'ida' 2 times"),
        (motet(curves, "enroll", operator=OPERATOR), "got none: give them as arguments, or in a file"),
        (
            motet(curves, "enroll", "ida", "--out", kept, operator=OPERATOR),
            "already exists and is not overwritten",
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
    assert by_name["fay"] == {"id": fay.id, "name": "fay", "revoked": True, "examples": 0}
    assert by_name["dora"] == {"id": studies.clients["dora"].id, "name": "dora", "revoked": False, "examples": 7}
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
        (motet(curves, "clients", "--revoke", "nobody", operator=OPERATOR), "'nobody'", "motet clients lists them all"),
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
