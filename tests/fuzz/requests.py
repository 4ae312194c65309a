"""Requests to servers in this process over real sockets: every route, by everyone, with any body, head and framing.

Three studies are served, whose inputs are numbers, names and cells by column. A refused request changes nothing in the
database, and no request makes the server log an error.
"""

from __future__ import annotations

import http.client
import io
import json
import logging
import select
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from hypothesis import strategies as st

from motet.server.app import ROUTES
from motet.server.bodies import example_bodies
from tests.fuzz.mutations import TEXTS, all_changed, byte_edits, edited, to_json, value_edits, values
from tests.fuzz.reader import Reader
from tests.server.world import EXACT as NUMBERS
from tests.server.world import World, world
from tests.study.studies import ITEMS, NAMED, VISITS

PEOPLE = ("own", "own", "own", "operator", "operator", "another", "revoked", "garbage", "")
NO_REQUEST = b"expected a request of HTTP/1.1"  # what the parser says
QUIET_SECONDS = 0.02  # after which a server that has not answered waits for more
STATE = "SELECT (SELECT sequence FROM head), (SELECT group_concat(id || token || revoked) FROM clients)"
WAITING = {
    (501, "http_501"),
    (503, "busy"),
}  # a method that HTTP does not have; a release that takes longer than the caller waits
SERVED = "[server]\nrate = 1e9\nmax_body = 300000\n"
STUDIES = (NUMBERS.split("[server]")[0] + SERVED, NAMED + SERVED, VISITS + SERVED)
CALLS = [(route.method, route.path) for route in ROUTES if route.path != "/v1/stream"]
ENTRANCE_BODIES = {("POST", "/v1/examples"), ("PUT", "/v1/me/examples/{id}"), ("POST", "/v1/clients")}
HEADERS = [
    b"Content-Type: text/plain", b"Content-Type: application/json; charset=utf-16", b"Content-Type: \xff",
    b"Content-Encoding: gzip", b"Accept-Encoding: gzip, *;q=x", b'If-None-Match: "1"', b"If-None-Match: \x80*",
    b"X-Forwarded-For: ::1, \xff, 10.0.0.1", b"X-Forwarded-Proto: javascript", b"Origin: null", b"Host: a\tb",
    b"Host: ",
    b"Host: [::1", b"Expect: 100-continue", b"Connection: close", b"Connection: Upgrade", b"Upgrade: h2c",
    b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked", b"Content-Length: 0", b"Content-Length: 7",
    b"Content-Length: -1", b"Content-Length: 99999999999999999999", b"Content-Length: 3, 3", b"Content-Length: 0x10",
    b"Content-Length: \xd9\xa1", b"Authorization: Bearer", b"Authorization: Basic YTpi",
    b"Authorization: Bearer \xff\xfe",
    b"Authorization: Bearer " + b"a" * 5000, b"X: " + b"a" * 70_000, b"Range: bytes=0-1", b"Cookie: a=b", b"Date: \x01",
    b"X-HTTP-Method-Override: DELETE", b"Accept: */*;q=", b"X : y", b": x", b"X", b" folded", b"Last-Event-ID: \x00",
]  # fmt: skip
QUERIES = ["after", "limit", "model", "examples", "x", ""]
METHODS = [
    "GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "CONNECT", "PRI", "get", "G\x00T", "LONG" * 50,
]  # fmt: skip


class Request(NamedTuple):
    """Of somebody; ``path`` is as it stands in the first line."""

    study: int
    method: str
    path: str
    who: str
    lines: tuple[bytes, ...]
    body: bytes

    def render(self, token: str | None) -> bytes:
        """As bytes; a length is given unless a line gives one."""
        lines = [f"{self.method} {self.path} HTTP/1.1".encode("latin-1", "replace")]
        if not any(line.startswith(b"Host:") for line in self.lines):
            lines.append(b"Host: x")
        if token and not any(line.startswith(b"Authorization") for line in self.lines):
            lines.append(b"Authorization: Bearer " + token.encode())
        lines += self.lines
        if self.body and not any(line.startswith((b"Content-Length", b"Transfer")) for line in self.lines):
            lines.append(b"Content-Length: %d" % len(self.body))
        return b"\r\n".join([*lines, b"", b""]) + self.body


# --- what is served ---


