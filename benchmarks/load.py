"""The service under load, each figure beside a floor of the same run: sixteen connections on 127.0.0.1."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import psutil

from benchmarks.measure import Row, duration
from motet import Client
from motet.store.clients import enroll
from motet.store.examples import to_bytes
from motet.store.schema import examples
from motet.store.sqlite import SQLite
from motet.store.store import Store
from motet.study.study import Study

CONNECTIONS, SECONDS, SENDERS = 16, 4.0, 200
OPERATOR = "the-operators-token"
FLOODS = itertools.count()  # so that no id comes twice
STUDY = """
[study]
name = "Load"
[model]
alpha = 0.5
lam = 0.1
sigma2 = 1.0
common = {{ kernel = "rbf", length_scale = 1.0 }}
individual = {{ kernel = "dot_product", sigma_0 = 1.0 }}
[inputs]
dimension = 1
[basis]
kind = "landmarks"
grid = {{ from = -2.0, to = 2.0, count = 20 }}
[limits]
y = [-10.0, 10.0]
examples_per_client = 20000
[release]
policy = "exact"
every = "{every}"
[server]
port = {port}
rate = 100000
"""
PARSE_ONLY = """
import sys, uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
class NewExample(BaseModel):
    id: str
    x: str | list[float]
    y: float
    noise: float = 1.0
class NewExamples(BaseModel):
    examples: list[NewExample]
app = FastAPI()
@app.post("/v1/examples")
async def parse(body: NewExamples) -> dict[str, int]:
    return {"accepted": len(body.examples), "duplicates": 0, "count": 0}
uvicorn.run(app, port=int(sys.argv[1]), log_level="error", access_log=False)
"""


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


@contextlib.contextmanager
def process(arguments: Sequence[str], port: int, **environment: str) -> Iterator[int]:
    """The number of a program that listens on a port, and is ended by a signal to it."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    begun = subprocess.Popen([sys.executable, *arguments], env=os.environ | environment, **quiet)  # type: ignore[call-overload]
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            break
        time.sleep(0.05)
    try:
        yield begun.pid
    finally:
        begun.terminate()
        begun.wait(30)


@contextlib.contextmanager
def served(
    every: str = "1h", *, study: str = STUDY, catalogue: str = "", more: str = "", options: Sequence[str] = ()
) -> Iterator[tuple[Path, int, int]]:
    """A study's file, to which ``more`` is added, beside its catalogue, and the port and the process of its server."""
    with tempfile.TemporaryDirectory() as folder:
        port, path = free_port(), Path(folder) / "study.toml"
        path.write_text(study.format(every=every, port=port) + more, encoding="utf-8")
        path.with_name("catalogue.csv").write_text(catalogue, encoding="utf-8")
        command = ["-m", "motet", "serve", str(path), *options]
        with (
            process(command, port, MOTET_OPERATOR_TOKEN=OPERATOR, OPENBLAS_NUM_THREADS="1") as pid,
            urlopen(f"http://127.0.0.1:{port}/readyz", timeout=120),  # workers listen before they answer
        ):
            yield path, port, pid


def enrolled(port: int, number: int) -> list[str]:
    with Client(f"http://127.0.0.1:{port}", token=OPERATOR) as operator:
        return [client.token for client in operator.enroll([f"client {k}" for k in range(number)])]


@functools.cache
def template(rows: int) -> bytes:
    made = [{"id": f"PREFIX-{k}", "x": [0.01 * k], "y": 1.0, "noise": 1.0} for k in range(rows)]
    return json.dumps({"examples": made}).encode()


def body(prefix: str, rows: int) -> bytes:
    return template(rows).replace(b"PREFIX", prefix.encode())


