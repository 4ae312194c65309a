"""``motet enroll``, ``motet clients`` and ``motet forget``: who takes part in a study, and with which tokens."""

from __future__ import annotations

import csv
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from motet.cli.connect import client_token, layout_at, operator_at, server_at
from motet.cli.terminal import (
    LOCAL,
    AsJson,
    ClientColumn,
    Encoding,
    Url,
    Yes,
    confirm,
    later,
    note,
    progress_bar,
    show,
    show_table,
)
from motet.errors import InvalidData, UnknownTask
from motet.tables.files import new_file
from motet.text import count

if TYPE_CHECKING:
    from motet.client.client import Client, Enrolled


def enroll(
    clients: Annotated[list[str] | None, typer.Argument(help="Names of new clients.", metavar="NAME")] = None,
    names: Annotated[
        Path | None,
        typer.Option("--names", "--file", help="More names: the lines of a .txt file, or the clients of a table."),
    ] = None,
    client: ClientColumn = None,
    encoding: Encoding = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write clients, ids and tokens to a new CSV file, which only you can read."),
    ] = None,
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Enroll clients, and show their tokens once, or write them to a file."""
    from motet.client import site, tables

    all_names = [name.strip() for name in clients or ()]
    if names is not None:
        columns = [layout_at(url).client, "client", "name"] if client is None else [client]
        all_names += tables.read_names(names, columns, encoding=encoding)
    tokens = nullcontext() if out is None else new_file(out, InvalidData, text=True, keep_unfinished=True)
    enrolled: list[Enrolled] = []
    with operator_at(url) as server, tokens as file:
        try:
            with progress_bar(Console(stderr=True), "clients", len(all_names), "Enrolling") as advance:
                for new in site.enroll(server, all_names):
                    if file is not None:
                        header = [] if enrolled else [("client", "id", "token")]
                        rows = [*header, *((client.name, client.id, client.token) for client in new)]
                        csv.writer(file, lineterminator="\n").writerows(rows)
                        file.flush()
                    enrolled += new
                    advance(len(new))
            study = server.study()
            if study.get("next_release") is None and isinstance(study.get("refused"), str):
                note(f"no later release will have these clients: {study['refused']}", as_json=as_json)
        finally:  # no token is lost if something fails
            if enrolled:
                _show_enrolled(enrolled, out, as_json)


def _show_enrolled(enrolled: list[Enrolled], out: Path | None, as_json: bool) -> None:
    if as_json:
        fields = ("id", "name", "token") if out is None else ("id", "name")
        show({"clients": [{key: getattr(client, key) for key in fields} for client in enrolled]})
    elif out is None:
        show_table({"client": "bold", "id": "", "token": ""}, [(c.name, c.id, c.token) for c in enrolled])  # nosec B105  # a style
        show("These tokens are not shown again. Give each client its own; a client sets MOTET_TOKEN to it.")
    else:
        show(f"{count(len(enrolled), 'client')} enrolled; the tokens are in {out}, which only you can read.")


def clients(
    action: Annotated[
        Literal["revoke", "rotate", "remove"] | None,
        typer.Argument(help="revoke, rotate or remove a client; by default all are listed.", metavar="ACTION"),
    ] = None,
    client: Annotated[str | None, typer.Argument(help="The client's name or id.", metavar="NAME")] = None,
    yes: Yes = False,
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """List all clients with how many examples each has sent. Or revoke, rotate or remove one.

    revoke makes a client's token invalid, and its examples stay. rotate makes a new token; a client that was revoked is
    let in again. remove deletes the client with all that it has sent: motet forget NAME does the same.
    """
    if action is not None and client is None:
        raise InvalidData(f"expected a client to {action}: motet clients {action} NAME")
    with operator_at(url) as server:
        enrolled = server.clients()
        if client is None:
            show({"clients": enrolled}) if as_json else _list(enrolled)
            return
        one = _client(enrolled, client)
        about = {"id": one["id"], "name": one["name"]}
        if action == "remove":
            _forget(one["name"], one["examples"], lambda: server.forget(one["id"]), yes, as_json)
        elif action == "revoke":
            server.revoke(one["id"])
            text = f"{one['name']}: the token is revoked; the examples stay."
            show({**about, "revoked": True} if as_json else text)
        else:
            token = server.rotate(one["id"])
            again = " was revoked, and is let in again" if one["revoked"] else ""
            text = f"{one['name']}{again}: a new token, which is not shown again: {token}"
            show({**about, "token": token, "was_revoked": one["revoked"]} if as_json else text)


def forget(
    client: Annotated[
        str | None, typer.Argument(help="The client's name or id, for the operator; else yourself.", metavar="NAME")
    ] = None,
    tokens: Annotated[
        Path | None,
        typer.Option(help="A table of names and tokens, as enroll --out writes it, to use NAME's own token."),
    ] = None,
    yes: Yes = False,
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Delete a client with all that it has sent, and its token. Releases that are computed later do not contain it.

    Without NAME a client forgets itself. The operator forgets any client, and a site those whose tokens it has.
    """
    from motet.client import site, tables

    if client is None:
        if tokens is not None:
            raise InvalidData("expected the client to forget: motet forget NAME --tokens FILE")
        with server_at(url, client_token()) as me:
            _forget_me(me, yes, as_json)
    elif tokens is None:
        clients("remove", client, yes, url, as_json)
    else:
        token_of = tables.read_tokens(tokens)
        if client not in token_of:
            raise InvalidData(f"{tokens.name}: no token of {client!r:.60}; the operator can forget it without one")
        with server_at(url, "") as server, site.Site(server, token_of, tokens.name).client(client) as me:
            _forget_me(me, yes, as_json)


def _forget_me(me: Client, yes: bool, as_json: bool) -> None:
    about = me.me()
    _forget(about["name"], about["count"], me.forget_me, yes, as_json)


def _forget(name: str, examples: int, act: Callable[[], bool], yes: bool, as_json: bool) -> None:
    confirm(f"Delete {name} with {count(examples, 'example')}? This cannot be undone.", yes=yes)
    erased = act()
    text = f"{name} and {count(examples, 'example')} are deleted; releases computed later do not contain them."
    show({"name": name, "removed": examples, "erased": erased} if as_json else text + later(erased))


def _client(clients: list[dict[str, Any]], name_or_id: str) -> dict[str, Any]:
    matches = [client for client in clients if name_or_id in (client["name"], client["id"])]
    if not matches:
        raise UnknownTask(f"no client has the name or id {name_or_id!r}: motet clients lists them")
    if len(matches) > 1:
        raise InvalidData(
            f"{name_or_id!r} is one client's name and another's id: give the first's id or the second's name"
        )
    return matches[0]


def _list(clients: list[dict[str, Any]]) -> None:
    rows = [(c["name"], c["id"], c["examples"], "yes" if c["revoked"] else "") for c in clients]
    if rows:
        show_table({"client": "bold", "id": "", "examples": "", "revoked": "red"}, rows)
    for client in clients:
        if client.get("left_out"):
            show(f"{client['name']} is not in the current release: {client['left_out']}.")
    show(f"{count(len(clients), 'client')} with {count(sum(c['examples'] for c in clients), 'example')}.")
