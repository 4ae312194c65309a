"""Requests to a study's server that survive a bad network, and the server's errors as exceptions of ours.

A request is repeated after a lost connection, a time-out or a response of a server that is busy or restarting, with
growing pauses; none lasts for ever, as every read and write keeps the pace of its reply. This module knows HTTP and
nothing of studies; ``motet.client.client`` is built on it.
"""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from contextvars import ContextVar
from copy import copy
from functools import partial
from ipaddress import ip_address
from typing import Any

import httpx

from motet.client.responses import (
    ERROR_BY_CODE,
    MAX_JSON_BYTES,
    MIN_BYTES_PER_SECOND,
    REPLY_SECONDS,
    Outcome,
    Pace,
    TooSlow,
    error_body,
    error_class,
    event_names,
    field_of,
    is_transient,
    may_be_done,
    read_json,
    read_reply,
    retry_after,
    stream_lines,
)
from motet.errors import InvalidData, MotetError, ServerError, Unreachable
from motet.text import count, printable

MAX_WAIT_SECONDS = 60.0  # that a server may ask for
MAX_MESSAGE_LETTERS = 600
MAX_PAGES = 5000  # of a list
MAX_LIST_BYTES = 2**28  # of all its pages
MAX_CURSOR_LETTERS = 1000  # of where the next page begins
WRITE_BYTES = 2**14  # at once, so that a reader who is slow is noticed
PERHAPS_DONE = "it may have been carried out: check before you repeat it"
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")  # variables that httpx reads

_pace: ContextVar[Pace | None] = ContextVar("pace", default=None)  # of what this thread reads and writes


