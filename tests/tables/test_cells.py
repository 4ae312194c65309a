"""Cells that people write among numbers: which are read, and what is said of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from motet.errors import InvalidData
from motet.tables.cells import Measure, common_unit, measure
from motet.tables.files import Table, cell_number, read


def column(*cells: object) -> Table:
    return Table("lab.csv", ["lead"], [[cell] for cell in cells], list(range(2, len(cells) + 2)))


@pytest.mark.parametrize(
    ("cell", "number"),
    [
        ("26,500", 26500.0),
        ("-1,234,567.5", -1234567.5),
        ("999,000", 999000.0),
        ("0,500", None),  # a comma between decimals
        ("26,5", None),
        ("1,2345", None),
        ("12,34,567", None),
        ("1.234,5", None),
        ("26.5 kg", None),  # of no column in kg
        ("<20", None),
        (True, None),
        (None, None),
    ],
)
def test_commas_between_thousands_are_read_and_others_are_not(cell: object, number: float | None) -> None:
    assert cell_number(cell) == number


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("26.5 kg", Measure(26.5, "kg")),
        ("26.5kg", Measure(26.5, "kg")),
        (" -3 °C ", Measure(-3.0, "°C")),
        ("12%", Measure(12.0, "%")),
        ("5 mg/L", Measure(5.0, "mg/L")),
        ("2 m2", Measure(2.0, "m2")),
        ("1e3 Pa", Measure(1000.0, "Pa")),
        ("1,200 m", Measure(1200.0, "m")),
        ("$26,500", Measure(26500.0, "$")),
        ("€ 20", Measure(20.0, "€")),
        ("5e3", None),  # a number, without a unit
        ("31.12.2020", None),
        ("12:30", None),
        ("3-5", None),
        ("1 of 3", None),
        ("A4", None),
        (26.5, None),
    ],
)
def test_a_number_and_its_unit(cell: object, expected: Measure | None) -> None:
    assert measure(cell) == expected


def test_one_unit_of_all_cells_is_read_and_no_other() -> None:
    assert common_unit(["26.5 kg", "3 kg"]) == "kg"
    assert common_unit(["26.5 kg", "3"]) == common_unit(["26.5 kg", "3 lb"]) == common_unit([]) == ""
    weights = column("26.5 kg", "3 kg", None)
    assert weights.unit("lead") == "kg"
    assert weights.floats("lead", default=0.0, unit="kg") == [26.5, 3.0, 0.0]
    assert column("26.5 kg", "3").floats("lead", unit="kg") == [26.5, 3.0]  # of a unit that is told
    for unit in ("", "lb", "k"):
        with pytest.raises(InvalidData, match="expected a finite number"):
            weights.floats("lead", default=0.0, unit=unit)


def test_a_refusal_names_all_cells_by_kind_their_rows_and_what_to_do() -> None:
    wrong = column("1", "<20", "2", "<20", "<5", "<5", ">90", "7 lb", "late", "3")
    with pytest.raises(InvalidData) as refusal:
        wrong.floats("lead")
    assert str(refusal.value) == (
        "lab.csv, row 3, column lead: expected a finite number, got '<20': 7 of 10 cells are no number: "
        '"<20" in rows 3, 5, 6 and 1 more, below a limit: write a number, such as half of the limit; '
        '">90" in row 8, above a limit: write a number, such as the limit; '
        '"7 lb" in row 9, in lb: write numbers of one unit, without it or with it in every cell; and 1 other kind; '
        "or empty the cells, so that their rows are left out"
    )


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (("yes", "no", "no"), 'two values, "no" (2 rows) and "yes" (1 row): code them as 0 and 1'),
        ((True, False), 'two values, "False" (1 row) and "True" (1 row): code them as 0 and 1'),
        (("low", "mid", "high"), '3 texts such as "low", "mid", "high", and no number: encode them as numbers'),
        (("1", "26,5"), '"26,5" in row 3, a comma between decimals'),
        (("1", "1.234,5"), '"1.234,5" in row 3, points between thousands: write the number without them'),
        (("1", "3-5"), '"3-5" in row 3, a range: write one number, such as its middle'),
        (("1", "20+"), '"20+" in row 3, above a limit'),
        (("1", "?"), '"?" in row 3, a mark of a missing value: empty the cell'),
        (("1", "6 kg", "6 lb"), '2 of 3 cells are no number: "6 kg" in row 3, in kg: write numbers of one unit'),
    ],
)
def test_what_a_cell_is(cells: tuple[object, ...], words: str) -> None:
    with pytest.raises(InvalidData) as refusal:
        column(*cells).floats("lead")
    assert words in str(refusal.value)


def test_a_comma_is_a_decimal_mark_before_a_unit_too(tmp_path: Path) -> None:
    """Where cells are separated by semicolons and a whole column has units; elsewhere it may be a name."""
    path = tmp_path / "lab.csv"
    path.write_text('size;"lead, mg";kind\n1,5;89,6 mg;1,5 l\n2;70 mg;jug\n;;\n3,5;;1,5 l\n', encoding="utf-8")
    table = read(path)
    assert table.columns == ["size", "lead, mg", "kind"]
    assert [row[1] for row in table.rows] == ["89.6 mg", "70 mg", ""]
    assert common_unit(cell for cell in table.cells("lead, mg") if cell) == "mg"
    assert [row[::2] for row in table.rows] == [["1.5", "1,5 l"], ["2", "jug"], ["3.5", "1,5 l"]]
