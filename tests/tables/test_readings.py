"""How a pilot's cells are read: units, thousands, a few that are no numbers; and that a study reads them so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from motet.client.responses import layout_of
from motet.client.tables import read_clients
from motet.errors import EmptyData, InvalidData
from motet.planning.fitting import fitting_rows
from motet.planning.inputs import PilotRoles, kinds_of
from motet.planning.pilot import Pilot
from motet.server.loading import load_table
from motet.study.study import Study
from motet.tables.columns import Column
from motet.tables.files import Table, read
from tests.store.local_study import FIXED, LocalStudy

ROLES = PilotRoles(task="patient", target="pay")


def visits() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    weight = rng.uniform(20, 90, 40).round(1)
    return pd.DataFrame(
        {
            "patient": [f"p{k % 8}" for k in range(40)],
            "weight": [f"{one} kg" for one in weight],
            "steps": [f"{int(one):,}" for one in rng.uniform(500, 20_000, 40)],
            "lead": ["<20" if k in (3, 7) else f"{one:.1f}" for k, one in enumerate(rng.uniform(20, 50, 40))],
            "kids": [["0", "1", "2", "3+"][k % 4] for k in range(40)],
            "pay": [f"{one:,.0f} EUR" for one in 2000 + 10 * weight + rng.normal(0, 150, 40)],  # else weight tells it
        }
    )


def table(folder: Path, frame: pd.DataFrame) -> Table:
    frame.to_csv(folder / "pilot.csv", index=False)
    return read(folder / "pilot.csv")


def test_units_and_thousands_are_read_and_said(tmp_path: Path) -> None:
    frame = visits()
    pilot = Pilot.read(table(tmp_path, frame), ROLES)
    assert pilot.columns is not None
    assert pilot.columns.names == ("weight", "steps", "kids")
    weight, steps, kids = pilot.columns
    assert (weight.unit, steps.unit, kids.values, pilot.unit) == ("kg", "", ("0", "1", "2", "3+"), "EUR")
    np.testing.assert_array_equal(pilot.X[:, 0], [float(one.removesuffix(" kg")) for one in frame["weight"]])
    np.testing.assert_array_equal(pilot.y, [float(one[:-4].replace(",", "")) for one in frame["pay"]])
    assert max(pilot.X[:, 1]) > 10_000
    said = "\n".join(pilot.notes)
    assert f'weight is in kg: "{frame["weight"][0]}" is read as {pilot.X[0, 0]:g}' in said
    assert "commas in steps are between thousands: " in said
    assert "pay is in EUR: " in said
    assert 'kids is read as a category of 4 values, as "3+" is no number' in said
    assert 'lead (2 of 40 cells are no number: "<20" in rows 5, 9, below a limit: write a number' in said


def test_cells_that_are_no_numbers_are_named_not_made_a_category(tmp_path: Path) -> None:
    frame = visits().assign(weight=[f"{50 + k % 3} {'lb' if k == 5 else 'kg'}" for k in range(40)])
    cells = table(tmp_path, frame)
    kinds = kinds_of(cells)
    assert (kinds["weight"], kinds["lead"], kinds["kids"]) == ("numbers and text", "numbers and text", "category")
    with pytest.raises(InvalidData, match=r'row 2, column weight: .* "50 kg" in rows .*; "52 lb" in row 7, in lb'):
        Pilot.read(cells, replace(ROLES, inputs=("weight",)))
    with pytest.raises(InvalidData, match=r"row 5, column lead: .* 2 of 40 cells are no number"):
        Pilot.read(cells, replace(ROLES, inputs=("lead", "steps")))
    wide = table(tmp_path, visits().assign(lead=[f"<{k}" if k % 3 == 0 else str(k) for k in range(40)]))
    assert kinds_of(wide)["lead"] == "numbers and text"  # many different, most of them numbers


@pytest.mark.parametrize(
    ("cells", "error", "words"),
    [
        (["<20", *"123456789"], InvalidData, r'column pay: .*"<20" in rows 2, 12, 22 and 1 more, below a limit'),
        (["yes", "no"], InvalidData, r'two values, "no" \(20 rows\) .* 0 and 1; outcomes other than numbers are not'),
        (["good", "bad", "fair"], InvalidData, r"3 texts such as .* outcomes other than numbers are not modelled yet"),
        (["5 kg", "6 lb"], InvalidData, r'"5 kg" in rows 2, 4, 6 and 17 more, in kg: write numbers of one unit'),
        (["3.5"], EmptyData, r"the output 'pay' has one value only, 3.5, in every row, so there is nothing to learn"),
    ],
)
def test_outputs_that_are_no_numbers(tmp_path: Path, cells: list[str], error: type[Exception], words: str) -> None:
    frame = visits().assign(pay=[cells[k % len(cells)] for k in range(40)])
    with pytest.raises(error, match=words):
        Pilot.read(table(tmp_path, frame), ROLES)


def test_a_unit_that_is_told_and_another_in_the_cells(tmp_path: Path) -> None:
    roles = replace(ROLES, inputs=("weight",), units={"weight": "lb"})
    with pytest.raises(InvalidData, match=r"every cell of 'weight' is in kg, not lb \(units=\)"):
        Pilot.read(table(tmp_path, visits()), roles)


def test_a_few_far_numbers_are_found_with_their_units(tmp_path: Path) -> None:
    frame = visits()
    frame.loc[5, "weight"] = "1e12 kg"
    with pytest.raises(
        InvalidData, match=r"pilot\.csv, row 7, column weight: 1e\+12 is .* times the standard deviation of"
    ):
        Pilot.read(table(tmp_path, frame), replace(ROLES, inputs=("weight",)))


def test_a_weight_of_each_client_is_not_another_name_of_it(tmp_path: Path) -> None:
    frame = visits().assign(weight=[f"{60.5 + 3 * (k % 8)} kg" for k in range(40)])
    pilot = Pilot.read(table(tmp_path, frame), ROLES)
    assert pilot.columns is not None
    assert "weight" in pilot.columns.names


# --- the same table, read by the study ---


NAMED = FIXED.replace(
    "dimension = 1",
    'columns = [{ name = "weight", unit = "kg", bounds = [20.0, 90.0] }]\n'
    '[table]\nclient = "patient"\ntarget = "pay"\n[output]\nunit = "EUR"',
).replace("[-10.0, 10.0]", "[0.0, 9000.0]")
NAMED = NAMED.replace("grid = { from = -2.0, to = 2.0, count = 5 }", "spread = 5")


@pytest.fixture
def study(tmp_path: Path) -> Study:
    (tmp_path / "study.toml").write_text(NAMED, encoding="utf-8")
    return Study.load(tmp_path / "study.toml")


def test_what_a_pilot_reads_is_stored_sent_and_evaluated_alike(tmp_path: Path, study: Study) -> None:
    frame = visits()
    cells, path = table(tmp_path, frame), tmp_path / "pilot.csv"
    pilot = Pilot.read(cells, replace(ROLES, inputs=("weight",)))
    local = LocalStudy(tmp_path / "study.toml")
    assert "40 examples of 8 clients stored" in load_table(local.store, study, path, tmp_path / "t.csv", now=0.0).text
    described = {"model": study.model.to_spec(), "dimension": 1, "table": study.table.model_dump()}
    layout = layout_of(described | {"output": {"name": "pay", "unit": "EUR", "scale": None}})
    sent = read_clients(path, layout)
    assert sent["p1"].X[0] == {"weight": pilot.X[1, 0]}
    assert [y for one in sent.values() for y in one.y] == [y for p in range(8) for y in pilot.y[p::8]]
    assert len(fitting_rows(study, cells)[0].rows) == 40
    assert local.publisher.tick() == 1


def test_another_unit_than_the_studys_is_refused(tmp_path: Path, study: Study) -> None:
    cells = table(tmp_path, visits().assign(weight="50 lb"))
    layout = study.model.layout(1).changed(client="patient", target="pay", unit="EUR")
    with pytest.raises(InvalidData, match=r'row 2, column weight: expected a number in kg, got "50 lb"'):
        read_clients(cells, layout)
    cells = table(tmp_path, visits().assign(pay=[f"{k} USD" for k in range(40)]))
    with pytest.raises(InvalidData, match=r"expected a finite number in EUR, got '0 USD': .* write numbers in EUR"):
        read_clients(cells, layout)
    assert fitting_rows(study, cells)[1] == {"pay that is no number": 40}


def test_a_column_reads_its_unit_alone() -> None:
    weight = Column(name="weight", unit="kg")
    assert [weight.number(cell) for cell in (26.5, "26.5", "26.5 kg", "26.5kg", "1,200 kg")] == [26.5] * 4 + [1200.0]
    for cell in ("26.5 g", "kg", "26.5 kgs"):
        with pytest.raises(InvalidData, match="expected a number"):
            weight.number(cell)
