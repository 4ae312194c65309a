"""Where each peer is installed: our own environment, one of its own under ``.venv/peers``, or R.

Versions are pinned, packages are named without an index. A peer that is missing has a reason, which the table shows.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".venv" / "peers"
OWN, R = "own", "R"
PINS = {
    "gpboost": ("gpboost==1.8.0", "pandas==3.1.1"),
    "surprise": ("scikit-surprise==1.1.5", "pandas==3.1.1"),
    "gpytorch": ("torch==2.13.0", "gpytorch==1.15"),
    "flower": ("flwr[simulation]==1.41.0",),
    "boosting": ("lightgbm==4.7.0", "catboost==1.2.10", "pandas==3.1.1", "scikit-learn==1.9.1"),
}
DEBIAN = "r-cran-lme4"
INSTALL_SECONDS = 1200


@dataclass(frozen=True)
class Environment:
    """The program that runs a peer's snippets, or the reason why there is none."""

    program: str
    reason: str = ""


def find(name: str) -> Environment:
    if name == OWN:
        return Environment(sys.executable)
    if name == R:
        return _r()
    program = FOLDER / name / "bin" / "python"
    missing = "" if (FOLDER / name / "complete").exists() else f"not installed: `--install {name}` makes it"
    return Environment(str(program), missing)


def _r() -> Environment:
    program = shutil.which("Rscript")
    if program is None:
        return Environment("", f"no R here: Debian's package is {DEBIAN}")
    done = subprocess.run([program, "-e", "library(lme4)"], capture_output=True, text=True, check=False, timeout=120)
    return Environment(program, "" if done.returncode == 0 else f"R without lme4: Debian's package is {DEBIAN}")


def install(name: str) -> str:
    """Make a peer's environment anew, and return why it failed, or nothing."""
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *PINS[name]]
    for command in ([sys.executable, "-m", "venv", str(folder)], pip):
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS)
        except subprocess.TimeoutExpired:
            return f"not installed in {INSTALL_SECONDS} s"
        if done.returncode:
            return (done.stderr.strip().splitlines() or ["pip failed"])[-1]
    (folder / "complete").touch()
    return ""


def versions(name: str) -> dict[str, str]:
    """Of every pinned package, as it is installed."""
    environment = find(name)
    if environment.reason:
        return {}
    if name == R:
        code = 'cat(R.version.string, ", lme4 ", as.character(packageVersion("lme4")), sep = "")'
        done = subprocess.run(
            [environment.program, "-e", code], capture_output=True, text=True, check=True, timeout=120
        )
        return {"": done.stdout.strip()}
    packages = [pin.split("=")[0].split("[")[0] for pin in PINS[name]]
    code = (
        "import json, sys; from importlib.metadata import version as v; print(json.dumps([v(p) for p in sys.argv[1:]]))"
    )
    command = [environment.program, "-c", code, *packages]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return dict(zip(packages, json.loads(done.stdout)))
