"""Examples against a study's limits: which are refused, and that many are checked as one by one."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as configured
from hypothesis import strategies as st

from motet import Engine
from motet.errors import InvalidData, InvalidNoise, WrongDimension
from motet.study.limits import check_example, check_examples, rows_outside
from tests.study.studies import EXACT, NAMED, SHORT, VISITS, changed, load


def test_examples_by_name(tmp_path: Path) -> None:
    study = load(tmp_path, NAMED)
    row, y, noise = check_example(study, "leaf", -1, 2)
    np.testing.assert_array_equal(row, [1, 0.5, 1.5])
    assert (y, noise) == (-1.0, 2.0)
    np.testing.assert_array_equal(check_example(study, row, 0.0)[0], row)
    Engine(study.model).learn("me", row, y, noise)
    with pytest.raises(InvalidData, match=r'one of the catalogue\'s 3 names, got "leave"; GET /v1/study lists them'):
        check_example(study, "leave", 0.0)
    with pytest.raises(InvalidData, match="x must be a name in the catalogue, got numbers"):
        check_example(study, [1, 0.5, 1.6], 0.0)
    with pytest.raises(InvalidData, match="x must be a name in the catalogue, got 3"):
        check_example(study, 3, 0.0)


@pytest.mark.parametrize("name", ["leave", "//" * 490_000, "é" * 490_000, '"' * 490_000])
def test_an_unknown_name_is_refused_without_a_search(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search for near names, or for a password in the message, would take seconds."""
    monkeypatch.setattr("difflib.get_close_matches", None)
    study = load(tmp_path, NAMED)
    begin = time.thread_time()
    with pytest.raises(InvalidData, match="one of the catalogue's 3 names") as refusal:
        check_examples(study, ["leaf", name], [0.0, 0.0], [1.0, 1.0])
    assert time.thread_time() - begin < 1.0
    assert len(str(refusal.value)) < 200


def test_examples_of_numbers(tmp_path: Path) -> None:
    study = load(tmp_path, changed(SHORT, {"dimension = 1": "dimension = 1\nbounds = [0, 2]"}))
    row, y, noise = check_example(study, [-0.0], 5, 0.01)
    assert row.tobytes() == np.zeros(1).tobytes()
    assert (y, noise) == (5.0, 0.01)
    refusals: list[tuple[Any, Any, Any, type[InvalidData], str]] = [
        ("rose", 0, 1, InvalidData, 'x must be a list of 1 numbers, got "rose"'),
        ([1, 2], 0, 1, WrongDimension, "x must have 1 numbers, got 2"),
        ([True], 0, 1, InvalidData, r"x must be a list of 1 numbers, got \[true\]"),
        ([float("nan")], 0, 1, InvalidData, "x must be a list of 1 numbers"),
        ([[1]], 0, 1, InvalidData, "x must be a list of 1 numbers"),
        (None, 0, 1, InvalidData, "x must be a list of 1 numbers, got null"),
        ([2.5], 0, 1, InvalidData, "expected a number from 0 to 2, got 2.5"),
        ([1], 5.1, 1, InvalidData, "y must be a number from -5 to 5, got 5.1"),
        ([1], "5", 1, InvalidData, 'y must be a number from -5 to 5, got "5"'),
        ([1], float("nan"), 1, InvalidData, "y must be a number from -5 to 5, got NaN"),
        ([1], 10**5000, 1, InvalidData, "y must be a number from -5 to 5, got something very large"),
        ([1], 0, 0, InvalidNoise, "noise must be a variance from 0.01 to 100, got 0"),
        ([1], 0, None, InvalidNoise, "noise must be a variance from 0.01 to 100, got null"),
    ]
    for x, y, noise, error, message in refusals:
        with pytest.raises(error, match=message):
            check_example(study, x, y, noise)


ODD = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 2.0, 2.5, 5.0, -5.1, 100.0, 1, True, "rose", None, 1e200]


