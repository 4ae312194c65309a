"""``make demo`` on a fresh clone: what it installs is pinned and small, and what stops it is one line."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
INSTALL = ROOT / "tools" / "install.py"


def pins(name: str) -> dict[str, tuple[str, list[str]]]:
    """Version and hashes of each package in a file of requirements."""
    text = (ROOT / name).read_text(encoding="utf-8")
    blocks = re.findall(r"^([\w.-]+)==(\S+)(.*(?:\n    --hash=.*)+)", text, re.MULTILINE)
    return {name: (version, re.findall(r"--hash=(\S+)", rest)) for name, version, rest in blocks}


def test_the_demo_and_development_agree_on_every_pin() -> None:
    demo, development = pins("requirements.txt"), pins("requirements-dev.txt")
    assert demo.items() <= development.items()
    assert {"numpy", "opendp", "uvicorn", "hatchling"} <= demo.keys()
    assert not {"pandas", "pytest", "mypy", "mkdocs", "matplotlib", "dask"} & demo.keys()


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_every_package_has_hashes_and_none_an_index(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert len(pins(name)) == text.count("==") - text.count("sys_platform ==") - text.count("_implementation ==")
    assert all(line.startswith("    --hash=sha256:") or "==" in line for line in text.splitlines())


def test_an_old_python_is_one_line() -> None:
    pretend = f"import runpy, sys; sys.version_info = (3, 10, 13); runpy.run_path({str(INSTALL)!r})"
    done = subprocess.run([sys.executable, "-c", pretend], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "needs Python 3.11 or later, found 3.10; name another one: make demo PYTHON=python3.12\n"
    minimum = re.search(r'requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert minimum is not None
    assert minimum[1] == ".".join(map(str, runpy.run_path(str(INSTALL))["MINIMUM"]))


def test_without_network_it_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    shutil.copy(INSTALL, tmp_path / "tools")
    shutil.copy(ROOT / "requirements.txt", tmp_path)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    done = subprocess.run(
        [sys.executable, tmp_path / "tools" / "install.py", "requirements.txt", "540 MB"],
        env=environment | {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1
    assert re.fullmatch(r"Installing \d\d packages, 540 MB, into .venv: .*\n", done.stdout)
    assert re.fullmatch(r"needs the network the first time: pip found no \S+; .* .venv/install.log\n", done.stderr)
