"""The wheel alone: built, put into an environment with nothing but what it needs, and the demo played from there."""

from __future__ import annotations

import email
import json
import re
import subprocess
import sys
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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


def pins() -> dict[str, str]:
    """The versions of `make demo`."""
    return dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements.txt").read_text(encoding="utf-8"), re.MULTILINE))


def needed(wheel: Path) -> dict[str, Distribution]:
    """The packages that the wheel names for its server, and those that they name, as they are installed here."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        own = email.message_from_bytes(archive.read(name)).get_all("Requires-Dist", [])
    found: dict[str, Distribution] = {}
    seen, waiting = set[tuple[str, str]](), [(text, extra) for text in own for extra in ("", "server")]
    while waiting:
        text, extra = waiting.pop()
        requirement = Requirement(text)
        if (text, extra) in seen or not (requirement.marker is None or requirement.marker.evaluate({"extra": extra})):
            continue
        seen.add((text, extra))
        package = distribution(requirement.name)
        assert requirement.specifier.contains(package.version), text
        found[canonicalize_name(requirement.name)] = package
        waiting += [(more, own) for more in package.requires or () for own in ("", *requirement.extras)]
    return found


def link(packages: dict[str, Distribution], site: Path) -> None:
    """Their files and no others, without copies: to download and to unpack them is pip's part, and takes a minute."""
    for package in packages.values():
        for top in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(package.locate_file(top))))


def test_the_demo_plays_with_nothing_but_what_the_wheel_brings(tmp_path: Path) -> None:
    wheels, home = tmp_path / "wheels", tmp_path / "home"
    home.mkdir()
    build = ("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, ROOT)
    run(sys.executable, *PIP, *build, cwd=tmp_path, seconds=INSTALL)
    (wheel,) = wheels.iterdir()
    packages = needed(wheel)
    assert {name: package.version for name, package in packages.items()}.items() <= pins().items()
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "empty", cwd=tmp_path, seconds=INSTALL)
    programs = tmp_path / "empty" / "bin"
    python = ("--python", programs / "python")
    run(sys.executable, *PIP, *python, "install", "--no-deps", "--no-compile", wheel, cwd=tmp_path, seconds=INSTALL)
    (site,) = (tmp_path / "empty").glob("lib/python*/site-packages")
    link(packages, site)

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
