"""What each input tells of the output, and which inputs give it away: leaks as tables have them, and honest inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from motet.errors import InvalidData
from motet.planning.gains import NEARLY_ALL, Gain
from motet.planning.inputs import PilotRoles
from motet.planning.pilot import Pilot, PilotClients
from motet.tables.files import Table, read

Column = np.ndarray
ROLES = PilotRoles(task="client", target="y")


def table(folder: Path, frame: pd.DataFrame) -> Table:
    frame.to_csv(folder / "table.csv", index=False)
    return read(folder / "table.csv")


def frame(client: Column, y: Column, **columns: Column) -> pd.DataFrame:
    return pd.DataFrame({"client": [f"c{k}" for k in client], **columns, "y": y})


def fares(rows: int = 300, seed: int = 0) -> pd.DataFrame:
    """Of taxi drivers: by distance, and 20 % more or less by driver."""
    rng = np.random.default_rng(seed)
    client, km = rng.integers(0, 40, rows), rng.lognormal(1.0, 1.0, rows).round(2)
    fare = (3 + 2 * km) * np.exp(0.2 * rng.normal(size=40)[client] + 0.1 * rng.normal(size=rows))
    return frame(client, fare.round(2), km=km, hour=rng.integers(0, 24, rows))


def gains(folder: Path, data: pd.DataFrame, *inputs: str) -> dict[str, Gain]:
    """Of columns that are named, or of all."""
    named = inputs or tuple(column for column in data.columns if column not in ("client", "y"))
    roles = PilotRoles(task="client", target="y", inputs=named)
    return {gain.input: gain for gain in Pilot.read(table(folder, data), roles).gains}


@pytest.mark.parametrize("rows", [60, 300, 4000])
def test_other_forms_of_the_output_are_giveaways_and_what_it_is_made_of_is_not(tmp_path: Path, rows: int) -> None:
    data = fares(rows)
    rng = np.random.default_rng(1)
    data = data.assign(
        log=np.log(data["y"]).round(4),
        tax=(0.19 * data["y"]).round(2),
        rounded=data["y"].round(1) + 0.1 * rng.integers(0, 2, rows),
        backwards=1.0 / data["y"],
        valley=np.abs(data["y"].rank() - rows / 2) * np.where(data["y"].rank() < rows / 2, 1.0, -3.0),
    )
    found = gains(tmp_path, data)
    assert [name for name, gain in found.items() if gain.is_giveaway] == [
        "log",
        "tax",
        "rounded",
        "backwards",
        "valley",
    ]
    assert 0.6 < found["km"].alone < 0.95
    assert found["hour"].alone < 0.1


def test_a_word_that_is_the_output_is_a_giveaway(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    died = rng.random(400) < 0.3
    data = frame(rng.integers(0, 50, 400), died.astype(int), state=np.where(died, "dead", "alive"))
    data["sex"] = rng.choice(["f", "m"], 400)
    found = gains(tmp_path, data)
    assert found["state"].is_giveaway
    assert found["state"].alone == pytest.approx(1.0)
    assert found["sex"].alone < 0.02


def honest(kind: str) -> pd.DataFrame:
    """Tables in which one input nearly tells the output, and is known beforehand."""
    rng = np.random.default_rng(3)
    client = np.repeat(np.arange(40), 8)
    shift, noise, t = rng.normal(size=40)[client], rng.normal(size=320), rng.uniform(0, 10, 320).round(2)
    if kind == "trees by age":
        age = np.tile([3.0, 5.0, 8.0, 10.0, 13.0, 15.0, 20.0, 25.0], 40)
        return frame(client, 100 * (1 - np.exp(-0.04 * age)) * (1 + 0.03 * shift) + 0.3 * noise, x=age)
    if kind == "a line":
        return frame(client, t / 10 + 0.02 * shift + 0.005 * noise, x=t)
    if kind == "a line with hardly any noise":
        return frame(client, t / 10 + 0.01 * shift + 0.002 * noise, x=t)
    if kind == "a wave":
        return frame(client, np.sin(t) + 0.05 * shift + 0.01 * noise, x=t)
    size = 70 + 12 * shift  # at the beginning
    return frame(client, size + 0.8 * noise, x=size.round(1))


@pytest.mark.parametrize(
    "kind", ["trees by age", "a line", "a line with hardly any noise", "a wave", "size at the beginning"]
)
def test_an_honest_input_that_nearly_tells_the_output_stays_and_is_asked_after(tmp_path: Path, kind: str) -> None:
    pilot = Pilot.read(table(tmp_path, honest(kind)), ROLES)
    assert pilot.roles.inputs == ("x",)
    (gain,) = pilot.gains
    assert gain.alone > 0.95
    assert "x alone tells 9" in gain.question("y")
    assert "known when you predict? If not, leave it out of inputs=" in gain.question("y")


def test_a_giveaway_is_left_out_unless_it_is_named(tmp_path: Path) -> None:
    data = fares().assign(log=lambda all_of: np.log(all_of["y"]).round(4))
    pilot = Pilot.read(table(tmp_path, data), ROLES)
    assert pilot.roles.inputs == ("km", "hour")
    assert pilot.columns is not None
    assert pilot.columns.names == ("km", "hour")
    assert [(gain.input, gain.left_out) for gain in pilot.gains] == [("km", False), ("hour", False), ("log", True)]
    assert pilot.gains[2].question("fare").endswith("known when you predict? Then name it in inputs=")
    assert pilot.gains[0].question("fare") == ""
    named = Pilot.read(table(tmp_path, data), PilotRoles(task="client", target="y", inputs=("km", "log")))
    assert named.roles.inputs == ("km", "log")
    assert "known when you predict? If not, leave it out" in named.gains[1].question("fare")
    with pytest.raises(InvalidData, match="no input is left beside log, which alone tells y: is it known when you pre"):
        Pilot.read(table(tmp_path, data[["client", "log", "y"]]), ROLES)


@pytest.mark.slow  # scikit-learn starts a process to count the cores
def test_two_columns_that_give_the_output_away_together_are_named(tmp_path: Path) -> None:
    """Days until death, 0 unless the patient is dead: neither the state nor the time alone tells them."""
    rng = np.random.default_rng(4)
    state, time = np.repeat(rng.random(150) < 0.4, 4), rng.uniform(0, 10, 600).round(2)
    data = frame(np.repeat(np.arange(150), 4), np.where(state, time, 0.0), state=state * 1, time=time)
    data["age"] = rng.normal(60, 10, 600).round()
    pilot = Pilot.read(table(tmp_path, data), ROLES)
    assert pilot.roles.inputs == ("state", "time", "age")
    assert all(gain.alone < NEARLY_ALL for gain in pilot.gains)
    assert pilot.together is not None
    assert pilot.together.inputs == ("state", "time")
    assert "state and time together tell" in pilot.together.question("y")
    weak = Pilot.read(table(tmp_path, fares()), ROLES).together
    assert weak is not None
    assert weak.question("y") == ""


def test_gains_beside_a_level_of_each_client(tmp_path: Path) -> None:
    """Most of the output is whose it is; of what that leaves, hours tell nearly all and the sex nothing."""
    rng = np.random.default_rng(5)
    client, hours = np.repeat(np.arange(60), 6), rng.uniform(0, 12, 360).round(1)
    y = 100 * rng.normal(size=60)[client] + 10 * hours + 3 * rng.normal(size=360)
    found = gains(tmp_path, frame(client, y, hours=hours, sex=rng.choice(["f", "m"], 60)[client]))
    assert found["hours"].alone < 0.2
    assert found["hours"].beside is not None
    assert found["hours"].beside > 0.5
    assert found["sex"].beside == pytest.approx(0.0, abs=0.02)


def test_with_one_row_per_client_nothing_is_beside_a_mean_and_a_note_says_so(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=50)
    data = frame(np.arange(50), x + 0.5 * rng.normal(size=50), x=x)
    pilot = Pilot.read(table(tmp_path, data), ROLES)
    assert [gain.beside for gain in pilot.gains] == [None]
    assert [
        note for note in pilot.notes if note.startswith("every client has one row, so nothing tells shifts from noise")
    ]
    two = Pilot.read(table(tmp_path, data.assign(client=np.arange(50) // 2)), ROLES)
    assert not [note for note in two.notes if "one row" in note]


def test_what_is_left_out_does_not_depend_on_protected_clients(tmp_path: Path) -> None:
    """Which inputs a public file has is a function of the pilot alone, whatever others have in that column."""
    data = fares(600).assign(log=lambda all_of: np.log(all_of["y"]).round(4))
    whole = table(tmp_path, data)
    drawn = PilotClients.draw(whole, "client", "y", salt="0123456789abcdef" * 2)
    assert drawn.others
    other = ~data["client"].isin(drawn.names)
    scrambled = data.assign(log=np.where(other, data["hour"], data["log"]))
    first, second = (Pilot.read(each, ROLES, drawn) for each in (whole, table(tmp_path, scrambled)))
    assert first.gains == second.gains
    assert first.roles.inputs == second.roles.inputs == ("km", "hour")
    pilots = data.assign(log=np.where(other, data["log"], np.random.default_rng(7).normal(size=600)))
    assert "log" in Pilot.read(table(tmp_path, pilots), ROLES, drawn).roles.inputs
