"""The wheel alone: built, installed into an empty environment, and the demo played from there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import motet

ROOT = Path(__file__).parents[1]
PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")
INSTALL, PLAY = 600, 300  # seconds


def run(*command: str | Path, cwd: Path, seconds: float, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=seconds, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def constraints(folder: Path) -> Path:
    """The versions of `make demo`, without hashes."""
    pins = re.findall(r"^[\w.-]+==[^\\\n]*", (ROOT / "requirements.txt").read_text(encoding="utf-8"), re.MULTILINE)
    path = folder / "constraints.txt"
    path.write_text("\n".join(pins), encoding="utf-8")
    return path


def test_the_demo_plays_with_nothing_but_what_the_wheel_brings(tmp_path: Path) -> None:
    wheels, home = tmp_path / "wheels", tmp_path / "home"
    home.mkdir()
    build = ("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, ROOT)
    run(sys.executable, *PIP, *build, cwd=tmp_path, seconds=INSTALL)
    (wheel,) = wheels.iterdir()
    run(sys.executable, "-m", "venv", tmp_path / "empty", cwd=tmp_path, seconds=INSTALL)
    programs = tmp_path / "empty" / "bin"
    pins = constraints(tmp_path)
    needed = ("install", "--no-compile", f"{wheel}[server]", "--constraint", pins)
    run(programs / "python", *PIP, *needed, cwd=tmp_path, seconds=INSTALL)
    freeze = ("freeze", "--exclude", "motet")
    brought = run(programs / "python", *PIP, *freeze, cwd=tmp_path, seconds=INSTALL).lower().replace("_", "-")
    assert set(brought.split()) <= set(pins.read_text(encoding="utf-8").split())

    clean = {"PATH": str(programs), "HOME": str(home), "TMPDIR": str(home)}
    where = "import motet; print(motet.__version__, motet.__file__)"
    version, place = run(programs / "python", "-c", where, cwd=home, seconds=PLAY, environment=clean).split()
    assert version == motet.__version__
    assert Path(place).is_relative_to(tmp_path / "empty")

    played = ("demo", "--clients", "100", "--json")
    found = json.loads(run(programs / "motet", *played, cwd=home, seconds=PLAY, environment=clean))
    assert found["done"]
    assert found["sent"] == found["ratings"] == 500
    assert all(found["errors"][group] < found["separate"][group] for group in ("active", "passive"))
    assert list(home.iterdir()) == []
