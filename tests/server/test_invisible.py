"""Between releases nobody sees what another client does: twin servers with the same noise, one with a busy victim."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from motet.server.timing import TICK_SECONDS
from motet.store import releases
from motet.store.examples import Example, add, to_bytes
from tests.scenarios.harness import END, poll
from tests.server.world import ONE, PRIVATE, World, shown, world
from tests.store.empty_store import addition

LIMIT = 5  # examples of a client, as the study says


def twins(folder: Path, text: str = PRIVATE) -> Iterator[tuple[World, World]]:
    """Two servers that add the same noise."""
    same: dict[str, Any] = {"noise": lambda total, deviation: total + round(deviation)}
    yield from zip(world(folder / "quiet", text, **same), world(folder / "busy", text, **same))


def be_busy(w: World, step: int) -> None:
    """The victim sends, edits and, now and then, deletes."""
    w.call("POST", "/v1/examples", "own", json=ONE)
    w.call("PUT", "/v1/me/examples/1", "own", json={"x": [1.0], "y": 2.0})
    if step == 2:
        w.call("DELETE", "/v1/me/examples/1", "own")


def example(id: object) -> dict[str, Any]:
    return {"examples": [{"id": f"{id}", "x": [0.0], "y": 1.0}]}


def observed(w: World) -> list[Any]:
    """All that a stranger, another client and a bad token get: statuses, headers, bodies."""
    calls = itertools.product(("/", "/healthz", "/readyz", "/v1/study", "/v1/disclosed"), (None, "another", "garbage"))
    own = [("/v1/me", "another"), ("/v1/me/examples", "another"), ("/v1/me/coefficients", "another")]
    return [plain(w, w.call("GET", path, who)) for path, who in [*calls, *own]]


def plain(w: World, answer: httpx.Response) -> tuple[int, Any, bytes]:
    return answer.status_code, shown(answer), answer.content.replace(w.ids["another"].encode(), b"id")


@pytest.mark.usefixtures("backend")
def test_a_victim_that_sends_edits_and_deletes_is_invisible_until_the_release(tmp_path: Path) -> None:
    for quiet, busy in twins(tmp_path):
        for step in range(4):
            if step:
                be_busy(busy, step)
            assert observed(quiet) == observed(busy)
            for w in (quiet, busy):
                w.call("POST", "/v1/examples", "another", json=example(step))
        busy.call("DELETE", "/v1/me", "own")  # and leaves: the releases are then the same too
        assert [w.release() for w in (quiet, busy)] == [1, 1]
        assert observed(quiet) == observed(busy)


def test_attackers_that_fill_every_threshold_learn_nothing(tmp_path: Path) -> None:
    """Up to and beyond what each may have, many of them, while the victim does the same in one world."""
    for quiet, busy in twins(tmp_path):
        crowd = {"names": [f"attacker {k}" for k in range(20)]}
        tokens = [
            [client["token"] for client in w.call("POST", "/v1/clients", "operator", json=crowd).json()["clients"]]
            for w in (quiet, busy)
        ]
        for number in range(LIMIT + 2):
            busy.call("POST", "/v1/examples", "own", json=example(number))
            for k in range(20):
                answers = []
                for w, held in zip((quiet, busy), tokens):
                    w.tokens["attacker"] = held[k]
                    answers.append(plain(w, w.call("POST", "/v1/examples", "attacker", json=example(number))))
                assert answers[0] == answers[1]
                assert answers[0][0] == (200 if number < LIMIT else 409)
            assert observed(quiet) == observed(busy)
            assert [w.publisher.tick() for w in (quiet, busy)] == [None, None]  # the clock alone makes releases


def test_the_stream_tells_of_releases_and_of_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motet.server.protection.streams.KEEP_ALIVE_SECONDS", 3600.0)
    for quiet, busy in twins(tmp_path):
        with ExitStack() as open_streams:
            heard = [open_streams.enter_context(listening(w)) for w in (quiet, busy)]
            for version in (1, 2):
                for step in range(3):
                    be_busy(busy, step)
                assert [len(lines) for lines in heard] == [3 * (version - 1)] * 2
                for w in (quiet, busy):
                    w.release()
                poll(partial(have_all, heard, 3 * version), END, "both streams tell of it")
        assert heard[0] == heard[1]
        assert [line for line in heard[0] if line.startswith("data")] == [
            'data: {"version": 1}',
            'data: {"version": 2}',
        ]


# --- when a release comes ---

SECONDS_PER_EXAMPLE = 0.07  # off the grid, if each is computed by itself


@pytest.mark.parametrize(("every", "delay"), [(200, 0.0), (100, 7.0)], ids=["in time", "too long"])
def test_the_moments_of_releases_are_public(tmp_path: Path, every: int, delay: float) -> None:
    """One client of 2,000 inputs off the grid takes 14 s by the clocks: nobody sees it, unless the lead is too short.

    Then the delay is rounded up to 1, 3, 7, … s.
    """
    text = PRIVATE.replace('every = "1h"', f'every = "{every}s"').replace("client = 5", "client = 2000")
    for quiet, busy in twins(tmp_path, text):
        send_many(busy, 200)
        moments = [list(published(w, every)) for w in (quiet, busy)]
        assert moments[0] == [(1000.0 + every, 1), (1000.0 + 2 * every, 2)]
        assert moments[1] == [(moment + delay, version) for moment, version in moments[0]]
        for w in (quiet, busy):
            w.refresh()
        assert observed(quiet)[9:12] == observed(busy)[9:12]  # the study: budget, schedule, refusal


def send_many(w: World, count: int) -> None:
    rows = to_bytes(w.service.study.model, np.linspace(-1.99, 1.99, count)[:, None])
    with w.service.store.transaction() as connection:
        add(connection, addition(w.ids["own"], [Example(str(k), x, 1.0, 1.0) for k, x in enumerate(rows)], count))


def published(w: World, every: int) -> Iterator[tuple[float, int]]:
    """When a stranger sees each of two versions, if work takes as long as its model says."""

    def work(point: str) -> None:
        if point == "caught up":
            w.now[0] += 0.05 + SECONDS_PER_EXAMPLE * len(w.publisher.learner.engine)

    w.publisher.learner.reached = work
    version, ticks = 0, int(1000 / TICK_SECONDS)
    while w.now[0] < 1000.0 + 2.5 * every:
        w.publisher.tick()
        with w.service.store.snapshot() as connection:
            current = releases.current(connection)
        if current is not None and current.version > version:
            version = current.version
            assert 0 <= w.now[0] - current.made < TICK_SECONDS  # when it was stored
            yield round(w.now[0], 3), version
        until_due = every - (w.now[0] - 1000.0) % every
        ticks = max(ticks + (1 if until_due < 45 or until_due > every - 10 else 20), round(w.now[0] / TICK_SECONDS))
        w.now[0] = TICK_SECONDS * ticks


def have_all(heard: list[list[str]], lines: int) -> bool:
    return all(len(one) == lines for one in heard)


@contextmanager
def listening(w: World) -> Iterator[list[str]]:
    """The lines that a stranger's stream has brought so far, until it has told of two releases."""
    heard: list[str] = []
    with httpx.Client(base_url=w.http.base_url, timeout=60) as http, http.stream("GET", "/v1/stream") as response:

        def read() -> None:
            for line in response.iter_lines():
                heard.append(line)
                if len(heard) == 6:
                    return

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        yield heard
        thread.join(END)
