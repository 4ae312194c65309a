"""What every command has: help in one form, versions, completion, and errors in one line or as JSON."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import motet
from motet.cli.app import COMMANDS, app
from motet.errors import InvalidData

NAMES = [command.__name__ for command, _ in COMMANDS]


def invoked(*arguments: str, **variables: str | None) -> Any:
    return CliRunner().invoke(app, arguments, env={"MOTET_TOKEN": None, "MOTET_URL": None, **variables})


def test_the_program_shows_its_help_and_version() -> None:
    """Started as people start it."""
    for arguments, shown in ((["demo", "-h"], "Examples:\n  motet demo"), (["-V"], f"motet {motet.__version__}\n")):
        command = [sys.executable, "-m", "motet", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
        assert shown in done.stdout
    for same in ("--version", "version"):
        assert invoked(same).stdout == f"motet {motet.__version__}\n"


def test_without_a_command_the_commands_are_listed() -> None:
    alone, asked = invoked(), invoked("--help")
    assert (alone.exit_code, asked.exit_code) == (2, 0)
    for listed in (alone.output, asked.output):
        assert re.findall(r"^  (\w+)  ", listed, re.MULTILINE) == NAMES
    for option in ("-V, --version", "-h, --help", "--install-completion", "--show-completion"):
        assert option in asked.output


@pytest.mark.parametrize("name", NAMES)
def test_help_fits_a_terminal_and_spells_one_way(name: str) -> None:
    text = invoked(name, "--help", COLUMNS="80").output
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r"<\w+>|\{\w", text)  # no types and braces of a library
    assert text == invoked(name, "-h", COLUMNS="80").output


def test_completion_is_offered() -> None:
    words = {"_MOTET_COMPLETE": "complete_bash", "COMP_WORDS": "motet re", "COMP_CWORD": "1"}
    command = [sys.executable, "-m", "motet"]
    done = subprocess.run(command, env=os.environ | words, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.split() == ["release", "replace", "remove", "restore", "reproduce"]


def test_an_error_is_json_where_the_output_would_be(tmp_path: Path) -> None:
    table = tmp_path / "own.csv"
    table.write_text("Hours,Y\n1,2\n", encoding="utf-8")
    arguments = ["send", str(table), "--tokens", str(table)]
    plain, data = invoked(*arguments), invoked(*arguments, "--json")
    assert (plain.exit_code, plain.stdout, data.exit_code, data.stdout) == (1, "", 1, "")
    error = json.loads(data.stderr)["error"]
    assert plain.stderr == f"motet: {error['message']}\n"
    assert (error["code"], error["where"]) == ("invalid_data", None)
    table.write_text("name,token\nann,\n", encoding="utf-8")
    cell = json.loads(invoked(*arguments, "--json").stderr)["error"]
    assert cell["where"] == "own.csv, row 2, column token"
    system = invoked("download", "--out", str(tmp_path), "--force", "--url", "http://127.0.0.1:1", "--json")
    assert json.loads(system.stderr)["error"]["code"] == "unreachable"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("demo --clients 5", "expected a whole number from 20 to 20000, got '5'"),
        ("demo --seconds=soon", "expected a number from 1, got 'soon'"),
        ("init x.toml --policy secret", "expected private or exact, got 'secret'"),
        ("predict --top many", "expected a whole number from 1, got 'many'"),
    ],
)
def test_a_value_that_is_wrong_is_shown(arguments: str, message: str) -> None:
    ended = invoked(*arguments.split())
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert message in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("send a.csv --tokens b.csv --only ann", "expected --only NAME, with MOTET_TOKEN, or --tokens FILE"),
        ("predict a.csv --each", "give it with --own FILE, or give --tokens FILE"),
        ("predict a.csv --own b.csv --tokens c.csv", "expected --own (examples that stay here) or --tokens"),
        (
            "predict a.csv --own b.csv --each --only ann",
            "expected --only NAME, for one of them, or --each, for all",
        ),
        ("predict a.csv --tokens b.csv --release r", "give it with --own FILE or --average"),
        ("predict a.csv --only ann", "give it with --own FILE"),
        ("predict a.csv --own b.csv --average", "--average is not of any client: leave out --own"),
        ("clients revoke", "expected a client to revoke: motet clients revoke NAME"),
        ("remove", "expected the examples to remove: motet remove ID…, or motet remove --examples FILE"),
        ("remove a --examples b.csv", "expected the examples to remove: motet remove ID…, or"),
        ("remove a --tokens b.csv", "give them with --examples FILE"),
        ("replace a.csv --tokens b.csv --only ann", "expected --only NAME, with MOTET_TOKEN, or --tokens FILE"),
        ("forget --tokens b.csv", "expected the client to forget: motet forget NAME --tokens FILE"),
        ("audit a.safetensors --own b.csv", "give the later one too"),
    ],
)
def test_options_that_do_not_go_together(arguments: str, message: str) -> None:
    ended = invoked(*arguments.split())
    assert (ended.exit_code, ended.stderr.count("\n"), ended.stdout) == (1, 1, "")
    assert message in ended.stderr


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("a.csv exists: overwrite it with force=True", "a.csv exists: overwrite it with --force"),
        ('such as encoding="cp1252", or latin-1', "such as --encoding cp1252, or latin-1"),
        ("task= and inputs= differ (skip_missing=)", "--client and --inputs differ (--skip-missing)"),
        ("inputs=ann/a.csv: got 'force=True', x.force=True", "inputs=ann/a.csv: got 'force=True', x.force=True"),
        ("top= is of another command", "top= is of another command"),
    ],
)
def test_settings_of_python_are_options_here(message: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise InvalidData(message)

    monkeypatch.setattr("motet.cli.fit.check_new", refuse)
    assert invoked("fit", "a.csv").stderr == f"motet: {shown}\n"
