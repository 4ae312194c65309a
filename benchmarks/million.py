"""The first release of a private study of a million examples, from the database on: inputs off the grid, and on it."""

from __future__ import annotations

import tempfile
import time
from contextlib import closing
from pathlib import Path

import numpy as np

from benchmarks.measure import Row, duration, seconds
from motet.server.publisher import Publisher
from motet.store.clients import enroll
from motet.store.examples import Addition, to_bytes
from motet.store.pins import pin
from motet.store.store import Store
from motet.store.writer import commit
from motet.study.study import Study

CLIENTS, EXAMPLES, GOAL_SECONDS = 200_000, 5, 60.0
NAMES_PER_CALL, CLIENTS_PER_COMMIT = 10_000, 2000
STUDY = """
[study]
name = "A million"
[model]
alpha = 0.5
lam = 0.1
sigma2 = 1.0
common = { kernel = "rbf", length_scale = 1.0 }
individual = { kernel = "rbf", length_scale = 1.0 }
[inputs]
dimension = 1
[basis]
kind = "landmarks"
grid = { from = -2.0, to = 2.0, count = 25 }
[limits]
y = [-10.0, 10.0]
[release]
policy = "private"
every = "1d"
epsilon = 3.0
releases = 10
"""


def million() -> list[Row]:
    off, on = (_first_release(off_grid=off_grid) for off_grid in (True, False))
    count = f"{CLIENTS * EXAMPLES:,} examples of {CLIENTS:,} clients"
    note = f"within {GOAL_SECONDS:g} s is the goal; the same inputs on the grid take {duration(on)}"
    against = f"{GOAL_SECONDS:g} s, on any machine"
    return [
        Row(f"first private release, {count} off the grid", duration(off), against, off / GOAL_SECONDS, 1.0, note=note)
    ]


def _first_release(*, off_grid: bool) -> float:
    """Seconds that a new publisher takes to read, clip, add noise and publish, without the wait for the clock."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.toml"
        path.write_text(STUDY, encoding="utf-8")
        study = Study.load(path)
        with closing(Store(study.store_url)) as store:
            pin(store, study, now=0.0)
            fill(store, study, off_grid=off_grid)
            publisher = Publisher(store, study, clock=_Clock.now)
            _Clock.begin(study.release.seconds)

            def release() -> None:
                while publisher.tick() is None:
                    _Clock.wait()

            return seconds(release)


class _Clock:
    """Time that goes on while the publisher works, and jumps while it waits."""

    _ahead = 0.0

    @classmethod
    def begin(cls, now: float) -> None:
        cls._ahead = now - time.monotonic()

    @classmethod
    def now(cls) -> float:
        return cls._ahead + time.monotonic()

    @classmethod
    def wait(cls) -> None:
        cls._ahead += 1.0


def fill(store: Store, study: Study, *, off_grid: bool) -> None:
    rng, grid = np.random.default_rng(0), np.linspace(-2.0, 2.0, 25)
    names = [f"client {k}" for k in range(CLIENTS)]
    ids = []
    for begin in range(0, CLIENTS, NAMES_PER_CALL):
        with store.transaction() as connection:
            ids += [client.id for client in enroll(connection, names[begin : begin + NAMES_PER_CALL])]
    columns = [str(k) for k in range(EXAMPLES)]
    for begin in range(0, CLIENTS, CLIENTS_PER_COMMIT):
        additions = []
        for id in ids[begin : begin + CLIENTS_PER_COMMIT]:
            x = rng.uniform(-2, 2, EXAMPLES) if off_grid else rng.choice(grid, EXAMPLES, replace=False)
            y, noise = rng.normal(size=EXAMPLES).tolist(), [1.0] * EXAMPLES
            additions.append(Addition(id, (columns, to_bytes(study.model, x[:, None]), y, noise), 500))
        commit(store, additions)
