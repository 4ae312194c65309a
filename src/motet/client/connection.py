"""Requests to a study's server that survive a bad network, and the server's errors as exceptions of ours.

A request is repeated after a lost connection, a time-out or a response of a server that is busy or restarting, with
growing pauses. This module knows HTTP and nothing of studies; ``motet.client.client`` is built on it.
"""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable, Generator, Iterator
from copy import copy
from ipaddress import ip_address
from typing import Any

import httpx

from motet.client.responses import (
    ERROR_BY_CODE,
    Outcome,
    error_body,
    error_class,
    event_names,
    field_of,
    is_transient,
    may_be_done,
    retry_after,
)
from motet.errors import InvalidData, MotetError, ServerError, Unreachable
from motet.text import count, printable

MAX_WAIT_SECONDS = 60.0  # that a server may ask for
MAX_MESSAGE_LETTERS = 600
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")  # variables that httpx reads


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
        **content: Any,
    ) -> httpx.Response:
        """The server's response, unless it is an error.

        ``once``: the request must not be carried out twice, so it is repeated only if it cannot have been.
        ``done``: errors that mean success if an earlier attempt may have been carried out and its response was lost.
        ``timeout``: seconds that a response may take.
        """
        if timeout is not None:
            content["extensions"] = {"timeout": self._timeouts(timeout).as_dict()}
        attempt, perhaps_done = 1, False
        while True:
            outcome = self._try(method, path, headers or {}, content)
            if isinstance(outcome, httpx.Response) and not is_transient(outcome):
                return self._successful(outcome, done if perhaps_done else ())
            perhaps_done = perhaps_done or may_be_done(outcome)
            wait = max(pause(attempt), retry_after(outcome))
            if attempt > self._retries or wait > MAX_WAIT_SECONDS or (once and perhaps_done):
                raise self._failure(f"{method} {self.url}{path}", outcome, attempt, perhaps_done and method != "GET")
            self.sleep(wait)
            attempt += 1

    def request_json(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """``request`` for a response that is a JSON object."""
        response = self.request(method, path, **options)
        try:
            body = response.json()
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            raise ServerError(f"{method} {path}: expected a JSON object; is {self.url} a Motet server?")
        return body

    def pages(self, path: str, name: str) -> Iterator[dict[str, Any]]:
        """All entries of a list that comes in pages."""
        after = None
        while True:
            page = self.request_json("GET", path, params=None if after is None else {"after": after})
            yield from field_of(page, name, list)
            if page.get("next") is None:
                return
            if page["next"] == after:
                raise ServerError(f"GET {path}: the page after {after!r:.60} is the same again")
            after = page["next"]

    def events(self, path: str, name: str, *, silence: float) -> Generator[None, None, None]:
        """Yields when a stream of server-sent events is open, and at each event of that name, until it is lost.

        A stream without any line for ``silence`` seconds counts as lost. A stream that is refused raises.
        """
        headers, timeouts = self._with_token({"Accept": "text/event-stream"}), self._timeouts(silence)
        try:
            with self._http.stream("GET", self.url + path, headers=headers, timeout=timeouts) as response:
                if is_transient(response):
                    return
                self._successful(response)
                if not response.headers.get("Content-Type", "").startswith("text/event-stream"):
                    raise ServerError(f"GET {path}: expected a stream of events")
                yield
                for event in event_names(response.iter_lines()):
                    if event == name:
                        yield
        except httpx.RequestError:
            return

    def _try(self, method: str, path: str, headers: dict[str, str], content: dict[str, Any]) -> Outcome:
        try:
            return self._http.request(method, self.url + path, headers=self._with_token(headers), **content)
        except httpx.TransportError as error:
            return error
        except httpx.RequestError as error:
            raise ServerError(f"{method} {path}: {type(error).__name__}; is {self.url} a Motet server?") from None

    def _timeouts(self, read: float) -> httpx.Timeout:
        """The usual time-outs, except for how long the server may be silent."""
        usual = self._http.timeout
        return httpx.Timeout(connect=usual.connect, read=read, write=usual.write, pool=usual.pool)

    def _with_token(self, headers: dict[str, str]) -> dict[str, str]:
        return headers | ({"Authorization": f"Bearer {self._token}"} if self._token else {})

    def _successful(self, response: httpx.Response, done: tuple[type[MotetError], ...] = ()) -> httpx.Response:
        if response.is_success or response.status_code == 304:
            return response
        response.read()
        error = self._error(response)
        if isinstance(error, done):
            return response
        raise error

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
            advice = "it may have been carried out: check before you repeat it"
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
    try:
        return httpx.Client(timeout=timeout)
    except OSError as error:  # it reads the authorities that it trusts
        files = [f"{name}={value}" for name in CERTIFICATES if (value := os.environ.get(name))]
        got = f"{' '.join(files)}: {error.strerror or error}"
        raise InvalidData(f"expected certificates of authorities in PEM, got {got}; correct or unset it") from None
