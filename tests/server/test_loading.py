"""A table that an operator brings to the start of a study: all of it or nothing, once, and released at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from motet.errors import InvalidData
from motet.server.loading import load_table
from motet.store import clients, releases
from motet.study.schema import digest_of
from motet.study.study import Study
from tests.store.local_study import PRIVATE, LocalStudy

TABLE = "patient,hours,glucose\nann,0.5,1.5\nann,1.0,2.0\nbob,0.5,0.5\nbob,1.0,\n"
NAMED = PRIVATE.replace(
    "dimension = 1",
    'columns = [{ name = "hours", bounds = [0.0, 2.0] }]\n[table]\nclient = "patient"\ntarget = "glucose"',
)


@pytest.fixture
def local(tmp_path: Path) -> LocalStudy:
    (tmp_path / "study.toml").write_text(NAMED, encoding="utf-8")
    return LocalStudy(tmp_path / "study.toml")


def load(local: LocalStudy, table: str, tokens: str = "tokens.csv") -> str:
    folder = local.study.path.parent
    (folder / "table.csv").write_text(table, encoding="utf-8")
    return load_table(local.store, local.study, folder / "table.csv", folder / tokens, now=local.now).text


def counts(local: LocalStudy) -> dict[str, int]:
    with local.store.snapshot() as connection:
        return {row["name"]: row["examples"] for row in clients.list_clients(connection)}


def test_clients_are_enrolled_and_their_rows_released_at_once(local: LocalStudy) -> None:
    said = load(local, TABLE)
    assert said.startswith("table.csv: 3 examples of 2 clients stored; 1 row with missing values left out; tokens of 2")
    assert counts(local) == {"ann": 2, "bob": 1}
    tokens = local.study.path.parent / "tokens.csv"
    assert tokens.stat().st_mode & 0o777 == 0o600
    header, *rows = tokens.read_text(encoding="utf-8").splitlines()
    assert header == "client,id,token"
    with local.store.snapshot() as connection:
        for row in rows:
            name, id, token = row.split(",")
            assert clients.client_with_token(connection, token) == id
            assert clients.summary(connection, id)["name"] == name
    assert local.publisher.tick() == 1  # without waiting


def test_a_repeated_start_changes_nothing_and_a_longer_table_adds(local: LocalStudy) -> None:
    load(local, TABLE)
    assert local.publisher.tick() == 1
    with local.store.snapshot() as connection:
        due = releases.next_release(connection)
    assert "0 examples of 2 clients stored; 3 were stored already" in load(local, TABLE, "other.csv")
    assert not (local.study.path.parent / "other.csv").exists()
    load(local, TABLE + "cem,0.1,1.0\nann,1.5,2.5\n", "more.csv")
    assert counts(local) == {"ann": 3, "bob": 1, "cem": 1}
    with local.store.snapshot() as connection:
        assert releases.next_release(connection) == due  # no release is drawn forward after the first


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (TABLE + "bob,0.7,99\n", r"table\.csv, row 6, column glucose, client bob: y must be a number from -10 to 10"),
        (TABLE + "bob,7,1\n", r"table\.csv, row 6, column hours, client bob: expected a number from 0 to 2, got 7"),
        (TABLE.replace("hours", "time"), "no column 'hours'"),
        (TABLE.replace("patient", "name"), "no column 'patient'"),
    ],
)
def test_a_table_that_does_not_fit_stores_nothing(local: LocalStudy, table: str, message: str) -> None:
    with pytest.raises(InvalidData, match=message):
        load(local, table)
    assert counts(local) == {}
    assert not (local.study.path.parent / "tokens.csv").exists()


SALT = "0123456789abcdef" * 2


def with_pilot(folder: Path, *names: str, joins: bool = False) -> LocalStudy:
    digests = ", ".join(f'"{digest_of(SALT, name)}"' for name in names)
    keys = f'clients = {len(names)}\nshare = 0.2\nsalt = "{SALT}"\njoins = {str(joins).lower()}\ndigests = [{digests}]'
    (folder / "study.toml").write_text(f"{NAMED}\n[pilot]\n{keys}\n", encoding="utf-8")
    return LocalStudy(folder / "study.toml")


def test_clients_of_the_pilot_are_left_out_and_later_ones_join(tmp_path: Path) -> None:
    local = with_pilot(tmp_path, "ann", "eve")
    said = load(local, TABLE + "bob,0.7,99\nbob,7,1\n")
    assert said.startswith("table.csv: 1 example of 1 client stored; 1 row with missing values left out; ")
    assert "1 row left out (glucose outside -10 to 10)" in said
    assert "1 row left out (hours outside 0 to 2)" in said
    assert "1 client of the pilot left out; tokens of 1 new client are in" in said
    assert counts(local) == {"bob": 1}
    load(local, TABLE + "cem,0.1,1.0\n", "more.csv")
    assert counts(local) == {"bob": 1, "cem": 1}


def test_a_pilot_may_join(tmp_path: Path) -> None:
    local = with_pilot(tmp_path, "ann", joins=True)
    assert "of the pilot" not in load(local, TABLE)
    assert counts(local) == {"ann": 2, "bob": 1}


def test_a_table_of_the_pilot_alone_is_refused_with_what_to_do(tmp_path: Path) -> None:
    local = with_pilot(tmp_path, "ann", "bob")
    with pytest.raises(InvalidData, match=r"2 clients of the pilot are left out, so no row is left: serve without da"):
        load(local, TABLE)
    assert counts(local) == {}


def test_tokens_are_never_written_over_a_file(local: LocalStudy) -> None:
    (local.study.path.parent / "tokens.csv").write_text("mine", encoding="utf-8")
    with pytest.raises(InvalidData, match="already exists"):
        load(local, TABLE)
    assert counts(local) == {}
    assert (local.study.path.parent / "tokens.csv").read_text(encoding="utf-8") == "mine"


def test_too_many_examples_of_a_client_store_nothing(local: LocalStudy) -> None:
    few = NAMED.replace("[limits]", "[limits]\nexamples_per_client = 1")
    local.study.path.write_text(few, encoding="utf-8")
    local.study = Study.load(local.study.path)
    with pytest.raises(Exception, match="limit of 1 examples per client exceeded"):
        load(local, TABLE)
    assert counts(local) == {}
    assert not (local.study.path.parent / "tokens.csv").exists()
