"""Tables by the names of their columns: any order, other columns, missing values, and rows outside the bounds."""

from __future__ import annotations

import csv
import io
import random
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from motet import Catalogue
from motet.client.predictions import outside_bounds, outside_limits
from motet.client.responses import layout_of
from motet.client.tables import read_clients, read_examples, read_inputs
from motet.errors import InvalidData, InvalidModel, ServerError
from motet.tables.columns import Columns
from motet.tables.roles import Layout
from tests.client.predicted import predicted

COLUMNS = Columns.from_spec(
    [
        {"name": "hours", "bounds": [0.0, 24.0], "unit": "h"},
        {"name": "sex", "values": ["f", "m", "NA"]},
        {"name": "visit", "since": "2024-01-01", "bounds": ["2024-01-01", "2024-12-31"]},
    ]
)
VISITS = Layout(columns=COLUMNS, client="patient", target="glucose", limits=(0.0, 300.0))
HEADER = ["patient", "hours", "sex", "visit", "glucose", "noise"]
ROWS: list[list[Any]] = [
    ["P1", "1", "f", "2024-03-01", "101.5", ""],
    ["P2", "2.50", "m", "2024-03-01T12:00", "99", "2"],
    ["P1", "3", "NA", "2024-03-02", "97", "1"],
    ["P1", "1", "f", "2024-03-01", "101.5", "1"],
]


def write(path: Path, header: list[str], rows: list[list[Any]]) -> Path:
    out = io.StringIO()
    csv.writer(out).writerows([header, *rows])
    path.write_text(out.getvalue(), encoding="utf-8")
    return path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(order=st.permutations(range(len(HEADER))), extra=st.booleans())
def test_the_order_of_columns_does_not_matter(tmp_path: Path, order: list[int], extra: bool) -> None:
    """Not even for the ids that rows get, by which a server knows what was sent before."""
    moved = [HEADER[k] for k in order] + ["comment"] * extra
    rows = [[row[k] for k in order] + ["late"] * extra for row in ROWS]
    one, other = (
        read_clients(write(tmp_path / f"{n}.csv", header, table), VISITS)
        for n, (header, table) in enumerate([(HEADER, ROWS), (moved, rows)])
    )
    assert one.keys() == other.keys() == {"P1", "P2"}
    for client in one:
        assert [list(x.items()) for x in one[client].X] == [list(x.items()) for x in other[client].X]
        assert (one[client].triples, one[client].ids) == (other[client].triples, other[client].ids)
    assert VISITS.unused(other["P1"].table) == ["comment"] * extra
    assert one["P2"].X == [{"hours": 2.5, "sex": "m", "visit": "2024-03-01T12:00:00"}]


