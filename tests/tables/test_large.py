"""Large tables: what is refused before work and what at the row, with its place; nothing half-written is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from motet.errors import InvalidData
from motet.tables import large as datasets
from motet.tables.arrow import ROWS_READ, joined, new_table
from motet.tables.large import Dataset, table_parts, whole_table
from motet.tables.roles import Roles
from motet.threads import ahead

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
ROLES = Roles("user", "y", ("x",))


def parquet(path: Path, rows: int = 1000, group: int = 300, **changes: Any) -> Path:
    columns = {"user": np.repeat(np.arange(rows // 10), 10), "x": np.arange(rows) % 7.0, "y": np.arange(rows) * 0.5}
    pq.write_table(pa.table(columns | changes), path, row_group_size=group, write_page_checksum=True)
    return path


def read(path: Path, **options: Any) -> Any:
    return joined(list(Dataset.open(path).batches(ROLES, **options)))


def csv(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(params=["held", "streamed"])
def any_csv(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Small CSVs as they are read, and as if they were large."""
    if request.param == "streamed":
        monkeypatch.setattr(datasets, "MAX_HELD_BYTES", 0)
    return str(request.param)


def test_parquet_files_and_folders_are_read_in_batches(tmp_path: Path) -> None:
    whole = read(parquet(tmp_path / "whole.parquet"), rows=70)
    folder = tmp_path / "folder"
    folder.mkdir()
    for k in (0, 1):
        part = {name: whole[name][500 * k : 500 * (k + 1)] for name in ("user", "x", "y")}
        pq.write_table(pa.table(part), folder / f"part-{k}.parquet")
    (folder / "_SUCCESS").write_text("")
    again = read(folder)
    assert Dataset.open(folder).rows == 1000
    for name in ("user", "x", "y"):
        np.testing.assert_array_equal(again[name], whole[name])
    assert again[ROWS_READ] == 1000


def test_a_csv_says_the_same_however_it_is_read(tmp_path: Path, any_csv: str) -> None:
    del any_csv
    plain = read(csv(tmp_path / "plain.csv", "user,x,y\nann,1.5,2\nbob,2.5,3e1\n"))
    local = read(csv(tmp_path / "local.csv", "user;x;y\nann;1,5;2\nbob;2,5;30\n"))
    for one in (plain, local):
        assert one["user"].tolist() == ["ann", "bob"]
        assert (one["x"].tolist(), one["y"].tolist()) == ([1.5, 2.5], [2.0, 30.0])


def test_rows_with_missing_values_are_refused_or_left_out(tmp_path: Path, any_csv: str) -> None:
    del any_csv
    path = csv(tmp_path / "gaps.csv", "user,x,y\nann,1,2\nbob,NA,3\n,3,4\ncal,5,\nann,6,7\n")
    with pytest.raises(InvalidData, match=r"gaps\.csv, row 3, column x: expected a value, got nothing: fill it in"):
        read(path)
    found = read(path, skip_missing=True)
    assert (found["user"].tolist(), found["y"].tolist(), found[ROWS_READ]) == (["ann", "ann"], [2.0, 7.0], 5)


def test_text_among_numbers_is_refused_with_its_place(tmp_path: Path, any_csv: str) -> None:
    del any_csv
    path = csv(tmp_path / "drugs.csv", "user,x,y\nann,1,2\nbob,aspirin,3\n")
    with pytest.raises(InvalidData, match=r"drugs\.csv, row 3, column x: expected a finite number, got 'aspirin'"):
        read(path)
    with pytest.raises(InvalidData, match="no column 'y'"):
        read(csv(tmp_path / "other.csv", "user,x,z\nann,1,2\n"))
    with pytest.raises(InvalidData, match=r"short\.csv, row 3"):
        read(csv(tmp_path / "short.csv", "user,x,y\nann,1,2\nbob,1\n"))


