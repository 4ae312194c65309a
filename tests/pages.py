"""The sessions of a page, run as a reader runs them: in Python, and at terminals.

A page's ``python`` blocks are one program, and its ``text`` blocks what that prints. At terminals its files are written
and its commands pasted: a block ``sh`` goes to the terminal that its title names, and the block behind it is what is
printed there; a block whose title is a file's name is that file. A server that a block starts runs until the end.
``motet`` is forked there from a process that has imported it; the commands of the demo are pasted to the real one.
Minutes between releases are seconds here, and what reads a release waits for one that has all that was sent.
``python -m tests.pages PAGE`` writes down in a page what its commands print now.
"""

from __future__ import annotations

import io
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, chdir, closing, redirect_stdout
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self
from urllib.request import urlopen

from tests.figures import check_figures
from tests.forked import forked_motet
from tests.scenarios.harness import END, START, children, free_port, is_ready, poll

ROOT = Path(__file__).parents[1]
SOURCES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PYTHON_PAGES = [page for page in SOURCES if "```python" in page.read_text(encoding="utf-8")]
PYTHON = re.compile(r"^```(python|text)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r'^```(\w+)(?: title="([^"]*)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
PRINTED = ("text", "csv", "json")
VARIES = "for example"  # the title of what is another each time
SHOWN_TOKEN = re.compile(r"token, shown once: (\S+)")
PASTED_TOKEN = "THE-TOKEN-SHOWN"
CLOCK = {"--every 5m": "--every 12s"}
READING = re.compile(r"\bmotet (?:predict|download|audit|evaluate http\S+)\b")
ENDED = "--- ended with"
PATIENCE = 300.0  # seconds that a block may take
COLUMNS = "78"
VERDICT = re.compile(  # by chance, as a pilot and noise are
    r"^(Better|Not better) than |too few to tell|^The # % bands |^Each baseline has |^Left out: |^A plain structure"
    r"|^Items have |^An effect of each item"
    r"|^Note: # rows? with missing values"
)
OUTSIDE = re.compile(r"# rows? left out \(.*?\); ")  # of a pilot's limits, also by chance
PHASE = re.compile(r"\[\d+:\d\d\] |Waiting for the first release")  # a line where a terminal has a bar, and of a delay
NOTHING = 1e-12  # a difference of floating-point numbers that says nothing
NUMBER = re.compile(r"-?\b\d+(?:\.\d+)?(?:e[-+]\d+)?\b")
MASKS = {
    r"(?<![\w-])[\w-]{43}(?![\w-])": "TOKEN",
    r"\b[0-9a-f]{16}\b": "ID",
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC": "TIME",
    r'"time": [\d.]+': '"time": T',
    r"(?m)^\d\d:\d\d:\d\d ": "CLOCK ",
    r"127\.0\.0\.1:\d+": "127.0.0.1:8000",
}


class Block(NamedTuple):
    language: str
    title: str
    body: str
    span: tuple[int, int]  # of the body, in the page


class Step(NamedTuple):
    """A block of commands, the output that the page shows, if any, and what was printed."""

    commands: Block
    expected: Block | None
    printed: str
    code: int


def blocks(text: str) -> list[Block]:
    return [Block(match[1], match[2] or "", match[3], match.span(3)) for match in FENCE.finditer(text)]


def python_session(page: Path) -> tuple[str, str]:
    """What a page's Python prints, and the output that the page shows: ``check_python`` compares them."""
    printed, expected, names = io.StringIO(), "", {"__name__": "page"}
    for language, body in PYTHON.findall(page.read_text(encoding="utf-8")):
        if language == "text":
            expected += body
            continue
        with redirect_stdout(printed):
            exec(compile(body, page.name, "exec"), names)
    return printed.getvalue(), expected


class Terminal:
    """A shell that is fed line by line; its errors are where its output is, as on a screen."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.shell = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.shell.stdout is not None
        for line in self.shell.stdout:
            self._lines.append(line)

    @property
    def printed(self) -> str:
        return "".join(self._lines)

    def paste(self, commands: str) -> None:
        assert self.shell.stdin is not None
        self.shell.stdin.write(commands)
        self.shell.stdin.flush()

    def run(self, commands: str) -> tuple[str, int]:
        """What they print, and the last one's exit code."""
        before = len(self._lines)
        self.paste(f'{commands}\necho "{ENDED} $?"\n')
        poll(lambda: self._over(before), PATIENCE, f"the end of {commands!r}, after {self.printed!r}")
        *lines, last = self._lines[before:]
        lines = [line for line in lines if not PHASE.match(line)]
        return "".join(lines), int(last.removeprefix(ENDED))

    def _over(self, before: int) -> bool:
        assert self.shell.poll() is None, self.printed
        return len(self._lines) > before and self._lines[-1].startswith(ENDED)

    def close(self) -> None:
        """End what still runs in it, gently at first."""
        for process in children(self.shell.pid):
            os.kill(process, signal.SIGTERM)
        assert self.shell.stdin is not None
        self.shell.stdin.close()
        try:
            self.shell.wait(END)
        finally:
            if self.shell.poll() is None:
                os.killpg(self.shell.pid, signal.SIGKILL)
                self.shell.wait()
            self._reader.join()
            assert self.shell.stdout is not None
            self.shell.stdout.close()


class Session:
    """A page in a folder of its own, on a free port in place of 8000."""

    def __init__(self, page: Path, folder: Path) -> None:
        self.page, self.folder = page.absolute(), folder
        self._port = str(free_port())
        self._instead = {"8000": self._port, "pip install": ": pip install", **CLOCK}
        self.python = "", ""  # what it prints, and what the page shows
        self._terminals: dict[str, Terminal] = {}
        self._is_served = False
        clean = {key: value for key, value in os.environ.items() if not key.startswith("MOTET_")}
        more = {"MOTET_URL": self.url, "MOTET_LOG_FORMAT": "plain", "COLUMNS": COLUMNS, "OPENBLAS_NUM_THREADS": "1"}
        self._environment, self._held = clean | more, ExitStack()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def operator(self) -> str:
        """The token that the server has shown."""
        return self._instead[PASTED_TOKEN]

    def __enter__(self) -> Self:
        places = (self._held.enter_context(forked_motet()), Path(sys.executable).parent, os.environ["PATH"])
        self._environment["PATH"] = os.pathsep.join(map(str, places))
        if "```python" in self.page.read_text(encoding="utf-8"):
            with chdir(self.folder):
                self.python = python_session(self.page)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._held:
            for terminal in self._terminals.values():
                terminal.close()

    def run(self) -> Iterator[Step]:
        """Block after block; whoever asks may do something in between."""
        listed = blocks(self.page.read_text(encoding="utf-8"))
        for block, following in zip(listed, [*listed[1:], None]):
            if block.language == "sh":
                follows = following is not None and following.language in PRINTED and not _is_file(following)
                yield Step(block, following if follows else None, *self._pasted(block))
            elif _is_file(block):
                (self.folder / block.title).write_text(self._mended(block.body), encoding="utf-8")

    def _pasted(self, block: Block) -> tuple[str, int]:
        terminal = self._terminals.get(block.title)
        if terminal is None:
            terminal = self._terminals[block.title] = Terminal(self.folder, self._environment)
        commands = self._mended(block.body)
        if READING.search(commands):
            poll(self._all_released, PATIENCE, "a release that has all that was sent")
        if not _serves(block):
            return terminal.run(commands)
        for study in self.folder.rglob("*.toml"):  # those that a command wrote
            study.write_text(study.read_text(encoding="utf-8").replace("port = 8000", f"port = {self._port}"), "utf-8")
        before = len(terminal.printed)
        terminal.paste(commands)
        poll(lambda: self._is_ready(terminal, before), START, "a server that is ready")
        self._is_served = True
        printed = terminal.printed[before:]
        if shown := SHOWN_TOKEN.search(printed):
            self._instead[PASTED_TOKEN] = shown[1]
        return printed, 0

    def _is_ready(self, terminal: Terminal, before: int) -> bool:
        """Whether the server of this terminal, and no other, has said its address, and answers there."""
        assert terminal.shell.poll() is None, terminal.printed
        return self.url in terminal.printed[before:] and is_ready(self.url)

    def _all_released(self) -> bool:
        """Whether everything sent is in a release, which the server, if there is one, shows to whoever asks."""
        versions = [released(path) for path in self.folder.rglob("*.db")]
        return all(versions) and (not self._is_served or shown_version(self.url) in versions)

    def _mended(self, text: str) -> str:
        for word, other in self._instead.items():
            text = text.replace(word, other)
        return text


def released(database: Path) -> int:
    """The version of the last release if it has all that was sent, or else 0."""
    with closing(sqlite3.connect(database, timeout=10)) as connection:
        row = connection.execute(
            "SELECT max(releases.version) * (max(releases.sequence) = head.sequence) FROM releases, head"
        ).fetchone()
    return row[0] or 0


def shown_version(url: str) -> int:
    """Of the release that the server gives to whoever asks now; -1 while it answers nobody, since it is busy."""
    try:
        with urlopen(f"{url}/v1/study?model=false", timeout=END) as response:
            version: int = json.load(response)["version"]
    except OSError:
        return -1
    return version


def _serves(block: Block) -> bool:
    """It does not end by itself."""
    return re.search(r"^motet serve ", block.body, re.MULTILINE) is not None


def _is_file(block: Block) -> bool:
    return re.fullmatch(r"[\w/-]+\.\w+", block.title) is not None


# --- what the page says against what was printed ---


def check_python(printed: str, expected: str) -> None:
    """The page shows what its Python prints."""
    assert NUMBER.sub("#", printed) == NUMBER.sub("#", expected)
    for number, shown in zip(NUMBER.findall(printed), NUMBER.findall(expected)):
        assert abs(float(number) - float(shown)) <= 1.001 * last_place(shown), printed
    check_figures(printed)


def check(step: Step) -> None:
    """The page shows what was printed; a refusal is shown where one is meant."""
    shown = "" if step.expected is None else step.expected.body
    both = f"{step.commands.body}printed\n{step.printed}where the page has\n{shown}"
    refused = shown.rpartition("\n")[0].rpartition("\n")[2].startswith("motet: ")  # a note has more behind it
    assert step.code == (1 if refused else 0), both
    if step.expected is not None and step.expected.title == VARIES and _serves(step.commands):
        assert set(map(_varying, shown.splitlines())) <= set(map(_varying, step.printed.splitlines())), both
        return
    if step.expected is not None and step.expected.title == VARIES:
        assert _shape(shown) == _shape(step.printed), both
        return
    if _serves(step.commands):
        assert all(_masked(line) in _masked(step.printed) for line in shown.splitlines()), both
        return
    expected, printed = _masked(shown), _masked(step.printed)
    assert _words(expected) == _words(printed), both
    for number, other in zip(NUMBER.findall(expected), NUMBER.findall(printed)):
        rounding = 1.001 * last_place(number) if "." in number else NOTHING  # counts are the same everywhere
        assert abs(float(number) - float(other)) <= rounding, both


def _varying(line: str) -> str:
    """A line of a server without its numbers."""
    return OUTSIDE.sub("", NUMBER.sub("#", _masked(line)))


def _words(text: str) -> str:
    """All but the numbers, and the spaces that make up for their lengths."""
    return re.sub(" +", " ", NUMBER.sub("#", text))


def last_place(number: str) -> float:
    """One in the last digit of a number as it is written: another processor may round it otherwise."""
    mantissa, _, exponent = number.partition("e")
    return float(10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2])))


