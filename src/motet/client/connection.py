"""Requests to a study's server that survive a bad network, and the server's errors as ours.

A request is repeated after lost connections, time-outs and answers of a server that is busy or restarting, with
growing pauses. This knows of HTTP and nothing of studies; ``motet.client`` stands on it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator
from copy import copy
from typing import Any

import httpx

from motet.client.responses import (
    BY_CODE,
    Outcome,
    asked_to_wait,
    error_class,
    event_names,
    field_of,
    is_passing,
    may_be_done,
    said,
)
from motet.errors import InvalidData, MotetError, ServerError, Unreachable
from motet.text import printable, times

LONGEST = 60.0  # seconds that a server may ask us to wait


class Connection:
    """``request`` and ``events`` at one address, with one token; closes the httpx client only where it is its own."""

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
        self.url = _address(url)
        self.sleep = sleep
        self._token = _checked(token)
        self._retries = retries
        self._is_own = http is None
        self._http = httpx.Client(timeout=timeout) if http is None else http

    @property
    def has_token(self) -> bool:
        return bool(self._token)

    def holding(self, token: str) -> Connection:
        """The same with another token."""
        other = copy(self)
        other._token, other._is_own = _checked(token), False
        return other

    def close(self) -> None:
        if self._is_own:
            self._http.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        once: bool = False,
        done: tuple[type[MotetError], ...] = (),
        headers: dict[str, str] | None = None,
        patience: float | None = None,
        **content: Any,
    ) -> httpx.Response:
        """The server's answer, unless it is an error.

        What must not happen twice, ``once``, is repeated only where it cannot have happened. Errors that are
        ``done`` are fine where an earlier attempt may have done it and its answer was lost. ``patience`` is how many
        seconds an answer may take.
        """
        if patience is not None:
            content["extensions"] = {"timeout": self._waiting(patience).as_dict()}
        attempt, perhaps_done = 1, False
        while True:
            outcome = self._tried(method, path, headers or {}, content)
            if isinstance(outcome, httpx.Response) and not is_passing(outcome):
                return self._good(outcome, done if perhaps_done else ())
            perhaps_done = perhaps_done or may_be_done(outcome)
            wait = max(pause(attempt), asked_to_wait(outcome))
            if attempt > self._retries or wait > LONGEST or (once and perhaps_done):
                raise self._given_up(f"{method} {self.url}{path}", outcome, attempt, perhaps_done and method != "GET")
            self.sleep(wait)
            attempt += 1

    def answer(self, method: str, path: str, **how: Any) -> dict[str, Any]:
        """The same, where the answer is a JSON object."""
        response = self.request(method, path, **how)
        try:
            found = response.json()
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise ServerError(f"{method} {path}: expected a JSON object; is {self.url} a motet server?")
        return found

    def pages(self, path: str, name: str) -> Iterator[dict[str, Any]]:
        """All entries of a list that comes in pages."""
        after = None
        while True:
            page = self.answer("GET", path, params=None if after is None else {"after": after})
            yield from field_of(page, name, list)
            if page.get("next") is None:
                return
            if page["next"] == after:
                raise ServerError(f"GET {path}: the page after {after!r:.60} is the same again")
            after = page["next"]

    def events(self, path: str, name: str, *, silence: float) -> Generator[None, None, None]:
        """Once when a stream of server-sent events is open, then at each of that ``name``, until it is lost.

        It counts as lost when nothing comes for ``silence`` seconds. A stream that is refused raises.
        """
        headers, timeout = self._with_token({"Accept": "text/event-stream"}), self._waiting(silence)
        try:
            with self._http.stream("GET", self.url + path, headers=headers, timeout=timeout) as response:
                if is_passing(response):
                    return
                self._good(response)
                if not response.headers.get("Content-Type", "").startswith("text/event-stream"):
                    raise ServerError(f"GET {path}: expected a stream of events")
                yield
                for found in event_names(response.iter_lines()):
                    if found == name:
                        yield
        except httpx.RequestError:
            return

    def _tried(self, method: str, path: str, headers: dict[str, str], content: dict[str, Any]) -> Outcome:
        try:
            return self._http.request(method, self.url + path, headers=self._with_token(headers), **content)
        except httpx.TransportError as error:
            return error
        except httpx.RequestError as error:
            raise ServerError(f"{method} {path}: {type(error).__name__}; is {self.url} a motet server?") from None

    def _waiting(self, seconds: float) -> httpx.Timeout:
        """The usual time-outs, but for how long the server may be silent."""
        usual = self._http.timeout
        return httpx.Timeout(connect=usual.connect, read=seconds, write=usual.write, pool=usual.pool)

    def _with_token(self, headers: dict[str, str]) -> dict[str, str]:
        return headers | ({"Authorization": f"Bearer {self._token}"} if self._token else {})

    def _good(self, response: httpx.Response, done: tuple[type[MotetError], ...] = ()) -> httpx.Response:
        if response.is_success or response.status_code == 304:
            return response
        response.read()
        error = self._error(response)
        if isinstance(error, done):
            return response
        raise error

    def _error(self, response: httpx.Response) -> MotetError:
        """The server's error as the class that has its code."""
        status = response.status_code
        request = f"{response.request.method} {response.request.url.path}"
        code, message = said(response)
        kind = error_class(status, code)
        if message is None:
            message = f"{request} was answered with {status} and no reason; is {self.url} a motet server?"
        elif kind is ServerError:
            message = f"{request} was answered with {status}: {message}"
        if status == 401:
            message += "; check the token" if self._token else "; give a token= or set MOTET_TOKEN"
        return kind(self._shown(message))

    def _given_up(self, request: str, last: Outcome, attempts: int, perhaps_done: bool) -> MotetError:
        """The server's reason where it gave one of ours, else that it cannot be reached."""
        if isinstance(last, httpx.Response) and (said(last)[0] in BY_CODE or last.status_code == 429):
            return self._error(last)
        what = f"answer {last.status_code}" if isinstance(last, httpx.Response) else f"{type(last).__name__}: {last}"
        advice = "it may have been done: look before you repeat it" if perhaps_done else "check address and network"
        return Unreachable(self._shown(f"{request} was tried {times(attempts)}, at last with {what}; {advice}"))

    def _shown(self, text: str) -> str:
        """One line, not too long, and without the token, whatever a server says."""
        line = printable(text)
        return (line.replace(self._token, "…") if self._token else line)[:600]


def pause(attempt: int) -> float:
    """Seconds to wait after an attempt, the first being 1: twice as long each time, and never in step with others."""
    return 0.25 * 2.0 ** min(attempt, 7) * random.uniform(0.5, 1.0)


def _address(url: str) -> str:
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        parsed = httpx.URL("")
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.userinfo or parsed.query or parsed.fragment:
        raise InvalidData(
            "expected the server's address such as http://127.0.0.1:8000, without user, password or query"
        )
    return str(parsed).rstrip("/")


def _checked(token: str) -> str:
    """A token that may stand in a header; the message never shows it."""
    if not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidData("a token has no spaces, line ends or letters beyond ASCII: copy it again, nothing around it")
    return token
