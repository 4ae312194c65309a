"""Inputs by name as a client sends them: frames, columns and rows give the same, and what has no value is refused."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import numpy as np
import pandas as pd
import polars
import pytest

from motet.errors import InvalidData
from tests.client.fake_server import study

VISITS: dict[str, Any] = {
    "hours": [1, 2.5],
    "sex": ["f", "m"],
    "day": [date(2024, 3, 1), datetime(2024, 3, 1, 12)],
    "fasting": [True, False],
}
SENT = [
    {"hours": 1.0, "sex": "f", "day": "2024-03-01", "fasting": True},
    {"hours": 2.5, "sex": "m", "day": "2024-03-01T12:00:00", "fasting": False},
]
STAMPS = pd.DataFrame(VISITS | {"day": pd.to_datetime(["2024-03-01T00:00", "2024-03-01T12:00"])})


@pytest.mark.parametrize(
    "X",
    [
        VISITS,
        pd.DataFrame(VISITS)[["sex", "fasting", "day", "hours"]],
        polars.DataFrame(VISITS | {"day": STAMPS["day"].to_list()}, strict=False),
        [dict(zip(VISITS, row)) for row in zip(*VISITS.values())],
        {name: np.array(cells) for name, cells in VISITS.items()},
        VISITS | {"day": np.array(["2024-03-01", "2024-03-01T12:00"], dtype="datetime64[ns]")},
        STAMPS,
    ],
    ids=["columns", "pandas", "polars", "rows", "arrays", "datetime64", "timestamps"],
)
def test_inputs_by_name_in_every_form(X: Any) -> None:
    server, me = study()
    me.send_many(X, [1.0, 2.0])
    assert [_whole_days(e["x"]) for e in server.examples.values()] == SENT


def _whole_days(x: dict[str, Any]) -> dict[str, Any]:
    """With dates as a server reads them, which takes midnight for the day."""
    return {**x, "day": x["day"].removesuffix("T00:00:00")}


def test_one_input_by_name() -> None:
    server, me = study()
    me.send({"hours": np.float32(1.0), "sex": "f"}, 1.0, id="a")
    me.replace("a", {"sex": "m", "hours": np.int64(2)}, 2.0)
    assert server.examples["a"]["x"] == {"sex": "m", "hours": 2.0}


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ({"hours": [1.0, np.nan]}, "input 1, hours: expected a value, got nothing"),
        (pd.DataFrame({"hours": pd.array([1, None], dtype="Int64")}), "input 1, hours: expected a value, got nothing"),
        (pd.DataFrame({"day": pd.to_datetime(["2024-03-01", None])}), "input 1, day: expected a value, got nothing"),
        ({"hours": [1.0, np.inf]}, "input 1, hours: expected a number, a text or a date, got inf"),
        ({"hours": [1.0, [2.0]]}, "input 1, hours: expected a number, a text or a date"),
        ({"hours": [1.0, 2.0], "sex": ["f"]}, "expected columns of equal length, got 1 and 2 cells"),
        ({"hours": 1.0}, "expected a column of cells for each input, got 1.0 for 'hours'"),
        (pd.DataFrame([[1.0, 2.0]] * 2, columns=["hours", "hours"]), 'the input "hours" is there twice'),
    ],
)
def test_cells_that_cannot_be_sent(X: Any, message: str) -> None:
    server, me = study()
    with pytest.raises(InvalidData) as refused:
        me.send_many(X, [1.0, 2.0])
    assert message in str(refused.value)
    assert not server.requests
