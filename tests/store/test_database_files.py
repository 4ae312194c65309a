"""The files of a database: for their owner alone, still the ones that were opened, or refused in one line."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from motet.errors import Busy, InvalidStore
from motet.store.examples import add
from motet.store.store import Store
from tests.scenarios.harness import END, FORKS
from tests.store.empty_store import addition, enrolled, example

SUFFIXES = ("", "-wal", "-shm")
NOBODY = 65534


@pytest.fixture(autouse=True)
def usual_mask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def rights(database: Path) -> list[int]:
    return [stat.S_IMODE(Path(f"{database}{suffix}").stat().st_mode) for suffix in SUFFIXES]


def test_only_the_owner_can_read_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    database = tmp_path / "study.db"
    (tmp_path / "link.db").symlink_to(database)
    store = Store(f"sqlite:///{tmp_path / 'link.db'}")
    assert rights(database) == [0o600] * 3
    for suffix in SUFFIXES:
        os.chmod(f"{database}{suffix}", 0o664)
    again = Store(f"sqlite:///{database}")  # as earlier versions left them, or a copy by hand
    assert rights(database) == [0o600] * 3
    assert caplog.text.count("could be read by others: from now on only by its owner") == 3
    again.close()
    store.close()


@pytest.mark.parametrize("suffix", SUFFIXES, ids=["database", "log", "index"])
@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "replaced"])
def test_nothing_is_written_to_files_that_are_gone(
    file_store: Store, tmp_path: Path, suffix: str, replaced: bool
) -> None:
    (ann,) = enrolled(file_store, "ann")
    file, elsewhere = tmp_path / f"study.db{suffix}", tmp_path / "elsewhere"
    file.rename(elsewhere)
    if replaced:
        file.write_bytes(elsewhere.read_bytes())
    with pytest.raises(Busy, match="deleted or replaced"), file_store.snapshot():
        pass
    with pytest.raises(Busy, match="deleted or replaced"), file_store.transaction() as c:
        add(c, addition(ann.id, [example("1")], 9))
    assert file.exists() == replaced
    elsewhere.rename(file)
    with file_store.transaction() as c:
        assert add(c, addition(ann.id, [example("1")], 9)).accepted == 1


def test_a_commit_to_files_that_went_meanwhile_is_no_success(file_store: Store, tmp_path: Path) -> None:
    with pytest.raises(Busy, match="deleted or replaced"), file_store.transaction():
        (tmp_path / "study.db").unlink()


# --- files that cannot be used ---


def attempt(database: Path, result: Path) -> None:
    """Open a database as a user without rights, and write down what comes of it."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    try:
        Store(f"sqlite:///{database}").close()
        result.write_text("opened", encoding="utf-8")
    except InvalidStore as error:
        result.write_text(str(error), encoding="utf-8")


@pytest.mark.parametrize(
    ("folder_mode", "database_mode", "reason"),
    [
        (0o555, None, "Permission denied"),
        (0o555, 0o666, "attempt to write a readonly database"),
        (0o777, 0o444, "attempt to write a readonly database"),
        (0o000, 0o666, "Permission denied"),
    ],
    ids=["a folder without a database", "a folder", "a file", "a hidden folder"],
)
def test_what_is_read_only_is_refused_in_one_line(folder_mode: int, database_mode: int | None, reason: str) -> None:
    with tempfile.TemporaryDirectory() as outside, tempfile.TemporaryDirectory() as results:
        folder, result = Path(outside), Path(results) / "result"
        os.chmod(results, 0o777)
        if database_mode is not None:
            Store(f"sqlite:///{folder / 'study.db'}").close()
            os.chmod(folder / "study.db", database_mode)
        os.chmod(folder, folder_mode)
        child = FORKS.Process(target=attempt, args=(folder / "study.db", result))
        child.start()
        child.join(END)
        os.chmod(folder, 0o700)
        text = result.read_text(encoding="utf-8")
    assert f"study.db: expected a study's database, got {reason}; check the path and its permissions" in text
    assert "\n" not in text


@pytest.mark.parametrize(
    "make",
    [lambda path: path.mkdir(), os.mkfifo, lambda path: path.symlink_to("/dev/zero")],
    ids=["folder", "pipe", "device"],
)
def test_what_is_no_file_is_refused_in_one_line(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "study.db")
    with pytest.raises(
        InvalidStore, match="expected a study's database, got something that is not a file; check"
    ) as no:
        Store(f"sqlite:///{tmp_path / 'study.db'}")
    assert "\n" not in str(no.value)


@pytest.mark.parametrize("url", ["sqlite:///:memory:", "sqlite:///file:study.db?uri=true", "sqlite:///"])
def test_a_database_without_a_file_is_refused(url: str) -> None:
    with pytest.raises(InvalidStore, match=r"store\.url: expected the path of a file, got"):
        Store(url)
