"""Nothing secret is where others look: not in logs, in the list of processes, or in files that need not have it.

A session of everything that a client can do, and of what goes wrong; then all that was written is searched for tokens,
for what clients sent, and for their names. Names and examples are in the database alone, tokens not even there.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from motet import Client
from motet.errors import MotetError
from tests.cli.program import good, refused, run
from tests.scenarios.harness import CURVES, END, OPERATOR, Program, children, parts, poll, program, write_study

EXACT = CURVES + '[release]\npolicy = "exact"\nevery = "1h"\n'
NAMES = ("Wilhelmina-Quux", "Ottokar-Zzyzx")
STAYS, GOES = 1.2345678901234, 2.3456789012345  # outputs: of an example that stays, and of those that are removed
IDS = ("id-of-okapi", "id-of-quokka", "id-of-axolotl")
WRONG = "a-wrong-token-of-somebody"
MALFORMED = "malformed-body-of-a-client"


@pytest.fixture(autouse=True)
def usual_mask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def session(served: Program) -> list[str]:
    """All that clients do, right and wrong; returns their tokens."""
    with served.operator() as operator:
        first, second = operator.enroll(NAMES)
        rotated = operator.rotate(first.id)
        me, other = (operator.with_token(token) for token in (rotated, second.token))
        me.send([0.5], STAYS, id=IDS[0])
        me.send([0.25], GOES, id=IDS[1])
        me.replace(IDS[1], [0.75], GOES + 1)
        me.remove(IDS[1])
        other.send([0.5], GOES, id=IDS[2])
        operator.release_now()
        other.forget_me()
        _wrong_requests(served, rotated)
        _failing_release(served, operator)
    return [first.token, second.token, rotated]


def _wrong_requests(served: Program, token: str) -> None:
    mine, bad = ({"Authorization": f"Bearer {one}"} for one in (token, WRONG))
    with httpx.Client(base_url=served.url, timeout=END) as http:
        assert http.get("/v1/me", headers=bad).status_code == 401
        for body in (
            f'{{"{MALFORMED}": {STAYS}}}',
            f'{{"examples": [{{"id": "{MALFORMED}", "x": ["{STAYS}"], "y": 1}}]}}',
        ):
            assert http.post("/v1/examples", content=body, headers=mine).status_code == 422
        assert http.put(
            f"/v1/me/examples/{IDS[2]}?after={MALFORMED}", json={"x": [0], "y": GOES}, headers=mine
        ).is_error


def _failing_release(served: Program, operator: Client) -> None:
    """Another program damages an example, and a new publisher reads it; then it is as it was."""

    def overwrite(x: bytes) -> None:
        with closing(sqlite3.connect(served.study.with_suffix(".db"), timeout=END)) as database, database:
            database.execute("UPDATE examples SET x = ? WHERE x IS NOT NULL", (x,))

    overwrite(b"abc")
    served.kill_publisher()
    with pytest.raises(MotetError):
        operator.release_now()
    overwrite(struct.pack("<d", 0.5))


def processes(served: Program) -> bytes:
    """Command lines of server and publisher, and the publisher's variables; the server's have the operator's token."""
    pids = [served.process.pid, *poll(lambda: children(served.process.pid), END, "a publisher")]
    lines = b"".join(Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids)
    return lines + b"".join(Path(f"/proc/{pid}/environ").read_bytes() for pid in pids[1:])


@pytest.mark.parametrize("log_format", ["json", "plain"])
def test_no_secret_is_in_logs_processes_or_files(tmp_path: Path, log_format: str) -> None:
    study = write_study(tmp_path, EXACT)
    with program(study, "--log-level", "debug", "--log-format", log_format) as served:
        tokens = session(served)
        listed = processes(served)
    crash = run("serve", study, "--host", "0.0.0.0x", MOTET_OPERATOR_TOKEN=OPERATOR)
    refused(crash, "server.host")
    written = served.log().encode() + crash.out.encode() + crash.err.encode() + listed
    secrets = [OPERATOR, *tokens, WRONG, MALFORMED, *NAMES, *IDS, str(STAYS), str(GOES), str(GOES + 1)]
    assert not [secret for secret in secrets if secret.encode() in written]
    for path in tmp_path.rglob("*"):
        data = path.read_bytes()
        assert not [token for token in (OPERATOR, *tokens, WRONG) if token.encode() in data], path
        if not path.name.startswith("study.db"):
            assert not [secret for secret in secrets if secret.encode() in data], path
        for gone in (GOES, GOES + 1):
            assert struct.pack(">d", gone) not in data, path
    assert served.on_disk(struct.pack(">d", STAYS))  # what is searched for would be found
    assert b"status" in written


def test_only_the_owner_can_read_what_is_private(tmp_path: Path) -> None:
    study = write_study(tmp_path, EXACT)
    with parts(study) as served:
        tokens = tmp_path / "tokens.csv"
        address = {"MOTET_URL": served.url, "MOTET_OPERATOR_TOKEN": OPERATOR}
        good(run("enroll", *NAMES, "--out", tokens, **address))
        good(run("backup", study, tmp_path / "backup.zip"))
        private = [path for path in tmp_path.iterdir() if path not in (study, study.with_suffix(".log"))]
        assert {"study.db", "study.db-wal", "study.db-shm", "tokens.csv", "backup.zip"} <= {
            path.name for path in private
        }
        assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in private} == {
            path.name: 0o600 for path in private
        }
    good(run("restore", tmp_path / "backup.zip", tmp_path / "restored"))
    assert stat.S_IMODE((tmp_path / "restored").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "restored" / "study.db").stat().st_mode) == 0o600