def _masked(text: str) -> str:
    text = re.sub(" +$", "", text, flags=re.MULTILINE)
    for varying, mask in MASKS.items():
        text = re.sub(varying, mask, text)
    return text


def _shape(text: str) -> list[str]:
    """Its lines without their numbers; how many cells a CSV's row has; what a drawn table's row is about."""
    header, *lines = [NUMBER.sub("#", _masked(line)) for line in text.splitlines()] or [""]
    return [header.strip(), *filter(None, map(_row_shape, lines))]


def _row_shape(line: str) -> str:
    if line[:1] in "┏┡└" or VERDICT.search(line):
        return ""
    if line.startswith("│"):
        first, second = (cell.strip() for cell in line.split("│")[1:3])
        return first and f"{first}: {second}"
    return re.sub(r"[^,]+", "#", line) if "," in line else line


# --- pages written anew ---


def rewrite(page: Path) -> None:
    """Put what the commands print into the page."""
    with tempfile.TemporaryDirectory() as folder, Session(page, Path(folder)) as pasted:
        steps = [step for step in pasted.run() if step.expected is not None and not _serves(step.commands)]
        broken = [step.printed for step in steps if step.code and not step.printed.startswith("motet: ")]
        assert not broken, broken
        text = page.read_text(encoding="utf-8")
        for step in reversed(steps):
            assert step.expected is not None
            begin, end = step.expected.span
            printed = re.sub(" +$", "", step.printed, flags=re.MULTILINE).replace(pasted.url, "http://127.0.0.1:8000")
            text = text[:begin] + printed + text[end:]
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        rewrite(Path(name))