@given(
    xs=st.lists(st.sampled_from([[v] for v in ODD] + [[1.0]] * 20 + [[1.0, 2.0], [], "rose"]), min_size=1, max_size=4),
    data=st.data(),
)
@configured(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_many_examples_are_checked_as_one_by_one(tmp_path: Path, xs: list[Any], data: st.DataObject) -> None:
    study = load(tmp_path, changed(SHORT, {"dimension = 1": "dimension = 1\nbounds = [0, 2]"}))
    columns = [data.draw(st.lists(st.sampled_from(ODD + [1.5] * 30), min_size=len(xs), max_size=len(xs))) for _ in "yn"]
    outcomes: list[Any] = []
    for k, given_one in enumerate(zip(xs, *columns)):
        try:
            outcomes.append(check_example(study, *given_one))
        except InvalidData as error:
            with pytest.raises(type(error), match=re.escape(str(error))) as refused:
                check_examples(study, xs, *columns)
            assert f"{refused.value.where}.".startswith(f"examples.{k}.")
            return
    rows, y, noise = check_examples(study, xs, *columns)
    assert rows.tobytes() == np.array([row for row, _, _ in outcomes]).tobytes()
    assert list(zip(y, noise)) == [(one, variance) for _, one, variance in outcomes]


# --- inputs by name ---

RIGHT = {"hours": 3.5, "sex": "m", "visit": "2024-03-01"}
CELLS: dict[str, list[Any]] = {
    "hours": [3.5] * 20 + [0.0, -0.0, 24.0, 24.1, -1.0, 3, "3.5", "late", None, True, float("nan"), 1e200],
    "sex": ["f", "m"] * 10 + ["x", "", None, 1.0, True, ["m"]],
    "visit": ["2024-03-01", "2024-12-31T00:00"] * 10 + ["2023-12-31", "2025-01-01", "1/2/2024", "", None, 60.0],
}
visits = st.fixed_dictionaries({name: st.sampled_from(cells) for name, cells in CELLS.items()})


def test_a_row_of_cells_by_name(tmp_path: Path) -> None:
    study = load(tmp_path, VISITS)
    for x in (RIGHT, dict(reversed(RIGHT.items()))):
        row, y, noise = check_example(study, x, 1.0, 2.0)
        assert (row.tolist(), y, noise) == ([3.5, 0.0, 1.0, 60.0], 1.0, 2.0)
    refusals: list[tuple[Any, str, str]] = [
        ({**RIGHT, "hours": 25}, "x.hours", "expected a number from 0 to 24, got 25"),
        ({**RIGHT, "visit": "2025-01-02"}, "x.visit", "expected a date from 2024-01-01 to 2024-12-31, got 2025-01-02"),
        ({**RIGHT, "visit": "0001-01-01T00:00+14:00"}, "x.visit", "expected a date such as 2024-03-01"),
        ({**RIGHT, "sex": "M"}, "x.sex", """expected "f" or "m", got "M"; did you mean 'm'?"""),
        ({**RIGHT, "dose": 1.0}, "x", 'unknown input "dose": the inputs are hours, sex, visit'),
        ({"hours": 1.0, "sex": "m"}, "x", 'the input "visit" is missing'),
        ([3.5, "m", "2024-03-01"], "x", 'expected an input by names, such as {"hours": 12.0'),
    ]
    for x, where, message in refusals:
        with pytest.raises(InvalidData, match=re.escape(message)) as refused:
            check_example(study, x, 1.0, where="examples.3")
        assert refused.value.where == f"examples.3.{where}"


@given(st.lists(visits | visits.map(lambda x: {**x, "dose": 1.0}), min_size=1, max_size=4))
@configured(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_many_inputs_by_name_are_checked_as_one_by_one(tmp_path: Path, xs: list[Any]) -> None:
    study, ones = load(tmp_path, VISITS), [1.0] * len(xs)
    outcomes = []
    for k, x in enumerate(xs):
        try:
            outcomes.append(check_example(study, x, 1.0)[0])
        except InvalidData as error:
            with pytest.raises(type(error), match=re.escape(str(error))) as refused:
                check_examples(study, xs, ones, ones)
            assert f"{refused.value.where}.".startswith(f"examples.{k}.x.")
            return
    assert check_examples(study, xs, ones, ones)[0].tobytes() == np.array(outcomes).tobytes()


def test_a_column_keeps_its_bounds_if_another_has_none(tmp_path: Path) -> None:
    study = load(tmp_path, changed(VISITS, {", bounds = [2024-01-01, 2024-12-31]": ""}))
    assert study.bounds is None
    with pytest.raises(InvalidData, match=r"expected a number from 0 to 24, got 25$"):
        check_example(study, {**RIGHT, "hours": 25.0}, 1.0)
    assert check_example(study, {**RIGHT, "visit": "1999-01-01"}, 1.0)[0][3] < 0
    steep = {'{ kernel = "constant" }': '{ kernel = "power", exponent = 4, of = { kernel = "dot_product" } }'}
    study = load(tmp_path, changed(VISITS, steep | {", bounds = [2024-01-01, 2024-12-31]": ""}))
    with pytest.raises(InvalidData, match=r"expected a date from .*: shift or scale the inputs"):
        check_example(study, {**RIGHT, "visit": "0001-01-01"}, 1.0)


def test_without_limits_an_output_is_any_number(tmp_path: Path) -> None:
    study = load(tmp_path, changed(EXACT, {"y = [-5.0, 5.0]": ""}))
    assert check_example(study, [1e9], 1e9)[1] == 1e9
    with pytest.raises(InvalidData, match="y must be a number"):
        check_example(study, [1.0], float("inf"))


@pytest.mark.parametrize(
    ("individual", "largest"),
    [
        ('"dot_product", sigma_0 = 1.0', 2e6),
        ('"rbf", length_scale = 1.0', 1e13),
        ('"rbf", length_scale = 0.01', 1e11),
        ('"power", of = { kernel = "dot_product" }, exponent = 3', 100.0),
        ('"constant", value = 2.0', 1e13),  # the common kernel's
        ('"identity"', 1e150),
    ],
)
def test_inputs_are_as_large_as_the_model_can_be_computed_with(tmp_path: Path, individual: str, largest: float) -> None:
    """If the study names no bounds; the same model with a double's last digit changed tells."""
    text = changed(EXACT, {'kernel = "matern"': f"kernel = {individual}", "[basis]": '[basis]\nkind = "growing"'})
    study = load(tmp_path, changed(text, {'kind = "landmarks"\ngrid = { from = 0.0, to = 1.0, count = 5 }': ""}))
    ((low, high),) = study.input_bounds or ()
    assert -low == high == pytest.approx(largest, rel=0.6)  # another machine may round otherwise
    largest = high
    check_example(study, [0.999 * largest], 0.0)
    if largest < 1e150:
        with pytest.raises(InvalidData, match=r"expected a number from .*: shift or scale") as caught:
            check_example(study, [-1.001 * largest], 0.0)
        assert caught.value.where == "x.0"
        with pytest.raises(InvalidData, match="cannot be computed"):
            check_examples(study, [[0.0], [1.001 * largest]], [0.0, 0.0], [1.0, 1.0])


def test_a_client_within_the_default_bounds_can_be_released(tmp_path: Path) -> None:
    """The example that had stopped a study, as large as it may be."""
    text = changed(EXACT, {'kernel = "matern"': 'kernel = "dot_product"'})
    study = load(tmp_path, text)
    ((_, largest),) = study.input_bounds or ()
    engine = Engine(study.model)
    for size in (1, 2, 3, 20):
        engine.learn_many([size] * size, largest - np.arange(size)[:, None], np.ones(size), np.full(size, 0.01))
    engine.learn("usual", [0.5], 1.0)
    assert np.isfinite(engine.disclose().theta).all()


def test_the_bounds_of_the_file_apply_under_every_policy(tmp_path: Path) -> None:
    for text in (SHORT, EXACT):
        study = load(tmp_path, changed(text, {"dimension = 1": "dimension = 1\nbounds = [0, 2]"}))
        assert study.input_bounds == ((0.0, 2.0),)
        with pytest.raises(InvalidData, match=r"expected a number from 0 to 2, got 3$"):
            check_example(study, [3.0], 0.0)
    assert load(tmp_path, NAMED).input_bounds is None


@pytest.mark.parametrize("bounds", ["", "\nbounds = [0, 2]"])
def test_rows_of_a_table_are_outside_if_they_would_be_refused(tmp_path: Path, bounds: str) -> None:
    study = load(tmp_path, changed(EXACT, {"dimension = 1": f"dimension = 1{bounds}"}))
    rng = np.random.default_rng(0)
    X, y, noise = rng.uniform(-1, 3, (300, 1)), rng.uniform(-8, 8, 300), 10.0 ** rng.uniform(-3, 3, 300)
    X[0], y[0], noise[0] = 2.0, 5.0, 0.01  # just inside
    outside = rows_outside(study, np.arange(300), X, y, noise)
    assert np.sum(list(outside.values()), axis=0).max() == 1
    refused = []
    for k in range(300):
        try:
            check_example(study, X[k], float(y[k]), float(noise[k]))
        except InvalidData:
            refused.append(k)
    assert refused == np.flatnonzero(np.any(list(outside.values()), axis=0)).tolist()
    assert 0 not in refused
