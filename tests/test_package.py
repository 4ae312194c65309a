"""The package as a whole: what it exports, how light it is, and the command line."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import motet
from motet import errors


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)


def test_exported_names() -> None:
    assert motet.__all__ == sorted(motet.__all__)
    assert all(hasattr(motet, name) for name in motet.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        motet.Nothing  # noqa: B018


def test_import_is_light() -> None:
    heavy = ("sklearn", "scipy", "matplotlib", "fastapi", "dask", "rich", "pandas")
    code = f"import motet, sys; print([m for m in {heavy!r} if m in sys.modules])"
    assert run(sys.executable, "-c", code).stdout.strip() == "[]"
    code = "from motet import *; import sys; print([m for m in ('matplotlib', 'fastapi', 'dask') if m in sys.modules])"
    assert run(sys.executable, "-c", code).stdout.strip() == "[]"


def test_every_error_has_a_code_of_its_own_and_is_drawn() -> None:
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.MotetError)]
    assert len({c.code for c in classes}) == len(classes)
    assert all(c.__name__ in (errors.__doc__ or "") for c in classes)


def test_demo_shows_that_sharing_helps() -> None:
    done = run(sys.executable, "-m", "motet", "demo", "--clients", "60", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["mixed"] < 0.8 * min(found["separate"], found["pooled"])
    assert found["passive"] < 0.8 * min(found["separate"], found["pooled"])


def test_command_line_help_and_mistakes() -> None:
    table = run(sys.executable, "-m", "motet", "demo", "--clients", "20")
    assert table.returncode == 0
    assert all(word in table.stdout for word in ("separate", "pooled", "mixed", "passive"))
    assert "Example: motet demo" in run(sys.executable, "-m", "motet", "demo", "--help").stdout
    mistake = run(sys.executable, "-m", "motet", "demo", "--clients", "3")
    assert mistake.returncode == 2
    assert "greater than or equal to 10" in mistake.stderr
    assert run(sys.executable, "-m", "motet", "--version").stdout.strip() == f"motet {motet.__version__}"
