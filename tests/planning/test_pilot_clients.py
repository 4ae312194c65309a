"""The pilot of a table: whoever is not in it leaves no trace in the study file, and its clients take no part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from motet.errors import InvalidData
from motet.planning.choice import choose
from motet.planning.inputs import PilotRoles
from motet.planning.pilot import Pilot, PilotClients, names_in
from motet.study.study import Study
from motet.study.template import Promise
from motet.tables.files import Table, read
from tests.own_tables import glucose

SALT = "0123456789abcdef" * 2
ROLES = PilotRoles(task="patient", target="glucose", inputs=("hours",))


def names_table(clients: int) -> Table:
    rows = [[f"c{k}", 1.0] for k in range(clients)]
    return Table("names.csv", ["patient", "glucose"], rows, list(range(2, clients + 2)))


def drawn(table: Table, share: float = 0.2, salt: str = SALT) -> PilotClients:
    return PilotClients.draw(table, "patient", "glucose", share=share, salt=salt)


@pytest.mark.parametrize(
    ("clients", "share", "fewest", "most"),
    [(12, 0.2, 12, 12), (30, 0.2, 30, 30), (40, 0.2, 30, 30), (1000, 0.2, 160, 240), (1000, 1.0, 1000, 1000),
     (3000, 0.9, 2000, 2000)],
)  # fmt: skip
def test_a_share_but_not_fewer_than_thirty_nor_more_than_two_thousand(
    clients: int, share: float, fewest: int, most: int
) -> None:
    pilot = drawn(names_table(clients), share)
    assert fewest <= len(pilot.names) <= most
    assert pilot.others == clients - len(pilot.names)
    section = pilot.section()
    assert section.clients == len(set(section.digests)) == len(pilot.names)
    assert {f"c{k}" for k in range(clients) if section.has(f"c{k}")} == pilot.names


@pytest.mark.parametrize(("clients", "share"), [(45, 0.2), (200, 0.2), (2100, 0.99)])
def test_without_any_other_client_the_pilot_is_the_same(clients: int, share: float) -> None:
    """By all of the rule's branches: 30 clients, a share, and 2,000 of them."""
    table = names_table(clients)
    pilot = drawn(table, share)
    protected = [k for k, row in enumerate(table.rows) if row[0] not in pilot.names]
    assert protected
    for k in protected:
        fewer = drawn(table.only(other for other in range(clients) if other != k), share)
        assert (fewer.names, fewer.threshold, fewer.expected) == (pilot.names, pilot.threshold, pilot.expected)


def test_whom_the_pilot_is_of_depends_on_the_salt_alone() -> None:
    table = names_table(200)
    assert drawn(table) == drawn(table)
    assert drawn(table).names != drawn(table, salt="f" * 32).names
    salts = {PilotClients.draw(table, "patient", "glucose").salt for _ in range(5)}
    assert len(salts) == 5
    with pytest.raises(InvalidData, match="above 0 and at most 1 for the pilot, got 0"):
        drawn(table, share=0.0)


def test_a_client_counts_by_its_own_rows() -> None:
    rows: list[list[Any]] = [["ann", 1.0], ["bob", None], ["NA", 2.0], ["bob", "n/a"], [" cem ", 3.0], [7.0, 1.0]]
    table = Table("t.csv", ["patient", "glucose"], rows, [2, 3, 4, 5, 6, 7])
    assert names_in(table, "patient", "glucose") == ["ann", "cem", "7"]


# --- the study file ---


def written(table: Table, folder: Path, name: str = "study") -> bytes:
    """The study file that a table proposes, with one salt."""
    pilot = Pilot.read(table, ROLES, drawn(table))
    choose(pilot, Promise(epsilon=1.0, releases=1)).write(folder / f"{name}.toml", title="Glucose", force=True)
    return (folder / f"{name}.toml").read_bytes()


def without(table: Table, client: str) -> Table:
    return table.only(k for k, row in enumerate(table.rows) if row[table.columns.index("patient")] != client)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    folder = tmp_path_factory.mktemp("pilot")
    glucose(5, 32).write(folder)
    return read(folder / "glucose.csv")


@pytest.mark.slow  # a study is proposed for each client
def test_the_file_is_the_same_without_any_protected_client_and_another_without_one_of_the_pilot(
    table: Table, tmp_path: Path
) -> None:
    pilot = drawn(table)
    everybody = written(table, tmp_path)
    protected = sorted(set(names_in(table, "patient", "glucose")) - pilot.names)
    assert len(protected) == 2
    assert [client for client in protected if written(without(table, client), tmp_path) != everybody] == []
    changed = table.rows[0].copy()
    place = table.columns.index("patient")
    for column, cell in (("glucose", "9999"), ("hours", "-500"), ("visit", "never"), ("nurse", "nobody")):
        changed[table.columns.index(column)] = cell
    changed[place] = protected[0]
    hostile = Table(table.file, table.columns, [*table.rows, changed], [*table.numbers, 10**6])
    assert written(hostile, tmp_path) == everybody  # whatever a protected client has
    assert written(without(table, min(pilot.names)), tmp_path) != everybody
    study = Study.load(tmp_path / "study.toml")
    assert study.settings_source == {"source": "pilot", "clients": 30, "joins": False}
