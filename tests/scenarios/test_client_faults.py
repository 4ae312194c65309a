"""Clients that are slow, large, false or many: nobody else waits for them, and nothing of them is left."""

from __future__ import annotations

import re
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

from tests.scenarios.after import MARGIN_MEGABYTES, Scene, after
from tests.scenarios.harness import END, parts, poll, write_study
from tests.scenarios.studies import EXACT

CROWD = 2000
ADDRESSES = 20  # of this machine, since one address has a part of all connections
PER_ADDRESS = 200  # connections, by default
SLOW = 50
MEGABYTES = 100
PIECE = b" " * 2**20


@pytest.fixture(autouse=True)
def descriptors() -> Iterator[None]:
    """Enough open files for a crowd."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if soft < 3 * CROWD else soft, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def in_use(folder: Path, *, seed: int) -> Iterator[tuple[Scene, Callable[..., socket.socket]]]:
    """A study in use, and how to connect to it from one of this machine's addresses."""
    with parts(write_study(folder, EXACT)) as running, ExitStack() as held, Scene(running, seed=seed) as scene:
        port = int(running.url.rpartition(":")[2])

        def connect(address: int = 1) -> socket.socket:
            source = (f"127.0.0.{address}", 0)
            return held.enter_context(socket.create_connection(("127.0.0.1", port), END, source_address=source))

        yield scene, connect


def post(scene: Scene, length: str) -> bytes:
    """The head of a request of the bystander's."""
    token = scene.bystander.token
    head = (
        f"POST /v1/examples HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
    )
    return f"{head}{length}\r\n\r\n".encode()


def said(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    parts = []
    with suppress(ConnectionError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def test_a_byte_a_second_and_lengths_that_are_too_long(tmp_path: Path) -> None:
    """In the head, in the body, and none at all after a length that promised more: each is told, and has an end."""
    with in_use(tmp_path, seed=1) as (scene, connect):
        slow = []
        for k in range(SLOW):
            begin = (b"GET /v1/study HTTP/1.1\r\nX: ", post(scene, "Content-Length: 1000") + b"{")[k % 2]
            slow.append(connect())
            slow[-1].sendall(begin)
        silent = [connect() for _ in range(SLOW)]
        for connection in silent:
            connection.sendall(post(scene, "Content-Length: 1000") + b'{"examples": []}')
        while sum(map(drip, slow)):
            time.sleep(1.0)
        for connection in silent:
            assert b" 408 " in (answer := said(connection))
            assert b"expected the rest of this request sooner" in answer
        after(scene)


def drip(connection: socket.socket) -> bool:
    try:
        connection.sendall(b"a")
    except OSError:
        return False
    return True


def test_clients_that_leave_in_the_middle(tmp_path: Path) -> None:
    with in_use(tmp_path, seed=2) as (scene, connect):
        begins = (b"G", post(scene, "Content-Length: 1000"), post(scene, "Content-Length: 1000") + b"{")
        for k in range(600):
            connection = connect()
            connection.sendall(begins[k % 3])
            connection.close()
        after(scene)


def test_a_hundred_megabytes_are_refused_and_not_kept(tmp_path: Path) -> None:
    """With their length, and in chunks."""
    with in_use(tmp_path, seed=3) as (scene, connect):
        memory: list[int] = []
        ended = threading.Event()
        server = psutil.Process(scene.place.processes["server"])
        watch = threading.Thread(target=note_memory, args=(server, memory, ended), daemon=True)
        watch.start()
        for length, piece in (
            (f"Content-Length: {MEGABYTES * 2**20}", PIECE),
            ("Transfer-Encoding: chunked", b"%x\r\n%s\r\n" % (len(PIECE), PIECE)),
        ):
            connection, answer = connect(), b""
            connection.sendall(post(scene, length))
            with suppress(OSError):
                for _ in range(MEGABYTES):
                    connection.sendall(piece)
            with suppress(ConnectionError):  # a reset may be faster
                answer = connection.recv(65536)
            assert not answer or (b" 413 " in answer and b"send smaller batches" in answer)
        ended.set()
        watch.join(END)
        assert max(memory) < memory[0] + MARGIN_MEGABYTES * 2**20
        after(scene)


def note_memory(process: psutil.Process, memory: list[int], ended: threading.Event) -> None:
    while not ended.wait(0.01) or not memory:
        memory.append(process.memory_info().rss)


def test_lengths_that_are_false_are_refused_and_nothing_is_stored(tmp_path: Path) -> None:
    body = b'{"examples": [{"id": "smuggled", "x": [0.5], "y": 1.0}]}'
    lengths = ("5", "-1", "x", "5\r\nContent-Length: 900")
    with in_use(tmp_path, seed=4) as (scene, connect):
        for length in lengths:
            connection = connect()
            connection.sendall(post(scene, f"Content-Length: {length}") + body)
            assert re.search(rb"^HTTP/1.1 (400|413|422|501) ", answer := said(connection)), length
            assert b"smuggled" not in answer
        after(scene)


def test_two_thousand_connections(tmp_path: Path) -> None:
    with in_use(tmp_path, seed=5) as (scene, connect):
        for first in (True, False):
            for k in range(CROWD):
                connect(2 + k % ADDRESSES).sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX: ")
            scene.go_on()
            if first:
                scene.allow_memory()
        one = [connect(2 + ADDRESSES) for _ in range(2 * PER_ADDRESS)]  # twice as many as one address may have
        for connection in one[-20:]:
            answer = said(connection)
            assert b" 503 " in answer
            assert b"try again in a second" in answer
        after(scene)


def test_two_thousand_streams(tmp_path: Path) -> None:
    with in_use(tmp_path, seed=6) as (scene, connect):
        for first in (True, False):
            streams = [connect(2 + k % ADDRESSES) for k in range(CROWD)]
            for stream in streams:
                stream.sendall(b"GET /v1/stream HTTP/1.1\r\nHost: x\r\n\r\n")
            told = [stream.recv(65536) for stream in streams]
            assert all(b" 200 " in answer for answer in told)
            late = connect()
            late.sendall(b"GET /v1/stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert b" 503 " in said(late)
            poll(partial(all_are_told, streams, told), END, "each stream tells of the next release")
            assert all(tells_once(answer) for answer in told)
            for stream in streams:
                stream.close()
            if first:
                scene.allow_memory()
        after(scene)


def all_are_told(streams: list[socket.socket], told: list[bytes]) -> bool:
    """Of two releases, the one at the beginning and another."""
    for k, stream in enumerate(streams):
        stream.setblocking(False)
        with suppress(BlockingIOError):
            told[k] += stream.recv(65536)
    return all(answer.count(b"event: release") > 1 for answer in told)


def tells_once(answer: bytes) -> bool:
    """Whether a stream told of each release once, in their order."""
    versions = [int(number) for number in re.findall(rb'"version": ?(\d+)', answer)]
    return len(versions) > 1 and versions == sorted(set(versions))
