"""The package as a whole: what it exports, how light it is, and its errors."""

from __future__ import annotations

import subprocess
import sys

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
    sends = "motet.cli.app, motet.cli.connect, motet.client.site, motet.client.tables, motet.model.catalogue"
    code = f"import {sends}, sys; print([m for m in ('sklearn', 'scipy', 'pandas', 'fastapi') if m in sys.modules])"
    assert run(sys.executable, "-c", code).stdout.strip() == "[]"
    code = "from motet import *; import sys; print([m for m in ('matplotlib', 'fastapi', 'dask') if m in sys.modules])"
    assert run(sys.executable, "-c", code).stdout.strip() == "[]"


def test_every_error_has_a_code_of_its_own_and_is_drawn() -> None:
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.MotetError)]
    assert len({c.code for c in classes}) == len(classes)
    assert all(c.__name__ in (errors.__doc__ or "") for c in classes)
