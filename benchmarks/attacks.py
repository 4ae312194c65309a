"""The service under attack: what an honest client notices, and how much memory the server takes.

Attackers are processes of their own on 127.0.0.1, where no limit per address protects the server.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from benchmarks.load import STUDY, body, enrolled, request, resident, served
from benchmarks.measure import Row, duration
from motet.server.protection.connections import raise_descriptor_limit

SECONDS, ROUNDS = 2.5, 3
CONNECTIONS, HOSTILE_SENDERS = 4000, 20  # as many as a server takes by default; bodies at once
STOPPED_READERS, PAGE_READERS, STREAMS = 600, 40, 2000
ITEMS, FEATURES = 5000, 20  # of a catalogue that makes the study's facts long: 2 MB
GRID = '[basis]\nkind = "landmarks"\ngrid = {{ from = -2.0, to = 2.0, count = 20 }}\n'
CATALOGUE_STUDY = STUDY.replace("dimension = 1\n", 'catalogue = "catalogue.csv"\n').replace(GRID, "")
HALF_HEADS = """
import resource, selectors, socket, sys, time
port, number = int(sys.argv[1]), int(sys.argv[2])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
ends = selectors.DefaultSelector()
def connect():
    stranger = socket.create_connection(("127.0.0.1", port))
    stranger.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\nX: ")
    ends.register(stranger, selectors.EVENT_READ)
for _ in range(number):
    connect()
print("all", flush=True)
while True:
    for key, _ in ends.select(1.0):
        ends.unregister(key.fileobj)
        key.fileobj.close()
        connect()
        time.sleep(0.001)
"""
HOSTILE_BODIES = """
import socket, sys, threading, time
port, number, tokens = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
bodies = [
    b'{"examples":[{"id":"a","y":1,"x":[' + b'"a",' * 245_000 + b'"a"]}]}',
    b'{"examples":[{"id":"a","y":1,"x":[' + b"0," * 490_000 + b"0]}]}",
    b'{"examples":[' + b'{"id":"a","x":[0],"y":0},' * 39_000 + b"{}]}",
]
def send(k):
    body = bodies[k % len(bodies)]
    head = b"POST /v1/examples HTTP/1.1\\r\\nHost: x\\r\\nAuthorization: Bearer %s\\r\\nContent-Length: %d\\r\\n\\r\\n"
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port)) as hostile:
                while True:
                    hostile.sendall(head % (tokens[k % len(tokens)].encode(), len(body)) + body)
                    if not hostile.recv(65536):
                        break
        except OSError:
            pass
for k in range(number):
    threading.Thread(target=send, args=(k,), daemon=True).start()