def test_malformed_parquet_is_refused_before_work(tmp_path: Path) -> None:
    good = parquet(tmp_path / "good.parquet")
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(good.read_bytes()[:-100])
    texts = parquet(tmp_path / "texts.parquet", x=np.array(["a"] * 1000, dtype=object))
    empty = parquet(tmp_path / "empty.parquet", x=pa.nulls(1000))
    none = parquet(tmp_path / "none.parquet", rows=0)
    for path, text in (
        (cut, r"cut\.parquet: expected a Parquet file, got"),
        (texts, r"texts\.parquet, column x: expected numbers, got (large_)?string"),
        (empty, r"empty\.parquet, column x: expected numbers, got no value at all"),
        (none, "expected at least one row"),
        (tmp_path / "nothing.parquet", "no such file"),
    ):
        with pytest.raises(InvalidData, match=text):
            next(Dataset.open(path).batches(ROLES))


def test_a_folder_with_two_schemas_is_refused(tmp_path: Path) -> None:
    for k, name in enumerate(("type", "column", "format")):
        folder = tmp_path / name
        folder.mkdir()
        parquet(folder / "a.parquet")
        if name == "format":
            csv(folder / "b.csv", "user,x,y\n1,2,3\n")
        else:
            change = {"x": np.arange(1000)} if name == "type" else {"z": np.zeros(1000)}
            parquet(folder / "b.parquet", **change)
        expected = (r"b\.parquet: expected the columns of a\.parquet, got 'x' as int64", "'z' besides", "one format")[k]
        with pytest.raises(InvalidData, match=expected):
            Dataset.open(folder)


def test_nulls_and_damage_are_refused_at_the_row_group(tmp_path: Path) -> None:
    y = np.arange(1000) * 0.5
    gap = parquet(tmp_path / "gap.parquet", y=pa.array(y, mask=np.arange(1000) == 640))
    with pytest.raises(InvalidData, match=r"gap\.parquet, row 641, column y: expected a value") as refusal:
        read(gap)
    assert refusal.value.where == "gap.parquet, row 641, column y"
    infinite = parquet(tmp_path / "infinite.parquet", y=np.where(np.arange(1000) == 5, np.inf, y))
    with pytest.raises(InvalidData, match=r"row 6, column y: expected a finite number, got inf"):
        read(infinite)
    good = parquet(tmp_path / "good.parquet", y=np.random.default_rng(0).normal(size=1000))
    column = pq.ParquetFile(good).metadata.row_group(2).column(2)
    data = bytearray(good.read_bytes())
    end = column.dictionary_page_offset + column.total_compressed_size
    data[end - 20 : end] = bytes(20)
    good.write_bytes(data)
    with pytest.raises(InvalidData, match=r"good\.parquet, row group 3 of 4: cannot be read"):
        read(good)


def test_a_new_table_is_there_at_the_end_or_not_at_all(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    with new_table(out) as write:
        write({"a": np.arange(3)})
        write({"a": np.arange(2)})
        assert not out.exists()
    assert pq.read_table(out)["a"].to_pylist() == [0, 1, 2, 0, 1]
    with pytest.raises(pa.ArrowInvalid):
        write_both(tmp_path / "half.parquet", np.arange(3), np.array(["text"]))
    assert [path.name for path in tmp_path.iterdir()] == ["out.parquet"]
    with pytest.raises(InvalidData, match="cannot write"), new_table(tmp_path / "nowhere" / "x.parquet") as write:
        write({"a": np.arange(3)})


def write_both(path: Path, *columns: Any) -> None:
    with new_table(path) as write:
        for values in columns:
            write({"a": values})


def test_parts_are_the_table(tmp_path: Path, any_csv: str) -> None:
    path = csv(tmp_path / "t.csv", "user,x,y\n" + "".join(f"u{k},{k},1\n" for k in range(100)))
    whole = whole_table(table_parts(path, 30))
    assert (whole.columns, len(whole.rows), whole.numbers[:2]) == (["user", "x", "y"], 100, [2, 3])
    assert len(list(table_parts(path, 30))) == (1 if any_csv == "held" else 4)
    parts = list(table_parts(parquet(tmp_path / "t.parquet"), 250))
    assert whole_table(parts).rows[999] == [99, 999 % 7.0, 499.5]


def test_roles_and_reading_ahead() -> None:
    assert list(ahead(iter([1, 2, 3]))) == [1, 2, 3]
    with pytest.raises(InvalidData, match="task= and inputs= must be different columns, both are 'user'"):
        Roles("user", "y", ("user",)).check("rows.csv", ["user", "y"])
    with pytest.raises(InvalidData, match="got none"):
        Roles("user", "y", ()).check("rows.csv", ["user", "y"])