def test_parquet_gives_the_same_ids(tmp_path: Path) -> None:
    columns = {name: [row[k] for row in ROWS] for k, name in enumerate(HEADER)}
    columns |= {"hours": [1.0, 2.5, 3.0, 1.0], "glucose": [101.5, 99.0, 97.0, 101.5], "noise": [None, 2.0, 1.0, 1.0]}
    columns["visit"] = [date(2024, 3, 1), date(2024, 3, 1), date(2024, 3, 2), date(2024, 3, 1)]
    parquet.write_table(pa.table(columns), tmp_path / "own.parquet")
    ours = read_examples(tmp_path / "own.parquet", VISITS, "P1")
    assert ours.ids == read_examples(write(tmp_path / "own.csv", HEADER, ROWS), VISITS, "P1").ids


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("hours", "hour", "own.csv: no column 'hours'; got patient, hour, sex, visit, glucose, noise; did you mean"),
        ("hours", "dose", "own.csv: no column 'hours'; got patient, dose"),
        (
            "glucose",
            "sugar",
            "no column 'glucose'; got patient, hours, sex, visit, sugar, noise; name another with target=",
        ),
        ("patient", "person", "no column 'patient'; got person"),
        ("noise", "hours", "own.csv: column 'hours' is there twice"),
    ],
)
def test_a_renamed_column_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = write(tmp_path / "own.csv", [new if name == old else name for name in HEADER], ROWS)
    with pytest.raises(InvalidData) as refused:
        read_clients(path, VISITS)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("place", "cell", "message"),
    [
        (1, "late", 'own.csv, row 3, column hours: expected a number, got "late"'),
        (2, "x", 'own.csv, row 3, column sex: expected "f", "m" or "NA", got "x"'),
        (3, "1/3/2024", "own.csv, row 3, column visit: expected a date such as 2024-03-01"),
        (
            3,
            "",
            "own.csv, row 3, column visit: expected a value, got nothing: fill it in, or leave such rows out with sk",
        ),
        (4, "NaN", "own.csv, row 3, column glucose: expected a value, got nothing"),
        (0, "", "own.csv, row 3, column patient: expected a value, got nothing"),
    ],
)
def test_cells_that_are_refused(tmp_path: Path, place: int, cell: str, message: str) -> None:
    rows = [list(row) for row in ROWS]
    rows[1][place] = cell
    with pytest.raises(InvalidData) as refused:
        read_clients(write(tmp_path / "own.csv", HEADER, rows), VISITS)
    assert message in str(refused.value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(seed=st.integers(0, 10**6), words=st.sampled_from([["", "NA", "nan", "n/a", " NULL "], [""]]))
def test_rows_with_missing_values_are_left_out_and_counted(tmp_path: Path, seed: int, words: list[str]) -> None:
    chance = random.Random(seed)
    header, rows = ["patient", "hours", "sex", "visit", "glucose"], [row[:5] for row in ROWS * 5]
    missing = [chance.sample([0, 1, 3, 4], chance.choice([0, 0, 1, 2])) for _ in rows]
    for row, places in zip(rows, missing):
        for place in places:
            row[place] = chance.choice(words)
    path = write(tmp_path / "own.csv", header, rows)
    skipping = VISITS.changed(skip_missing=True)
    complete = [k for k, places in enumerate(missing) if not places]
    if not complete:
        with pytest.raises(InvalidData, match="every row has a missing value"):
            read_clients(path, skipping)
        return
    clients = read_clients(path, skipping)
    numbers = sorted(number for one in clients.values() for number in one.table.numbers)
    assert numbers == [k + 2 for k in complete]
    assert {one.table.left_out for one in clients.values()} == {len(rows) - len(complete)}


def test_a_name_may_be_a_word_for_nothing(tmp_path: Path) -> None:
    """A category's value, a catalogue's item, or a client, unless rows may be left out."""
    layout = Layout(catalogue=Catalogue(["NA", "plum"]))
    path = write(tmp_path / "own.csv", ["client", "name", "y"], [["nan", "NA", "1"], ["Nan", "plum", "2"]])
    assert list(read_clients(path, layout)) == ["nan", "Nan"]
    with pytest.raises(InvalidData, match="every row has a missing value"):
        read_clients(path, layout.changed(skip_missing=True))
    assert read_examples(write(tmp_path / "b.csv", ["name", "y"], [["NA", "1"]]), layout.changed(skip_missing=True)).X


def test_other_names_of_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "own.csv", ["who", "song", "stars"], [["ann", "plum", "4"], ["bob", "fig", "2"]])
    layout = Layout(catalogue=Catalogue(["fig", "plum"])).changed(client="who", target="stars", name="song")
    assert read_examples(path, layout, "bob").triples == (["fig"], [2.0], [1.0])
    numbers = write(tmp_path / "n.csv", ["t", "stars", "who", "y"], [["1", "2", "ann", "3"]])
    assert read_examples(numbers, Layout(dimension=2).changed(client="who", target="stars")).X == [[1.0, 3.0]]