print("all", flush=True)
time.sleep(3600)
"""
STOP_READING = """
import resource, socket, sys, time
port, number = int(sys.argv[1]), int(sys.argv[2])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
def connect():
    stranger = socket.socket()
    stranger.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stranger.connect(("127.0.0.1", port))
    stranger.sendall(b"GET /v1/study HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    return stranger
held = [connect() for _ in range(number)]
for stranger in held:
    stranger.recv(1)
print("all", flush=True)
time.sleep(3600)
"""
READ_PAGES = """
import selectors, socket, sys
port, number = int(sys.argv[1]), int(sys.argv[2])
ends, page = selectors.DefaultSelector(), b"GET /docs HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n"
for _ in range(number):
    reader = socket.create_connection(("127.0.0.1", port))
    reader.sendall(10 * page)
    ends.register(reader, selectors.EVENT_READ, [b""])
print("all", flush=True)
while True:
    for key, _ in ends.select(1.0):
        read = key.data[0] + key.fileobj.recv(262144)
        key.data[0] = read[-6:]  # the mark may come in two parts
        key.fileobj.sendall(read.count(b"</html>") * page)
"""
OPEN_STREAMS = """
import resource, socket, sys, time
port, number = int(sys.argv[1]), int(sys.argv[2])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
def ask():
    stranger = socket.create_connection(("127.0.0.1", port))
    stranger.sendall(b"GET /v1/stream HTTP/1.1\\r\\nHost: x\\r\\nX-Forwarded-For: 192.0.2.1\\r\\n\\r\\n")
    stranger.recv(65536)
    return stranger
held = [ask() for _ in range(number)]
print("all", flush=True)
while True:
    held.append(ask())
    time.sleep(0.05)  # the proxy of the docs lets no more through
"""


def catalogue() -> str:
    rng = np.random.default_rng(3)
    lines = [",".join(["name", *(f"f{k}" for k in range(FEATURES))])]
    lines += [
        ",".join([f"item {k}", *map(repr, row.tolist())]) for k, row in enumerate(rng.normal(size=(ITEMS, FEATURES)))
    ]
    return "\n".join(lines) + "\n"


def beside(name: str, attack: str, number: int, *, attackers: int = 0, long: bool = False) -> list[Row]:
    """A client's requests and the server's memory, idle and beside an attack, in turn; ``long`` with a catalogue."""
    study = {"study": CATALOGUE_STUDY, "catalogue": catalogue()} if long else {}
    x = b'"item 1"' if long else b"[0.0]"
    with served(**study) as (_, port, pid):
        honest, *tokens = enrolled(port, 1 + attackers)
        command = [sys.executable, "-c", attack, f"{port}", f"{number}", *tokens]
        idle, busy = [], []
        for _ in range(ROUNDS):
            time.sleep(1.0)
            idle.append(asyncio.run(posts(port, honest, pid, x)))
            with attacking(command):
                busy.append(asyncio.run(posts(port, honest, pid, x)))
    (fast, _), (slow, _) = np.median(idle, axis=0), np.median(busy, axis=0)
    at_rest = idle[0][1]
    most = max(megabytes for _, megabytes in busy)
    return [
        Row(f"p95 of a POST beside {name}", duration(slow), "the same when idle", slow / fast, 5.0),
        Row(f"memory of the server beside {name}", f"{most:.0f} MB", "the same when idle", most / at_rest, 2.0),
    ]


@contextmanager
def attacking(command: Sequence[str]) -> Iterator[None]:
    """Beside a process that attacks, from the moment when it reports that it does."""
    attacker = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert attacker.stdout is not None
        assert attacker.stdout.readline() == b"all\n"
        yield
    finally:
        attacker.kill()
        attacker.communicate()


async def streams_held(port: int) -> int:
    """How many streams one visitor gets who asks for many through a proxy, and holds them."""

    async def ask() -> asyncio.StreamWriter:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /v1/stream HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n")
        answers.append(int((await reader.readuntil(b"\r\n"))[9:12]))
        return writer

    answers: list[int] = []
    for writer in [await ask() for _ in range(STREAMS)]:
        writer.close()
    return answers.count(200)


def one_visitor() -> list[Row]:
    """With as many streams as a server takes by default, through the proxy that speaks for everybody."""
    raise_descriptor_limit()
    with served() as (_, port, _):
        held = asyncio.run(streams_held(port))
    job = f"streams of one visitor who asks for {STREAMS:,} through a proxy"
    return [Row(job, f"{held}", "all that the server has", held / STREAMS, 0.1)]


async def posts(port: int, token: str, pid: int, x: bytes) -> tuple[float, float]:
    """The 95th percentile of a POST of one example with this input, and the most memory that the server had meanwhile.

    Whom the server asks to come again in a second, because all its connections are new, does so, as its own clients do.
    """
    streams, times, megabytes = await asyncio.open_connection("127.0.0.1", port), list[float](), list[float]()
    head = "POST /v1/examples HTTP/1.1\r\nContent-Type: application/json\r\n" + f"Authorization: Bearer {token}"
    until = time.perf_counter() + SECONDS
    while (begin := time.perf_counter()) < until:
        example = body(f"{begin}", 1).replace(b"[0.0]", x)
        status = await request(streams, head, example)
        if status == 503 and not times:
            await asyncio.sleep(1.0)
            streams = await asyncio.open_connection("127.0.0.1", port)
            status = await request(streams, head, example)
        times.append(time.perf_counter() - begin)
        if status != 200:
            raise RuntimeError(f"the server answered {status}")
        megabytes.append(resident(pid))
        await asyncio.sleep(0.01)
    streams[1].close()
    return float(np.percentile(times, 95)), max(megabytes)


def attacks() -> list[Row]:
    catalogue = f"a study of {ITEMS:,} items × {FEATURES} features"
    return [
        *beside(f"{CONNECTIONS:,} connections with half a head", HALF_HEADS, CONNECTIONS),
        *beside(f"{HOSTILE_SENDERS} senders of hostile bodies", HOSTILE_BODIES, HOSTILE_SENDERS, attackers=5),
        *beside(f"{STOPPED_READERS} who stop reading {catalogue}", STOP_READING, STOPPED_READERS, long=True),
        *beside(f"{PAGE_READERS} readers of the page of calls", READ_PAGES, PAGE_READERS),
        *beside(f"{STREAMS:,} streams that one visitor asks for through a proxy", OPEN_STREAMS, STREAMS),
        *one_visitor(),
    ]
