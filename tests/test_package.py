"""The package as a whole: what it exports, how light it is, and its errors."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import motet
from motet import errors


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, capture_output=True, text=True, timeout=300, check=False)


def test_exported_names() -> None:
    assert motet.__all__ == sorted(motet.__all__)
    assert all(hasattr(motet, name) for name in motet.__all__)
    rooms = {"errors", "kernels", "model", "music", "plots", "privacy", "sql", "study"}
    assert set(dir(motet)) == {*motet.__all__, *rooms, "__doc__", "__version__"}
    assert all(hasattr(motet, name) for name in dir(motet))
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        motet.Nothing  # noqa: B018


def test_import_is_light() -> None:
    heavy = ("sklearn", "scipy", "matplotlib", "fastapi", "dask", "rich", "pandas")
    code = f"import motet, sys; print([m for m in {heavy!r} if m in sys.modules])"
    assert run(sys.executable, "-c", code).stdout.strip() == "[]"
    sends = "motet.cli.app, motet.cli.connect, motet.client.site, motet.client.tables, motet.tables.catalogue"
    code = f"import {sends}, sys; print([m for m in ('sklearn', 'scipy', 'pandas', 'fastapi') if m in sys.modules])"
    assert run(sys.executable, "-c", code).stdout.strip() == "[]"
    code = "from motet import *; import sys; print([m for m in ('matplotlib', 'fastapi', 'dask') if m in sys.modules])"
    assert run(sys.executable, "-c", code).stdout.strip() == "[]"


def test_every_error_has_a_code_of_its_own_and_is_drawn() -> None:
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.MotetError)]
    assert len({c.code for c in classes}) == len(classes)
    assert all(c.__name__ in (errors.__doc__ or "") for c in classes)


PACKAGE = Path(motet.__file__).parent


OF_EACH_MODULE = {"LOG", "COMPOSED"}  # its logger; what it does with sums and products of kernels


def constants(path: Path) -> Iterator[tuple[str, str]]:
    """The names in capitals that a module defines, and their values."""
    for part in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(part, (ast.Assign, ast.AnnAssign)) and part.value is not None:
            for target in part.targets if isinstance(part, ast.Assign) else [part.target]:
                pairs = [(target, part.value)]
                if isinstance(target, ast.Tuple) and isinstance(part.value, ast.Tuple):
                    pairs = list(zip(target.elts, part.value.elts, strict=True))
                yield from ((n.id, ast.unparse(v)) for n, v in pairs if isinstance(n, ast.Name) and n.id.isupper())


def test_a_constant_has_one_value() -> None:
    """Of two in one file the second would silently hold for both; of two in two a reader takes one for the other."""
    values: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        names = list(constants(path))
        assert len(names) == len(dict(names)), path
        for name, value in names:
            values.setdefault(name, set()).add(value)
    assert not {name for name, of_name in values.items() if len(of_name) > 1} - OF_EACH_MODULE


# --- what the rooms below the command line say ---

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def texts(path: Path) -> Iterator[str]:
    """All strings of a module but its docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    bodies = (node.body for node in ast.walk(tree) if isinstance(node, DOCUMENTED))
    docstrings = {id(body[0].value) for body in bodies if isinstance(body[0], ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def test_only_the_command_line_names_its_options() -> None:
    """A message names a setting as Python does, ``force=True``; the command line writes that as its option."""
    named = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.relative_to(PACKAGE).parts[0] != "cli":
            for text in texts(path):
                named |= {f"{path.name}: {text}"} if re.search(r"(?<![\w-])--[a-z]", text) else set()
    assert not named
