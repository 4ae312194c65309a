"""Tables that are ugly in the ways of real ones, at the command line: units and thousands in cells, Excel, another
encoding, a constant output, a catalogue with lists; from ``motet init`` to predictions.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from openpyxl import Workbook

from motet import Disclosed
from motet.cli.app import COMMANDS
from motet.study.study import Study
from tests.cli.program import check_mistakes, good, run

TABLES = {
    "init",
    "check",
    "serve",
    "enroll",
    "send",
    "replace",
    "remove",
    "predict",
    "audit",
    "tune",
    "fit",
    "evaluate",
}


def visits(*, unit: bool = True) -> list[list[str]]:
    rng = np.random.default_rng(0)
    kg, currency = (" kg", " €") if unit else ("", "")
    rows = [["Pfleger", "weight", "pay"]]
    for k in range(48):
        weight = rng.uniform(20.0, 60.0)
        pay = 900 + 10 * weight + 100 * (k % 6) + rng.normal(0.0, 5.0)
        rows.append([f"Jürgen {k % 6}", f"{weight:.1f}{kg}", f"{pay:,.0f}{currency}"])
    return rows


def text(rows: list[list[str]]) -> str:
    return "".join(",".join(f'"{cell}"' if "," in cell else cell for cell in row) + "\n" for row in rows)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table in Windows' encoding, its study, and a fit of it."""
    folder = tmp_path_factory.mktemp("ugly")
    (folder / "pay.csv").write_bytes(text(visits()).encode("cp1252"))
    columns = ["--client", "Pfleger", "--target", "pay"]
    said = good(
        run(
            "init",
            folder / "pay.toml",
            "--from",
            folder / "pay.csv",
            *columns,
            "--policy",
            "exact",
            "--encoding",
            "cp1252",
        )
    )
    (folder / "said.txt").write_text(said, encoding="utf-8")
    table = [folder / "pay.csv", *columns, "--encoding", "cp1252"]
    ended = run("fit", *table, "--common", "none", "--individual", "linear", "--out", folder / "pay.safetensors")
    assert ended.code == 0, ended.err
    (folder / "fit.txt").write_text(ended.err, encoding="utf-8")
    return folder


def test_a_study_reads_what_init_has_read(folder: Path) -> None:
    said = (folder / "said.txt").read_text(encoding="utf-8")
    assert "Note: weight is in kg: " in said
    assert "Note: pay is in €: " in said
    assert "pay.csv --encoding cp1252" in said  # of the command that comes next
    study = Study.load(folder / "pay.toml")
    assert study.model.columns is not None
    assert [column.unit for column in study.model.columns] == ["kg"]
    assert study.output.unit == "€"
    table = [folder / "pay.toml", folder / "pay.csv", "--encoding", "cp1252"]
    evaluated = json.loads(good(run("evaluate", *table, "--folds", 1, "--json")))
    assert (evaluated["rows"], evaluated["clients"], evaluated["left_out"]) == (48, 6, {})
    assert json.loads(good(run("check", *table, "--json")))["table"]["rows"] == 48


def test_a_fit_says_its_units_and_its_release_knows_the_columns(folder: Path) -> None:
    said = (folder / "fit.txt").read_text(encoding="utf-8")
    assert "weight is in kg, as every cell says" in said
    names = Disclosed.load(folder / "pay.safetensors").names
    assert names is not None
    assert (names.client, names.target, names.unit, names.inputs) == ("Pfleger", "pay", "€", {"weight": "kg"})
    release = ["--release", folder / "pay.safetensors", "--own", folder / "pay.csv", "--only", "Jürgen 2"]
    (folder / "at.csv").write_text("shift,weight\nlate,30 kg\nearly,40\n", encoding="utf-8")
    own = (folder / "pay.csv").read_text(encoding="cp1252")
    (folder / "own.csv").write_text(own, encoding="utf-8")
    ended = run("predict", folder / "at.csv", *release[:2], "--own", folder / "own.csv", *release[4:])
    assert ended.code == 0, ended.err
    assert "motet: predicted: pay (€)" in ended.err
    rows = [line.split(",") for line in ended.out.splitlines()]
    assert rows[0] == ["shift", "weight", "mean", "std"]
    assert [float(row[2]) for row in rows[1:]] == pytest.approx([1400.0, 1500.0], abs=20.0)
    (folder / "pounds.csv").write_text("weight\n30 lb\n", encoding="utf-8")
    wrong = run("predict", folder / "pounds.csv", *release[:2], "--average")
    assert "expected a finite number in kg, got '30 lb'" in wrong.err
    told = json.loads(good(run("predict", folder / "at.csv", *release[:2], "--average", "--json")))
    assert (told["output"], told["unit"]) == ("pay", "€")


