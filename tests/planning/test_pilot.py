"""Pilot tables: what columns are, which rows are left out and why, and bounds around the data."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from motet.errors import EmptyData, InvalidData
from motet.planning.inputs import LinearModel, PilotRoles, kinds_of, outward
from motet.planning.pilot import Pilot
from motet.tables.columns import QUANTILES
from motet.tables.files import Table, read


def table(tmp_path: Path, frame: pd.DataFrame) -> Table:
    frame.to_csv(tmp_path / "pilot.csv", index=False)
    return read(tmp_path / "pilot.csv")


def visits(n: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "patient": [f"p{k % 8}" for k in range(n)],
            "hours": rng.uniform(0.5, 13.0, n).round(2),
            "dose (mg)": rng.choice([5, 10], n),
            "sex": rng.choice(["f", "m"], n),
            "visit": (np.datetime64("2025-01-01") + np.arange(n)).astype(str),
            "note": [f"text {k}" for k in range(n)],
            "site": "north",
            "glucose": rng.normal(100.0, 10.0, n).round(1),
        }
    )


ROLES = PilotRoles(task="patient", target="glucose")


def test_kinds_and_default_inputs(tmp_path: Path) -> None:
    pilot = Pilot.read(table(tmp_path, visits()), ROLES)
    kinds = kinds_of(table(tmp_path, visits()))
    assert kinds["note"] == "text"
    assert kinds["site"] == "constant"
    assert pilot.columns is not None
    assert pilot.columns.names == ("hours", "dose (mg)", "sex", "visit")
    hours, dose, sex, visit = pilot.columns
    assert hours.bounds is not None
    assert hours.bounds[0] == 0.0  # not below, as no value is
    assert hours.bounds[1] >= 13.0
    assert dose.unit == "mg"
    assert sex.values == ("f", "m")
    assert visit.since is not None
    assert visit.since.isoformat() == "2025-01-01"
    assert visit.bounds == (-10.0, 78.0)  # others may have come earlier, and come later
    assert pilot.X.shape == (40, 5)
    assert "columns that are not used: note (text), site (constant)" in pilot.notes


def test_columns_that_are_no_inputs_by_default(tmp_path: Path) -> None:
    frame = visits().assign(
        number=[k % 8 + 1 for k in range(40)],  # each patient's
        weight=[60.5 + 3 * (k % 8) for k in range(40)],  # also different for each, but a measurement
        row=np.arange(40) + 1,
        lab=[1.0 if k % 3 == 0 else None for k in range(40)],
        noise=2.0,
        mean=np.arange(40) ** 2,
    )
    pilot = Pilot.read(table(tmp_path, frame), ROLES)
    assert pilot.columns is not None
    assert pilot.columns.names == ("hours", "dose (mg)", "sex", "visit", "weight")
    (unused,) = [note for note in pilot.notes if "not used" in note]
    assert "number (another name of the client), row (row number), lab (constant)" in unused
    assert "noise (read as noise variances of examples), mean (read as predictions)" in unused
    frame["lab"] *= np.arange(40)
    (unused,) = [note for note in Pilot.read(table(tmp_path, frame), ROLES).notes if "not used" in note]
    assert "lab (65 % missing)" in unused
    given = Pilot.read(table(tmp_path, frame), PilotRoles(task="patient", target="glucose", inputs=("row", "number")))
    assert given.X.shape == (40, 2)


@pytest.mark.parametrize(
    ("name", "numbers", "is_input"),
    [
        ("case", np.random.default_rng(0).permutation(60) + 1, False),  # in another order
        ("case", np.arange(60) * 5 + 1, False),  # of a pilot, whose rows are some of the table's
        ("rownames", np.arange(60) * 37, False),  # of some of the rows
        ("count", np.arange(60) * 37, True),  # whole numbers with large gaps may be measurements
        ("day", np.arange(60) // 2, True),
    ],
)
def test_row_numbers_are_no_inputs_by_default(tmp_path: Path, name: str, numbers: np.ndarray, is_input: bool) -> None:
    frame = visits(60).drop(columns="visit").assign(**{name: numbers})
    columns = Pilot.read(table(tmp_path, frame), ROLES).columns
    assert columns is not None
    assert (name in columns.names) is is_input


@pytest.mark.parametrize(
    ("form", "order"),
    [("%d.%m.%Y", "day first"), ("%m/%d/%Y", "month first"), ("%d-%m-%y", "day first"), ("%Y/%m/%d", "")],
)
def test_dates_as_people_write_them_are_dates(tmp_path: Path, form: str, order: str) -> None:
    days = pd.Timestamp("2020-11-20") + pd.to_timedelta(np.arange(40) % 15 * 7, unit="D")
    frame = visits().assign(visit=days.strftime(form))  # 15 different ones: few enough for a category
    pilot = Pilot.read(table(tmp_path, frame), ROLES)
    assert pilot.columns is not None
    visit = pilot.columns.columns[-1]
    assert (visit.since, visit.order) == (date(2020, 11, 20), order)
    assert pilot.X[:, -1].tolist() == (np.arange(40) % 15 * 7).tolist()
    said = [note for note in pilot.notes if note.startswith("dates in visit have the ")]
    assert said == ([f"dates in visit have the {order}: {frame['visit'][0]} is 2020-11-20"] if order else [])
    told = Pilot.read(table(tmp_path, frame), replace(ROLES, dates="month first"))  # only if both are possible
    assert np.array_equal(told.X, pilot.X)


def test_dates_that_may_be_either_are_refused_with_both_readings(tmp_path: Path) -> None:
    frame = table(tmp_path, visits().assign(visit=[f"03.{k % 12 + 1:02d}.2020" for k in range(40)]))
    with pytest.raises(InvalidData, match=r'03\.01\.2020 is 2020-01-03 or 2020-03-01; say which, dates="day-first"'):
        Pilot.read(frame, ROLES)
    first = {}
    for order in ("day first", "month first"):
        columns = Pilot.read(frame, replace(ROLES, dates=order)).columns
        assert columns is not None
        first[order] = columns.columns[-1].since
    assert first == {"day first": date(2020, 1, 3), "month first": date(2020, 3, 1)}


def sizes(n: int = 400) -> pd.DataFrame:
    """Sales over decades, of which the logarithm counts; delays over decades, that count as they are; an even input."""
    rng = np.random.default_rng(2)
    sales, delay = 10 ** rng.normal(4.0, 1.0, n), 10 ** rng.normal(1.0, 0.7, n) - 5.0
    level = rng.normal(size=20)[np.arange(n) % 20]
    y = 3 * np.log10(sales) + 0.5 * delay + level + 0.5 * rng.normal(size=n)
    even = rng.normal(size=n)
    return pd.DataFrame({"client": np.arange(n) % 20, "sales": sales, "delay": delay, "even": even, "y": y})


def test_inputs_of_very_different_sizes_are_read_by_their_logarithms(tmp_path: Path) -> None:
    frame, roles = sizes(), PilotRoles(task="client", target="y")
    pilot = Pilot.read(table(tmp_path, frame), roles)
    assert pilot.columns is not None
    sales, delay, even = pilot.columns
    assert sales.log_above is not None
    assert delay.log_above is even.log_above is None  # a delay predicts better as it is
    np.testing.assert_allclose(pilot.X[:, 0], np.arcsinh(frame["sales"] / sales.log_above), rtol=1e-9)
    assert sales.bounds is not None
    assert frame["sales"].max() < sales.cell(sales.bounds[1]) < 1.3 * frame["sales"].max()
    assert sales.cell(sales.quantiles[2]) == pytest.approx(frame["sales"].median(), rel=0.02)
    (note,) = [note for note in pilot.notes if "logarithms" in note]
    assert f"sales above {sales.log_above:g}; logarithms= names others" in note
    for names in ((), ("delay",)):
        given = Pilot.read(table(tmp_path, frame), replace(roles, logarithms=names))
        assert given.columns is not None
        assert tuple(column.name for column in given.columns if column.log_above is not None) == names
    with pytest.raises(InvalidData, match="logarithms= has 'sale', which is no input; did you mean 'sales'"):
        Pilot.read(table(tmp_path, frame), replace(roles, logarithms=("sale",)))


def test_weights_of_slopes_and_the_error_left_out_are_those_of_plain_formulas() -> None:
    rng = np.random.default_rng(3)
    X, client = rng.normal(size=(60, 3)), np.arange(60) % 6
    y = 2.0 * X[:, 0] - 0.5 * X[:, 1] + rng.normal(size=6)[client] + 0.1 * rng.normal(size=60)
    model = LinearModel(X, y, client)
    V = np.eye(60) + (client[:, None] == client)  # a level of each client, as variable as the noise
    Z = np.column_stack([np.ones(60), (X - X.mean(axis=0)) / X.std(axis=0)])
    slopes = np.linalg.solve(Z.T @ np.linalg.solve(V, Z), Z.T @ np.linalg.solve(V, y))[1:]
    shares = np.maximum(np.abs(slopes) / np.abs(slopes).max(), 0.1)
    assert model.weights.tolist() == [float(f"{share:.1g}") for share in shares]
    values, vectors = np.linalg.eigh(V)
    root = vectors @ np.diag(values**-0.5) @ vectors.T
    Zw, yw = root @ Z, root @ y
    left_out = []
    for k in range(60):
        others = np.arange(60) != k
        left_out.append(yw[k] - Zw[k] @ np.linalg.lstsq(Zw[others], yw[others], rcond=None)[0])
    assert model.error == pytest.approx(np.mean(np.square(left_out)), rel=1e-4)


def test_columns_that_others_tell_already_are_no_inputs_by_default(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    frame = visits().drop(columns="visit").assign(year=2000 + np.arange(40) % 9, month=rng.integers(1, 13, 40))
    frame = frame.assign(date=frame["year"] + frame["month"] / 12, price=frame["hours"] + rng.normal(0.0, 2.0, 40))
    pilot = Pilot.read(table(tmp_path, frame), ROLES)
    assert pilot.columns is not None
    assert pilot.columns.names == ("hours", "dose (mg)", "sex", "year", "month", "price")
    (unused,) = [note for note in pilot.notes if "not used" in note]
    assert "date (all but a combination of other inputs)" in unused


def test_bounds_and_quantiles_of_years_and_of_large_numbers(tmp_path: Path) -> None:
    frame = visits().assign(year=[1935 + k % 20 for k in range(40)], seconds=1.7e9 + np.arange(40) % 13)
    roles = PilotRoles(task="patient", target="glucose", inputs=("year", "seconds"))
    columns = Pilot.read(table(tmp_path, frame), roles).columns
    assert columns is not None
    year, seconds = columns
    assert year.bounds == (1930.0, 1959.0)
    assert np.abs(np.array(year.quantiles) - np.quantile(frame["year"], QUANTILES)).max() < 0.06
    assert np.abs(np.array(seconds.quantiles) - np.quantile(frame["seconds"], QUANTILES)).max() < 0.06


def test_rows_with_missing_values_are_left_out_and_counted(tmp_path: Path) -> None:
    frame = visits()
    frame["hours"] = frame["hours"].astype(object)
    frame.loc[3, "hours"], frame.loc[4, "hours"], frame.loc[4, "glucose"] = "NA", "", None
    pilot = Pilot.read(table(tmp_path, frame), PilotRoles(task="patient", target="glucose", inputs=("hours",)))
    assert len(pilot.y) == 38
    assert pilot.notes[0] == "2 rows with missing values left out: 1 in glucose, 2 in hours"


@pytest.mark.parametrize("column", ["glucose", "hours"])
def test_a_cell_far_from_all_others_is_named(tmp_path: Path, column: str) -> None:
    frame = visits()
    frame.loc[3, column] = 1e12
    far = rf"row 5, column {column}: 1e\+12 is \de\+1\d times the standard deviation of the others"
    message = f"{far}: correct it, or empty the cell"
    with pytest.raises(InvalidData, match=message):
        Pilot.read(table(tmp_path, frame), ROLES)
    frame.loc[3, column] = 300.0  # far, but a measurement may be
    assert len(Pilot.read(table(tmp_path, frame), ROLES).y) == 40
    frame.loc[3, "hours"] = 1e12
    roles = replace(ROLES, inputs=("hours",), logarithms=("hours",))
    assert len(Pilot.read(table(tmp_path, frame), roles).y) == 40  # said to be of very different sizes


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        (PilotRoles(task="Patient", target="glucose"), "no column 'Patient'; got patient, hours, dose (mg), sex"),
        (PilotRoles(task="patient", target="patient"), "client= and target= must be different columns"),
        (PilotRoles(task="patient", target="sex"), "row 2, column sex: expected a finite number, got"),
        (PilotRoles(task="patient", target="glucose", inputs=("note",)), "40 different texts, too many for a category"),
        (PilotRoles(task="patient", target="glucose", inputs=("site",)), "has one value only"),
        (
            PilotRoles(task="patient", target="std"),
            "standard deviations of predictions are in a column 'std'",
        ),
        (PilotRoles(task="patient", target="glucose", inputs=("hours",), name="sex"), "inputs=, columns of numbers"),
        (PilotRoles(task="patient", target="glucose", catalogue=Path("a.csv")), "with name="),
    ],
)
def test_mistakes_name_the_column(tmp_path: Path, roles: PilotRoles, message: str) -> None:
    with pytest.raises(InvalidData) as refusal:
        Pilot.read(table(tmp_path, visits().assign(std=1.0)), roles)
    assert message in str(refusal.value)


def test_too_few_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EmptyData, match="at least 12 complete rows of 4 clients, got 8 complete rows of 8 clients"):
        Pilot.read(table(tmp_path, visits(8)), ROLES)


def test_a_table_without_numbers_among_its_inputs(tmp_path: Path) -> None:
    frame = visits()[[ROLES.task, ROLES.target]].assign(kind=["u", "v", "w", "u", "v"] * 8)
    assert Pilot.read(table(tmp_path, frame), ROLES).roles.inputs == ("kind",)


def test_lists_in_the_cells_of_a_parquet_file_are_text(tmp_path: Path) -> None:
    frame = visits().assign(pair=[[k % 3, 1] for k in range(40)])
    frame.to_parquet(tmp_path / "visits.parquet")
    assert "pair" in kinds_of(read(tmp_path / "visits.parquet"))


def test_items_by_name_with_and_without_a_catalogue(tmp_path: Path) -> None:
    frame = visits().assign(film=[f"film {k % 7}" for k in range(40)])
    names = Pilot.read(table(tmp_path, frame), PilotRoles(task="patient", target="glucose", name="film"))
    assert names.catalogue is not None
    assert len(names.catalogue) == 7
    assert not names.catalogue.features
    (tmp_path / "films.csv").write_text("film,a\n" + "".join(f"film {k},{k}\n" for k in range(6)), encoding="utf-8")
    roles = PilotRoles(task="patient", target="glucose", name="film", catalogue=tmp_path / "films.csv")
    pilot = Pilot.read(table(tmp_path, frame), roles)
    assert len(pilot.y) == 35
    assert "5 rows of 1 item not in films.csv: film 6" in pilot.notes
    assert pilot.X.shape[1] == 2


def test_limits_are_wider_than_the_data_and_a_scale_is_itself(tmp_path: Path) -> None:
    frame = visits()
    low, high = Pilot.read(table(tmp_path, frame), ROLES).limits_y
    assert low < frame["glucose"].min() < frame["glucose"].max() < high
    stars = frame.assign(glucose=np.arange(40) % 5 + 1)
    assert Pilot.read(table(tmp_path, stars), ROLES).limits_y == (1.0, 5.0)
    stars["glucose"] = np.where(stars["glucose"] == 1, 0.5, stars["glucose"])  # half stars
    assert Pilot.read(table(tmp_path, stars), ROLES).limits_y == (0.5, 5.0)


def test_outward() -> None:
    assert outward(0.5, 13.2, 0.05) == (0.0, 14.0)
    assert outward(-13.2, -0.5, 0.05) == (-14.0, 0.0)
    assert outward(-3.0, 5.0, 0.0) == (-3.0, 5.0)
    low, high = outward(7.0, 7.0, 0.05)
    assert low < 7.0 < high
