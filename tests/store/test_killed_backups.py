"""Backups and restorations that are killed at every operation on a file, or run out of room: whole, or not there."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from motet.errors import InvalidStore
from motet.store.backup import back_up, restore, workspace
from motet.store.releases import current_ledger
from motet.store.store import Store
from motet.study.study import Study
from tests.scenarios.harness import END, FORKS
from tests.store.local_study import BEGIN, EVERY, PRIVATE, local_study, states

OPERATIONS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "sqlite3.connect")


def killed_at(count: int, command: Callable[..., object], *arguments: Any, **options: Any) -> None:
    """Run a command in this process, which kills itself before its n-th operation on a file in the study's folder."""
    left, folder = [count], str(arguments[1].parent)

    def audit(event: str, given: tuple[Any, ...]) -> None:
        if event in OPERATIONS and any(str(one).startswith((folder, f"file://{folder}")) for one in given):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(audit)
    command(*arguments, **options)


def is_killed(count: int, command: Callable[..., object], *arguments: Any, **options: Any) -> bool:
    process = FORKS.Process(target=killed_at, args=(count, command, *arguments), kwargs=options, daemon=True)
    process.start()
    process.join(END)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def leftovers(folder: Path) -> list[str]:
    """Files in the workspaces of commands that are gone."""
    return [str(path.relative_to(folder)) for path in folder.glob(".*-*/**/*") if path.is_file()]


@pytest.mark.slow
def test_kills_at_every_point_of_a_backup_and_of_its_restoration(tmp_path: Path) -> None:
    """A file that is there can be restored, and what is restored has been charged; the next run leaves nothing else."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    with local_study(source, PRIVATE) as study:
        study.release(2)
        now = study.now
        kills = 0
        for count in range(1, 1000):
            file = target / f"{count}.zip"
            if not is_killed(count, back_up, study.study, file, now=now):
                break
            kills += 1
            if file.exists():
                assert restore(file, target / f"of-{count}", now=now).gap.last == 2
        assert kills > 10
        assert states(study) == {}
    assert leftovers(target) == []
    for count in range(1, 1000):
        if not is_killed(count, restore, file, target / f"new-{count}", now=now + EVERY):
            break
        if (target / f"new-{count}").exists():
            assert charged(target / f"new-{count}") == 3
    assert count > 10
    assert charged(target / f"new-{count}") == 3
    assert leftovers(target) == []


def charged(folder: Path) -> int:
    """Releases in the ledger of a restored study; its file and database are whole."""
    study = Study.load(folder / "study.toml")
    assert "failed" not in states(study).values()
    planned, store = study.ledger(), Store(study.store_url)
    assert planned is not None
    with store.snapshot() as connection:
        made = current_ledger(connection, planned).releases_made
    store.close()
    return made


def test_a_workspace_that_is_in_use_is_left_alone(tmp_path: Path) -> None:
    with workspace(tmp_path, ".backup-") as first:
        (first / "file").touch()
        with workspace(tmp_path, ".backup-") as second:
            assert first != second
        assert (first / "file").exists()
    assert list(tmp_path.iterdir()) == []


def out_of_room(file: Path, study: Path) -> None:
    """Files of this process grow no more, as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    loaded = Study.load(study)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))
    with pytest.raises(InvalidStore, match=r"(room|choose another place)"):
        back_up(loaded, file)


def test_without_room_there_is_no_backup_and_the_message_says_so(tmp_path: Path, store_url: str) -> None:
    with local_study(tmp_path, PRIVATE + f'[store]\nurl = "{store_url}"\n') as study:
        study.release(2)
        back_up(study.study, tmp_path / "first.zip", now=BEGIN)
        process = FORKS.Process(target=out_of_room, args=(tmp_path / "full.zip", study.study.path), daemon=True)
        process.start()
        process.join(END)
        assert process.exitcode == 0
        assert sorted(path.name for path in tmp_path.glob("*.zip")) == ["first.zip"]
        assert list(tmp_path.glob(".backup-*")) == []
        assert states(study) == {}
