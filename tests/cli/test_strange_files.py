"""Files that are nothing of ours, as study, database or backup: every command refuses them in one line, at once."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from motet.cli.app import app
from tests.store.local_study import EXACT


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)


STRANGE: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: path.parent.mkdir(exist_ok=True),
    "folder": lambda path: path.mkdir(),
    "pipe": os.mkfifo,
    "socket": a_socket,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "link to nothing": lambda path: path.symlink_to("nowhere"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "empty": lambda path: path.touch(),
    "text": lambda path: path.write_text("hello\n" * 1000, encoding="utf-8"),
    "bytes": lambda path: path.write_bytes(bytes(range(256)) * 100),
    "huge": huge,
}


@pytest.mark.parametrize("kind", STRANGE)
def test_every_command_refuses_in_one_line(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    STRANGE[kind](Path("file"))
    Path("study.toml").write_text(f'{EXACT}[store]\nurl = "sqlite:///file"\n', encoding="utf-8")
    for arguments in (
        *(["verify", file] for file in ("file", "study.toml")),
        *(["backup", file, "backup.zip"] for file in ("file", "study.toml")),
        *(["export", file, "ann"] for file in ("file", "study.toml")),
        ["restore", "file", "new"],
        ["serve", "file"],
    ):
        ended = CliRunner().invoke(app, arguments)
        assert isinstance(ended.exception, SystemExit), (arguments, ended.exception)
        assert (ended.exit_code, ended.stdout, ended.stderr.count("\n")) == (1, "", 1), (arguments, ended.stderr)
        assert "expected" in ended.stderr
    assert {path.name for path in tmp_path.iterdir()} <= {"file", "study.toml"}