async def request(streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], head: str, payload: bytes = b"") -> int:
    """One request on an open connection, by hand: a library would cost more than the server."""
    reader, writer = streams
    writer.write(f"{head}\r\nHost: x\r\nContent-Length: {len(payload)}\r\n\r\n".encode() + payload)
    answer = await reader.readuntil(b"\r\n\r\n")
    length = int(answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    await reader.readexactly(length)
    return int(answer[9:12])


async def flood(port: int, tokens: Sequence[str], rows: int, seconds: float) -> float:
    """Requests answered in a second, each with so many examples, by all connections together."""
    done, until = 0, time.perf_counter() + seconds
    flooded = next(FLOODS)

    async def sender(k: int) -> None:
        nonlocal done
        streams = await asyncio.open_connection("127.0.0.1", port)
        for number in range(10**9):
            if time.perf_counter() > until:
                break
            token = tokens[(k + CONNECTIONS * number) % len(tokens)]
            head = "POST /v1/examples HTTP/1.1\r\nContent-Type: application/json\r\n" + f"Authorization: Bearer {token}"
            status = await request(streams, head, body(f"{flooded}-{k}-{number}", rows))
            if status != 200:
                raise RuntimeError(f"the server answered {status}")
            done += 1
        streams[1].close()

    begin = time.perf_counter()
    await asyncio.gather(*(sender(k) for k in range(CONNECTIONS)))
    return done / (time.perf_counter() - begin)


def syncs_per_second(folder: Path) -> float:
    """How often this disk makes a page durable."""
    with (folder / "sync").open("wb") as file:
        begin, done = time.perf_counter(), 0
        while time.perf_counter() < begin + 1.0:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
            done += 1
    return done / (time.perf_counter() - begin)


def single_posts() -> list[Row]:
    parse_port = free_port()
    with served() as (path, port, _), process(["-c", PARSE_ONLY, str(parse_port)], parse_port):
        tokens = enrolled(port, CONNECTIONS)
        pairs = []
        for _ in range(3):
            pairs.append([asyncio.run(flood(p, tokens, 1, SECONDS)) for p in (port, parse_port)])
        ours, parsing = np.median(pairs, axis=0)
        syncs = CONNECTIONS * syncs_per_second(path.parent)
    note = f"parsing alone {parsing:.0f} a second, {CONNECTIONS} for each fsync {syncs:.0f}"
    job = "durable POSTs of one example, 16 connections"
    against = "parsing alone, or 16 for each fsync (share of the smaller)"
    return [Row(job, rate(ours), against, ours / min(parsing, syncs), 0.5, False, note)]


def rate(per_second: float) -> str:
    return f"{float(f'{per_second:.2g}'):,.0f} a second"


def batched_posts() -> list[Row]:
    with served() as (_, port, _):
        tokens = enrolled(port, SENDERS)
        pairs = [(100 * asyncio.run(flood(port, tokens, 100, SECONDS)), bare_rows_per_second()) for _ in range(3)]
    ours, bare = np.median(pairs, axis=0)
    note = f"the driver alone {bare:.0f} rows a second"
    job = "examples in durable batches of 100 from 200 clients"
    return [Row(job, rate(ours), "executemany and commit of the same rows (share)", ours / bare, 0.5, False, note)]


def bare_rows_per_second() -> float:
    """The same rows into the same table by the driver alone, one commit for each hundred."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.toml"
        path.write_text(STUDY.format(every="1h", port=0), encoding="utf-8")
        study = Study.load(path)
        store = Store(study.store_url)
        (x,) = to_bytes(study.model, np.array([[0.5]]))
        with store.transaction() as connection:
            who = [client.id for client in enroll(connection, [f"{k}" for k in range(SENDERS)])]
        bare = sqlite3.connect(Path(folder) / "study.db", isolation_level=None)
        for pragma in SQLite.pragmas:
            bare.execute(f"PRAGMA {pragma}")
        begin, batches = time.perf_counter(), 0
        while time.perf_counter() < begin + SECONDS:
            rows = [(who[batches % SENDERS], batches, f"{batches}-{k}", x, 1.0, 1.0) for k in range(100)]
            bare.execute("BEGIN IMMEDIATE")
            bare.executemany(f"INSERT INTO examples ({', '.join(examples.c.keys())}) VALUES (?, ?, ?, ?, ?, ?)", rows)
            bare.execute("COMMIT")
            batches += 1
        took = time.perf_counter() - begin
        bare.close()
        store.close()
        return 100 * batches / took


def reading_under_load() -> list[Row]:
    with served(every="2s") as (_, port, _):
        tokens = enrolled(port, SENDERS)
        asyncio.run(flood(port, tokens, 100, SECONDS))  # something to fold
        idle = asyncio.run(reads(port, SECONDS, []))
        busy = asyncio.run(reads(port, 2 * SECONDS, tokens))
    job = "p95 of GET /v1/study during full ingest and releases"
    return [Row(job, duration(busy), "the same when idle", busy / idle, 20.0)]


async def reads(port: int, seconds: float, tokens: Sequence[str]) -> float:
    """The 95th percentile of a read, with or without a flood beside it."""
    beside = asyncio.create_task(flood(port, tokens, 1, seconds + 0.123)) if tokens else None
    streams, times = await asyncio.open_connection("127.0.0.1", port), []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        begin = time.perf_counter()
        await request(streams, "GET /v1/study HTTP/1.1")
        times.append(time.perf_counter() - begin)
        await asyncio.sleep(0.01)
    streams[1].close()
    if beside is not None:
        await beside
    return float(np.percentile(times, 95))


def memory_under_load() -> list[Row]:
    """The server's memory when ten times as much was sent as at first."""
    with served(every="2s") as (_, port, pid):
        tokens = enrolled(port, 5 * SENDERS)  # so that none has too many in the end
        held = []
        for seconds in (SECONDS, 9 * SECONDS):
            asyncio.run(flood(port, tokens, 100, seconds))
            held.append(resident(pid))
    job = "memory of the server, after ten times as many examples"
    return [Row(job, f"{held[1]:.0f} MB", "the same after one time", held[1] / held[0], 1.1)]


def resident(pid: int) -> float:
    """Megabytes that a process holds."""
    return psutil.Process(pid).memory_info().rss / 2**20


def service() -> list[Row]:
    return single_posts() + batched_posts() + reading_under_load() + memory_under_load()
