"""Connections that keep the server waiting, or come in crowds: each has an end, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import select
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trustme

from motet.server.protection import connections
from motet.server.protection.connections import MAX_HEADERS, BoundedConnection, Listener
from motet.server.protection.rates import UnderWay, network
from motet.server.protection.streams import PiecewiseResponse, Streams
from tests.scenarios.harness import END, poll
from tests.server.world import running

LARGE = 10_000_000


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the length of the body, or with many bytes; never reads a body that is not for it."""
    if scope["type"] != "http":
        return
    if scope["path"] == "/release":
        await PiecewiseResponse(b"x" * LARGE)(scope, receive, send)
        return
    if scope["path"] == "/endless":
        await Streams(10, lambda: 1, lambda _: asyncio.sleep(0, result=True), UnderWay(10, ())).new()(
            scope, receive, send
        )
        return
    length, more = 0, scope["path"] == "/read"
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        length, more = length + len(message["body"]), message["more_body"]
    body = b"%d" % length
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(LARGE // 50_000 if scope["path"] == "/large" else 0):
        await send({"type": "http.response.body", "body": b"x" * 50_000, "more_body": True})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def served(**changes: Any) -> Iterator[tuple[str, int]]:
    with running(app, **changes) as (url, _):
        host, _, port = url.removeprefix("http://").partition(":")
        yield host, int(port)


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    with served() as address:
        yield address


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEAD_SECONDS", "BODY_SECONDS", "WRITE_SECONDS"):
        monkeypatch.setattr(connections, name, 1.5)


def said(connection: socket.socket, seconds: float = END) -> bytes:
    """All that comes until the connection is closed."""
    connection.settimeout(seconds)
    parts = []
    with suppress(ConnectionError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def status(answer: bytes) -> int:
    """Of a response in the one format of errors, with the headers that all have."""
    begin, _, body = answer.partition(b"\r\n\r\n")
    assert b"x-content-type-options: nosniff" in begin
    assert b"content-security-policy: default-src 'none'" in begin
    assert json.loads(body)["error"].keys() == {"code", "message", "where"}
    return int(begin.split()[1])


GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
HALF = b"GET / HTTP/1.1\r\nHost: x\r\nX: "
POST = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"


UNFINISHED = [b"", HALF, GET + HALF, POST % (b"/read", 1000), GET + POST % (b"/read", 1000), POST % (b"/", 10**6)]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("dripping", [False, True])
def test_a_request_that_does_not_end_is_ended(dripping: bool) -> None:
    """Whether its sender is silent, or sends a byte now and then."""
    with served() as address, ExitStack() as held:
        senders = {}
        for begin in UNFINISHED:
            senders[begin] = held.enter_context(socket.create_connection(address))
            senders[begin].sendall(begin)
        deadline = time.monotonic() + END
        while dripping and any(map(drip, senders.values())):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        for begin, connection in senders.items():
            answers = [b"HTTP/1.1" + one for one in said(connection).split(b"HTTP/1.1")[1:]]
            if dripping:  # a reset may be faster than the last answer
                continue
            right = begin.count(GET) + begin.count(b"POST / ")
            assert [int(one.split()[1]) for one in answers[:right]] == [200] * right
            assert [status(one) for one in answers[right:]] == ([408] if HALF in begin or b"/read" in begin else [])


def drip(connection: socket.socket) -> bool:
    """Send one more byte, if anybody is there."""
    try:
        connection.sendall(b"a")
    except ConnectionError:
        return False
    return True


def test_a_slow_body_is_read_if_it_is_not_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes longer than a body without bytes may, and less than these bytes may."""
    monkeypatch.setattr(connections, "BODY_SECONDS", 1.0)
    monkeypatch.setattr(connections, "BODY_BYTES_PER_SECOND", 100 / END)
    with served() as address, socket.create_connection(address) as connection:
        connection.sendall(POST % (b"/read", 1200) + b"a" * 100)
        for _ in range(11):
            time.sleep(0.15)
            connection.sendall(b"a" * 100)
        connection.shutdown(socket.SHUT_WR)
        assert b"1200" in said(connection)


@pytest.mark.usefixtures("impatient")
def test_a_reader_that_does_not_read_is_cut_off() -> None:
    with served() as address, ExitStack() as held:
        readers = [held.enter_context(socket.create_connection(address)) for _ in range(2)]
        for connection, last in zip(readers, (b"", b"Connection: close\r\n")):
            connection.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n" + last + b"\r\n")
        ends = select.poll()
        for connection in readers:
            ends.register(connection, 0)  # errors and the end are reported in any case
        poll(lambda: len(ends.poll(0)) == len(readers), END, "both are cut off")
        for connection in readers:
            assert len(said(connection)) < LARGE


@pytest.mark.parametrize("path", [b"/endless", b"/large"])
def test_a_stop_ends_what_would_not_end_by_itself(path: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """Streams, and responses that nobody reads: without a traceback for each."""
    with ExitStack() as held, served(settings={"timeout_graceful_shutdown": 1}) as address:
        for _ in range(5):
            connection = held.enter_context(socket.create_connection(address))
            connection.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path)
            assert connection.recv(10) == b"HTTP/1.1 2"
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_crowds_are_refused_and_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections without a head make room, after a moment, for one that may have a head."""
    for name in ("HEAD_SECONDS", "EVICTION_SECONDS"):  # so none ends by itself, and the moment is ours to choose
        monkeypatch.setattr(connections, name, 3600.0)
    with served(limit=10) as address, ExitStack() as held:
        crowd = [held.enter_context(socket.create_connection(address)) for _ in range(10)]
        for connection in crowd:
            connection.sendall(HALF)
        statuses = []
        with socket.create_connection(address) as newcomer:
            newcomer.sendall(GET)
            statuses.append(status(said(newcomer)))

        monkeypatch.setattr(connections, "EVICTION_SECONDS", 0.5)

        def admitted() -> bool:
            with socket.create_connection(address) as newcomer:
                newcomer.settimeout(END)
                newcomer.sendall(GET)
                with suppress(ConnectionError):
                    statuses.append(int(newcomer.recv(65536).split()[1]))
            return statuses[-1] == 200

        poll(admitted, END, "a newcomer is served")
        assert set(statuses[:-1]) == {503}


def test_one_address_has_a_part_of_all_connections() -> None:
    for proxies, expected in (((), 503), (("127.0.0.0/8",), 200)):
        with served(limit_per_address=3, proxies=proxies) as address, ExitStack() as held:
            for _ in range(3):
                held.enter_context(socket.create_connection(address)).sendall(HALF)
            newcomer = held.enter_context(socket.create_connection(address))
            newcomer.sendall(GET)
            newcomer.settimeout(END)
            assert int(newcomer.recv(65536).split()[1]) == expected
            with socket.create_connection(address, source_address=("127.0.0.2", 0)) as neighbour:
                neighbour.sendall(GET)
                neighbour.settimeout(END)
                assert int(neighbour.recv(65536).split()[1]) == 200


def test_connections_that_end_make_room() -> None:
    with served(limit=5, limit_per_address=5) as address:
        for _ in range(50):
            with socket.create_connection(address) as connection:
                connection.settimeout(END)
                connection.sendall(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
                assert b" 200 " in said(connection)


def test_networks() -> None:
    assert network("10.1.2.3") == network("::ffff:10.1.2.3") == "10.1.2.3"
    assert network("2001:db8::1") == network("2001:db8::ffff:2") != network("2001:db8:0:1::1")
    assert network("fe80::1%eth0") == network("fe80::2")
    assert network("a socket") == "a socket"


def test_without_descriptors_connections_are_closed_and_one_line_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    accept, exhausted = socket.socket.accept, True

    def failing(listener: socket.socket) -> Any:
        nonlocal exhausted
        exhausted = not exhausted
        if not exhausted:
            raise OSError(errno.EMFILE, "Too many open files")
        return accept(listener)

    listener = Listener(socket.create_server(("127.0.0.1", 0)), limit=100, limit_per_address=100, proxies=(), tls=False)
    listener.setblocking(False)
    with listener, ExitStack() as held:
        crowd = [held.enter_context(socket.create_connection(listener.getsockname())) for _ in range(50)]
        monkeypatch.setattr(socket.socket, "accept", failing)
        with caplog.at_level(logging.WARNING):
            for _ in range(20):
                with pytest.raises(BlockingIOError):
                    listener.accept()
        monkeypatch.undo()
        for connection in crowd:
            assert said(connection) == b""
    assert [record.getMessage() for record in caplog.records] == ["refusing connections: Too many open files"]


def test_a_spare_descriptor_that_is_gone_is_not_closed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number may be that of another thread's file by then."""
    listener = Listener(socket.create_server(("127.0.0.1", 0)), limit=100, limit_per_address=100, proxies=(), tls=False)
    listener.setblocking(False)
    exhausted = OSError(errno.EMFILE, "Too many open files")
    monkeypatch.setattr(socket.socket, "accept", lambda _: raising(exhausted))
    monkeypatch.setattr("motet.server.protection.connections.os.open", lambda *_: raising(exhausted))
    with listener, pytest.raises(BlockingIOError):
        listener.accept()


def raising(error: OSError) -> Any:
    raise error


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def tls(authority: trustme.CA, tmp_path: Path) -> dict[str, Any]:
    """How to serve with a certificate of this authority."""
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "both.pem")
    return {"settings": {"ssl_certfile": tmp_path / "both.pem"}, "tls": True}


@contextmanager
def encrypted(authority: trustme.CA, address: tuple[str, int]) -> Iterator[ssl.SSLSocket]:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    with (
        socket.create_connection(address, END) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        yield connection


def test_handshakes_make_room(authority: trustme.CA, tls: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Long before they end by themselves, but for a newcomer only."""
    monkeypatch.setattr(connections, "HEAD_SECONDS", 3600.0)
    with served(**tls, limit=3) as address, ExitStack() as held:
        crowd = [held.enter_context(socket.create_connection(address)) for _ in range(2)]
        served_one = held.enter_context(encrypted(authority, address))
        answers = []

        def admitted() -> bool:
            with suppress(OSError), encrypted(authority, address) as newcomer:
                newcomer.sendall(GET)
                answers.append(newcomer.recv(65536))
            return bool(answers)

        poll(admitted, END, "a newcomer is served")
        assert answers[0].startswith(b"HTTP/1.1 200")
        assert said(crowd[0]) == b""
        served_one.sendall(GET)
        assert served_one.recv(65536).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("encryption", [False, True])
def test_a_reader_that_does_not_read_has_little_in_memory(
    authority: trustme.CA, tls: dict[str, Any], encryption: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused, pause = [], BoundedConnection.pause_writing

    def note(connection: BoundedConnection) -> None:
        pause(connection)
        paused.append(connection)

    monkeypatch.setattr(BoundedConnection, "pause_writing", note)
    with served(**tls if encryption else {}) as address, ExitStack() as held:
        client = encrypted(authority, address) if encryption else socket.create_connection(address)
        held.enter_context(client).sendall(b"GET /release HTTP/1.1\r\nHost: x\r\n\r\n")
        poll(lambda: paused, END, "the server waits for its reader")
        assert paused[-1].transport.get_write_buffer_size() < 50_000


def test_a_handshake_that_does_not_end_is_ended(
    authority: trustme.CA, tls: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
    with served(**tls, limit=2, limit_per_address=2) as address:
        with socket.create_connection(address) as first, socket.create_connection(address) as second:
            with socket.create_connection(address) as refused:
                assert said(refused) == b""
            assert said(first) == said(second) == b""
        answers = []

        def served_now() -> bool:
            with suppress(OSError), encrypted(authority, address) as connection:  # we too have half a second
                connection.sendall(GET)
                answers.append(connection.recv(65536))
            return any(answers)

        poll(served_now, END, "there is room again")
        assert answers[-1].startswith(b"HTTP/1.1 200")


def test_old_protocols_and_plain_requests_get_nothing_where_there_is_tls(
    authority: trustme.CA, tls: dict[str, Any]
) -> None:
    with served(**tls) as address:
        with socket.create_connection(address, END) as plain:
            plain.sendall(GET)
            assert b"HTTP" not in said(plain)
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.warns(DeprecationWarning, match="TLSv1"):
            old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        with socket.create_connection(address, END) as connection, pytest.raises(ssl.SSLError):
            old.wrap_socket(connection)
        with encrypted(authority, address) as connection:
            assert connection.version() in ("TLSv1.2", "TLSv1.3")
            connection.sendall(GET)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")


# --- what no client sends ---


@pytest.mark.parametrize(
    ("request_bytes", "expected"),
    [
        (b"FOO / HTTP/1.1\r\n\r\n", 501),
        (b"get / HTTP/1.1\r\n\r\n", 501),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * (MAX_HEADERS + 1) + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"A" * 20_000, 431),
        (b"GET / HTTP/1.1\r\nA: " + b"a" * 17_000 + b"\r\n\r\n", 431),  # ends in the bytes that are too many
        (b"GET /" + b"a" * 17_000 + b" HTTP/1.1\r\n\r\n", 431),
        (b"GET / HTTP/9.9\r\n\r\n", 400),
        (b"CONNECT x:443 HTTP/1.1\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00", 501),
        (b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
    ],
)
def test_what_the_parser_refuses_has_the_one_shape(
    address: tuple[str, int], request_bytes: bytes, expected: int
) -> None:
    with socket.create_connection(address) as connection:
        connection.sendall(request_bytes)
        assert status(said(connection)) == expected


def test_nobody_sends_thousands_of_requests_before_the_first_answer(address: tuple[str, int]) -> None:
    with socket.create_connection(address) as connection:
        with suppress(ConnectionError):
            connection.sendall((POST % (b"/read", 1)) + GET * 5000)
        assert said(connection).count(b"HTTP/1.1 200") <= 1
