"""A database file takes one server at a time, by whatever name it is reached."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from motet.errors import InvalidStore
from motet.store.store import Store
from tests.scenarios.harness import END


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Path]:
    """A database that a server has."""
    database = tmp_path / "study.db"
    with closing(Store(f"sqlite:///{database}", serving=True)):
        yield database


def refusal(database: Path) -> str:
    with pytest.raises(InvalidStore) as refused:
        Store(f"sqlite:///{database}", serving=True)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_a_second_server_is_refused_and_the_publisher_is_not(served: Path, tmp_path: Path) -> None:
    expected = f"{served} is already served, by process {os.getpid()}: stop that server first"
    assert refusal(served).startswith(expected)
    Store(f"sqlite:///{served}").close()
    assert refusal(served).startswith(expected)  # that one's end has not released it
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "other.db").symlink_to(served)
    assert f"is already served, by process {os.getpid()}" in refusal(tmp_path / "elsewhere" / "other.db")


def test_a_database_with_two_names_is_refused(tmp_path: Path) -> None:
    """SQLite would keep two write-ahead logs for it."""
    database, other = tmp_path / "study.db", tmp_path / "other.db"
    Store(f"sqlite:///{database}", serving=True).close()
    os.link(database, other)
    for name in (database, other):
        assert refusal(name) == f"{name}: expected a file with one name, got 2 hard links: remove the others"
    other.unlink()
    Store(f"sqlite:///{database}", serving=True).close()


def test_a_server_that_was_killed_leaves_it_to_the_next(tmp_path: Path) -> None:
    database = tmp_path / "study.db"
    take = "import sys; from pathlib import Path; from motet.store.sqlite import server_lock; "
    take += "lock = server_lock(Path(sys.argv[1]), ''); lock.__enter__(); print('locked', flush=True); sys.stdin.read()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", take, str(database)], **pipes) as server:  # type: ignore[call-overload]
        assert server.stdout.readline() == b"locked\n"
        assert f"by process {server.pid}:" in refusal(database)
        server.kill()
        server.wait(END)
        Store(f"sqlite:///{database}", serving=True).close()
