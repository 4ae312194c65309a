"""A study with named inputs, as the real program: columns in any order, categories, dates, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.program import NOWHERE, good, motet, predictions, refused, rows, table
from tests.scenarios.harness import OPERATOR, Place, parts, with_free_port
from tests.study.studies import VISITS

HEADER = "patient,hours,sex,visit,glucose"
ROWS = [f"P{k % 3},{k % 24},{'fm'[k % 2]},2024-0{1 + k % 9}-15,{(k * k) % 7 - 3}" for k in range(18)]


def csv(*lines: str) -> str:
    return "\n".join([*lines, ""])


def turned(text: str) -> str:
    """The same table with its columns in the opposite order."""
    return csv(*(",".join(reversed(line.split(","))) for line in text.splitlines()))


@dataclass
class Clinic:
    server: Place
    folder: Path

    @property
    def tokens(self) -> Path:
        return self.folder / "tokens.csv"

    def token(self, client: str) -> str:
        return {row["client"]: row["token"] for row in rows(self.tokens.read_text(encoding="utf-8"))}[client]

    def file(self, name: str, text: str) -> Path:
        return table(self.folder / name, text)

    def stored(self, client: str) -> list[tuple[Any, ...]]:
        """A client's examples, as the database has them."""
        query = "select e.id, e.x, e.y, e.noise from examples e join clients c on c.id = e.client"
        return self.server.rows(f"{query} where c.name = '{client}' and e.x is not null order by e.id")


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clinic]:
    folder = tmp_path_factory.mktemp("named")
    study = table(folder / "study.toml", f"{VISITS}[server]\nport = 8000\nrate = 1e6\n")
    with parts(with_free_port(study)) as server:
        found = Clinic(server, folder)
        visits = found.file("visits.csv", csv(HEADER, *ROWS, "P1,3,f,,1", "P2,NA,m,2024-05-05,1", "P2,3,m,2024-05-05,"))
        others = found.file("others.csv", csv("patient", "twin", "other"))
        enrolled = motet(server, "enroll", "--names", visits, "--out", found.tokens, operator=OPERATOR)
        assert good(enrolled).startswith("3 clients enrolled")
        good(motet(server, "enroll", "--names", others, "--out", folder / "others-tokens.csv", operator=OPERATOR))
        sent = good(motet(server, "send", visits, "--tokens", found.tokens, "--skip-missing"))
        assert sent == "3 clients: 18 accepted, 0 already stored. 3 rows with missing values left out.\n"
        with server.operator() as operator:
            operator.release_now()
        yield found


def test_swapped_columns_are_stored_byte_for_byte_alike(clinic: Clinic) -> None:
    own = csv(HEADER.removeprefix("patient,"), *(row.removeprefix("P1,") for row in ROWS if row.startswith("P1")))
    twin = rows((clinic.folder / "others-tokens.csv").read_text(encoding="utf-8"))[0]["token"]
    good(motet(clinic.server, "send", clinic.file("turned.csv", turned(own)), client=twin))
    assert clinic.stored("twin") == clinic.stored("P1") != []
    again = clinic.file("again.csv", turned(csv(HEADER, *ROWS)))
    told = json.loads(good(motet(clinic.server, "send", again, "--tokens", clinic.tokens, "--skip-missing", "--json")))
    assert (told["accepted"], told["duplicates"], told["rows_left_out"]) == (0, 18, 0)


def test_swapped_columns_are_predicted_alike(clinic: Clinic) -> None:
    inputs = csv("hours,sex,visit,site", "1,f,2024-03-01,north", "5.5,m,2024-03-02,south")
    at, moved = clinic.file("at.csv", inputs), clinic.file("moved.csv", turned(inputs))
    own = clinic.file("own.csv", csv("glucose,visit,hours,sex", "2,2024-01-01,3,m", "1,2024-06-01T12:00,5,f"))
    one, other = (motet(clinic.server, "predict", path, "--own", own) for path in (at, moved))
    assert good(one).startswith("hours,sex,visit,site,mean,std\n1,f,2024-03-01,north,")
    assert good(other).startswith("site,visit,sex,hours,mean,std\nnorth,2024-03-01,f,1,")
    assert predictions(good(one)).tolist() == predictions(good(other)).tolist()
    with clinic.server.client() as anyone:
        X = [{"hours": 3.0, "sex": "m", "visit": "2024-01-01"}, {"hours": 5.0, "sex": "f", "visit": "2024-06-01T12:00"}]
        mine = anyone.estimate(X, [2.0, 1.0])
        x = [{"hours": 1.0, "sex": "f", "visit": "2024-03-01"}, {"hours": 5.5, "sex": "m", "visit": "2024-03-02"}]
        mean, std = mine.predict(x, return_std=True)
    assert predictions(good(one)) == pytest.approx(np.column_stack([mean, std]), rel=1e-8)


