"""Excel workbooks as tables, text in other encodings, and small workbooks that would take much memory."""

from __future__ import annotations

import builtins
import tracemalloc
import zipfile
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from openpyxl import Workbook

from motet.errors import InvalidData
from motet.tables.decoding import ENCODINGS
from motet.tables.files import read
from motet.tables.large import Dataset, table_parts
from motet.tables.roles import Roles
from motet.tables.workbooks import FREE_BYTES

MAX_PEAK = 2**25
LATIN = "client,x,y\nann,1,2\nRené,2,3\n".encode("latin-1")


def workbook(path: Path, *rows: list[Any]) -> Path:
    book = Workbook()
    for row in rows:
        book.active.append(row)
    book.create_sheet("other").append(["nothing", "of", "this"])
    book.save(path)
    return path


def test_the_first_sheet_is_a_table_with_typed_cells(tmp_path: Path) -> None:
    day, moment = datetime(2020, 12, 31), datetime(2020, 12, 31, 7, 30)
    rows: list[list[Any]] = [
        ["client", "day", "at", "y"],
        ["ann", day, moment, 1.5],
        [],
        ["bob", day, moment, 2],
        ["cem", None, "#N/A"],
    ]
    table = read(workbook(tmp_path / "visits.xlsx", [], [], *rows))
    assert table.columns == ["client", "day", "at", "y"]
    assert table.numbers == [4, 6, 7]  # as the sheet has them
    assert table.rows[:2] == [["ann", date(2020, 12, 31), moment, 1.5], ["bob", date(2020, 12, 31), moment, 2]]
    assert table.rows[2] == ["cem", None, None, None]
    assert table.file == "visits.xlsx"


def test_a_workbook_is_known_by_its_bytes_wherever_tables_are_read(tmp_path: Path) -> None:
    path = workbook(tmp_path / "visits.csv", ["client", "x", "y"], ["ann", 1, 2.5], ["bob", "2 h", 3.5])
    (part,) = table_parts(path)
    assert part.rows == [["ann", 1, 2.5], ["bob", "2 h", 3.5]]
    roles = Roles("client", "y", ("x",))
    with pytest.raises(InvalidData, match=r'visits\.csv, row 3, column x: .* "2 h" in row 3, in h'):
        next(Dataset.open(path).batches(roles))
    path = workbook(path, ["client", "x", "y"], ["ann", 1, 2.5])
    assert next(Dataset.open(path).batches(roles))["y"].tolist() == [2.5]


def test_rows_longer_than_the_header_are_refused(tmp_path: Path) -> None:
    path = workbook(tmp_path / "wide.xlsx", ["client", "y"], ["ann", 1], ["bob", 2, "?"])
    with pytest.raises(InvalidData, match=r"wide\.xlsx, row 3: expected at most 2 cells, as the header has, got 3"):
        read(path)


