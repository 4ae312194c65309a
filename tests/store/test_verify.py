"""Verification: passes on what the program wrote, and finds every kind of tampering."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from motet.errors import InvalidStore
from motet.privacy.ledger import Integers
from motet.release.disclosed import Disclosed
from motet.store import clients, examples
from motet.store.clients import list_clients
from motet.store.verify import verify
from motet.study.study import Study
from tests.store.local_study import EXACT, FIXED, PER_CLIENT, PRIVATE, local_study, reopened, silent, states


@pytest.mark.parametrize("body", [EXACT, FIXED, PRIVATE, PER_CLIENT], ids=["growing", "fixed", "private", "per client"])
def test_what_the_program_wrote_passes(tmp_path: Path, backend: str, body: str) -> None:
    with local_study(tmp_path, body) as study:
        assert states(study) == {"last release": "skipped"}
        ann, bob = study.enroll("dora", "emil")
        for k in range(4):  # more than a client of PER_CLIENT takes part in
            study.release()
            study.add(ann, (0.1 * k, 1.0), first=k)
            study.do(examples.replace, ann, examples.Example("0", b"\0" * 8, float(k), 2.0))
        study.do(examples.remove, ann, "3")
        study.do(clients.forget, bob)
        database = study.study.path.with_suffix(".db")
        before = database.read_bytes() if backend == "sqlite" else b""
        assert states(study) == {"recomputed sums": "skipped"}
        assert not before or database.read_bytes() == before
        study.release()
        # Who removed something and then retired may have been in the last release or not.
        assert states(study) == ({"recomputed sums": "skipped"} if body == PER_CLIENT else {})


@pytest.mark.usefixtures("backend")
def test_retired_clients_are_left_out(tmp_path: Path) -> None:
    with local_study(tmp_path, PER_CLIENT) as study:
        study.release(3)
        (late,) = study.enroll("late")
        study.add(late, (2.0, 10.0))
        assert study.release() == [4]
        assert states(study) == {}


@pytest.mark.usefixtures("backend")
def test_an_improved_model_is_told_apart_from_tampering(tmp_path: Path) -> None:
    with local_study(tmp_path, EXACT) as study:
        study.release()
    path = tmp_path / "study.toml"
    path.write_text(EXACT.replace("alpha = 0.5", "alpha = 0.4"), encoding="utf-8")
    assert states(Study.load(path)) == {}


@pytest.mark.usefixtures("backend")
def test_a_study_that_all_have_left(tmp_path: Path) -> None:
    with local_study(tmp_path, EXACT) as study:
        study.release()
        with study.store.snapshot() as connection:
            ids = [row["id"] for row in list_clients(connection)]
        for client in ids:
            study.do(clients.forget, client)
        study.release()
        assert states(study) == {}


TAMPERING: list[tuple[str, str, str, set[str]]] = [
    ("a changed y", EXACT, "UPDATE examples SET y = y + 0.001 WHERE id = '0' AND y = 1.0", {"recomputed sums"}),
    (
        "a changed y, fixed basis",
        FIXED,
        "UPDATE examples SET y = y + 0.001 WHERE id = '0' AND y = 1.0",
        {"recomputed sums"},
    ),
    ("a changed x", EXACT, "UPDATE examples SET x = zeroblob(8) WHERE id = '1'", {"recomputed sums"}),
    ("a cut x", FIXED, "UPDATE examples SET x = zeroblob(7) WHERE id = '1'", {"last release"}),
    ("a deleted example", PRIVATE, "DELETE FROM examples WHERE id = '1'", {"counts"}),
    ("a deleted example, exact", EXACT, "DELETE FROM examples WHERE id = '1'", {"counts", "recomputed sums"}),
    ("a changed count", PRIVATE, "UPDATE clients SET count = 1 WHERE name = 'bob'", {"counts"}),
    ("a client gone", PRIVATE, "DELETE FROM clients WHERE name = 'bob'", {"database"}),
    ("a row of the log gone", PRIVATE, "DELETE FROM log WHERE sequence = 2", {"log"}),
    ("the head behind", EXACT, "UPDATE head SET sequence = 2", {"log", "versions"}),
    ("an example of another", PRIVATE, "UPDATE examples SET sequence = 4 - sequence WHERE sequence = 1", {"log"}),
    ("a ledger row gone", PRIVATE, "DELETE FROM ledger WHERE version = 1", {"ledger", "chain"}),
    ("a ledger row more", PRIVATE, "INSERT INTO ledger VALUES (3, 1.0)", {"ledger", "chain"}),
    ("less noise in the ledger", PRIVATE, "UPDATE ledger SET scale = scale / 2 WHERE version = 2", {"ledger", "chain"}),
    (
        "a release gone",
        PRIVATE,
        "DELETE FROM releases WHERE version = 1",
        {"versions", "ledger", "released bytes", "chain"},
    ),
    ("a release gone, exact", EXACT, "DELETE FROM releases WHERE version = 1", {"versions", "chain"}),
    ("broken bytes", EXACT, "UPDATE releases SET data = substr(data, 9) WHERE version = 2", {"last release", "chain"}),
    (
        "no noisy sum",
        PRIVATE,
        "UPDATE releases SET noisy = NULL WHERE version = 1",
        {"versions", "released bytes", "chain"},
    ),
    ("no policy", PRIVATE, "UPDATE settings SET value = '{}' WHERE key = 'pinned'", {"study file", "chain"}),
    (
        "a restore that is none",
        PRIVATE,
        "INSERT INTO settings VALUES ('restored', '[1]')",
        {"study file", "versions", "ledger", "chain"},
    ),
    ("a client that pays less", PER_CLIENT, "UPDATE taken SET releases = 1", {"clients' budgets", "chain"}),
    ("a client that pays more", PER_CLIENT, "UPDATE taken SET releases = 3", {"clients' budgets", "chain"}),
]


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize(
    ("backend", "what", "body", "statement", "found"),
    [
        pytest.param(kind, *case, id=f"{kind}, {case[0]}")
        for kind, cases in (("sqlite", TAMPERING), ("postgresql", TAMPERING[::5]))  # the checks are the same
        for case in cases
    ],
    indirect=["backend"],
)
def test_tampering_is_found(tmp_path: Path, what: str, body: str, statement: str, found: set[str]) -> None:
    with local_study(tmp_path, body) as study:
        study.release(2)
        assert states(study) == {}
        study.execute(statement)
        wrong = {name for name, state in states(study).items() if state == "failed"}
        assert found <= wrong, what
        assert wrong - found <= {"recomputed sums", "last release"}, what


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("body", [EXACT, PRIVATE], ids=["exact", "private"])
def test_release_bytes_that_were_altered_skilfully(tmp_path: Path, body: str) -> None:
    """With a checksum that fits."""
    with local_study(tmp_path, body) as study:
        study.release()
        with study.store.snapshot() as connection:
            data = connection.exec_driver_sql("SELECT data FROM releases").scalar_one()
        forged = replace(Disclosed.from_bytes(data), theta=Disclosed.from_bytes(data).theta + 0.001)
        study.execute("UPDATE releases SET data = :data", data=forged.to_bytes())
        assert states(study) == {"released bytes": "failed", "chain": "failed"}


def without(total: Integers, _: float) -> Integers:
    return total


def too_little(total: Integers, deviation: float) -> Integers:
    return np.asarray(total + np.random.default_rng(0).normal(0, deviation / 4, len(total)).astype(np.int64))


@pytest.mark.parametrize("noise", [without, too_little])
def test_noise_that_is_not_the_ledgers(tmp_path: Path, noise: Callable[[Integers, float], Integers]) -> None:
    with local_study(tmp_path, PRIVATE, noise=noise) as study:
        study.release()
        assert states(study) == {"recomputed sums": "failed"}


def test_what_is_no_database_of_a_study(tmp_path: Path) -> None:
    path, database = tmp_path / "study.toml", tmp_path / "study.db"
    path.write_text(EXACT, encoding="utf-8")
    with pytest.raises(InvalidStore, match="got none: serve the study first"):
        verify(Study.load(path), silent)
    assert not database.exists()
    database.write_bytes(b"something else, long enough to be read as a header" * 20)
    with pytest.raises(InvalidStore, match="file is not a database"):
        verify(Study.load(path), silent)
    database.unlink()
    reopened(path, 0.0).store.close()
    assert {"study file", "last release"} == states(Study.load(path)).keys()
