"""The chain: rows that another program deleted, changed or inserted are noticed, and nothing is released on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from motet.errors import InvalidStore
from motet.store.backup import back_up, restore
from motet.store.chain import head
from motet.store.pins import pin
from motet.store.releases import refusal
from motet.store.verify import verify
from motet.study.study import Study
from tests.store.local_study import EXACT, PER_CLIENT, PRIVATE, LocalStudy, local_study, reopened, silent, states

TAMPERING: dict[str, tuple[str, str]] = {
    "the last release undone": (
        PRIVATE,
        "DELETE FROM ledger WHERE version = 3; DELETE FROM releases WHERE version = 3",
    ),
    "all releases undone": (PRIVATE, "DELETE FROM ledger; DELETE FROM releases"),
    "a release and its charge inserted": (
        PRIVATE,
        "INSERT INTO releases SELECT 4, sequence, made, data, noisy FROM releases WHERE version = 3; "
        "INSERT INTO ledger SELECT 4, scale FROM ledger WHERE version = 3",
    ),
    "releases in another order": (
        PRIVATE,
        "UPDATE releases SET version = -version; UPDATE releases SET version = 4 + version",
    ),
    "another time": (PRIVATE, "UPDATE releases SET made = made - 1 WHERE version = 1"),
    "another noisy sum": (PRIVATE, "UPDATE releases SET noisy = zeroblob(length(noisy)) WHERE version = 1"),
    "nobody has taken part": (PER_CLIENT, "DELETE FROM taken"),
    "somebody has taken part less": (PER_CLIENT, "UPDATE taken SET releases = 2"),
    "somebody else has taken part": (PER_CLIENT, "INSERT INTO taken VALUES ('somebody', 1)"),
    "a restoration that was not": (
        PRIVATE,
        """INSERT INTO settings VALUES ('restored', '[{"version": 3, "last": 3, "made": 1.0, "at": 1.0}]')""",
    ),
    "a larger budget": (PRIVATE, """UPDATE settings SET value = replace(value, 'releases":6', 'releases":9')"""),
    "a link gone": (PRIVATE, "DELETE FROM chain WHERE number = 2"),
    "a link changed": (PRIVATE, "UPDATE chain SET content = '{}' WHERE number = 2"),
    "the last link gone": (PRIVATE, "DELETE FROM chain WHERE number = 4"),
    "no link left": (PRIVATE, "DELETE FROM chain"),
    "another part of the log": (EXACT, "UPDATE releases SET sequence = 1 WHERE version = 1"),
}


def report(study: LocalStudy) -> str:
    with study.store.snapshot() as connection:
        return refusal(connection) or ""


@pytest.mark.parametrize("what", TAMPERING)
def test_tampering_is_noticed_and_nothing_is_released_on_it(tmp_path: Path, what: str) -> None:
    body, statements = TAMPERING[what]
    with local_study(tmp_path, body) as study:
        assert study.release(3) == [1, 2, 3]
        assert states(study) == {}
        for statement in statements.split("; "):
            study.execute(statement)
        assert states(study)["chain"] == "failed"
        again = reopened(study.study.path, study.now)
        assert again.release() == [None]
        assert "was changed" in report(again)
        assert "\n" not in report(again)
        if body != EXACT:  # without noise, a publisher that knows its own last link looks no further
            study.now = again.now
            assert study.release() == [None]
        again.store.close()


def test_bytes_that_were_changed_are_noticed_by_verification(tmp_path: Path) -> None:
    for k, body in enumerate((EXACT, PRIVATE)):
        (tmp_path / str(k)).mkdir()
        with local_study(tmp_path / str(k), body) as study:
            study.release(2)
            study.execute("UPDATE releases SET data = zeroblob(1) WHERE version = 1")
            assert states(study) == {"chain": "failed"}


@pytest.mark.usefixtures("backend")
def test_a_budget_that_was_spent_stays_spent(tmp_path: Path) -> None:
    with local_study(tmp_path, PRIVATE) as study:
        assert study.release(6) == [1, 2, 3, 4, 5, 6]
        for table in ("ledger", "releases"):
            study.execute(f"DELETE FROM {table} WHERE version > 2")
        assert study.release(4) == [None] * 4


def test_what_was_changed_back_is_no_harm(tmp_path: Path) -> None:
    with local_study(tmp_path, PRIVATE) as study:
        study.release()
        study.execute("UPDATE ledger SET scale = 2 * scale")
        assert study.release() == [None]
        study.execute("UPDATE ledger SET scale = scale / 2")
        assert study.release() == [2]
        assert (states(study), report(study)) == ({}, "")


@pytest.mark.usefixtures("backend")
def test_a_start_and_a_restoration_do_not_cure_it(tmp_path: Path) -> None:
    with local_study(tmp_path, PRIVATE) as study:
        study.release(2)
        for statement in ("DELETE FROM ledger WHERE version = 2", "DELETE FROM releases WHERE version = 2"):
            study.execute(statement)
        back_up(study.study, tmp_path / "backup.zip", now=study.now)
        pin(study.store, study.study, now=study.now)
        assert states(study)["chain"] == "failed"
        study.study.path.write_text(PRIVATE.replace('every = "10s"', 'every = "11s"'), encoding="utf-8")
        with pytest.raises(InvalidStore, match="was changed by another program: check it with motet verify"):
            pin(study.store, Study.load(study.study.path), now=study.now)
    with pytest.raises(InvalidStore, match="was changed by another program"):
        restore(tmp_path / "backup.zip", tmp_path / "new", now=study.now)


@pytest.mark.usefixtures("backend")
def test_what_may_change_makes_a_link(tmp_path: Path) -> None:
    """Starts with other settings, releases and restorations; a start alone does not."""
    with local_study(tmp_path, EXACT) as study:
        study.release(2)
        study.study.path.write_text(EXACT.replace("alpha = 0.5", "alpha = 0.4"), encoding="utf-8")
        better = Study.load(study.study.path)
        for _ in range(3):
            pin(study.store, better, now=study.now)
        assert states(study) == {}
        assert study.release() == [None]
        assert "study.toml was changed since the server started" in report(study)
        back_up(better, tmp_path / "backup.zip", now=study.now)
    done = restore(tmp_path / "backup.zip", tmp_path / "new", now=study.now)
    again = reopened(done.study.path, study.now)
    assert again.release() == [done.gap.last + 1]
    assert states(again) == {}
    with again.store.snapshot() as connection:
        kinds = connection.exec_driver_sql("SELECT kind FROM chain ORDER BY number").scalars().all()
    assert kinds == ["start", "release", "release", "start", "restoration", "release"]
    again.store.close()


def test_a_chain_that_was_written_anew_lacks_a_digest_that_was_seen(tmp_path: Path) -> None:
    with local_study(tmp_path, PRIVATE) as study:
        study.release(2)
        with study.store.snapshot() as connection:
            digest = head(connection)
        assert study.release() == [3]
        assert with_witness(study, digest) == with_witness(study, digest[:12]) == "ok"
        for table in ("ledger", "releases"):
            study.execute(f"DELETE FROM {table} WHERE version > 1")
        study.execute("DELETE FROM chain WHERE number > 2")
        assert states(study) == {}  # as if the last two had never been,
        assert with_witness(study, digest) == "failed"  # if nobody had seen them
        assert study.release() == [2]
        assert with_witness(study, digest) == "failed"


def with_witness(study: LocalStudy, digest: str) -> str:
    (state,) = [check.state for check in verify(study.study, silent, witness=digest) if check.name == "chain"]
    return state