def test_what_is_no_workbook_is_said(tmp_path: Path) -> None:
    path = tmp_path / "book.xlsx"
    for data, words in (
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(100), r"Excel's old format \(\.xls\): save it as \.xlsx, or as"),
        (
            b"PK\x03\x04" + bytes(100),
            r"cannot read book\.xlsx: expected an Excel workbook, got .*; save it as CSV UTF-8",
        ),
    ):
        path.write_bytes(data)
        with pytest.raises(InvalidData, match=words):
            read(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(InvalidData, match="expected an Excel workbook"):
        read(path)


def test_without_openpyxl_the_message_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, load = workbook(tmp_path / "book.xlsx", ["client", "y"], ["ann", 1]), builtins.__import__

    def missing(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "openpyxl":
            raise ImportError(name)
        return load(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(InvalidData, match=r"book\.xlsx is an Excel workbook: pip install 'motet\[excel\]', or save it"):
        read(path)


# --- bombs ---


def repacked(path: Path, parts: dict[str, bytes]) -> Path:
    """A workbook with other parts."""
    with zipfile.ZipFile(path) as archive:
        before = {part.filename: archive.read(part) for part in archive.infolist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**before, **parts}.items():
            archive.writestr(name, data)
    return path


def refused(path: Path, words: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(InvalidData, match=words):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < MAX_PEAK
    finally:
        tracemalloc.stop()


def test_a_workbook_that_unpacks_to_very_much_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = workbook(tmp_path / "bomb.xlsx", ["client", "y"], ["ann", 1])
    repacked(path, {"xl/sharedStrings.xml": b" " * 4 * FREE_BYTES})
    assert path.stat().st_size < 10**5
    refused(path, r"bomb\.xlsx: expected at most [\d,]+ bytes unpacked, got 67,")


def test_a_sheet_of_few_bytes_and_many_cells_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motet.tables.files.MAX_CELLS", 2**20)
    rows = "".join(f'<row r="{k}"><c r="XFD{k}"><v>1</v></c></row>' for k in range(1, 1001))
    sheet = f'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>{rows}'
    path = workbook(tmp_path / "far.xlsx", ["client", "y"], ["ann", 1])
    repacked(path, {"xl/worksheets/sheet1.xml": f"{sheet}</sheetData></worksheet>".encode()})
    assert path.stat().st_size < 20_000
    refused(path, r"far\.xlsx: expected at most 1,048,576 cells, got more")


def test_entities_that_grow_are_refused(tmp_path: Path) -> None:
    entities = '<!ENTITY a0 "ha">' + "".join(f'<!ENTITY a{k} "{f"&a{k - 1};" * 10}">' for k in range(1, 10))
    cell = '<sheetData><row r="1"><c r="A1" t="str"><v>&a9;</v></c></row></sheetData>'
    sheet = f'<!DOCTYPE x [{entities}]><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
    path = workbook(tmp_path / "laughs.xlsx", ["client", "y"], ["ann", 1])
    repacked(path, {"xl/worksheets/sheet1.xml": f"{sheet}{cell}</worksheet>".encode()})
    refused(path, r"cannot read laughs\.xlsx: expected an Excel workbook, got definitions; save it as CSV UTF-8")


# --- text ---


def test_text_that_is_not_utf_8_is_refused_with_its_byte_and_line_and_read_if_told(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_bytes(LATIN)
    words = (
        r"expected text in UTF-8, got the byte 0xe9 in line 3; say which .* encoding=\"cp1252\" .*, or save it as CSV"
    )
    for encoding in (None, "utf-8"):
        with pytest.raises(InvalidData, match=words):
            read(path, encoding=encoding)
    for encoding in ("latin-1", "cp1252", "CP1252"):
        assert read(path, encoding=encoding).rows[1][0] == "René"
    assert read(path, encoding="cp1251").rows[1][0] == "Renй"  # no error: why none is guessed
    with pytest.raises(InvalidData, match=r"expected text in euc-kr, got the byte 0xe9 in line 3"):
        read(path, encoding="euc-kr")
    with pytest.raises(InvalidData, match=r"expected an encoding, one of utf-8, utf-16, latin-1, .*got 'rot13'"):
        read(path, encoding="rot13")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_encoding_is_read(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "visits.csv"
    path.write_text("client,y\nann,1\n", encoding=encoding)
    assert read(path, encoding=encoding).rows == [["ann", "1"]]


def test_a_table_too_large_to_hold_is_read_in_its_encoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motet.tables.large.MAX_HELD_BYTES", 0)
    path, roles = tmp_path / "visits.csv", Roles("client", "y", ("x",))
    path.write_bytes(LATIN)
    (batch,) = Dataset.open(path, "latin-1").batches(roles)
    assert list(batch["client"]) == ["ann", "René"]
    (part,) = table_parts(path, encoding="latin-1")
    assert part.rows[1][0] == "René"
    for read_all in (lambda: list(Dataset.open(path).batches(roles)), lambda: list(table_parts(path))):
        with pytest.raises(InvalidData, match="expected text in UTF-8, got the byte 0xe9 in line 3; say which"):
            read_all()
