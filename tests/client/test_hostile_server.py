"""A server that is hostile, or another one in its place: whatever it sends, a client takes little memory, and ends."""

from __future__ import annotations

import gzip
import io
import socket
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import chain, count, islice, repeat
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from motet import Client
from motet.cli.app import app
from motet.client import client, connection, responses
from motet.errors import MotetError, ServerError, Unauthorized, Unreachable
from tests.client.fake_server import FakeServer

SMALL = 2**20  # bytes that a reply may have here
BOMB = gzip.compress(bytes(2**27))  # 130 kB
EMPTY_BLOCK = b"\x00\x00\x00\xff\xff"  # of gzip
MAX_PEAK = 2**24


class Pieces(httpx.SyncByteStream):
    """A body that comes in pieces, and how many of them were read."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.pieces, self.read = pieces, 0

    def __iter__(self) -> Iterator[bytes]:
        for piece in self.pieces:
            self.read += 1
            assert self.read < 10**5, "it goes on for ever"
            yield piece


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_RELEASE_BYTES", SMALL)
    monkeypatch.setattr(connection.Connection.request, "__kwdefaults__", _kwdefaults(max_bytes=SMALL))


def _kwdefaults(**changes: Any) -> dict[str, Any]:
    return (connection.Connection.request.__kwdefaults__ or {}) | changes


def client_of(reply: Callable[[httpx.Request], httpx.Response], **options: Any) -> Client:
    return Client("https://study", "secret", http=httpx.Client(transport=httpx.MockTransport(reply)), **options)


def refusal_of(
    call: Callable[[Client], object], body: Iterator[bytes], status: int = 200, **headers: str
) -> MotetError:
    """What a call says to this reply, having taken little memory."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    tracemalloc.start()
    try:
        with pytest.raises(MotetError) as caught:
            call(client_of(lambda _: httpx.Response(status, headers=named, stream=Pieces(body)), retries=0))
        assert tracemalloc.get_traced_memory()[1] < MAX_PEAK
    finally:
        tracemalloc.stop()
    return caught.value


CALLS: dict[str, Callable[[Client], object]] = {
    "disclosed": Client.disclosed,
    "study": Client.study,
    "send": lambda me: me.send([0.5], 1.0),
    "clients": Client.clients,
    "coefficients": Client.coefficients,
}


@pytest.mark.parametrize("name", CALLS)
def test_a_reply_that_unpacks_to_much_is_refused(name: str) -> None:
    error = refusal_of(CALLS[name], iter([BOMB]), content_encoding="gzip")
    assert type(error) is ServerError
    assert "expected a reply of at most 1,048,576 bytes, got more" in str(error)


def test_a_reply_without_an_end_is_refused() -> None:
    assert "at most 1,048,576 bytes" in str(refusal_of(Client.study, repeat(bytes(2**16))))
    head = gzip.compress(b"")[:10]
    nothing = chain([head], repeat(EMPTY_BLOCK * 2**12))  # unpacks to nothing, for ever
    assert "at most" in str(refusal_of(Client.study, nothing, content_encoding="gzip"))


def test_only_gzip_is_unpacked_and_only_whole() -> None:
    packed = gzip.compress(b'{"version": 3}')
    for encoding, body, message in (
        ("gzip, gzip", gzip.compress(packed), "as it is or in gzip, got Content-Encoding 'gzip, gzip'"),
        ("br", b"...", "got Content-Encoding 'br'"),
        ("gzip", packed[:-1], "a part of one"),
        ("gzip", packed + packed, "bytes after its end"),
        ("gzip", b"<html>", "in gzip, got"),
    ):
        assert message in str(refusal_of(Client.study, iter([body]), content_encoding=encoding))
    for pieces in ([packed], [packed[k : k + 1] for k in range(len(packed))]):

        def reply(request: httpx.Request, pieces: list[bytes] = pieces) -> httpx.Response:
            assert request.headers["Accept-Encoding"] == "gzip"
            return httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=Pieces(iter(pieces)))

        assert client_of(reply).study() == {"version": 3}


def test_json_of_very_many_values_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "MAX_JSON_VALUES", 1000)
    error = refusal_of(Client.study, iter([b"[" + b"[]," * 3 * 10**5 + b"0]"]))
    assert "expected a JSON object, got more than 1,000 values" in str(error)


@pytest.mark.parametrize("encoding", ["identity", "gzip", "br"])
def test_the_body_of_an_error_is_short(encoding: str) -> None:
    body = repeat(bytes(2**16)) if encoding == "identity" else iter([BOMB])
    error = refusal_of(Client.study, body, 401, content_encoding=encoding)
    assert type(error) is Unauthorized
    assert "response 401 without a reason" in str(error)


# --- lists ---