class Errors(logging.Handler):
    """What servers in this process logged with a traceback, or as an error of the connection."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or (record.levelno >= logging.ERROR and not record.name.startswith("motet")):
            self.records.append(self.format(record))


class Visitor:
    """One study's server, a connection to it that stays open, and its database, which others write."""

    def __init__(self, world: World, errors: Errors, database: sqlite3.Connection) -> None:
        self.world, self._errors, self._database = world, errors, database
        self._connection: socket.socket | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def send(self, request: Request) -> bool:
        """Whether a whole request was carried out."""
        before, token = self.state(), self.world.tokens.get(request.who)
        status, body = self._exchange(request.method, request.render(token))
        self._check(status, body, request.method)
        if status >= 400:
            assert self.state() == before, (request, status)
        elif request.method in ("DELETE", "POST") and not request.path.startswith("/v1/examples"):
            self._let_in_again()
        return status < 400

    def send_bytes(self, data: bytes) -> bool:
        """Whether any request in these bytes was carried out."""
        before, statuses = self.state(), []
        for status, body in responses(self._raw(data)):
            self._check(status, body, "")
            # The parser's refusal may be of bytes behind a request that is carried out, whose answer they cut off.
            statuses += [] if NO_REQUEST in body else [status]
        assert not self._errors.records, self._errors.records
        if statuses and min(statuses) >= 400:
            assert self.state() == before, statuses
        self._let_in_again()
        return bool(statuses) and min(statuses) < 400

    def state(self) -> Any:
        return self._database.execute(STATE).fetchone()

    def _check(self, status: int, body: bytes, method: str) -> None:
        assert not self._errors.records, self._errors.records
        if status < 400 or method == "HEAD":
            return
        error = json.loads(body)["error"]
        assert set(error) == {"code", "message", "where"}, body
        assert error["message"], body
        assert status < 500 or (status, error["code"]) in WAITING, (status, body)

    def _exchange(self, method: str, data: bytes) -> tuple[int, bytes]:
        """One response; on a new connection if the server closed the last one meanwhile."""
        for _ in range(2):
            if self._connection is None:
                self._connection = self._connect()
            with suppress(ConnectionError, http.client.BadStatusLine):
                self._connection.sendall(data)
                response = http.client.HTTPResponse(self._connection, method=method)
                response.begin()
                body = response.read()
                if response.will_close:
                    self.close()
                return response.status, body
            self.close()
        raise AssertionError("no response")

    def _connect(self) -> socket.socket:
        address = self.world.http.base_url
        connection = socket.create_connection((address.host, address.port or 80), 60)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _raw(self, data: bytes) -> bytes:
        """All that is answered to bytes after which nothing comes."""
        answer = b""
        with self._connect() as connection, suppress(ConnectionError):
            connection.sendall(data)
            select.select([connection], [], [], QUIET_SECONDS)
            with suppress(OSError):  # the server has closed it already
                connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                answer += part
        return answer

    def _let_in_again(self) -> None:
        """Enroll whoever has no valid token any more, and nobody twice."""
        world, rows = self.world, self._database.execute("SELECT id FROM clients WHERE NOT revoked").fetchall()
        for name in ("own", "another"):
            if (world.ids[name],) not in rows or world.call("GET", "/v1/me", name).status_code == 401:
                world.call("DELETE", f"/v1/clients/{world.ids[name]}?examples=true", "operator")
                made = world.call("POST", "/v1/clients", "operator", json={"names": [name]}).json()
                if "clients" in made:
                    (one,) = made["clients"]
                    world.tokens[name], world.ids[name] = one["token"], one["id"]


