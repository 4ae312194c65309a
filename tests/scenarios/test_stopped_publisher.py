"""A publisher that is stopped (SIGSTOP): its server ends, another one takes over, and it makes no second release."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from motet.study.study import Study
from tests.scenarios.harness import CURVES, END, Program, is_running, poll, write_study
from tests.store.local_study import states

EXACT = CURVES + '[release]\npolicy = "exact"\nevery = "1s"\n'


@pytest.fixture
def stopped() -> Iterator[list[int]]:
    """Processes that are stopped; none is left."""
    processes: list[int] = []
    yield processes
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def test_a_stopped_publisher_neither_keeps_its_server_nor_disturbs_the_next(tmp_path: Path, stopped: list[int]) -> None:
    running = Program(write_study(tmp_path, EXACT), forked=True)
    try:
        with running.operator() as operator:
            (ann,) = operator.enroll(["ann"])
            operator.with_token(ann.token).send([0.5], 1.0)
        stop(running, stopped)
        running.process.kill()  # the publisher cannot notice
        running.process.wait(END)
        running.start()
        poll(lambda: running.rows("select count(*) from releases")[0][0] > 2, END, "releases of the other publisher")
        os.kill(stopped[0], signal.SIGCONT)
        poll(lambda: not is_running(stopped[0]), END, "the publisher of the killed server ends")
        stop(running, stopped)
        running.process.terminate()
        assert running.process.wait(END) == 0
        poll(lambda: not is_running(stopped[1]), END, "its publisher is killed")
        assert states(Study.load(running.study)) == {}
    finally:
        running.process.kill()
        running.process.wait(END)


def stop(running: Program, stopped: list[int]) -> None:
    stopped.append(running.publisher)
    os.kill(stopped[-1], signal.SIGSTOP)
