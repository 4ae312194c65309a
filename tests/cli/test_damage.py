"""Files that were damaged anywhere: each command on them succeeds, or refuses in one line.

MOTET_FUZZ_CASES is how many files are tried.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from typer.testing import CliRunner

from motet.cli.app import app
from tests.store.local_study import EXACT, PRIVATE, local_study

CASES = int(os.environ.get("MOTET_FUZZ_CASES", "8"))
PAGE = 4096  # bytes, of SQLite


def flipped(rng: random.Random, data: bytearray) -> None:
    for _ in range(rng.randrange(1, 40)):
        data[rng.randrange(len(data))] = rng.randrange(256)


def header(rng: random.Random, data: bytearray) -> None:
    for _ in range(3):
        data[rng.randrange(100)] = rng.randrange(256)


def cut(rng: random.Random, data: bytearray) -> None:
    del data[rng.randrange(len(data)) :]


def page(rng: random.Random, data: bytearray) -> None:
    begin = rng.randrange(0, len(data), PAGE)
    data[begin : begin + PAGE] = rng.randbytes(len(data[begin : begin + PAGE]))


def inserted(rng: random.Random, data: bytearray) -> None:
    begin = rng.randrange(len(data))
    data[begin:begin] = rng.randbytes(100)


DAMAGES: list[Callable[[random.Random, bytearray], None]] = [flipped, header, cut, page, inserted]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A database with noise and one without, a backup, and a release."""
    folder = tmp_path_factory.mktemp("whole")
    with ExitStack() as stack:
        for name, text in (("private", PRIVATE), ("exact", EXACT)):
            (folder / name).mkdir()
            stack.enter_context(local_study(folder / name, text)).release()
    assert run("backup", folder / "private" / "study.toml", folder / "backup.zip")
    return {"private": folder / "private", "exact": folder / "exact", "backup": folder / "backup.zip"}


def run(*arguments: object) -> bool:
    """Whether the command succeeded; it may also fail in one line."""
    ended = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert ended.exception is None or isinstance(ended.exception, SystemExit), (arguments, ended.exception)
    assert ended.exit_code == 0 or (ended.exit_code, ended.stderr.count("\n")) == (1, 1), (arguments, ended.stderr)
    return ended.exit_code == 0


@pytest.mark.parametrize("name", ["private", "exact"])
def test_a_damaged_database(files: dict[str, Path], name: str, tmp_path: Path) -> None:
    rng, whole = random.Random(name), files[name]
    refused = 0
    for k in range(CASES):
        folder = tmp_path / str(k)
        folder.mkdir()
        (folder / "study.toml").write_bytes((whole / "study.toml").read_bytes())
        data = bytearray((whole / "study.db").read_bytes())
        rng.choice(DAMAGES)(rng, data)
        (folder / "study.db").write_bytes(data)
        refused += not run("verify", folder / "study.toml")
        run("backup", folder / "study.toml", folder / "backup.zip")
        run("export", folder / "study.toml", "ann")
    assert refused


def test_a_damaged_backup(files: dict[str, Path], tmp_path: Path) -> None:
    rng, whole = random.Random("backup"), files["backup"].read_bytes()
    for k in range(CASES):
        data = bytearray(whole)
        rng.choice(DAMAGES)(rng, data)
        (tmp_path / f"{k}.zip").write_bytes(data)
        if run("restore", tmp_path / f"{k}.zip", tmp_path / f"{k}"):
            run("verify", tmp_path / f"{k}" / "study.toml")
        else:
            assert not (tmp_path / f"{k}").exists()
