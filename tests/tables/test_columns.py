"""Named inputs: cells to rows and back, in any order of columns, and refusals that name the column."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.errors import InvalidData, InvalidModel
from motet.kernels import RBF
from motet.model.model import Model
from motet.tables.columns import Columns
from motet.tables.dates import days_since, iso_date, orders_of

SPEC: list[dict[str, Any]] = [
    {"name": "hours", "bounds": [0.0, 24.0], "unit": "h", "quantiles": [1.0, 2.0, 3.0, 8.0, 20.0]},
    {"name": "sex", "values": ["f", "m", "other"]},
    {"name": "visit", "since": "2024-01-01", "bounds": ["2024-01-01", "2026-12-31"]},
]
SALES: dict[str, Any] = {
    "name": "sales",
    "bounds": [-1e3, 1e9],
    "log_above": 20.0,
    "quantiles": [0.0, 5.0, 20.0, 1e4, 5e7],
}
COLUMNS = Columns.from_spec(SPEC)
CELLS = {"hours": [1.5, 2.0], "sex": ["m", "f"], "visit": ["2024-01-02", "2024-03-01T12:00"]}


def test_a_row_has_a_number_a_place_for_each_value_and_days() -> None:
    expected = [[1.5, 0.0, 1.0, 0.0, 1.0], [2.0, 1.0, 0.0, 0.0, 60.5]]
    assert COLUMNS.rows(CELLS).tolist() == expected
    assert COLUMNS.labels == ["hours", "sex=f", "sex=m", "sex=other", "visit"]
    assert COLUMNS.bounds == ((0.0, 24.0), (0.0, 1.0), (0.0, 1.0), (0.0, 1.0), (0.0, 1095.0))
    assert COLUMNS.places("sex") == [1, 2, 3]
    assert COLUMNS.places("sex=m") == [2]


@given(st.permutations(list(CELLS)), st.sampled_from(["frame", "mapping", "mappings"]))
def test_the_order_of_columns_does_not_matter(order: list[str], form: str) -> None:
    cells = {name: CELLS[name] for name in order}
    frame = pd.DataFrame(cells)
    given: Any = {"frame": frame, "mapping": cells, "mappings": frame.to_dict("records")}[form]
    assert np.array_equal(COLUMNS.rows(given), COLUMNS.rows(CELLS))


numbers = st.floats(-1e6, 1e6)
inputs = st.fixed_dictionaries(
    {
        "hours": numbers,
        "sex": st.sampled_from(["f", "m", "other"]),
        "visit": st.dates(date(1900, 1, 1), date(2200, 1, 1)).map(date.isoformat),
    }
)


@given(st.lists(inputs, min_size=1, max_size=5))
def test_cells_come_back(given: list[dict[str, Any]]) -> None:
    assert COLUMNS.cells(COLUMNS.rows(given)) == given


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hour": [1.0, 2.0], "hours": None}, "unknown input \"hour\"; did you mean 'hours'?"),
        ({"dose": [1.0, 2.0]}, 'unknown input "dose": the inputs are hours, sex, visit'),
        ({"sex": None}, 'the input "sex" is missing'),
        ({"sex": ["m", "F"]}, 'row 1, sex: expected "f", "m" or "other", got "F"; did you mean \'f\'?'),
        ({"hours": [1.0, np.nan]}, "row 1, hours: expected a number, got nothing"),
        ({"hours": ["1", "late"]}, 'row 1, hours: expected a number, got "late"'),
        ({"visit": ["2024-01-02", "1/2/2024"]}, "row 1, visit: expected a date such as 2024-03-01"),
        ({"visit": ["2024-01-02", "2024-13-02"]}, "row 1, visit: expected a date such as 2024-03-01"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    cells = {name: cells for name, cells in (CELLS | change).items() if cells is not None}
    with pytest.raises(InvalidData) as refusal:
        COLUMNS.rows(pd.DataFrame(cells))
    assert message in str(refusal.value)


def test_a_column_that_is_there_twice_is_refused() -> None:
    frame = pd.DataFrame([[1.0, 2.0, "m", "2024-01-02"]], columns=["hours", "hours", "sex", "visit"])
    with pytest.raises(InvalidData, match="is there twice"):
        COLUMNS.rows(frame)


def test_dates_of_all_kinds_agree() -> None:
    since = date(2024, 1, 1)
    moment = datetime(2024, 1, 2, 6)
    zoned = moment.replace(tzinfo=timezone(timedelta(hours=2)))
    assert days_since("2024-01-02", since) == days_since(date(2024, 1, 2), since) == 1.0
    for cell in ("2024-01-02T06:00", "2024-01-02 06:00:00", moment, pd.Timestamp(moment), np.datetime64(moment)):
        assert days_since(cell, since) == 1.25
    assert days_since(zoned, since) == days_since("2024-01-02T06:00+02:00", since) == 1 + 4 / 24
    assert days_since(pd.NaT, since) is None
    assert days_since("5", since) is None
    assert iso_date(1.25, since) == "2024-01-02T06:00:00"


@given(st.lists(st.dates(date(1970, 1, 1), date(2068, 12, 31)), min_size=1, max_size=5), st.sampled_from("./-"))
def test_the_order_of_dates_is_that_of_a_column(days: list[date], mark: str) -> None:
    """Both orders, if every date has a day up to 12; and either way a date is what was written in its own order."""
    since = date(2020, 1, 1)
    forms = {"day first": f"%d{mark}%m{mark}%Y", "month first": f"%m{mark}%d{mark}%y"}
    for order, form in forms.items():
        cells = [day.strftime(form) for day in days]
        may_be_either = all(day.day <= 12 for day in days)
        assert orders_of(cells) == (list(forms) if may_be_either else [order])
        column = Columns.from_spec([{"name": "day", "since": "2020-01-01", "order": order}]).columns[0]
        assert [column.number(cell) for cell in cells] == [(day - since).days for day in days]


def test_times_of_a_day_and_years_first() -> None:
    since = date(2020, 12, 30)
    assert days_since("31.12.2020 18:00", since, "day first") == days_since("12/31/20, 6:00 PM", since, "month first")
    assert days_since("12/31/2020 12:00 am", since, "month first") == days_since("2020/12/31", since) == 1.0
    for cell in ("12/31/2020 13:00 pm", "31.12/2020", "31.12.202", "32.1.2020", "1.2", "31.12.2020"):
        assert days_since(cell, since, "month first") is None
    with pytest.raises(InvalidModel, match='expected "day first" or "month first", of a column of dates, got "mdy"'):
        Columns.from_spec([{"name": "day", "since": "2020-01-01", "order": "mdy"}])


def test_whole_numbers_are_values_however_a_table_writes_them() -> None:
    grade = Columns.from_spec([{"name": "grade", "values": [1, 2, 3]}])
    assert grade.rows(pd.DataFrame({"grade": [2, 3]})).tolist() == [[0, 1, 0], [0, 0, 1]]
    assert grade.rows(pd.DataFrame({"grade": [2.0, 3.0]})).tolist() == grade.rows({"grade": ["2", "3"]}).tolist()


def test_a_model_carries_its_columns() -> None:
    model = Model(RBF(1.0), RBF(1.0), 0.5, 0.1, columns=COLUMNS)
    assert model.dimension == 5
    again = Model.from_json(model.to_json())
    assert again.columns == COLUMNS
    assert again.to_spec()["columns"] == SPEC
    assert np.array_equal(again.rows(pd.DataFrame(CELLS)), COLUMNS.rows(CELLS))
    assert "columns" not in Model(RBF(1.0), RBF(1.0), 0.5, 0.1).to_spec()


def test_cells_may_be_missing_where_a_column_says_so() -> None:
    spec: list[dict[str, Any]] = [
        {"name": "age", "filler": 40.0},
        {"name": "sex", "values": ["f", "m", ""], "reference": "f"},
        {"name": "visit", "since": "2024-01-01", "filler": "2024-01-11"},
        {"name": "count", "filler": 0.0},
    ]
    columns = Columns.from_spec(spec)
    assert columns.to_spec() == spec
    assert columns.labels == [
        *("age", "age is missing", "sex=m", "sex is missing"),
        *("visit", "visit is missing", "count", "count is missing"),
    ]
    cells: list[dict[str, Any]] = [
        {"age": 30.0, "sex": "m", "visit": "2024-01-03", "count": 2.0},
        {"age": None, "sex": None, "visit": None, "count": None},
        {"age": 50.0, "sex": "f", "visit": "2024-01-04", "count": 0.0},
    ]
    rows = [[30, 0, 1, 0, 2, 0, 2, 0], [40, 1, 0, 1, 10, 1, 0, 1], [50, 0, 0, 0, 3, 0, 0, 0]]
    assert columns.rows(cells).tolist() == columns.rows(pd.DataFrame(cells)).tolist() == rows
    assert columns.cells(np.array(rows, dtype=float)) == cells
    assert len(columns.bounds_or((0.0, 9.0))) == columns.width == 8
    assert columns.places("sex") == [2, 3]
    assert not any(column.lacks(None) for column in columns)
    with pytest.raises(InvalidData, match='sex: expected "f" or "m", got "x"'):
        columns.rows([cells[0] | {"sex": "x"}])


@given(st.lists(st.floats(-1e12, 1e12), min_size=1), st.sampled_from(["frame", "mappings"]))
def test_numbers_of_all_sizes_are_read_by_their_logarithms(sales: list[float], form: str) -> None:
    columns = Columns.from_spec([SALES])
    frame = pd.DataFrame({"sales": sales})
    rows = columns.rows(frame if form == "frame" else frame.to_dict("records"))
    np.testing.assert_allclose(rows[:, 0], np.arcsinh(np.array(sales) / 20.0), rtol=1e-14, atol=1e-300)
    back = [cells["sales"] for cells in columns.cells(rows)]
    np.testing.assert_allclose(back, sales, rtol=1e-11, atol=1e-300)


def test_a_column_of_logarithms_has_bounds_and_text_in_its_own_units() -> None:
    columns = Columns.from_spec([SALES])
    assert columns.to_spec() == [SALES]
    assert columns.bounds == ((np.arcsinh(-50.0), np.arcsinh(5e7)),)
    assert columns.columns[0].text(np.arcsinh(100.0)) == "2000"
    assert columns.columns[0].text(1e6) == f"{20 * np.sinh(700.0):g}"  # as far as doubles go
    assert columns.rows([{"sales": 20e6}])[0, 0] == pytest.approx(np.log(2e6), rel=1e-12)


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ({"name": ""}, "name"),
        ({"name": "a", "low": 1}, "low"),
        ({"name": "a", "values": ["x", "x"]}, "values"),
        ({"name": "a", "values": [str(k) for k in range(101)]}, "values"),
        ({"name": "a", "values": ["x", "y"], "since": "2024-01-01"}, "since"),
        ({"name": "a", "since": "soon"}, "since"),
        ({"name": "a", "bounds": [0.0, float("inf")]}, "bounds"),
        ({"name": "a", "since": "2024-01-01", "bounds": [0, 1]}, "bounds"),
        ({"name": "a", "values": ["x", "y"], "bounds": [0, 1]}, "bounds"),
        ({"name": "a", "bounds": [0, 9], "quantiles": [1, 2, 3]}, "quantiles"),
        ({"name": "a", "bounds": [0, 9], "quantiles": [1, 2, 3, 5, 4]}, "quantiles"),
        ({"name": "a", "bounds": [0, 4], "quantiles": [1, 2, 3, 4, 5]}, "quantiles"),
        ({"name": "a", "quantiles": [1, 2, 3, 4, 5]}, "quantiles"),
        ({"name": "a", "log_above": 0.0}, "log_above"),
        ({"name": "a", "log_above": True}, "log_above"),
        ({"name": "a", "log_above": 1.0, "values": ["x", "y"]}, "log_above"),
        ({"name": "a", "log_above": 1.0, "since": "2024-01-01"}, "log_above"),
        ({"name": "a", "values": ["x", "y"], "filler": 1.0}, "filler"),
        ({"name": "a", "filler": "much"}, "filler"),
        ({"name": "a", "values": ["x", "y"], "reference": "z"}, "reference"),
        ({"name": "a", "reference": "z"}, "reference"),
    ],
)
def test_specifications_that_are_refused(spec: dict[str, Any], where: str) -> None:
    with pytest.raises(InvalidModel) as refusal:
        Columns.from_spec([spec])
    assert refusal.value.where == where
