"""``motet enroll`` and ``motet clients``: whom the operator lets in, and with which tokens."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from motet.cli.connect import operator_at
from motet.cli.terminal import (
    LOCAL,
    AsJson,
    Url,
    one_line_errors,
    private_file,
    progress_bar,
    show,
    show_table,
)
from motet.errors import InvalidData, UnknownTask
from motet.text import count

if TYPE_CHECKING:
    from motet.client.client import Enrolled


def enroll(
    names: Annotated[list[str] | None, typer.Argument(help="Names of new clients.")] = None,
    file: Annotated[
        Path | None, typer.Option(help="More names: the lines of a .txt, or a table's column name.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write names, ids and tokens to this new CSV file, which only you can read.")
    ] = None,
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Enrol clients, and show their tokens this once, or write them to a file."""
    with one_line_errors():
        from motet.client import site, tables

        wanted = [name.strip() for name in names or ()] + ([] if file is None else tables.read_names(file))
        bar = progress_bar(Console(stderr=True), "clients", len(wanted), "Enrolling")
        with operator_at(url) as server, _tokens(out, as_json) as keep, bar as advance:
            for new in site.enroll(server, wanted):
                keep(new)
                advance(len(new))


@contextmanager
def _tokens(out: Path | None, as_json: bool) -> Iterator[Callable[[list[Enrolled]], None]]:
    """What keeps new clients' tokens, and shows them in the end, so that none is lost where something fails later."""
    enrolled: list[Enrolled] = []
    with nullcontext() if out is None else private_file(out) as file:

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
        kept = ("id", "name", "token") if out is None else ("id", "name")
        show({"clients": [{key: getattr(client, key) for key in kept} for client in enrolled]})
    elif out is None:
        show_table({"name": "bold", "id": "", "token": ""}, [(c.name, c.id, c.token) for c in enrolled])
        show("Tokens are shown this once: hand each to its client, who sets MOTET_TOKEN to it.")
    else:
        show(f"{len(enrolled)} enrolled; their tokens are in {out}, which only you can read.")


def clients(
    revoke: Annotated[str | None, typer.Option(help="A client, by name or id, whose token is to open nothing.")] = None,
    rotate: Annotated[str | None, typer.Option(help="A client, by name or id, who is to have a new token.")] = None,
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """List the clients, with how many examples each has sent; or revoke one's token, or make one a new token."""
    with one_line_errors():
        if revoke is not None and rotate is not None:
            raise InvalidData("expected --revoke or --rotate, got both: do one after the other")
        with operator_at(url) as server:
            known = server.clients()
            if revoke is not None:
                one = _one(known, revoke)
                server.revoke(one["id"])
                told = f"{one['name']}: the token opens nothing any more; the examples stay."
                show({**_named(one), "revoked": True} if as_json else told)
            elif rotate is not None:
                one = _one(known, rotate)
                made = server.rotate(one["id"])
                told = f"{one['name']}: new token, shown this once: {made}"
                show({**_named(one), "token": made} if as_json else told)
            else:
                _list(known, as_json)


def _one(known: list[dict[str, Any]], who: str) -> dict[str, Any]:
    found = [client for client in known if who in (client["name"], client["id"])]
    if not found:
        raise UnknownTask(f"no client has the name or id {who!r}: motet clients lists them all")
    if len(found) > 1:
        raise InvalidData(f"{who!r} is a client's name and another's id: give the other of the two")
    return found[0]


def _named(client: dict[str, Any]) -> dict[str, Any]:
    return {"id": client["id"], "name": client["name"]}


def _list(known: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        show({"clients": known})
        return
    rows = [(c["name"], c["id"], c["examples"], "yes" if c["revoked"] else "") for c in known]
    if rows:
        show_table({"name": "bold", "id": "", "examples": "", "revoked": "red"}, rows)
    show(f"{count(len(known), 'client')} with {count(sum(c['examples'] for c in known), 'example')}.")
