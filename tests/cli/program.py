"""The program ``motet`` for tests: run in processes forked from one that has imported it, which takes a tenth of the
time; and what the tests say of its output.
"""

from __future__ import annotations

import csv
import io
import os
import re
import runpy
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tests.scenarios.harness import FORKS, START, Place

NOWHERE = "http://127.0.0.1:1"
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("MOTET_")} | {"COLUMNS": "160"}
POOL = ThreadPoolExecutor(4)  # so many commands run at once
PROGRESS = re.compile(r"^motet: (settings, step \d+:|\w+: [\d,]+ of about) .*\n", re.MULTILINE)

PHASE = re.compile(r"^\[\d+:\d\d\] .*\n", re.MULTILINE)


@dataclass(frozen=True)
class Ended:
    code: int | None
    out: str
    err: str


Run: TypeAlias = Future[Ended]


def run(*arguments: object, **variables: str) -> Ended:
    """The program with these arguments and variables of the environment, without a terminal; lines that tell how far it
    is, which a slow machine has more of, are left out.
    """
    with tempfile.TemporaryDirectory() as folder:
        streams = Path(folder, "stdout"), Path(folder, "stderr")
        environment = ENVIRONMENT | variables
        process = FORKS.Process(target=_main, args=([str(a) for a in arguments], streams, environment))
        process.start()
        process.join(START)
        encoding = environment.get("PYTHONIOENCODING", "utf-8")
        out, err = (stream.read_text(encoding=encoding) for stream in streams)
        return Ended(process.exitcode, out, PROGRESS.sub("", err))


def _main(arguments: list[str], streams: tuple[Path, Path], environment: Mapping[str, str]) -> None:
    for descriptor, path in zip((0, 1, 2), (Path(os.devnull), *streams)):
        how = os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        os.dup2(os.open(path, how, 0o600), descriptor)
    become(arguments, environment)


def become(arguments: list[str], environment: Mapping[str, str]) -> None:
    """This process is the program from now on, with the streams that it has."""
    encoding = environment.get("PYTHONIOENCODING", "utf-8")
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding=encoding, closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, encoding=encoding, errors="backslashreplace", closefd=False)  # line by line
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["motet", *arguments]
    runpy.run_module("motet", run_name="__main__")


def motet(at: Place | str, *arguments: object, **tokens: str) -> Run:
    """The program begins, with a ``client``'s or the ``operator``'s token or none, which it must never show."""
    return POOL.submit(_run_with_tokens, at, arguments, tokens)


def _run_with_tokens(at: Place | str, arguments: tuple[object, ...], tokens: Mapping[str, str]) -> Ended:
    variables = {"client": "MOTET_TOKEN", "operator": "MOTET_OPERATOR_TOKEN"}
    address = at if isinstance(at, str) else at.url
    ended = run(*arguments, MOTET_URL=address, **{variables[whose]: token for whose, token in tokens.items()})
    assert not any(token in ended.out + ended.err for token in tokens.values())
    return ended


def good(ended: Run | Ended) -> str:
    """What a command printed that did what it should, and told no more than its phases beside that."""
    ended = ended if isinstance(ended, Ended) else ended.result()
    assert (ended.code, PHASE.sub("", ended.err)) == (0, ""), ended.err
    return ended.out


def refused(ended: Run | Ended, *words: str) -> None:
    """Exit code 1 and exactly one line, on standard error, with these words."""
    ended = ended if isinstance(ended, Ended) else ended.result()
    assert (ended.code, ended.out, ended.err.count("\n")) == (1, "", 1), (ended.out, ended.err)
    assert ended.err.startswith("motet: ")
    assert [word for word in words if word not in ended.err] == [], ended.err


def check_mistakes(*mistakes: tuple[str, list[object]]) -> None:
    """Each exits with 1 and has one line on standard error that says this, and nothing else."""
    for line, arguments in mistakes:
        refused(run(*arguments), line)


def rows(text: str) -> list[dict[str, str]]:
    """Those of a CSV."""
    return list(csv.DictReader(io.StringIO(text)))


def predictions(text: str) -> Any:
    """Means and standard deviations of a CSV."""
    return np.array([[float(row["mean"]), float(row["std"])] for row in rows(text)])


def table(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path