class Connection:
    """``request`` and ``events`` at one address with one token; closes only an httpx client that it made itself."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        http: httpx.Client | None,
        timeout: float,
        retries: int,
        sleep: Callable[[float], object],
    ) -> None:
        self.url = _checked_url(url)
        self.sleep = sleep
        self._token = _checked_token(token, self.url)
        self._retries = retries
        self._closes_http = http is None
        self._http = _http(timeout) if http is None else http

    @property
    def has_token(self) -> bool:
        return bool(self._token)

    def with_token(self, token: str) -> Connection:
        """The same connection with another token."""
        other = copy(self)
        other._token, other._closes_http = _checked_token(token, self.url), False
        return other

    def close(self) -> None:
        if self._closes_http:
            self._http.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        once: bool = False,
        done: tuple[type[MotetError], ...] = (),
        headers: dict[str, str] | None = None,
        timeout: float | None = None,
        max_bytes: int = MAX_JSON_BYTES,
        **content: Any,
    ) -> httpx.Response:
        """The server's response, unless it is an error.

        ``once``: the request must not be carried out twice, so it is repeated only if it cannot have been.
        ``done``: errors that mean success if an earlier attempt may have been carried out and its response was lost.
        ``timeout``: seconds that the server may be silent.
        ``max_bytes``: of a response that is no error.
        """
        if timeout is not None:
            content["extensions"] = {"timeout": self._timeouts(timeout).as_dict()}
        pace = partial(Pace, self._http.timeout.read if timeout is None else timeout)
        attempt, perhaps_done = 1, False
        while True:
            outcome = self._try(method, path, headers or {}, content, max_bytes, pace())
            if isinstance(outcome, httpx.Response) and not is_transient(outcome):
                if outcome.is_success or outcome.status_code == 304:
                    return outcome
                error = self._error(outcome)
                if perhaps_done and isinstance(error, done):
                    return outcome
                raise error
            perhaps_done = perhaps_done or may_be_done(outcome)
            wait = max(pause(attempt), retry_after(outcome))
            if attempt > self._retries or wait > MAX_WAIT_SECONDS or (once and perhaps_done):
                raise self._failure(f"{method} {self.url}{path}", outcome, attempt, perhaps_done and method != "GET")
            self.sleep(wait)
            attempt += 1

    def request_json(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """``request`` for a response that is a JSON object."""
        return self._json(f"{method} {path}", self.request(method, path, **options))

    def pages(self, path: str, name: str) -> Iterator[dict[str, Any]]:
        """All entries of a list that comes in pages; a list without an end is refused."""
        call, after, cursors, size = f"GET {path}", None, set[str](), 0
        while True:
            response = self.request("GET", path, params=None if after is None else {"after": after})
            page = self._json(call, response)
            entries, after, size = field_of(page, name, list), page.get("next"), size + len(response.content)
            yield from entries
            if after is None:
                return
            if not isinstance(after, str) or len(after) > MAX_CURSOR_LETTERS:
                raise ServerError(f"{call}: expected the next page's beginning as a short text, got {after!r:.60}")
            if after in cursors or not entries:
                raise ServerError(f"{call}: expected a page after {after!r:.60}, got the same again or none")
            cursors.add(after)
            if len(cursors) >= MAX_PAGES or size > MAX_LIST_BYTES:
                limits = f"{MAX_PAGES:,} pages and {MAX_LIST_BYTES:,} bytes"
                raise ServerError(
                    f"{call}: expected a list of at most {limits}, got more; is {self.url} a Motet server?"
                )

    def events(self, path: str, name: str, *, silence: float) -> Generator[None, None, None]:
        """Yields when a stream of server-sent events is open, and at each event of that name, until it is lost.

        A stream without any line for ``silence`` seconds counts as lost. A stream that is refused raises.
        """
        headers = self._headers({"Accept": "text/event-stream", "Accept-Encoding": "identity"})
        request = self._http.build_request("GET", self.url + path, headers=headers, timeout=self._timeouts(silence))
        pace = Pace(silence)  # until it is open
        try:
            with keeping(pace):
                response = self._http.send(request, stream=True)
            with closing(response):
                if is_transient(response):
                    return
                if not response.is_success:
                    with keeping(pace):
                        raise self._error(read_reply(response, 0, pace))
                if not response.headers.get("Content-Type", "").startswith("text/event-stream"):
                    raise ServerError(f"GET {path}: expected a stream of events")
                yield
                for event in event_names(stream_lines(response, silence)):
                    if event == name:
                        yield
        except httpx.RequestError:
            return

    def _try(
        self, method: str, path: str, headers: dict[str, str], content: dict[str, Any], max_bytes: int, pace: Pace
    ) -> Outcome:
        call = f"{method} {path}"
        try:
            with (
                keeping(pace),
                self._http.stream(method, self.url + path, headers=self._headers(headers), **content) as response,
            ):
                return read_reply(response, max_bytes, pace)
        except ServerError as error:
            raise error.reworded(f"{call}: {error}") from None
        except httpx.TransportError as error:
            if isinstance(error, TooSlow) or pace.seconds_left <= 0:
                rate = f"{REPLY_SECONDS:g} s and the time-out, or {MIN_BYTES_PER_SECOND:,} bytes a second"
                expected = f"expected the whole reply within {rate}, got {pace.bytes:,} bytes"
                advice = "check the network" if method == "GET" else PERHAPS_DONE
                raise Unreachable(f"{call}: {expected}; {advice}") from None
            return error
        except httpx.RequestError as error:
            raise ServerError(f"{call}: {type(error).__name__}; is {self.url} a Motet server?") from None

    def _json(self, call: str, response: httpx.Response) -> dict[str, Any]:
        try:
            body = read_json(response.content)
        except ValueError as error:
            raise ServerError(f"{call}: expected a JSON object, got {error}; is {self.url} a Motet server?") from None
        if not isinstance(body, dict):
            raise ServerError(f"{call}: expected a JSON object; is {self.url} a Motet server?")
        return body

    def _timeouts(self, read: float) -> httpx.Timeout:
        """The usual time-outs, except for how long the server may be silent."""
        usual = self._http.timeout
        return httpx.Timeout(connect=usual.connect, read=read, write=usual.write, pool=usual.pool)

    def _headers(self, headers: dict[str, str]) -> dict[str, str]:
        token = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        return {"Accept-Encoding": "gzip"} | headers | token  # the one encoding that is unpacked within bounds

    def _error(self, response: httpx.Response) -> MotetError:
        """The server's error as the class that has its code, with its ``where``."""
        status = response.status_code
        request = f"{response.request.method} {response.request.url.path}"
        body = error_body(response)
        kind = error_class(status, body.code)
        message = body.message
        if message is None:
            message = f"{request}: response {status} without a reason; is {self.url} a Motet server?"
        elif kind is ServerError:
            message = f"{request}: response {status}: {message}"
        if status == 401:
            message += "; check the token" if self._token else "; give token= or set MOTET_TOKEN"
        error = kind(self._redacted(message))
        error.where = None if body.where is None else self._redacted(body.where)
        return error

    def _failure(self, request: str, last: Outcome, attempts: int, perhaps_done: bool) -> MotetError:
        """After the last attempt: the server's reason if it gave one, else that it cannot be reached."""
        if isinstance(last, httpx.Response):
            if error_body(last).code in ERROR_BY_CODE or last.status_code == 429:
                return self._error(last)
            reason = f"response {last.status_code}"
        else:
            reason = f"{type(last).__name__}: {last}"
        if "CERTIFICATE_VERIFY_FAILED" in reason:
            advice = "if the server's certificate is of your own authority, set SSL_CERT_FILE to that authority's file"
        elif perhaps_done:
            advice = PERHAPS_DONE
        else:
            advice = "check address and network"
        return Unreachable(self._redacted(f"{request} failed after {count(attempts, 'attempt')}: {reason}; {advice}"))

    def _redacted(self, text: str) -> str:
        """One line of limited length, and without the token, whatever a server writes."""
        line = printable(text)
        return (line.replace(self._token, "…") if self._token else line)[:MAX_MESSAGE_LETTERS]