@pytest.mark.parametrize(
    ("following", "message"),
    [
        (lambda k: "ab"[k % 2], "got the same again"),
        (lambda k: k + 1, "expected the next page's beginning as a short text, got 1"),
        (lambda _: "a" * 2000, "as a short text"),
        (str, "expected a list of at most 20 pages"),
    ],
)
def test_a_list_without_an_end_is_refused(
    following: Callable[[int], Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "MAX_PAGES", 20)
    pages = count()

    def reply(_: httpx.Request) -> httpx.Response:
        k = next(pages)
        assert k < 100, "it goes on for ever"
        return httpx.Response(200, json={"clients": [{"name": "ann"}], "next": following(k)})

    with pytest.raises(ServerError, match=message):
        client_of(reply).clients()


def test_a_list_of_empty_pages_or_of_large_ones_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_LIST_BYTES", 10**4)
    for entries, message in (([], "the same again or none"), ([{"name": "a" * 1000}], "10,000 bytes")):
        pages = count()

        def reply(_: httpx.Request, entries: Any = entries, pages: Any = pages) -> httpx.Response:
            return httpx.Response(200, json={"clients": entries, "next": str(next(pages))})

        with pytest.raises(ServerError, match=message):
            client_of(reply).clients()


# --- streams ---


def test_a_line_without_an_end_is_left_for_looking() -> None:
    """And one that is packed: a stream whose lines are too long counts as none."""
    for body, encoding in ((repeat(b"data: " + b"x" * 1000), "identity"), (iter([BOMB]), "gzip")):
        server, stream = FakeServer(), Pieces(body)

        def serve(request: httpx.Request, stream: Any = stream, encoding: str = encoding) -> httpx.Response:
            if request.url.path != "/v1/stream":
                return server(request)  # noqa: B023
            headers = {"Content-Type": "text/event-stream", "Content-Encoding": encoding}
            return httpx.Response(200, headers=headers, stream=stream)

        waits: list[float] = []

        def sleep(seconds: float, waits: list[float] = waits) -> None:
            waits.append(seconds)
            raise InterruptedError

        coming = client_of(serve, sleep=sleep).releases(poll=7.0)
        with pytest.raises(InterruptedError):
            list(islice(coming, 2))
        assert waits == [7.0]
        assert stream.read < 20


# --- time ---


@contextmanager
def server_that(serve: Callable[[socket.socket, threading.Event], None]) -> Iterator[str]:
    """A server that reads a request and then does this, with each of its connections."""
    over = threading.Event()

    def handle(accepted: socket.socket) -> None:
        with accepted, io.BytesIO() as head:
            while b"\r\n\r\n" not in head.getvalue():
                head.write(accepted.recv(2**12))
            try:
                serve(accepted, over)
            except OSError:
                return  # the client has gone

    def accept() -> None:
        while True:
            try:
                accepted, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=handle, args=(accepted,), daemon=True).start()

    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        over.set()
        listening.shutdown(socket.SHUT_RDWR)


OK = b"HTTP/1.1 200 OK\r\n"
STREAM = OK + b"Content-Type: text/event-stream\r\n\r\n"
DRIPS = {
    "head": (OK + b"X-Long: ", b"x"),
    "notices": (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    "body": (OK + b"Content-Length: 1000000\r\n\r\n", b"x"),
    "chunk's head": (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"0"),
    "error": (b"HTTP/1.1 500 No\r\nContent-Length: 1000000\r\n\r\n", b"x"),
}


def dripping(start: bytes, drop: bytes) -> Callable[[socket.socket, threading.Event], None]:
    def serve(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(start)
        while not over.wait(0.02):
            connection.sendall(drop)

    return serve


@pytest.mark.slow
@pytest.mark.parametrize("kind", DRIPS)
def test_a_reply_that_comes_in_drops_ends(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No drop is later than a time-out allows, and yet the whole is."""
    monkeypatch.setattr(responses, "REPLY_SECONDS", 0.1)
    monkeypatch.setattr(responses, "MIN_BYTES_PER_SECOND", 10**6)
    with server_that(dripping(*DRIPS[kind])) as url, Client(url, "", timeout=0.3) as me:
        with pytest.raises(Unreachable, match=r"expected the whole reply within .* bytes; check the network"):
            me.study()
        with pytest.raises(Unreachable, match="it may have been carried out"):
            me.send([0.5], 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("start", [OK + b"X-Long: ", STREAM + b"data: "], ids=["head", "line"])
def test_a_stream_that_comes_in_drops_is_lost(start: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "REPLY_SECONDS", 0.1)
    with server_that(dripping(start, b"x")) as url, Client(url, "") as me:
        assert len(list(me._server.events("/v1/stream", "release", silence=0.3))) == (start.startswith(STREAM))


@pytest.mark.slow
def test_a_download_of_a_bomb_or_of_a_long_head_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(connection, "pause", lambda _: 0.0)
    packed = b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(BOMB), BOMB)
    for reply, message in ((packed, "at most 1,048,576 bytes"), (b"X-Long: " + b"x" * 2**18, "too long")):
        with server_that(lambda connection, _, reply=OK + reply: connection.sendall(reply)) as url:  # type: ignore[misc]
            ended = CliRunner().invoke(app, ["download", "--url", url, "--out", str(tmp_path / "release.motet")])
        assert (ended.exit_code, ended.stderr.count("\n")) == (1, 1), ended.stderr
        assert message in ended.stderr
    assert not list(tmp_path.iterdir())
