"""What a newcomer is told is true: the docstring of a room has its files, and CONTRIBUTING names what is there."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

import motet
from tests.pages import ROOT

PACKAGE = Path(motet.__file__).parent
ROOMS = sorted(path.parent for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE)
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
LAYERS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"][0]
PLACES = (ROOT, PACKAGE, ROOT / "docs", ROOT / "tests", PACKAGE / "server")  # to which a path may be relative
MAX_LINES = 500
MADE = r"examples/results/|site/|(benchmarks|experiments)/[A-Z]+\.md"  # by a command


def module(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def section(heading: str) -> str:
    return CONTRIBUTING.split(f"\n{heading}\n", 1)[1].split("\n## ")[0]


def cells(text: str) -> list[list[str]]:
    """Of the tables in it, without their headers."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines if "`" in line]


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", text)


# --- rooms ---


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(PACKAGE)))
def test_a_room_says_all_of_its_files(room: Path) -> None:
    """As ``name`` in its text, or in a list: what they are about, two spaces, their names."""
    docstring = ast.get_docstring(module(room / "__init__.py")) or ""
    listed = [re.split(r" {2,}", line, maxsplit=1)[1] for line in docstring.splitlines() if re.search(r"\S {2,}", line)]
    names = {name for line in listed for name in re.findall(r"\w+", re.sub(r"\(.*?\)", "", line))}
    files = {path.stem for path in room.glob("*.py")} | {path.parent.name for path in room.glob("*/__init__.py")}
    assert files - {"__init__"} - names - set(re.findall(r"``(\w+)``", docstring)) == set()
    assert names <= files


def test_no_file_of_the_package_is_too_long() -> None:
    files = (path for kind in ("py", "js") for path in PACKAGE.rglob(f"*.{kind}"))
    assert [path.name for path in files if path.read_text(encoding="utf-8").count("\n") > MAX_LINES] == []


# --- CONTRIBUTING ---


def test_every_room_is_in_the_map_with_files_that_it_has() -> None:
    rows = cells(section("## The house").split("\n| room ")[1].split("\n\n")[0])
    rooms = {}
    for (room,), examples in ((quoted(row[0]), quoted(row[2])) for row in rows):
        rooms[room.rstrip("/")] = examples
        assert [name for name in examples if not (PACKAGE / room / name).is_file()] == []
    assert rooms.keys() == {room.name for room in ROOMS if room.parent == PACKAGE}
    assert [room for room in rooms if not (ROOT / "tests" / room / "__init__.py").is_file()] == []
    tools = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    told = section("## The house").split("At the root are the tools")[1].split(".\n")[0]
    assert tools == {name for name in quoted(told) if name in tools}


def test_the_direction_is_that_of_the_layers() -> None:
    (drawn,) = re.findall(r"```text\n(.*?)```", CONTRIBUTING, re.DOTALL)
    above, below = drawn.splitlines()
    order = re.findall(r"\w+", above) + re.findall(r"\w+", below.split("┴")[1])
    layers = [layer for layer in LAYERS["layers"] if layer != "__main__"]
    assert "client" in below
    assert order == re.findall(r"\w+", " ".join(layers).replace("client | engine", "engine"))


def test_paths_and_modules_of_contributing_exist() -> None:
    text = re.sub(r"```.*?```", "", CONTRIBUTING, flags=re.DOTALL)
    paths = {name for name in quoted(text) if re.fullmatch(r"[\w./-]+(/|\.(py|js|md|toml|txt))", name)}
    assert len(paths) > 80
    shown = {name for row in cells(section("## The house")) if len(row) == 3 for name in quoted(row[2])}
    missing = [
        path
        for path in paths - shown
        if not re.fullmatch(MADE, path) and not any((place / path).exists() for place in PLACES)
    ]
    assert set(missing) - {"compatibility/", "core/"} == set()
    ways = CONTRIBUTING.split("### Three ways")[1].split("\n### ")[0]
    modules = [name for name in quoted(ways) if "/" in name]
    assert len(modules) > 20
    assert [name for name in modules if not (PACKAGE / f"{name}.py").is_file()] == []


def test_names_of_contributing_are_in_the_files_that_it_names() -> None:
    """In a row of what to add: constants, classes and functions are in one of that row's files, or in its room."""
    for row in cells(CONTRIBUTING.split("### Where to add something")[1].split("\n\n**")[0]):
        text = " ".join(row)
        found = [place / name for name in quoted(text) for place in PLACES if (place / name).is_file()]
        words = set(re.findall(r"\w+", " ".join(path.read_text(encoding="utf-8") for path in found)))
        names = {name for name in quoted(text) if re.fullmatch(r"_?[A-Za-z]\w+", name)}
        assert names - words == set(), row[0]
