"""How far one has to walk: the files and functions of ours that four ordinary jobs call, counted by a trace.

``python -m benchmarks.walks [--list] [--only WALK …]``. A function counts when it is called, once, in whichever thread;
its lambdas and comprehensions are its own, and a generator, which runs within whoever asks it, is no stop of its own.
Bodies of modules and classes do not count, nor what a first run of the same job leaves loaded or stored: each job runs
twice, and the second run is traced.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import closing
from inspect import CO_GENERATOR
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import httpx
import numpy as np
from fastapi import FastAPI
from typer.testing import CliRunner

import motet
from motet import Disclosed, MixedEffectRegressor
from motet.arrays import Array
from motet.cli.app import app as command_line
from motet.server.app import create_app
from motet.server.publisher import Publisher
from motet.server.service import Service
from motet.store.clients import enroll, hash_token
from motet.store.pins import pin
from motet.store.store import Store
from motet.study.study import Study

SOURCE = f"{Path(motet.__file__).parent}/"
TASKS, ROWS_EACH = 20, 10
STUDY = """
[study]
name = "walks"
[model]
alpha = 0.5
lam = 0.1
common = { kernel = "rbf", length_scale = 1.0 }
individual = { kernel = "dot_product", sigma_0 = 1.0 }
[inputs]
dimension = 1
[limits]
y = [-10.0, 10.0]
[release]
policy = "exact"
every = "1h"
"""


class Trace:
    """The functions of ours that are called while it is open, in this thread and in those that began after it."""

    def __init__(self) -> None:
        self.called: dict[CodeType, None] = {}  # in the order of first calls
        self._is_open = False
        threading.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if self._is_open and event == "call" and code.co_filename.startswith(SOURCE):
            self.called.setdefault(code)

    def __enter__(self) -> Trace:
        self._is_open = True
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        self._is_open = False

    @property
    def functions(self) -> list[CodeType]:
        """Without generators, and without what has no name."""
        return [code for code in self.called if "<" not in code.co_name and not code.co_flags & CO_GENERATOR]

    @property
    def files(self) -> list[str]:
        return list(dict.fromkeys(code.co_filename.removeprefix(SOURCE) for code in self.called))


def _table() -> tuple[Array, Array, Array]:
    """20 tasks of 10 rows each and one column: a common curve, and an offset of each task's own."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, (TASKS * ROWS_EACH, 1))
    task = np.repeat(np.arange(TASKS), ROWS_EACH)
    return X, np.sin(X[:, 0]) + 0.5 * rng.normal(size=TASKS)[task] + 0.1 * rng.normal(size=len(X)), task


def fit(trace: Trace) -> None:
    """``MixedEffectRegressor().fit`` of 200 rows of one column, 20 tasks."""
    X, y, task = _table()
    reg = MixedEffectRegressor()
    with trace:
        reg.fit(X, y, task=task)


def init(trace: Trace) -> None:
    """``motet init --from`` a table of these rows, in this process."""
    X, y, task = _table()
    with tempfile.TemporaryDirectory() as name:
        table, study = Path(name, "table.csv"), Path(name, "study.toml")
        lines = (f"c{client},{x:.6f},{out:.6f}" for client, x, out in zip(task, X[:, 0], y))
        table.write_text("\n".join(["client,x,y", *lines, ""]), encoding="utf-8")
        command = ["init", str(study), "--from", str(table), "--client", "client", "--target", "y"]
        with trace:
            result = CliRunner().invoke(command_line, command)
        if result.exit_code:
            raise RuntimeError(result.output)


def post(trace: Trace) -> None:
    """One POST of an example, the publisher's tick that releases it, and the server's look for that release."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "study.toml")
        path.write_text(STUDY, encoding="utf-8")
        study, now = Study.load(path), time.time()
        store = Store(study.store_url)  # the service closes it
        with closing(Store(study.store_url)) as publishing:
            pin(publishing, study, now=now)
            with publishing.transaction() as connection:
                (client,) = enroll(connection, ["somebody"])
            app = create_app(study, lambda: Service(study, store, hash_token("operator's")))
            publisher = Publisher(publishing, study, clock=lambda: now + study.release.seconds)
            asyncio.run(_post(trace, app, publisher, client.token))


async def _post(trace: Trace, app: FastAPI, publisher: Publisher, token: str) -> None:
    transport, headers = httpx.ASGITransport(app), {"Authorization": f"Bearer {token}"}
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://walk") as http:
        body = {"examples": [{"id": "1", "x": [0.5], "y": 1.0}]}
        with trace:
            answer = await http.post("/v1/examples", json=body, headers=headers)
            version = await asyncio.to_thread(publisher.tick)
            await app.state.service.refresh()
        answer.raise_for_status()
        if version != 1 or app.state.service.version != 1:
            raise RuntimeError("expected a first release, got none")


def predict(trace: Trace) -> None:
    """A passive client: a release is read, its own rows are learned, one input is predicted."""
    X, y, task = _table()
    reg = MixedEffectRegressor(optimizer=None).fit(X, y, task=task)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "release.safetensors")
        reg.disclosed_.save(path)
        with trace:
            Disclosed.load(path).estimate(X[:5], y[:5]).predict(X[5:6])


WALKS: list[Callable[[Trace], None]] = [fit, init, post, predict]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="benchmarks.walks", description="Files and functions that a job walks through."
    )
    parser.add_argument("--only", nargs="+", choices=[walk.__name__ for walk in WALKS])
    parser.add_argument("--list", action="store_true", help="the files and functions too, in the order of first calls")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    for walk in WALKS:
        if chosen.only and walk.__name__ not in chosen.only:
            continue
        walk(Trace())
        trace = Trace()
        walk(trace)
        print(f"{walk.__name__}: {len(trace.files)} files, {len(trace.functions)} functions")
        for file in trace.files if chosen.list else ():
            names = (code.co_qualname for code in trace.functions if code.co_filename == SOURCE + file)
            print(f"  {file}: {', '.join(names)}")


if __name__ == "__main__":
    main()
