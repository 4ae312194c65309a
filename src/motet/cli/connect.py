"""How commands reach a study's server: with whose token, how patiently, and refusals in a command's own words."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from motet.cli.terminal import token
from motet.errors import Forbidden, InvalidRelease, NotReleased, Unauthorized, Unreachable

if TYPE_CHECKING:
    from motet.client.client import Client
    from motet.release.disclosed import Disclosed
    from motet.tables.roles import Layout

IMPATIENT, PATIENT = 2, 6  # repetitions of a request: while a person waits for an answer, and while a table is sent
SOON_SECONDS, POLL_SECONDS = 60.0, 0.5  # for a first release that is due
CLIENT, OPERATOR = "MOTET_TOKEN", "MOTET_OPERATOR_TOKEN"
NO_CLIENT = f"the server does not accept this client's token: set {CLIENT} to another; the operator can make a new one"
NO_OPERATOR = f"this token is not the operator's: set {OPERATOR} to the one that motet serve was given, or showed"


@contextmanager
def server_at(url: str, token: str, refused: str = NO_CLIENT, *, retries: int = IMPATIENT) -> Iterator[Client]:
    """``refused`` is the message if the server does not accept the token."""
    from motet.client.client import Client

    try:
        with Client(url, token, retries=retries) as server:
            yield server
    except (Unauthorized, Forbidden):
        raise Unauthorized(refused) from None
    except Unreachable as error:
        raise error.reworded(f"{error} (--url, MOTET_URL)") from None
    except NotReleased as error:
        raise error.reworded(f"{error}; try again then") from None


def operator_at(url: str) -> AbstractContextManager[Client]:
    return server_at(url, token("the operator's", OPERATOR), NO_OPERATOR)


def client_token() -> str:
    return token("a client's", CLIENT)


def current_release(url: str) -> Disclosed:
    """A token is sent, and asked for, only if the study gives its releases to its clients only."""
    try:
        with server_at(url, "") as anyone:
            return anyone.disclosed()
    except Unauthorized:
        any_token = token("a client's", CLIENT, OPERATOR, why=" (releases of this study are for its clients only)")
    with server_at(url, any_token) as client:
        return client.disclosed()


def await_first_release(url: str) -> bool:
    """Wait for the first release if it is due now or soon; False if it is not, or does not come."""
    with server_at(url, "") as anyone:
        due = anyone.study().get("next_release")
        if not isinstance(due, float) or due > time.time() + SOON_SECONDS:
            return False
        sys.stderr.write("Waiting for the first release.\n")
        deadline = time.monotonic() + 2 * SOON_SECONDS
        while time.monotonic() < deadline:
            if anyone.study().get("version"):
                return True
            time.sleep(POLL_SECONDS)
    return False


def is_address(place: str) -> bool:
    """Whether this is the address of a server, and not a file."""
    return place.startswith(("http://", "https://"))


def release_at(place: str) -> Disclosed:
    """A release from a server's address or from a file."""
    if is_address(place):
        return current_release(place)
    from motet.release.disclosed import Disclosed

    try:
        return Disclosed.load(place)
    except OSError as error:
        reason = error.strerror or error
        raise InvalidRelease(
            f"cannot read {place}: {reason}; give a release's file, or an address with http://"
        ) from None
    except InvalidRelease as error:
        raise error.reworded(f"{place}: {error}") from None


def layout_at(place: str, release: Disclosed | None = None) -> Layout:
    """The layout of a study's tables, from its server's address; or from a release's file, as far as that tells it."""
    from motet.client.responses import layout_of

    if release is not None and not is_address(place):
        return release.layout
    with server_at(place, "") as anyone:
        return layout_of(anyone.study())