def test_a_workbook_gives_the_same_study_as_its_table(tmp_path: Path) -> None:
    rows, book = visits(unit=False), Workbook()
    for row in rows[:1]:
        book.active.append(row)
    for client, weight, pay in rows[1:]:
        book.active.append([client, float(weight), float(pay.replace(",", ""))])
    book.save(tmp_path / "pay.xlsx")
    (tmp_path / "pay.csv").write_text(text(rows), encoding="utf-8")
    fits = [tmp_path / name for name in ("pay.csv", "pay.xlsx")]
    options = ["--client", "Pfleger", "--target", "pay", "--common", "none", "--individual", "linear", "--json"]
    told = [json.loads(good(run("tune", path, *options))) for path in fits]
    assert told[0]["model"] == told[1]["model"]


def test_mistakes_say_what_it_is_and_what_to_do(tmp_path: Path, folder: Path) -> None:
    rows = visits()
    constant, answers = tmp_path / "same.csv", tmp_path / "answers.csv"
    constant.write_text(text([[*row[:2], "7" if k else row[2]] for k, row in enumerate(rows)]), encoding="utf-8")
    answers.write_text(
        text([[*row[:2], ["no", "yes"][k % 2] if k else row[2]] for k, row in enumerate(rows)]), encoding="utf-8"
    )
    far, days = tmp_path / "far.csv", tmp_path / "days.csv"
    far.write_text(text([[row[0], "1e12 kg" if k == 7 else row[1], row[2]] for k, row in enumerate(rows)]), "utf-8")
    days.write_text(
        text([[row[0], f"{k % 28 + 1}.1.20" if k else row[1], row[2]] for k, row in enumerate(rows)]), "utf-8"
    )
    columns = ["--client", "Pfleger", "--target", "pay"]
    new = tmp_path / "new.toml"
    far_number = (
        "far.csv, row 8, column weight: 1e+12 is 9e+10 times the standard deviation of the others: correct it, or empty"
    )
    one_value = "the output 'pay' has one value only, 7, in every row, so there is nothing to learn"
    two_values = 'two values, "no" (24 rows) and "yes" (24 rows): code them as 0 and 1; outcomes other than numbers'
    check_mistakes(
        *((one_value, [*command, *columns]) for command in (["init", new, "--from", constant], ["tune", constant])),
        *((two_values, [*command, *columns]) for command in (["init", new, "--from", answers], ["tune", answers])),
        (far_number, ["tune", far, *columns]),
        (far_number, ["fit", far, *columns, "--out", tmp_path / "far.safetensors"]),
        ("and 45 more, a date: write the days since one; motet init reads dates", ["tune", days, *columns]),
        ("got the byte 0xfc in line 2; say which encoding it has, such as --encoding", ["tune", folder / "pay.csv"]),
        ("expected an encoding, one of utf-8,", ["tune", folder / "pay.csv", "--encoding", "utf-9"]),
    )
    assert not new.exists()


def test_lists_and_words_of_a_catalogue_become_columns(tmp_path: Path) -> None:
    (tmp_path / "films.csv").write_text(
        'id,title,genres,year\n1,"Matrix, The",Action|War,1999\n2,Heat,Action,1995\n3,Amelie,Love,2001\n'
        "4,Up,Love|War,\n",
        encoding="utf-8",
    )
    said = good(run("init", tmp_path / "films.toml", "--catalogue", tmp_path / "films.csv"))
    assert "title is left out (text, 4 different)" in said
    assert "genres, lists, becomes 3 columns (Action, Love, War)" in said
    assert "films-items.csv: written" in said
    catalogue = Study.load(tmp_path / "films.toml").model.catalogue
    assert catalogue is not None
    assert (len(catalogue), len(catalogue.features)) == (4, 4)


def test_every_command_that_reads_tables_takes_an_encoding() -> None:
    takes = {command.__name__ for command, _ in COMMANDS if "encoding" in command.__annotations__}
    assert takes == TABLES
