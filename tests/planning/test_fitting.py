"""Rows of a table that a study takes: others are counted by reason, and none of them refuses the table."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from motet.planning.fitting import arrays_of, fitting_rows
from motet.tables.files import Table
from tests.study.studies import SHORT, changed, load

COLUMNS = """columns = [
  { name = "hours", bounds = [0.0, 14.0] },
  { name = "sex", values = ["f", "m"] },
]"""
STUDY = changed(
    SHORT,
    {
        "dimension = 1": COLUMNS,
        "grid = { from = 0.0, to = 1.0, count = 5 }": "spread = 5",
        "[limits]": "[limits]\nexamples_per_client = 2",
    },
)


def test_rows_outside_are_left_out_by_reason(tmp_path: Path) -> None:
    study = load(tmp_path, STUDY)
    rows = [
        ["ann", "1", "f", "0.5", ""],
        ["ann", "2", "f", "0.5", "2"],
        ["ann", "3", "f", "0.5", ""],  # a third
        ["bob", "15", "m", "1", ""],
        ["bob", "x", "m", "1", ""],
        ["bob", "3", "other", "1", ""],
        ["bob", "3", "m", "7", ""],
        ["bob", "3", "m", "one", ""],
        ["bob", "3", "m", "1", "1e9"],
        ["bob", "", "m", "1", ""],
        ["", "3", "m", "1", ""],
        ["bob", "4", "m", "1", ""],
    ]
    table = Table("t.csv", ["client", "hours", "sex", "y", "noise"], rows, list(range(2, len(rows) + 2)))
    fitting, outside = fitting_rows(study, table)
    assert [row[:2] for row in fitting.rows] == [["ann", "1"], ["ann", "2"], ["bob", "4"]]
    assert fitting.left_out == 2
    assert outside == {
        "hours outside 0 to 14": 1,
        "hours that is no number": 1,
        "sex with a value that the study does not have": 1,
        "y outside -5 to 5": 1,
        "y that is no number": 1,
        "noise outside 0.01 to 100": 1,
        "more than 2 of a client": 1,
    }
    clients, X, y = arrays_of(study, fitting)
    assert clients == ["ann", "ann", "bob"]
    np.testing.assert_array_equal(X, [[1, 1, 0], [2, 1, 0], [4, 0, 1]])
    np.testing.assert_array_equal(y, [0.5, 0.5, 1.0])
