"""``motet demo`` as people run it: what it finds, that its commands work when pasted, and that it leaves nothing."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from motet.cli.app import app
from motet.cli.demo import farewell, invitation
from motet.client import Client
from motet.errors import MotetError
from motet.music.crowd import Errors
from motet.music.demo import Measurement, Reference, State
from motet.music.hosting import running_server
from motet.music.view import Scale, view
from tests.scenarios.harness import END, START, poll

ROOT = Path(__file__).parents[2]
PLAY = 300.0  # seconds, of a whole demo beside other tests: alone it takes thirty
SMALL = ("--clients", "200")  # enough that sharing gains more than the noise takes
SMALLEST = ("--clients", "20")
NOW = 1000.0  # seconds, by every clock of what is seen


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time passes for what is seen on a terminal of this process."""
    clock = SimpleNamespace(time=lambda: NOW, monotonic=lambda: NOW)
    for module in ("motet.cli.demo", "motet.music.demo", "motet.music.view"):
        monkeypatch.setattr(f"{module}.time", clock)


class Playing:
    """The program with a folder of its own for temporary files."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.temporary, self._said = folder / "tmp", folder / "said"
        self.temporary.mkdir()
        environment = {k: v for k, v in os.environ.items() if not k.startswith("MOTET_")}
        with self._said.open("w") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "motet", "demo", *options],
                env=environment | {"TMPDIR": str(self.temporary)},
                stdout=said,
                stderr=subprocess.STDOUT,
            )

    @property
    def said(self) -> str:
        return self._said.read_text(encoding="utf-8")

    def wait_for(self, text: str) -> None:
        def found() -> bool:
            assert self.process.poll() is None, self.said
            return text in self.said

        poll(found, PLAY, text)

    def end(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
        self.ended()

    def ended(self) -> None:
        """Without an error, and nothing is left of it."""
        assert self.process.wait(START) == 0, self.said
        assert list(self.temporary.iterdir()) == []
        poll(lambda: not self.processes(), END, "its server and its publisher are gone")

    def processes(self) -> list[str]:
        """Commands that run and name a file of the demo: the server's and the publisher's."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(self.temporary) in command:
                found.append(command)
        return found

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(END)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Playing]]:
    """Both beside each other, for the time of one."""
    options = {"private": "--json", "exact": "--exact"}
    playing = {name: Playing(tmp_path_factory.mktemp(name), *SMALL, option) for name, option in options.items()}
    yield playing
    for one in playing.values():
        one.kill()


@pytest.fixture(scope="module")
def private(played: dict[str, Playing]) -> Playing:
    return played["private"]


@pytest.fixture(scope="module")
def exact(played: dict[str, Playing]) -> Playing:
    return played["exact"]


def test_the_commands_that_it_shows_work_when_pasted(exact: Playing, tmp_path: Path) -> None:
    exact.wait_for("/ratings.csv")
    assert len(exact.processes()) == 2
    welcome, _, _ = exact.said.partition("release 1:")
    assert re.search(r"^Open http://127\.0\.0\.1:\d+ in a browser: rate some artists", welcome, re.MULTILINE)
    *_, invitation = exact.said.partition("Still up at ")
    assert "until Ctrl-C" in invitation
    commands = [line.strip() for line in invitation.splitlines() if line.startswith("  ") and "#" not in line]
    activate = f"{commands.pop(0)}; " if commands[0].startswith(". ") else ""
    printed = [
        subprocess.run(
            activate + command, shell=True, capture_output=True, text=True, cwd=tmp_path, check=True, timeout=300
        )
        for command in commands
    ]
    predicted, audited, sent = (done.stdout for done in printed)
    assert len(predicted.splitlines()) == 1 + 10
    assert "exact" in audited
    assert "5 accepted" in sent
    (token,) = exact.temporary.glob("*/token")
    assert token.stat().st_mode & 0o777 == 0o600
    assert token.read_text() not in exact.said


def test_sharing_beats_being_alone_and_noise_costs_a_part_of_it(private: Playing, exact: Playing) -> None:
    private.ended()
    found = json.loads(private.said)
    assert found["sent"] == found["ratings"] == 1000
    assert found["done"]
    assert found["errors"]["active"] < found["separate"]["active"]
    assert found["errors"]["passive"] < found["separate"]["passive"]
    assert 0 < found["kept"] < 1
    assert found["spent"] == pytest.approx(found["epsilon"]) == pytest.approx(3.0)
    versions = [release["version"] for release in found["releases"]]
    assert versions == sorted(set(versions))
    assert versions[-1] >= 10
    without_noise = re.findall(r"error of active ([\d.]+), of passive ([\d.]+) \(alone", exact.said)[-1]
    assert [float(error) for error in without_noise] == pytest.approx(list(found["exact"].values()), abs=6e-4)


