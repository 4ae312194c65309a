"""``motet send``, ``motet replace`` and ``motet remove``: examples of one client, or of many with a token each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console

from motet.cli.connect import PATIENT, client_token, inputs_of, server_at
from motet.cli.terminal import LOCAL, AsJson, OfClient, Tokens, Url, later, progress_bar, show
from motet.errors import InvalidData, UnknownExample
from motet.text import count, first_few

T = TypeVar("T")


def send(
    table: Annotated[
        Path,
        typer.Argument(
            help="A CSV or Parquet file of examples: name or the inputs' numbers, y; optional: noise, id, client.",
            metavar="FILE",
        ),
    ],
    client: OfClient = None,
    tokens: Tokens = None,
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Send a table of examples. Rows that were sent before change nothing; an edited row counts as a new example.

    With --tokens the rows of each client, by the column client, are sent under that client's token. A table whose
    column client names another client than the token's is refused.
    """
    from motet.client import site

    sent = _for_each(site.send, "Sending", table, client, tokens, url)
    total = {key: sum(getattr(one, key) for one in sent.values()) for key in ("accepted", "duplicates")}
    text = f"{total['accepted']} accepted, {total['duplicates']} already stored"
    if tokens is None:
        (one,) = sent.values()
        show(vars(one) if as_json else f"{text}; {one.count} in total.")
    else:
        each = [{"client": name, **vars(one)} for name, one in sent.items()]
        show({**total, "clients": each} if as_json else f"{count(len(sent), 'client')}: {text}.")


def replace(
    table: Annotated[
        Path,
        typer.Argument(help="A CSV or Parquet file of examples as for send, with a column id.", metavar="FILE"),
    ],
    client: OfClient = None,
    tokens: Tokens = None,
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Replace examples that were sent. Each row takes the place of the stored example that has its id.

    If they were sent without ids, remove the old rows and send the new ones.
    """
    from motet.client import site

    done = _for_each(site.replace, "Replacing", table, client, tokens, url, with_ids=True).values()
    number, erased = sum(one.count for one in done), all(one.erased for one in done)
    text = f"{count(number, 'example')} replaced."
    show({"replaced": number, "erased": erased} if as_json else text + later(erased))


def remove(
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of examples to remove.", metavar="ID")] = None,
    examples: Annotated[
        Path | None, typer.Option(help="A table of the examples to remove: the same rows as were sent.")
    ] = None,
    client: OfClient = None,
    tokens: Tokens = None,
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Remove examples that were sent, by their ids or by the rows of a table.

    Releases that are computed later do not contain them.

    Rows that were sent without ids are found by their content. motet export with the server's address shows what you
    have sent, with all ids.
    """
    from motet.client import site

    if bool(ids) == (examples is not None):
        raise InvalidData("expected the examples to remove: motet remove ID…, or motet remove --examples FILE")
    if examples is not None:
        done = list(_for_each(site.remove_rows, "Removing", examples, client, tokens, url).values())
    elif client is not None or tokens is not None:
        raise InvalidData("--client and --tokens choose rows of a table: give them with --examples FILE")
    else:
        with server_at(url, client_token()) as me:
            done = [site.remove(me, ids or [])]
    removed, missing = sum(one.count for one in done), [id for one in done for id in one.missing]
    if missing:
        others = f"; {count(removed, 'other example')} removed" if removed else ""
        raise UnknownExample(
            f"expected ids of stored examples, got {len(missing)} that are not stored ({first_few(missing)}): "
            f"motet export {url} shows what is stored{others}"
        )
    erased, text = all(one.erased for one in done), f"{count(removed, 'example')} removed."
    show({"removed": removed, "erased": erased} if as_json else text + later(erased))


def _for_each(
    act: Callable[..., T],
    verb: str,
    path: Path,
    client: str | None,
    tokens: Path | None,
    url: str,
    *,
    with_ids: bool = False,
) -> dict[str, T]:
    """``act`` on the examples of a table, under each client's own token; the results by client.

    Without a table of tokens there is one client, whose name is then "".
    """
    from motet.client import tables
    from motet.client.site import Site, check_owner

    if client is not None and tokens is not None:
        raise InvalidData("expected --client NAME, with MOTET_TOKEN, or --tokens FILE, for all clients, got both")
    mine = client_token() if tokens is None else ""
    token_of = {} if tokens is None else tables.read_tokens(tokens)
    file = "" if tokens is None else tokens.name
    with server_at(url, mine) as server:
        catalogue, dimension = inputs_of(server.study())
        if tokens is None:
            examples = {"": tables.read_examples(path, catalogue, dimension, client)}
            check_owner(server, examples[""].table)
        else:
            examples = tables.read_clients(path, catalogue, dimension)
            Site(server, token_of, file).check(examples, path.name)
    for one in examples.values() if with_ids else ():
        one.table.texts("id")  # raises if one is missing
    bar = progress_bar(Console(stderr=True), "examples", sum(len(one.X) for one in examples.values()), verb)
    with server_at(url, mine, retries=PATIENT) as server, bar as advance:
        if tokens is None:
            return {"": act(server, examples[""], advance)}
        return Site(server, token_of, file).each(examples, act, advance)