def pause(attempt: int) -> float:
    """Seconds to wait after an attempt, the first being 1: twice as long each time, with a random part."""
    return 0.25 * 2.0 ** min(attempt, 7) * random.uniform(0.5, 1.0)  # nosec B311  # a pause is no secret


def _checked_url(url: str) -> str:
    try:
        parsed = httpx.URL(url)
        parsed.host.encode("idna")  # as connecting does
    except (httpx.InvalidURL, TypeError, UnicodeError):
        parsed = httpx.URL("")
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.userinfo or parsed.query or parsed.fragment:
        raise InvalidData(
            "expected the server's address such as http://127.0.0.1:8000, without user, password or query"
        )
    return str(parsed).rstrip("/")


def _checked_token(token: str, url: str) -> str:
    """A token that may stand in a header; the message never shows it. Warns if it will be sent in plain text."""
    if not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidData("a token has only ASCII letters, and no spaces or line ends: copy it again, without quotes")
    if token and url.startswith("http:") and not _is_this_machine(httpx.URL(url).host):
        warnings.warn(
            f"{url} is not encrypted: whoever is on the way can read the token and the data; use an address with "
            "https://",
            stacklevel=4,  # where the client was made, and once for each such place
        )
    return token


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _http(timeout: float) -> httpx.Client:
    """A client of httpx whose connections keep a pace."""
    try:
        http = httpx.Client(timeout=timeout)
    except OSError as error:  # it reads the authorities that it trusts
        files = [f"{name}={value}" for name in CERTIFICATES if (value := os.environ.get(name))]
        got = f"{' '.join(files)}: {error.strerror or error}"
        raise InvalidData(f"expected certificates of authorities in PEM, got {got}; correct or unset it") from None
    for transport in (http._transport, *http._mounts.values()):  # httpx has no public place for a network
        pool: Any = getattr(transport, "_pool", None)
        if pool is not None:
            pool._network_backend = _Network(pool._network_backend)
    return http


# --- a network that keeps the pace ---
# A time-out of httpx begins again with each byte. One byte of a head every half second, or notices (1xx) without end
# before it, would hold a caller for ever, and are seen by nobody but the network's own stream.


@contextmanager
def keeping(pace: Pace) -> Iterator[None]:
    """What is read and written inside, by this thread, keeps the pace."""
    token = _pace.set(pace)
    try:
        yield
    finally:
        _pace.reset(token)


class _Network:
    """Opens streams that keep a pace; all the rest is httpcore's."""

    def __init__(self, network: Any) -> None:
        self._network = network

    def connect_tcp(self, *args: Any, **options: Any) -> _Stream:
        return _Stream(self._network.connect_tcp(*args, **options))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)


class _Stream:
    """A connection to a server."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _shortened(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if (pace := _pace.get()) is not None:
            pace.count(len(buffer))
        for begin in range(0, len(buffer), WRITE_BYTES):
            self._stream.write(buffer[begin : begin + WRITE_BYTES], _shortened(timeout))

    def start_tls(self, *args: Any, **options: Any) -> _Stream:
        return _Stream(self._stream.start_tls(*args, **options))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _shortened(timeout: float | None) -> float | None:
    """A time-out that ends when the reply's time ends."""
    if (pace := _pace.get()) is None:
        return timeout
    if (left := pace.seconds_left) <= 0:
        raise TooSlow("too slow")
    return left if timeout is None else min(timeout, left)