def test_its_releases_go_on_for_as_long_as_somebody_looks(tmp_path: Path) -> None:
    playing = Playing(tmp_path, *SMALLEST)
    playing.wait_for("Still up at ")
    url = re.findall(r"Still up at (\S+) ", playing.said)[-1]
    (folder,) = playing.temporary.iterdir()
    with Client(url, (folder / "token").read_text()) as you:
        study = you.study()
        assert study["budget"]["made"] >= 10
        assert (study["budget"]["per"], study["refused"]) == ("client", None)
        assert study["next_release"] < time.time() + 61
        assert you.send("Metallica", 2.5).ended is None
        assert you.me()["ended"] is None
    playing.end(signal.SIGINT)


def test_it_stays_up_until_a_signal_and_leaves_nothing(exact: Playing) -> None:
    exact.wait_for("Still up")
    exact.end(signal.SIGINT)


@pytest.mark.parametrize(
    ("moment", "number"), [("starting the server", signal.SIGINT), ("listeners send", signal.SIGTERM)]
)
def test_a_signal_ends_it_in_the_middle(moment: str, number: signal.Signals, tmp_path: Path) -> None:
    playing = Playing(tmp_path, *SMALLEST)
    playing.wait_for(moment)
    playing.end(number)
    assert "Traceback" not in playing.said


def test_its_last_words_work_in_a_shell_without_motet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    table = "".join(f"{k % 12},{0.1 * k},{k % 12 + (k * k) % 7}\n" for k in range(120))
    (tmp_path / "own.csv").write_text(f"who,hours,level\n{table}", encoding="utf-8")
    command = farewell()[-1].replace("STUDY.toml", "own.toml").replace("TABLE.csv", "own.csv")
    command = command.replace("--client COLUMN", "--client who").replace("--target COLUMN", "--target level")
    subprocess.run(["sh", "-c", command], cwd=tmp_path, stdin=subprocess.DEVNULL, check=True, timeout=START)
    assert (tmp_path / "own.toml").exists()


@pytest.mark.usefixtures("still")
def test_it_ends_after_so_many_seconds(tmp_path: Path) -> None:
    playing = Playing(tmp_path, *SMALLEST, "--exact", "--seconds", "1")
    playing.ended()
    assert playing.said.endswith("\n".join([*farewell(), ""]))
    later = invitation(state(10, done=True, url="http://127.0.0.1:8001", folder=tmp_path), NOW + 12.2)
    assert later[0] == "Still up at http://127.0.0.1:8001 for 12 s. Try in another terminal:"
    assert any(line.endswith("/me.csv --top 10 --url http://127.0.0.1:8001") for line in later)
    assert any("send" in line for line in later)


WAITING = """
import sys
from motet.cli.app import main
from motet.music import demo
from tests.music.test_demo import state

class Played:
    state = state(10, done=True, url="http://127.0.0.1:8000", folder=".")
    def __init__(self, *args, **settings): pass
    def __enter__(self): return self
    def __exit__(self, *error): pass
    def check(self): pass

demo.Demo, sys.argv = Played, ["motet", "demo"]
main()
"""


def test_a_terminal_that_is_closed_ends_it_although_make_has_the_signal() -> None:
    ours, theirs = pty.openpty()
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    with subprocess.Popen([sys.executable, "-c", WAITING], cwd=ROOT, **streams) as process:  # type: ignore[call-overload]
        os.close(theirs)
        said = b""
        while b"Still up at" not in said:
            said += os.read(ours, 65536)
        assert process.poll() is None
        os.close(ours)  # it has no controlling terminal, so nobody sends it a signal
        try:
            assert process.wait(START) == 0
        finally:
            process.kill()


# --- mistakes ---


def demo(*options: str) -> Result:
    return CliRunner().invoke(app, ["demo", *options])


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = demo("--port", str(port))
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr == (
        f"motet: expected a free port, but {port} is taken or not allowed: "
        "choose another, or leave it out for the next free one\n"
    )


