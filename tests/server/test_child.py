"""The publisher's process ends with its server: also while it starts, however long that takes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.scenarios.harness import END

ENDLESS = "import threading; print('importing', flush=True); threading.Event().wait()"


def test_a_publisher_whose_server_ends_while_it_is_imported_ends_too(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text(ENDLESS, encoding="utf-8")
    places = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "motet.server.processes.child", "publisher", "study.toml", "plain", "info"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": places}, **pipes) as child:  # type: ignore[call-overload]
        try:
            assert child.stdout.readline() == b"importing\n"
            child.stdin.close()
            assert child.wait(END) == 0
        finally:
            child.kill()