def test_an_empty_table_is_one_without_examples(tmp_path: Path) -> None:
    path = write(tmp_path / "own.csv", HEADER, [])
    assert read_examples(path, VISITS, may_be_empty=True).X == []
    assert read_clients(path, VISITS, may_be_empty=True) == {}
    with pytest.raises(InvalidData, match="at least one row"):
        read_examples(path, VISITS)


# --- predictions ---


def test_inputs_keep_the_columns_of_their_table(tmp_path: Path) -> None:
    rows = [["2024-03-01", "m", "a", "5"], ["2024-03-02", "f", "b", "6"]]
    inputs = read_inputs(write(tmp_path / "at.csv", ["visit", "sex", "site", "hours"], rows), VISITS)
    assert inputs.X[0] == {"hours": 5.0, "sex": "m", "visit": "2024-03-01"}
    told = predicted(inputs, ("", 0, 1.0, 0.1), ("", 1, 2.0, 0.2)).to_list()
    assert told[0] == {"visit": "2024-03-01", "sex": "m", "site": "a", "hours": 5.0, "mean": 1.0, "std": 0.1}


def test_rows_outside_the_bounds_are_counted(tmp_path: Path) -> None:
    rows = [["-1", "f", "2024-03-01"], ["40", "m", "2025-03-01"], ["5", "m", "2024-12-31"]]
    named = read_inputs(write(tmp_path / "far.csv", ["hours", "sex", "visit"], rows), VISITS)
    assert outside_bounds(named) == (
        2,
        "far.csv: 2 rows are outside the bounds of the study (hours down to -1 and up to 40, bounds 0 to 24; "
        "visit up to 2025-03-01, bounds 2024-01-01 to 2024-12-31): predictions there are extrapolated",
    )
    numbers = Layout(dimension=2, bounds=((0.0, 24.0), None))
    far = read_inputs(write(tmp_path / "n.csv", ["dose", "t"], [["25", "1e9"]]), numbers)
    assert "1 row is outside the bounds of the study (dose up to 25, bounds 0 to 24)" in outside_bounds(far)[1]
    assert outside_bounds(read_inputs(tmp_path / "n.csv", Layout(dimension=2)))[0] == 0
    rows = [[*row[:4], "1e3", "1"] if row is ROWS[1] else row for row in ROWS]
    own = list(read_clients(write(tmp_path / "own.csv", HEADER, rows), VISITS).values())
    assert outside_limits(own)[1] == (
        "own.csv: 1 row is outside the limits of the study (glucose up to 1000, limits 0 to 300): check the units"
    )
    assert outside_limits(own[:1])[0] == 0


# --- what a server says ---

STUDY: dict[str, Any] = {
    "model": {"catalogue": None, "columns": COLUMNS.to_spec()},
    "dimension": 5,
    "bounds": [[0.0, 24.0]],
    "limits": {"y": [0.0, 300.0]},
    "table": {"client": "patient", "target": "glucose", "name": "name"},
}


def test_the_layout_of_a_study() -> None:
    layout = layout_of(STUDY)
    assert layout.columns == COLUMNS
    assert (layout.client, layout.target, layout.limits) == ("patient", "glucose", (0.0, 300.0))
    without = {key: STUDY[key] for key in ("model", "dimension")}
    for other in ({}, {"bounds": 3, "limits": 3}, {"bounds": None, "limits": {"y": "any"}}):
        layout = layout_of(without | other)
        assert (layout.client, layout.bounds, layout.limits) == ("client", (), None)


@pytest.mark.parametrize(
    "change",
    [
        {"model": 3},
        {"model": {"columns": 3}},
        {"model": {"columns": [{"name": 5}]}},
        {"model": {"catalogue": {"names": 3}}},
        {"dimension": "five"},
        {"table": {"client": 3, "target": "y", "name": "name"}},
        {"table": [1]},
    ],
)
def test_a_study_that_is_none_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises((ServerError, InvalidModel)):
        layout_of(STUDY | change)
