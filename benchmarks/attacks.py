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

from benchmarks.load import body, enrolled, request, resident, served
from benchmarks.measure import Row, duration

SECONDS, ROUNDS = 2.5, 3
CONNECTIONS, HOSTILE_SENDERS = 4000, 20  # as many as a server takes by default; bodies at once
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


def beside(name: str, attack: str, number: int, attackers: int) -> list[Row]:
    """A client's requests and the server's memory, idle and beside an attack, in turn."""
    with served() as (_, port, pid):
        honest, *tokens = enrolled(port, 1 + attackers)
        command = [sys.executable, "-c", attack, f"{port}", f"{number}", *tokens]
        idle, busy = [], []
        for _ in range(ROUNDS):
            time.sleep(1.0)
            idle.append(asyncio.run(posts(port, honest, pid)))
            with attacking(command):
                busy.append(asyncio.run(posts(port, honest, pid)))
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


async def posts(port: int, token: str, pid: int) -> tuple[float, float]:
    """The 95th percentile of a POST of one example, and the most memory that the server had meanwhile.

    Whom the server asks to come again in a second, because all its connections are new, does so, as its own clients do.
    """
    streams, times, megabytes = await asyncio.open_connection("127.0.0.1", port), list[float](), list[float]()
    head = "POST /v1/examples HTTP/1.1\r\nContent-Type: application/json\r\n" + f"Authorization: Bearer {token}"
    until = time.perf_counter() + SECONDS
    while (begin := time.perf_counter()) < until:
        status = await request(streams, head, body(f"{begin}", 1))
        if status == 503 and not times:
            await asyncio.sleep(1.0)
            streams = await asyncio.open_connection("127.0.0.1", port)
            status = await request(streams, head, body(f"{begin}", 1))
        times.append(time.perf_counter() - begin)
        if status != 200:
            raise RuntimeError(f"the server answered {status}")
        megabytes.append(resident(pid))
        await asyncio.sleep(0.01)
    streams[1].close()
    return float(np.percentile(times, 95)), max(megabytes)


def attacks() -> list[Row]:
    half_heads = beside(f"{CONNECTIONS:,} connections with half a head", HALF_HEADS, CONNECTIONS, 0)
    return half_heads + beside(f"{HOSTILE_SENDERS} senders of hostile bodies", HOSTILE_BODIES, HOSTILE_SENDERS, 5)
