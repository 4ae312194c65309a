"""The operator's commands as the real program: what each does, and its likeliest mistakes in one line."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from motet.store import clients, examples
from motet.store.clients import list_clients
from tests.cli.program import check_mistakes, good, run
from tests.scenarios.harness import CURVES, parts, write_study
from tests.store.local_study import EXACT, PRIVATE, LocalStudy, local_study


@contextmanager
def private(folder: Path) -> Iterator[LocalStudy]:
    """Two releases, and a client that has removed something."""
    with local_study(folder, PRIVATE.replace('"10s"', '"365d"')) as study:
        with study.store.snapshot() as connection:
            ann = list_clients(connection)[0]["id"]
        study.release()
        study.do(examples.remove, ann, "1")
        study.release()
        yield study


# --- export ---


def test_export_has_all_of_a_client_and_no_token(tmp_path: Path) -> None:
    with private(tmp_path) as study:
        out = tmp_path / "ann.json"
        assert good(run("export", study.study.path, "ann", "--out", out)) == f"1 example of ann in {out}.\n"
        assert stat.S_IMODE(out.stat().st_mode) == 0o600
        found = json.loads(out.read_text(encoding="utf-8"))
        assert found["examples"] == [{"id": "0", "x": [0.0], "y": 1.0, "noise": 1.0, "sequence": 1}]
        assert (found["study"], found["name"], found["revoked"], found["removed"]) == ("Growth", "ann", False, ["1"])
        assert [(row["kind"], row["example"]) for row in found["log"]] == [("add", None), ("remove", "1")]
        assert "Releases 1 to 2 were made while" in found["notes"][0]
        assert "(ε, δ) = (3, 1e-05)" in found["notes"][0]
        with study.store.snapshot() as connection:
            tokens = connection.exec_driver_sql("SELECT token FROM clients").scalars().all()
        assert not any(token in out.read_text(encoding="utf-8") for token in tokens)

        study.do(clients.forget, found["id"])
        left = json.loads(good(run("export", study.study.path, found["id"])))
        assert (left["examples"], left["removed"], "name" in left) == ([], [], False)
        assert [row["kind"] for row in left["log"]] == ["add", "remove", "forget"]
        assert left["notes"][0].startswith("This client was forgotten")


def test_export_of_oneself(tmp_path: Path) -> None:
    body = CURVES + '[release]\npolicy = "exact"\nevery = "1d"\n'
    with parts(write_study(tmp_path, body)) as running:
        with running.operator() as operator:
            (ann,) = operator.enroll(["ann"])
        with running.client(ann.token) as me:
            me.send_many([[0.5], [1.5]], [1.0, 2.0], ids=["a", "b"])
        found = json.loads(good(run("export", running.url, MOTET_TOKEN=ann.token)))
        examples = [{"id": "a", "x": [0.5], "y": 1.0, "noise": 1.0}, {"id": "b", "x": [1.5], "y": 2.0, "noise": 1.0}]
        assert (found["study"], found["id"], found["examples"]) == ("Scenario", ann.id, examples)
        check_mistakes(
            ("expected a client's token, got none: set MOTET_TOKEN", ["export", running.url]),
            ("a server shows a client its own data only", ["export", running.url, "ann"]),
        )
        other = run("export", running.url, MOTET_TOKEN="nobody's")
        assert (other.code, "nobody's" in other.err, other.err.count("\n")) == (1, False, 1)


def test_export_mistakes(tmp_path: Path) -> None:
    with private(tmp_path) as study:
        path = study.study.path
        check_mistakes(
            ("no client has the name or id 'dora'", ["export", path, "dora"]),
            (f"expected a client to export: motet export {path} NAME", ["export", path]),
            ("already exists", ["export", path, "ann", "--out", path]),
            ("motet init writes one", ["export", tmp_path / "none.toml", "ann"]),
        )


# --- verify, backup and restore ---


def test_verify_backup_restore_and_verify(tmp_path: Path) -> None:
    with private(tmp_path) as study:
        path, file, folder = study.study.path, tmp_path / "monday.zip", tmp_path / "re stored"
        table = good(run("verify", path))
        assert "Growth" in table
        assert table.count("│ ok ") == 9
        assert "byte for byte" in table
        (digest,) = re.findall(r"3 links, the last one ([0-9a-f]{16}) ", table)
        good(run("verify", path, "--witness", digest))
        ended = run("verify", path, "--witness", "0123456789abcdef")
        assert (ended.code, "written anew" in ended.out, "(chain)" in ended.err) == (1, True, True)
        said = good(run("backup", path, file))
        assert "with releases up to 2; only you can read it" in said
        assert "keeps what clients remove from now on" in said
    said = good(run("restore", file, folder))  # its next release was due long ago, so it may have come since
    assert "Version 3 may have been released since: counted as made and charged to the budget." in said
    assert f"motet serve '{folder}/study.toml'" in said
    found = json.loads(good(run("verify", folder / "study.toml", "--json")))
    assert found["ok"]
    told = {check["name"]: check["text"] for check in found["checks"]}
    assert "version 3 counted as made" in told["versions"]
    assert told["ledger"].startswith("3 releases, 1 of them by a restore; ε spent")


def test_a_study_that_is_restored_at_its_end_says_so(tmp_path: Path) -> None:
    with private(tmp_path) as study:
        good(run("backup", study.study.path, tmp_path / "b.zip"))
        planned = study.study.ledger()
    assert planned is not None
    spent = run("restore", tmp_path / "b.zip", tmp_path / "new", "--last", planned.releases)
    assert f"\nThe budget (ε = 3) is spent: all {planned.releases} releases are out" in good(spent)
    data = good(run("restore", tmp_path / "b.zip", tmp_path / "newer", "--last", planned.releases, "--json"))
    assert json.loads(data)["next_release"] is None


def test_backup_and_restore_for_programs(tmp_path: Path) -> None:
    with local_study(tmp_path, EXACT) as study:
        study.release()
        made = json.loads(good(run("backup", study.study.path, tmp_path / "b.zip", "--json")))
        assert (made["version"], sorted(made["files"])) == (1, ["study.db", "study.toml"])
        assert datetime.fromisoformat(made["made"]).tzinfo is UTC
        found = json.loads(good(run("restore", tmp_path / "b.zip", tmp_path / "new", "--last", 7, "--json")))
        assert (found["study"], found["version"], found["last"]) == (str(tmp_path / "new" / "study.toml"), 1, 7)
        assert found["made"] == made["made"] < found["next_release"]


def test_verify_mistakes(tmp_path: Path) -> None:
    with private(tmp_path) as study:
        study.execute("DELETE FROM ledger WHERE version = 2")
        study.execute("UPDATE clients SET count = 9")
        ended = run("verify", study.study.path, "--json")
    assert ended.code == 1
    wrong: dict[str, Any] = json.loads(ended.out)
    assert [check["name"] for check in wrong["checks"] if check["state"] == "failed"] == ["counts", "ledger", "chain"]
    assert json.loads(ended.err)["error"]["message"].startswith(
        "3 of 9 checks failed (counts, ledger, chain): keep these files"
    )
    assert ended.err.count("\n") == 1
    (tmp_path / "new.toml").write_text(EXACT, encoding="utf-8")
    check_mistakes(
        ("got none: serve the study first, motet serve", ["verify", tmp_path / "new.toml"]),
        ("expected a study file in TOML, got", ["verify", tmp_path / "study.db"]),
        ("cannot read 'none.toml'", ["verify", "none.toml"]),
    )


def test_a_database_whose_schema_is_damaged_is_one_line(tmp_path: Path) -> None:
    """SQLite then quotes bytes of the file, which need not be text."""
    with local_study(tmp_path, EXACT) as study:
        path = study.study.path
    database = path.with_suffix(".db")
    database.write_bytes(database.read_bytes().replace(b"REFERENCES", b"REFER\x9dNCES"))
    damaged = "study.db: expected a study's database, got malformed database schema (examples)"
    check_mistakes((damaged, ["verify", path]), (damaged, ["backup", path, tmp_path / "b.zip"]))
    check_mistakes((damaged, ["export", path, "ann"]), (damaged, ["serve", path, "--port", 0]))


def test_backup_and_restore_mistakes(tmp_path: Path) -> None:
    with local_study(tmp_path, EXACT) as study:
        path, there = study.study.path, tmp_path / "there"
        there.mkdir()
        (there / "file").touch()
        url = '[store]\nurl = "postgresql+psycopg://me:secret@127.0.0.1:1/study"\n'
        (tmp_path / "pg.toml").write_text(EXACT + url, encoding="utf-8")
        assert good(run("backup", path, tmp_path / "b.zip"))
        check_mistakes(
            ("b.zip already exists", ["backup", path, tmp_path / "b.zip"]),
            ("choose another place", ["backup", path, tmp_path / "nowhere" / "b.zip"]),
            ("got Connection refused; check that", ["backup", tmp_path / "pg.toml", tmp_path / "p.zip"]),
            ("there already exists: choose another folder", ["restore", tmp_path / "b.zip", there]),
            ("expected a backup that motet made, got File is not a zip file", ["restore", path, tmp_path / "new"]),
            ("No such file or directory", ["restore", tmp_path / "none.zip", tmp_path / "new"]),
        )
        assert run("restore", tmp_path / "b.zip", tmp_path / "new", "--last", -1).code == 2
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "p.zip").exists()


# --- another database ---


def test_a_study_is_moved_and_told_where(tmp_path: Path, postgres_url: str) -> None:
    with private(tmp_path) as study:
        path = study.study.path
        assert study.release() == [3]
    moved = good(run("migrate", path, postgres_url))
    assert moved.startswith("Growth is moved: 5 examples of 3 clients, and all else.\n")
    assert f'[store]\nurl = "{postgres_url}"\n' in moved
    check_mistakes(
        ("was moved to postgresql+psycopg://motet@127.0.0.1", ["serve", path, "--port", 0]),
        ("end that one first", ["migrate", path, "sqlite:///other.db"]),
        ('store.url: expected "sqlite', ["migrate", path, "mysql://me:secret@h/d"]),
    )
    there = tmp_path / "there.toml"
    there.write_text(f'{path.read_text(encoding="utf-8")}[store]\nurl = "{postgres_url}"\n', encoding="utf-8")
    assert json.loads(good(run("verify", there, "--json")))["ok"]
    assert json.loads(good(run("export", there, "ann")))["removed"] == ["1"]
    assert "with releases up to 3" in good(run("backup", there, tmp_path / "b.zip"))
    assert "with releases up to 3" in good(run("restore", tmp_path / "b.zip", tmp_path / "restored"))
    back = good(run("migrate", there, "sqlite:///back.db", "--json"))
    assert json.loads(back) == {"url": f"sqlite:///{tmp_path}/back.db", "clients": 3, "examples": 5, "again": False}
    assert "Growth was moved before." in good(run("migrate", there, f"sqlite:///{tmp_path}/back.db"))
