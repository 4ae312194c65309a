"""``motet send``, ``motet replace`` and ``motet remove``: examples of one client, or of many with a token each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import Console

from motet.cli.connect import PATIENT, client_token, server_at
from motet.cli.terminal import (
    LOCAL,
    AsJson,
    ClientColumn,
    Encoding,
    NameColumn,
    Only,
    SkipMissing,
    TargetColumn,
    Tokens,
    Url,
    later,
    note,
    progress_bar,
    show,
)
from motet.errors import InvalidData, UnknownExample
from motet.text import count, first_few, tally

if TYPE_CHECKING:
    from motet.client.client import Sent
    from motet.client.tables import Examples

T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    """A table of examples as a command was given it, and whose rows of it are meant."""

    path: Path
    only: str | None
    tokens: Path | None
    columns: dict[str, Any]  # options of Layout.changed
    url: str
    as_json: bool

    def __post_init__(self) -> None:
        if self.only is not None and self.tokens is not None:
            raise InvalidData("expected --only NAME, with MOTET_TOKEN, or --tokens FILE, for all clients, got both")


def send(
    table: Annotated[
        Path,
        typer.Argument(
            help="A CSV or Parquet file of examples: inputs and outputs; optional: noise, id, clients.",
            metavar="FILE",
        ),
    ],
    client: ClientColumn = None,
    target: TargetColumn = None,
    name: NameColumn = None,
    only: Only = None,
    skip_missing: SkipMissing = False,
    encoding: Encoding = None,
    tokens: Tokens = None,
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Send a table of examples. Rows that were sent before change nothing; an edited row counts as a new example.

    Columns are found by their names, in any order, if the study names its inputs. With --tokens the rows of each
    client are sent under that client's token. Rows of another client than the token's are refused.
    """
    from motet.client import site

    columns = {"client": client, "target": target, "name": name, "skip_missing": skip_missing, "encoding": encoding}
    sent, left_out = _for_each(site.send, "Sending", Request(table, only, tokens, columns, url, as_json))
    if ended := {name: one.ended for name, one in sent.items() if one.ended is not None}:
        whose = "what was sent" if tokens is None else f"what {tally(ended, 'client')} sent"
        note(f"no later release will have {whose}: {next(iter(ended.values()))}", as_json=as_json)
    total = {key: sum(getattr(one, key) for one in sent.values()) for key in ("accepted", "duplicates")}
    text = f"{total['accepted']} accepted, {total['duplicates']} already stored"
    if tokens is None:
        (one,) = sent.values()
        show({**_facts(one), **left_out} if as_json else f"{text}; {one.count} in total.{_in_words(left_out)}")
    else:
        each = [{"client": name, **_facts(one)} for name, one in sent.items()]
        line = f"{count(len(sent), 'client')}: {text}.{_in_words(left_out)}"
        show({**total, **left_out, "clients": each} if as_json else line)


def _facts(sent: Sent) -> dict[str, Any]:
    """For programs: with ``ended`` only if no later release will have it."""
    return {key: value for key, value in vars(sent).items() if value is not None}


def replace(
    table: Annotated[
        Path,
        typer.Argument(help="A CSV or Parquet file of examples as for send, with a column id.", metavar="FILE"),
    ],
    client: ClientColumn = None,
    target: TargetColumn = None,
    name: NameColumn = None,
    only: Only = None,
    skip_missing: SkipMissing = False,
    encoding: Encoding = None,
    tokens: Tokens = None,
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Replace examples that were sent. Each row takes the place of the stored example that has its id.

    If they were sent without ids, remove the old rows and send the new ones.
    """
    from motet.client import site

    columns = {"client": client, "target": target, "name": name, "skip_missing": skip_missing, "encoding": encoding}
    request = Request(table, only, tokens, columns, url, as_json)
    replaced, left_out = _for_each(site.replace, "Replacing", request, with_ids=True)
    done = replaced.values()
    number, erased = sum(one.count for one in done), all(one.erased for one in done)
    text = f"{count(number, 'example')} replaced.{_in_words(left_out)}"
    show({"replaced": number, "erased": erased, **left_out} if as_json else text + later(erased))


def remove(
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of examples to remove.", metavar="ID")] = None,
    examples: Annotated[
        Path | None, typer.Option(help="A table of the examples to remove: the same rows as were sent.")
    ] = None,
    client: ClientColumn = None,
    target: TargetColumn = None,
    name: NameColumn = None,
    only: Only = None,
    skip_missing: SkipMissing = False,
    encoding: Encoding = None,
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

    columns = {"client": client, "target": target, "name": name, "skip_missing": skip_missing, "encoding": encoding}
    left_out: dict[str, int] = {}
    if bool(ids) == (examples is not None):
        raise InvalidData("expected the examples to remove: motet remove ID…, or motet remove --examples FILE")
    if examples is not None:
        request = Request(examples, only, tokens, columns, url, as_json)
        removals, left_out = _for_each(site.remove_rows, "Removing", request)
        done = list(removals.values())
    elif only is not None or tokens is not None:
        raise InvalidData("--only and --tokens choose rows of a table: give them with --examples FILE")
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
    erased, text = all(one.erased for one in done), f"{count(removed, 'example')} removed.{_in_words(left_out)}"
    show({"removed": removed, "erased": erased, **left_out} if as_json else text + later(erased))


def _for_each(
    act: Callable[..., T], verb: str, request: Request, *, with_ids: bool = False
) -> tuple[dict[str, T], dict[str, int]]:
    """``act`` on the examples of a table, under each client's own token: the results by client, and how many rows
    were left out.

    Without a table of tokens there is one client, whose name is then "".
    """
    from motet.client import tables
    from motet.client.responses import layout_of
    from motet.client.site import Site, check_owner

    path, url = request.path, request.url
    mine = client_token() if request.tokens is None else ""
    token_of = {} if request.tokens is None else tables.read_tokens(request.tokens)
    file = "" if request.tokens is None else request.tokens.name
    with server_at(url, mine) as server:
        layout = layout_of(server.study()).changed(**request.columns)
        if request.tokens is None:
            examples = {"": tables.read_examples(path, layout, request.only)}
            check_owner(server, examples[""])
        else:
            examples = tables.read_clients(path, layout)
            Site(server, token_of, file).check(examples, path.name)
    for one in examples.values() if with_ids else ():
        if one.layout.id is None:
            raise InvalidData("the column id is not of examples here: remove the old rows, and send the new ones")
        one.table.texts(one.layout.id)  # raises if one is missing
    left_out = _left_out(examples, request)
    bar = progress_bar(Console(stderr=True), "examples", sum(len(one.X) for one in examples.values()), verb)
    with server_at(url, mine, retries=PATIENT) as server, bar as advance:
        if request.tokens is None:
            return {"": act(server, examples[""], advance)}, left_out
        return Site(server, token_of, file).each(examples, act, advance), left_out


def _left_out(examples: dict[str, Examples], request: Request) -> dict[str, int]:
    """How many rows were left out, if rows may be; and a note of columns that are of no use."""
    table, layout = next((one.table, one.layout) for one in examples.values())
    if unused := layout.unused(table):
        note(f"{table.file}: not used: {', '.join(unused)}", as_json=request.as_json)
    return {"rows_left_out": table.left_out} if layout.skip_missing else {}


def _in_words(left_out: dict[str, int]) -> str:
    number = left_out.get("rows_left_out", 0)
    return f" {count(number, 'row')} with missing values left out." if number else ""
