"""Install pinned packages, and Motet in editable form, into .venv: python tools/install.py REQUIREMENTS SIZE

The Makefile runs this. A terminal shows how far it is; a failure is one line, and pip's own words are in a log.
The syntax is old on purpose, so that an old Python gets as far as the check of its version.
"""

import re
import subprocess
import sys
import time
from pathlib import Path

MINIMUM = (3, 11)
if sys.version_info < MINIMUM:
    wanted, found = (".".join(map(str, version[:2])) for version in (MINIMUM, sys.version_info))
    sys.exit(f"needs Python {wanted} or later, found {found}; name another one: make demo PYTHON=python3.12")

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
PYTHON, LOG = VENV / "bin" / "python", VENV / "install.log"
# The pins are complete, so pip need not look for dependencies; Python compiles a module when it is first imported.
PIP = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--no-deps", "--no-compile"]
REDRAW = 0.2  # seconds


def main(requirements: Path, size: str) -> None:
    begin, usable = time.monotonic(), is_usable()
    missing = pinned(requirements) - (installed() if usable else set())
    if missing:
        print(f"Installing {len(missing)} packages, {size}, into .venv: once, a minute or more ...", flush=True)
    if not usable and subprocess.call([sys.executable, "-m", "venv", "--clear", VENV]):
        sys.exit("could not make .venv")
    pip(["--require-hashes", "-r", str(requirements)], missing)
    pip(["--no-build-isolation", "-e", "."], set())
    seconds = time.monotonic() - begin
    print(f"Installed in {seconds:.0f} s. To have the command motet in a shell: . .venv/bin/activate", flush=True)


def is_usable() -> bool:
    """Whether .venv is there, and of this Python."""
    program = f"import pip, sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    return PYTHON.exists() and subprocess.call([PYTHON, "-c", program], stderr=subprocess.DEVNULL) == 0


def pinned(requirements: Path) -> "set[str]":
    """``name-version`` of the pins for this platform."""
    lines = requirements.read_text(encoding="utf-8").splitlines()
    pins = [line.split()[0] for line in lines if re.match(r"\w", line) and "sys_platform == 'win32'" not in line]
    return {canonical(*pin.split("==")) for pin in pins}


def installed() -> "set[str]":
    folders = VENV.glob("lib/python*/site-packages/*.dist-info")
    return {canonical(*folder.name[: -len(".dist-info")].rsplit("-", 1)) for folder in folders}


def canonical(name: str, version: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower() + "-" + version


def pip(arguments: "list[str]", missing: "set[str]") -> None:
    begin = time.monotonic()
    with LOG.open("wb") as log:
        process = subprocess.Popen([*PIP, *arguments], cwd=ROOT, stdout=log, stderr=log)
    while process.poll() is None:
        show(f"  {stage(messages(), missing)}, {time.monotonic() - begin:.0f} s")
        time.sleep(REDRAW)
    show("")
    if process.returncode:
        sys.exit(f"{reason(messages())}; the whole log is {LOG.relative_to(ROOT)}")


def messages() -> str:
    return LOG.read_text(encoding="utf-8", errors="replace")


def stage(log: str, missing: "set[str]") -> str:
    if not missing:
        return "installing Motet itself"
    if "Installing collected packages" in log:
        return f"unpacked {len(missing & installed())} of {len(missing)}"
    *_, last = ["", *log.splitlines()]
    if "Retrying" in last:
        return "no reply from the package index, trying again"
    packages = re.findall(r"^(?:Collecting |Processing \S*/)([\w.]+)", log, re.MULTILINE)
    return f"downloading {len(packages)} of {len(missing)}" + (f": {packages[-1]}" if packages else "")


def show(line: str) -> None:
    """In place of the line before, at a terminal."""
    if sys.stdout.isatty():
        print(f"\r\033[K{line}", end="", flush=True)


def reason(log: str) -> str:
    nothing = re.search(r"requirement (\S+) \(from versions: none\)", log)
    if nothing:
        return f"needs the network the first time: pip found no {nothing[1]}"
    errors = re.findall(r"^ERROR: (.*)", log, re.MULTILINE)
    return errors[-1] if errors else "pip failed"


if __name__ == "__main__":
    try:
        main(ROOT / sys.argv[1], sys.argv[2])
    except KeyboardInterrupt:
        sys.exit("\ninterrupted; the same command goes on from here")
