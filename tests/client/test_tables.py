"""Tables: what is read from CSV and Parquet, ids that stay, and refusals that name file, row and column."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from motet import Catalogue
from motet.client.tables import (
    catalogue_inputs,
    read_clients,
    read_examples,
    read_inputs,
    read_names,
    read_tokens,
)
from motet.errors import InvalidData
from motet.tables.columns import Column, Columns
from motet.tables.roles import Layout
from tests.client.predicted import predicted

FRUIT = Catalogue(["apple", "pear, green", "plum"])
FRUITS = Layout(catalogue=FRUIT)


def table(folder: Path, text: str, name: str = "own.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def parquet_of(folder: Path, columns: dict[str, list[Any]], name: str = "own.parquet") -> Path:
    parquet.write_table(pa.table(columns), folder / name)
    return folder / name


def test_names_or_numbers_with_noise_and_id(tmp_path: Path) -> None:
    text = '\ufeffid,name,when,y,noise\n\nmine,"pear, green",May,1.5,\n , plum,June,-2,4\n\n'
    named = read_examples(table(tmp_path, text), FRUITS)
    assert (named.X, named.y, named.noise) == (["pear, green", "plum"], [1.5, -2.0], [1.0, 4.0])
    assert named.ids[0] == "mine"
    assert len(named.ids[1]) == 16
    numbers = read_examples(table(tmp_path, "b,y,a\r\n1,2,3\r\n-0,5e-1,.5\r\n"), Layout(dimension=2))
    assert (numbers.X, numbers.y, numbers.noise) == ([[1.0, 3.0], [0.0, 0.5]], [2.0, 0.5], [1.0, 1.0])


def test_parquet_with_text_that_is_none_is_refused(tmp_path: Path) -> None:
    path = parquet_of(tmp_path, {"name": ["2024-03-01", "b"], "y": [1.0, 2.0]})
    path.write_bytes(path.read_bytes().replace(b"2024-03-01", b"2024\xc0\x90\xb3-01"))
    with pytest.raises(InvalidData, match=r"cannot read .*own\.parquet: expected a Parquet file, got 'utf-8' codec"):
        read_examples(path, Layout(dimension=1))


def test_parquet_gives_the_same_examples(tmp_path: Path) -> None:
    columns: dict[str, list[Any]] = {"t": [1, 2], "y": [0.5, 1.0], "noise": [None, 2.0], "__index_level_0__": [7, 8]}
    same = read_examples(table(tmp_path, "t,y,noise\n1.0,0.50,1\n2,1,2.0\n"), Layout(dimension=1))
    for name in ("own.parquet", "own.data"):  # known by its name, or by its content
        ours = read_examples(parquet_of(tmp_path, columns, name), Layout(dimension=1))
        assert (ours.X, ours.y, ours.noise, ours.ids) == (same.X, same.y, same.noise, same.ids)
    for y, message in (
        ([0.5, None], r"own\.parquet, row 2, column y: expected a value, got nothing"),
        ([True, False], r"own\.parquet, row 1, column y: expected a finite number, got True"),
    ):
        with pytest.raises(InvalidData, match=message):
            read_examples(parquet_of(tmp_path, {"t": [1.0, 2.0], "y": y}), Layout())


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = parquet_of(tmp_path, {"t": [1], "y": [2]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidData, match=r"reading own\.parquet needs pyarrow: pip install 'motet\[tables\]'"):
        read_examples(path, Layout())


ROWS = st.lists(st.tuples(st.sampled_from([0, 0.5, 1]), st.sampled_from([1, 2]), st.sampled_from([1, 4])), min_size=1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(rows=ROWS, data=st.data())
def test_ids_stay_where_rows_are_moved_or_added(rows: list[Any], data: st.DataObject, tmp_path: Path) -> None:
    def ids(rows: list[Any]) -> list[str]:
        text = "".join(f"{x},{y},{noise}\n" for x, y, noise in rows)
        return read_examples(table(tmp_path, f"x,y,noise\n{text}"), Layout()).ids

    known = set(ids(rows))
    assert len(known) == len(rows)
    assert set(ids(data.draw(st.permutations(rows)))) == known
    added = data.draw(ROWS.map(lambda found: found[0]))
    assert len(set(ids([added, *rows])) - known) == 1
    assert set(ids([added, *rows])) > known


def test_tables_of_several_clients(tmp_path: Path) -> None:
    path = table(tmp_path, "client,name,y,noise\nann,apple,1,\nbob,plum,2,3\nann,plum,4,1\nbob,plum,2,3\n")
    both = {"ann": (["apple", "plum"], [1.0, 4.0], [1.0, 1.0]), "bob": (["plum", "plum"], [2.0, 2.0], [3.0, 3.0])}
    assert {client: own.triples for client, own in read_clients(path, FRUITS).items()} == both
    bob = read_examples(path, FRUITS, only="bob")
    assert (bob.X, bob.table.numbers) == (["plum", "plum"], [3, 5])
    alone = table(tmp_path, "name,y,noise\nplum,2,3\nplum,2,3\n", "bob.csv")
    assert read_examples(alone, FRUITS).ids == bob.ids
    for client, message in (
        (None, "has 2 clients, ann, bob: choose one with only="),
        ("cem", "no row is of client 'cem'"),
    ):
        with pytest.raises(InvalidData, match=message):
            read_examples(path, FRUITS, only=client)
    assert read_clients(path, FRUITS)["bob"].ids == bob.ids
    assert read_examples(table(tmp_path, "client,name,y\nann,plum,1\n"), FRUITS).X == ["plum"]
    with pytest.raises(InvalidData, match=r"bob\.csv: no column 'client'; got name, y, noise"):
        read_clients(alone, FRUITS)
    with pytest.raises(InvalidData, match=r"own\.csv, row 3, column client: expected a value, got nothing"):
        read_clients(table(tmp_path, "client,name,y\nann,plum,1\n,plum,2\n"), FRUITS)


def test_tokens_are_read_and_never_shown(tmp_path: Path) -> None:
    good = "name,id,token,note\nann,c1,SECRET1,\n bob ,c2, SECRET2 ,later\n"
    for same in (good, good.replace("name", "client")):
        assert read_tokens(table(tmp_path, same)) == {"ann": "SECRET1", "bob": "SECRET2"}
    for text, message in (
        ("ann,c1,SECRET1\nbob,c2,SECRET2\n", "own.csv: expected the columns client and token, as motet enroll writes"),
        ("name,token\nann,SECRET1\nbob,\n", "own.csv, row 3, column token: expected a value, got nothing"),
        ("name,token\nann,SECRET1\nann,SECRET2\n", "own.csv, row 3, column name: 'ann' is in row 2 already"),
        ("name,token\nann,SECRET1,SECRET2\n", "own.csv, row 2: expected 2 cells, as the header has, got 3"),
    ):
        with pytest.raises(InvalidData) as refused:
            read_tokens(table(tmp_path, text))
        assert message in str(refused.value)
        assert "SECRET" not in str(refused.value)


def test_clients_may_be_in_a_column_id(tmp_path: Path) -> None:
    path = table(tmp_path, "id,x,y\n7,1,2\n7,2,3\n8,1,2\n")
    clients = read_clients(path, Layout(columns=Columns([Column(name="x")]), client="id"))
    assert {client: one.y for client, one in clients.items()} == {"7": [2.0, 3.0], "8": [2.0]}
    assert clients["7"].ids[0] == clients["8"].ids[0]  # from the content, not from that column
    assert len(set(clients["7"].ids)) == 2


@pytest.mark.parametrize(
    "content",
    [
        "x,y\n1.5,-2e3\n".encode("utf-8-sig"),
        b"x\ty\n1.5\t-2e3\n",
        b"x;y\n1.5;-2e3\n",
        b"x;y\r\n1,5;-2,0e3\r\n",
        'x;y;"Größe, in m"\n1,5;-2000;"1,8"\n'.encode("utf-16"),
        b",x,y\n0,1.5,-2e3\n",
        b'"";"x";"y"\n"1";1,5;-2000\n',
    ],
)
def test_tables_as_other_programs_write_them(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_bytes(content)
    examples = read_examples(tmp_path / "own.csv", Layout(columns=Columns([Column(name="x")])))
    assert (examples.X, examples.y) == ([{"x": 1.5}], [-2000.0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,z\n1,2\n", "own.csv: no column 'y'; got x, z"),
        ("Hours,Y\n1,2\n", "own.csv: no column 'y'; got Hours, Y; did you mean 'Y'? rename it to 'y'"),
        ("x;z\n1;2\n", "own.csv: no column 'y'; got x, z"),
        ("x;y\n1;2,5;3\n", "own.csv, row 2: expected 2 cells, as the header has, got 3; cells with semicolons need"),
        ("x;y\n1.5;2,50\n", "own.csv, row 2, column y: expected a finite number, got '2,50'"),
        ("x,y\n1,2\n\n3,much\n", "own.csv, row 4, column y: expected a finite number, got 'much'"),
        ("x,y\n1,nan\n", "own.csv, row 2, column y: expected a value, got nothing: fill it in, or leave such"),
        ("x,y\n1e999,1\n", "own.csv, row 2, column x: expected a finite number, got '1e999'"),
        ("x,y\n,1\n", "own.csv, row 2, column x: expected a value, got nothing"),
        ("x,y,noise\n1,1,0\n", "own.csv, row 2, column noise: expected a variance above 0, got 0"),
        ("x,y,noise\n1,1,loud\n", "own.csv, row 2, column noise: expected a finite number, got 'loud'"),
        ("x,y\n1,2\n1,2,3\n", "own.csv, row 3: expected 2 cells, as the header has, got 3"),
        ("x,,y\n0,1,2\n", "own.csv: column 2 has no name"),
        ("x,x,y\n1,1,2\n", "own.csv: column 'x' is there twice"),
        ("a,b,y\n1,1,2\n", "own.csv: expected 1 input column beside client"),
        ("y\n1\n", "own.csv: expected 1 input column beside client"),
        ("x,y,id\n1,2,a\n2,2,a\n", "own.csv, row 3, column id: 'a' is in row 2 already"),
        ("x,y,id\n1,2,a/b\n", "own.csv, row 2, column id: an id is a text without slashes"),
        ("x,y\n", "own.csv: expected a header and at least one row below it, got none"),
        ("", "own.csv: expected a header and at least one row below it, got none"),
        ('x,y\n1,"2\n', "own.csv: expected a CSV file, got unexpected end of data"),
        ("x,y\n1,2\0\n", "column y: expected a finite number, got"),
    ],
)
def test_refusals_of_numbers(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidData) as refused:
        read_examples(table(tmp_path, text), Layout(dimension=1))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,y\n1,2\n", "own.csv: no column 'name'; got x, y"),
        ("name,y\napple,1\n,2\n", "own.csv, row 3, column name: expected a value, got nothing"),
        (
            "name,y\nplumm,1\n",
            "own.csv, row 2, column name: 'plumm' is not among the catalogue's 3 names; did you mean",
        ),
    ],
)
def test_refusals_of_names(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidData) as refused:
        read_examples(table(tmp_path, text), FRUITS)
    assert message in str(refused.value)


def test_files_that_are_no_tables(tmp_path: Path) -> None:
    (tmp_path / "latin.csv").write_bytes("x,y\nä,1\n".encode("latin-1"))
    (tmp_path / "text.parquet").write_text("x,y\n1,2\n")
    for name, message in (
        ("none.csv", "cannot read .*none.csv: No such file"),
        ("", "cannot read .*: Is a directory"),
        ("latin.csv", "latin.csv: expected text in UTF-8"),
        ("text.parquet", "text.parquet: expected a Parquet file"),
    ):
        with pytest.raises(InvalidData, match=message):
            read_examples(tmp_path / name, Layout())


def test_names_of_clients(tmp_path: Path) -> None:
    assert read_names(table(tmp_path, "\ufeffann\n\n bob, the second \n", "names.txt")) == ["ann", "bob, the second"]
    assert read_names(table(tmp_path, 'site,name\n1,ann\n2,"bob, the second"\n')) == ["ann", "bob, the second"]
    assert read_names(table(tmp_path, "client,name,y\nann,plum,1\nbob,plum,2\nann,fig,3\n")) == ["ann", "bob"]
    with pytest.raises(InvalidData, match=r"own\.csv: no column 'client'"):
        read_names(table(tmp_path, "ann\nbob\n"))


def test_predictions_have_the_table_as_it_was_read(tmp_path: Path) -> None:
    found = read_inputs(table(tmp_path, 'name,since\n"pear, green", 010\n'), FRUITS)
    out = io.StringIO()
    predicted(found, ("", 0, 1 / 3, 2e-7)).write(out)
    assert out.getvalue() == 'name,since,mean,std\n"pear, green", 010,0.3333333333,2e-07\n'
    whole = catalogue_inputs(FRUITS)
    assert tuple(whole.X) == FRUIT.names
    out = io.StringIO()
    predicted(whole, *(("", k, k + 1.0, 0.1) for k in range(3))).write(out)
    assert [row["name"] for row in csv.DictReader(io.StringIO(out.getvalue()))] == list(FRUIT.names)
    unknown = read_inputs(parquet_of(tmp_path, {"t": [0.5], "y": [float("nan")]}), Layout(dimension=1))
    (told,) = predicted(unknown, ("", 0, 1.0, 2.0)).to_list()
    assert json.loads(json.dumps(told, allow_nan=False)) == {"t": 0.5, "y": None, "mean": 1.0, "std": 2.0}


def test_inputs_to_predict_at(tmp_path: Path) -> None:
    assert read_inputs(table(tmp_path, "a,y,b\n1,unknown,2\n"), Layout(dimension=2)).X == [[1.0, 2.0]]
    several = table(tmp_path, "a,client\n1,ann\n2,bob\n3,ann\n")
    assert read_inputs(several, Layout(dimension=1)).X == [[1.0], [2.0], [3.0]]
    ann = read_inputs(several, Layout(dimension=1), "ann")
    assert (ann.X, ann.table.numbers) == ([[1.0], [3.0]], [2, 4])
    again = predicted(ann, ("cem", 1, 0.0, 1.0), ("ann", 0, 0.0, 1.0), ("ann", 1, 0.0, 1.0), file="own.csv").table
    assert again.columns == ["client", "a"]
    assert (again.rows, again.numbers) == ([["cem", "3"], ["ann", "1"], ["ann", "3"]], [4, 2, 4])
    with pytest.raises(InvalidData, match=r"own\.csv: it has a column 'mean' already"):
        read_inputs(table(tmp_path, "a,mean\n1,2\n"), Layout(dimension=1))
    with pytest.raises(InvalidData, match=r"expected 2 input columns beside .* got 1: a"):
        read_inputs(table(tmp_path, "a\n1\n"), Layout(dimension=2))
