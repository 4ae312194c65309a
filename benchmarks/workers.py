"""Servers on PostgreSQL: single durable POSTs to four worker processes beside one, in turn on the same machine.

Each side has a database of its own in one cluster, whose commits are durable. One process sends to both. The note tells
who used the cores meanwhile: senders, servers and PostgreSQL share them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator, Sequence

import numpy as np
import psutil
from tests.postgres import Cluster, binaries, cluster

from benchmarks.load import CONNECTIONS, SECONDS, enrolled, flood, rate, served
from benchmarks.measure import Row

WORKERS, ROUNDS = 4, 3


def workers() -> list[Row]:
    """Requests a second, and the share of the cores that each part had in the last round with many workers."""
    bin = binaries()
    if bin is None:
        raise RuntimeError("expected a PostgreSQL on this machine, got none: install Debian's postgresql")
    with cluster(bin) as postgres, running(postgres, 1) as one, running(postgres, WORKERS) as many:
        tokens = {port: enrolled(port, CONNECTIONS) for port, _ in (one, many)}
        rates = [[asyncio.run(flood(port, tokens[port], 1, SECONDS)) for port, _ in (one, many)] for _ in range(ROUNDS)]
        notes = [busy_cores(port, tokens[port], pid, postgres) for port, pid in (one, many)]
    alone, together = np.median(rates, axis=0)
    note = f"cores in use of {os.cpu_count()}: one worker {notes[0]}; {WORKERS} workers {notes[1]}"
    job = f"durable POSTs of one example on PostgreSQL, {WORKERS} workers"
    return [Row(job, rate(together), f"one worker, {rate(alone)} (times)", together / alone, 1.6, False, note)]


@contextlib.contextmanager
def running(postgres: Cluster, count: int) -> Iterator[tuple[int, int]]:
    """The port and the process of a server with so many workers, on a database of its own."""
    database = f'[store]\nurl = "{postgres.url(postgres.create())}"\n'
    with served(more=database, options=["--workers", str(count)]) as (_, port, pid):
        yield port, pid


def busy_cores(port: int, tokens: Sequence[str], server: int, postgres: Cluster) -> str:
    """How many cores senders, servers and PostgreSQL had during another round."""
    parts = {"senders": [os.getpid()], "servers": family(server), "PostgreSQL": family(postgres.pid)}
    before = {name: seconds(pids) for name, pids in parts.items()}
    begin = time.perf_counter()
    asyncio.run(flood(port, tokens, 1, SECONDS))
    took = time.perf_counter() - begin
    return ", ".join(f"{name} {(seconds(pids) - before[name]) / took:.2f}" for name, pids in parts.items())


def family(pid: int) -> list[int]:
    process = psutil.Process(pid)
    return [pid, *(child.pid for child in process.children(recursive=True))]


def seconds(pids: Sequence[int]) -> float:
    """Of computing, by processes that still run."""
    total = 0.0
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = psutil.Process(pid).cpu_times()
            total += times.user + times.system
    return total