def test_what_is_renamed_doubled_or_of_another_is_refused(clinic: Clinic) -> None:
    server, p1 = clinic.server, clinic.token("P1")
    before = clinic.stored("P1")
    row = "P1,1,f,2024-03-01,1"
    cases = [
        (csv(HEADER.replace("hours", "hour"), row), "no column 'hours'", "did you mean 'hour'? rename it to 'hours'"),
        (csv(HEADER.replace("sex", "hours"), row), "column 'hours' is there twice"),
        (
            csv(HEADER, row, "P2,1,f,2024-03-01,1"),
            "has 2 clients, P1, P2: choose one with --only; or take all: predict has --each",
        ),
        (csv(HEADER, row.replace("P1", "P2")), "row 2, column patient: expected 'P1', whose token this is, got 'P2'"),
        (csv(HEADER, row.replace("1,f", "25,f")), "row 2, column hours: expected a number from 0 to 24, got 25"),
        (
            csv(HEADER, row.replace("2024", "2025")),
            "row 2, column visit: expected a date from 2024-01-01 to 2024-12-31",
        ),
        (csv(HEADER, row.replace(",f,", ",w,")), 'row 2, column sex: expected "f" or "m", got "w"'),
        (csv(HEADER, row.removesuffix("1")), "row 2, column glucose: expected a value", "--skip-missing"),
        (csv(HEADER, row.removesuffix("1") + "9"), "row 2, column glucose: y must be a number from -5 to 5, got 9"),
    ]
    runs: list[tuple[Any, ...]] = [
        (motet(server, "send", clinic.file(f"case-{k}.csv", text), client=p1), *words)
        for k, (text, *words) in enumerate(cases)
    ]
    mixed = clinic.file("mixed.csv", csv(HEADER, row, row.replace("P1", "P2")))
    usual = clinic.file("usual.csv", csv(HEADER.replace("patient", "client"), row.replace("P1", "P2")))
    inputs = clinic.file("inputs.csv", csv("patient,hours,sex,visit", "P2,1,f,2024-03-01"))
    renamed = clinic.file("renamed.csv", csv("time,sex,visit", "1,f,2024-03-01"))
    runs += [
        (motet(server, "send", mixed, "--only", "P2", client=p1), "mixed.csv, row 3, column patient", "got 'P2'"),
        (motet(server, "replace", mixed, "--only", "P2", client=p1), "row 3, column patient", "got 'P2'"),
        (motet(server, "remove", "--examples", mixed, "--only", "P2", client=p1), "column patient", "got 'P2'"),
        (motet(server, "predict", inputs, client=p1), "inputs.csv, row 2, column patient: expected 'P1'"),
        (motet(server, "predict", renamed, "--average"), "renamed.csv: no column 'hours'"),
        (motet(server, "send", mixed, "--client", "person", client=p1), "no column 'person'", "with --client"),
        (motet(server, "send", usual, "--target", "dose", client=p1), "no column 'dose'; got", "with --target"),
        (motet(server, "send", usual, client=p1), "usual.csv, row 2, column client: expected 'P1'", "got 'P2'"),
    ]
    for run, *words in runs:
        refused(run, *words)
    assert clinic.stored("P1") == before