@pytest.mark.parametrize(("option", "value"), [("--clients", "3"), ("--seconds", "0")])
def test_values_out_of_range(option: str, value: str) -> None:
    refused = demo(option, value)
    assert refused.exit_code == 2
    assert option in refused.stderr


def test_without_what_a_server_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    refused = demo()
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr == "motet: the demo runs a server and needs uvicorn: pip install 'motet[server]'\n"


def test_a_server_that_does_not_start(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text("[study]\n", encoding="utf-8")
    with (
        pytest.raises(MotetError, match=r"ended with code 1: study.toml, study.name"),
        running_server(lambda _: study, [0], ""),
    ):
        pass


# --- what is seen on a terminal ---


REFERENCE = Reference(separate=Errors(0.70, 0.72), exact=Errors(0.60, 0.61))


def state(releases: int, **more: Any) -> State:
    """One whose errors fall from above those alone to just above those without noise."""
    errors = [0.74 - 0.013 * k for k in range(releases)]
    measured = [Measurement(k + 1, 100 * (k + 1), 0.3 * (k + 1), Errors(e, e)) for k, e in enumerate(errors)]
    reached = State(2000, 10_000, exact=False, releases=measured, reference=REFERENCE, **more)
    reached.version, reached.spent = releases, 0.3 * releases
    reached.arrivals.extend([NOW] * 100 * releases)
    return reached


def shown(state: State, lines_below: int = 0) -> list[str]:
    """The lines of the view at a small terminal."""
    console = Console(width=80, height=24, file=io.StringIO(), record=True)
    console.print(view(state, console, lines_below))
    return console.export_text().splitlines()


def words(lines: list[str]) -> str:
    return " ".join(word for line in lines for word in line.split() if word not in "│|")


@pytest.mark.usefixtures("still")
def test_the_view_says_how_far_it_is() -> None:
    text = words(shown(state(3, url="http://127.0.0.1:8000", due=NOW + 7.2)))
    assert "http://127.0.0.1:8000" in text
    assert "300 of 10,000, 150 a second" in text
    assert "releases 3, the next in 7 s" in text
    assert "ε = 0.90 of 3 spent by a listener who was in all releases" in text
    assert "0.714" in text


@pytest.mark.usefixtures("still")
def test_the_view_before_the_first_release() -> None:
    assert "ε = 3 for each listener, in 10 releases" in words(shown(state(0)))
    assert "releases none yet" in words(shown(state(0)))
    url = "http://127.0.0.1:8000"
    assert "none yet, the first in 4 s" in words(shown(state(0, url=url, due=NOW + 4.2)))
    assert "none yet, the first is being computed" in words(shown(state(0, url=url, due=NOW - 9.0)))


def test_the_view_fits_a_terminal_and_ends_with_what_the_noise_left() -> None:
    lines = shown(state(10, done=True, url="http://127.0.0.1:8000"))
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert (
        "Error alone 0.710, shared privately 0.623, shared without noise 0.605: privacy keeps 83% of the improvement."
    ) in words(lines)
    assert not any("…" in line for line in lines)


def test_the_last_view_leaves_room_for_the_commands() -> None:
    lines = shown(state(10, done=True, url="http://127.0.0.1:8000"), lines_below=8)
    assert len(lines) == 24 - 8
    text = words(lines)
    for part in (
        "http://127.0.0.1:8000",
        "ε = 3.00 of 3 spent",
        "alone",
        "1 100",
        "2-6 not shown",
        "7 700",
        "10 1,000",
        "0.623",
    ):
        assert part in text


def test_releases_that_were_missed_are_named() -> None:
    reached = state(10)
    del reached.releases[6], reached.releases[1:4]
    text = words(shown(reached))
    assert "1 100" in text
    assert "2-4 not measured 5 500" in text
    assert "7 not measured 8 800" in text


def test_bars_fall_behind_the_mark_of_being_alone() -> None:
    scale = Scale(shared=0.5, alone=0.7, maximum=0.9, columns=41)
    assert scale.bar(0.9).plain == "━" * 20 + "│" + "━" * 19 + "●"
    assert scale.bar(0.6).plain == "━" * 10 + "●" + " " * 9 + "│" + " " * 20
    assert scale.bar(0.4).plain == "●" + " " * 19 + "│" + " " * 20


def test_the_picture_fetches_nothing_and_is_small() -> None:
    picture = (ROOT / "docs" / "img" / "demo.svg").read_text(encoding="utf-8")
    assert not re.search(r"url\((?!#)|href=|@import|@font-face", picture)
    assert len(picture) < 100_000