def responses(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Status and body of each whole response; a last one that was cut is left out."""

    class Source:
        def makefile(self, _: str) -> io.BytesIO:
            return stream

    stream = io.BytesIO(data)
    stream.close = lambda: None  # type: ignore[method-assign]
    while stream.tell() < len(data):
        response = http.client.HTTPResponse(Source())  # type: ignore[arg-type]
        try:
            response.begin()
            yield response.status, response.read()
        except http.client.HTTPException:
            return


@contextmanager
def visitors(folder: Path) -> Iterator[list[Visitor]]:
    """A visitor for each study, in which somebody sent an example and a release was made."""
    errors, patch = Errors(), "motet.server.routes.MAX_RELEASE_SECONDS"
    logging.getLogger().addHandler(errors)
    with ExitStack() as stack:
        stack.callback(logging.getLogger().removeHandler, errors)
        stack.enter_context(changed_constant(patch, 0.01))
        found = []
        for number, text in enumerate(STUDIES):
            place = folder / str(number)
            place.mkdir()
            (place / "items.csv").write_text(ITEMS, encoding="utf-8")
            served = stack.enter_context(contextmanager(world)(place, text))
            database = stack.enter_context(closing(sqlite3.connect(place / "study.db", timeout=60)))
            visitor = Visitor(served, errors, database)
            stack.callback(visitor.close)
            path, method, _, body = example_bodies(served.service.study)[0]
            assert served.call(method.upper(), path, "own", json=body).status_code == 200
            served.release()
            found.append(visitor)
        yield found


@contextmanager
def changed_constant(name: str, value: Any) -> Iterator[None]:
    module, _, constant = name.rpartition(".")
    holder = __import__(module, fromlist=[constant])
    before = getattr(holder, constant)
    setattr(holder, constant, value)
    try:
        yield
    finally:
        setattr(holder, constant, before)


# --- cases ---


def paths() -> st.SearchStrategy[tuple[str, str]]:
    """Method and path of a route, with any id and query."""
    ids = st.sampled_from([*TEXTS, "1", "own id", "page.js", "matrix.js"]) | st.text(max_size=4)
    texts = values().map(str) | st.sampled_from(["1", "true", "no", "1000", "1001", "0"])
    query = st.lists(st.tuples(st.sampled_from(QUERIES), texts), max_size=2)

    def path(call: tuple[str, str], id: str, pairs: list[tuple[str, str]], method: str, odd: bool) -> tuple[str, str]:
        named = call[1].replace("{id}", _quoted(id)).replace("{name}", _quoted(id))
        text = urlencode([(key, value.encode(errors="surrogatepass")) for key, value in pairs])
        return (method if odd else call[0]), named + (f"?{text}" if text else "")

    odd = st.sampled_from([False] * 7 + [True])
    return st.builds(path, st.sampled_from(CALLS), ids, query, st.sampled_from(METHODS[:7]), odd)


def _quoted(text: str) -> str:
    return quote(text.encode(errors="surrogatepass"), safe="")


@contextmanager
def bodies(folder: Path) -> Iterator[Reader]:
    """Bodies of every kind, nearly right, by who may send them."""
    with visitors(folder) as visited:
        valid = [
            Request(
                k,
                method.upper(),
                path.replace("{id}", "1"),
                "operator" if "clients" in path else "own",
                (),
                to_json(body),
            )
            for k, visitor in enumerate(visited)
            for path, method, _, body in example_bodies(visitor.world.service.study)
        ]

        def case(request: Request, edits: Any, more: Any, which: int) -> Request:
            body = to_json(all_changed(json.loads(request.body), edits)) if which else request.body
            return request._replace(body=edited(body, more) if which != 1 else body)

        cases = st.builds(case, st.sampled_from(valid), value_edits(), byte_edits(), st.integers(0, 2))
        yield Reader(cases, _sender(visited), valid)


@contextmanager
def heads(folder: Path) -> Iterator[Reader]:
    """Methods, paths, queries and headers, by everyone."""
    lines = st.lists(
        st.sampled_from([line for line in HEADERS if not line.startswith((b"Content-L", b"Transfer"))]), max_size=2
    )

    def case(study: int, call: tuple[str, str], who: str, lines: list[bytes], body: bytes) -> Request:
        return Request(study, *call, who, tuple(lines), body)

    with visitors(folder) as visited:
        some = st.sampled_from([b"", b"", b"", b"{}", b'{"names": ["a"]}', b"\0" * 400_000])
        cases = st.builds(case, st.integers(0, 2), paths(), st.sampled_from(PEOPLE), lines.map(_parsed), some)
        yield Reader(cases, _sender(visited), [Request(k, "GET", "/v1/me", "own", (), b"") for k in range(3)])


def _parsed(lines: list[bytes]) -> list[bytes]:
    """Without those after which the parser closes the connection or waits: ``framings`` has them."""
    return [line for line in lines if line[:1].isalpha() and b":" in line and not line.startswith((b"X :", b"Expect"))]


@contextmanager
def framings(folder: Path) -> Iterator[Reader]:
    """Bytes on a connection that are nearly one request, or several; lengths that lie, and odd lines."""

    def case(
        request: tuple[int, tuple[str, str], str], method: str, lines: list[bytes], body: bytes, edits: Any
    ) -> Any:
        study, (usual, path), who = request
        return study, who, Request(study, method or usual, path, who, tuple(lines), body), edits

    with visitors(folder) as visited:

        def send(case: tuple[int, str, Request, Any]) -> bool:
            study, who, request, edits = case
            token = visited[study].world.tokens.get(who)
            return visited[study].send_bytes(edited(request.render(token), edits))

        request = st.tuples(st.integers(0, 2), paths(), st.sampled_from(PEOPLE))
        lines = st.lists(st.sampled_from(HEADERS), max_size=3)
        chunks = [
            b"",
            b"3\r\n{}\n\r\n0\r\n\r\n",
            b"ffffffffffffffff\r\n",
            b"-1\r\n",
            b"0\r\nX: y\r\n\r\n",
            b"{}",
            b"GET / HTTP/1.1\r\n\r\n",
        ]
        methods = st.sampled_from([""] * 8 + METHODS)
        none: list[Any] = []
        edits = st.just(none) | byte_edits([b"\r", b"HTTP/9.9", b"HTTP/1.0", b"\x0b", b"Content-Length: 1\r\n"])
        valid = [(k, "own", Request(k, "GET", "/v1/me", "own", (), b""), none) for k in range(3)]
        yield Reader(st.builds(case, request, methods, lines, st.sampled_from(chunks), edits), send, valid)


def _sender(visited: list[Visitor]) -> Callable[[Request], bool]:
    return lambda request: visited[request.study].send(request)