def test_what_was_sent_comes_back_by_name_and_is_taken_back_by_content(clinic: Clinic) -> None:
    server, p0 = clinic.server, clinic.token("P0")
    shown = json.loads(good(motet(server, "export", server.url, client=p0)))
    local = json.loads(good(motet(NOWHERE, "export", server.study, "P0")))
    assert shown["examples"][0]["x"].keys() == {"hours", "sex", "visit"}
    assert [e["x"] for e in local["examples"]] == [e["x"] for e in shown["examples"]]
    slip = clinic.file("slip.csv", csv("visit,id,sex,glucose,hours", "2024-07-07,,f,1,1", "2024-07-08,named,m,1,2"))
    good(motet(server, "send", slip, client=p0))
    right = clinic.file("right.csv", csv("id,hours,sex,visit,glucose", "named,3,m,2024-07-09,2"))
    assert good(motet(server, "replace", right, client=p0)).startswith("1 example replaced.")
    assert good(motet(server, "remove", "--examples", slip, client=p0)).startswith("2 examples removed.")
    assert len(clinic.stored("P0")) == len(shown["examples"])


def test_columns_that_are_not_used_are_said(clinic: Clinic) -> None:
    other = rows((clinic.folder / "others-tokens.csv").read_text(encoding="utf-8"))[1]["token"]
    wide = clinic.file("wide.csv", csv("hours,weight,sex,visit,level,note", "1,70,f,2024-03-01,1,fasting"))
    sent = motet(clinic.server, "send", wide, "--target", "level", client=other).result()
    assert (sent.code, sent.err) == (0, "motet: wide.csv: not used: weight, note\n")
    assert sent.out == "1 accepted, 0 already stored; 1 in total.\n"
    assert good(motet(clinic.server, "send", wide, "--target", "level", "--json", client=other))


def test_the_average_and_a_new_client_need_no_token(clinic: Clinic) -> None:
    at = clinic.file("curve.csv", csv("hours,sex,visit", *(f"{h},{s},2024-03-01" for h in (0, 12, 24) for s in "fm")))
    nobody, picture = clinic.file("nobody.csv", csv(HEADER)), clinic.folder / "average.svg"
    average = motet(clinic.server, "predict", at, "--average")
    new = motet(clinic.server, "predict", at, "--own", nobody).result()
    drawn = good(motet(clinic.server, "predict", at, "--average", "--plot", picture, "--json"))
    assert new.err == "motet: no examples: predicted as a new client, the average with the full uncertainty\n"
    mean, std = predictions(good(average)).T
    new_mean, new_std = predictions(new.out).T
    assert new_mean == pytest.approx(mean)
    assert (new_std > std).all()
    assert json.loads(drawn)["plot"] == str(picture)
    assert "<svg" in picture.read_text(encoding="utf-8")
    refused(motet(clinic.server, "predict", at, "--average", "--plot", "curve.gif"), "PNG, SVG or PDF", "not curve.gif")
    refused(motet(clinic.server, "predict", at, "--average", "--plot", picture), "already exists", "--force")


def test_rows_outside_the_bounds_are_warned_of(clinic: Clinic) -> None:
    far = clinic.file("far.csv", csv("hours,sex,visit", "40,f,2024-03-01", "1,f,2024-03-01"))
    own = clinic.file("high.csv", csv("hours,sex,visit,glucose", "1,f,2024-03-01,500"))
    shown = motet(clinic.server, "predict", far, "--own", own).result()
    assert shown.err.splitlines() == [
        "motet: far.csv: 1 row is outside the bounds of the study (hours up to 40, bounds 0 to 24): predictions there "
        "are extrapolated",
        "motet: high.csv: 1 row is outside the limits of the study (glucose up to 500, limits -5 to 5): check the "
        "units",
    ]
    told = json.loads(good(motet(clinic.server, "predict", far, "--own", own, "--json")))
    assert (told["outside_bounds"], told["outside_limits"]) == (1, 1)


def test_an_audit_shows_inputs_by_name(clinic: Clinic) -> None:
    report = json.loads(good(motet(clinic.server, "audit", clinic.server.url, "--json")))
    (inversion, *_) = report["attacks"]
    assert inversion["inputs"][0].keys() == {"hours", "sex", "visit"}
    shown = good(
        motet(clinic.server, "audit", clinic.server.url, "--suspects", clinic.file("s.csv", csv(HEADER, ROWS[0])))
    )
    assert "P0: not decided" in shown
