"""``motet enroll`` and ``motet clients``: who takes part in a study, and with which tokens."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from motet.cli.connect import operator_at
from motet.cli.terminal import LOCAL, AsJson, Url, progress_bar, show, show_table
from motet.errors import InvalidData, UnknownTask
from motet.files import new_file
from motet.text import count

if TYPE_CHECKING:
    from motet.client.client import Enrolled


def enroll(
    clients: Annotated[list[str] | None, typer.Argument(help="Names of new clients.", metavar="NAME")] = None,
    names: Annotated[
        Path | None,
        typer.Option(
            "--names", "--file", help="More names: the lines of a .txt file, or a table's column client or name."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write names, ids and tokens to a new CSV file, which only you can read."),
    ] = None,
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Enroll clients, and show their tokens once, or write them to a file."""
    from motet.client import site, tables

    all_names = [name.strip() for name in clients or ()] + ([] if names is None else tables.read_names(names))
    bar = progress_bar(Console(stderr=True), "clients", len(all_names), "Enrolling")
    with operator_at(url) as server, _tokens(out, as_json) as keep, bar as advance:
        for new in site.enroll(server, all_names):
            keep(new)
            advance(len(new))


@contextmanager
def _tokens(out: Path | None, as_json: bool) -> Iterator[Callable[[list[Enrolled]], None]]:
    """Yields the function that keeps new clients; shows them at the end, so no token is lost if something fails."""
    enrolled: list[Enrolled] = []
    tokens = nullcontext() if out is None else new_file(out, InvalidData, text=True, keep_unfinished=True)
    with tokens as file:

        def keep(new: list[Enrolled]) -> None:
            if file is not None:
                header = [] if enrolled else [("name", "id", "token")]
                csv.writer(file, lineterminator="\n").writerows([*header, *((c.name, c.id, c.token) for c in new)])
                file.flush()
            enrolled.extend(new)

        try:
            yield keep
        finally:
            if enrolled:
                _show_enrolled(enrolled, out, as_json)


def _show_enrolled(enrolled: list[Enrolled], out: Path | None, as_json: bool) -> None:
    if as_json:
        fields = ("id", "name", "token") if out is None else ("id", "name")
        show({"clients": [{key: getattr(client, key) for key in fields} for client in enrolled]})
    elif out is None:
        show_table({"name": "bold", "id": "", "token": ""}, [(c.name, c.id, c.token) for c in enrolled])
        show("These tokens are not shown again. Give each client its own; a client sets MOTET_TOKEN to it.")
    else:
        show(f"{count(len(enrolled), 'client')} enrolled; the tokens are in {out}, which only you can read.")


def clients(
    revoke: Annotated[
        str | None,
        typer.Option(help="Revoke the token of this client, by name or id; its examples stay.", metavar="NAME"),
    ] = None,
    rotate: Annotated[
        str | None,
        typer.Option(help="Make a new token for this client; the old one becomes invalid.", metavar="NAME"),
    ] = None,
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """List all clients with how many examples each has sent. Or revoke a client's token, or make a new one."""
    if revoke is not None and rotate is not None:
        raise InvalidData("expected --revoke or --rotate, got both: do one after the other")
    with operator_at(url) as server:
        listed = server.clients()
        if revoke is not None:
            client = _client(listed, revoke)
            server.revoke(client["id"])
            text = f"{client['name']}: the token is revoked; the examples stay."
            show({"id": client["id"], "name": client["name"], "revoked": True} if as_json else text)
        elif rotate is not None:
            client = _client(listed, rotate)
            token = server.rotate(client["id"])
            revived = " (it was revoked before)" if client["revoked"] else ""
            text = f"{client['name']}{revived}: a new token, which is not shown again: {token}"
            show({"id": client["id"], "name": client["name"], "token": token} if as_json else text)
        elif as_json:
            show({"clients": listed})
        else:
            _list(listed)


def _client(listed: list[dict[str, Any]], name_or_id: str) -> dict[str, Any]:
    matches = [client for client in listed if name_or_id in (client["name"], client["id"])]
    if not matches:
        raise UnknownTask(f"no client has the name or id {name_or_id!r}: motet clients lists them")
    if len(matches) > 1:
        raise InvalidData(
            f"{name_or_id!r} is one client's name and another's id: give the first's id or the second's name"
        )
    return matches[0]


def _list(listed: list[dict[str, Any]]) -> None:
    rows = [(c["name"], c["id"], c["examples"], "yes" if c["revoked"] else "") for c in listed]
    if rows:
        show_table({"name": "bold", "id": "", "examples": "", "revoked": "red"}, rows)
    for client in listed:
        if client.get("left_out"):
            show(f"{client['name']} is not in the current release: {client['left_out']}.")
    show(f"{count(len(listed), 'client')} with {count(sum(c['examples'] for c in listed), 'example')}.")
