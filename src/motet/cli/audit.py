"""``motet audit``: attacks on releases, with nothing but the releases themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from motet.cli.connect import is_address, layout_at, release_at
from motet.cli.terminal import AsJson, ClientColumn, Encoding, NameColumn, TargetColumn, show
from motet.errors import InvalidData


def audit(
    release: Annotated[str, typer.Argument(help="A release: its file, or a server's address.", metavar="RELEASE")],
    later: Annotated[
        str | None, typer.Argument(help="Another release of the same study, file or address.", metavar="LATER")
    ] = None,
    own: Annotated[
        Path | None,
        typer.Option(help="A table of what you sent between the two: clients, inputs, outputs, optionally noise."),
    ] = None,
    suspects: Annotated[
        Path | None, typer.Option(help="A table like --own, of clients that may have been added.")
    ] = None,
    client: ClientColumn = None,
    target: TargetColumn = None,
    name: NameColumn = None,
    encoding: Encoding = None,
    as_json: AsJson = False,
) -> None:
    """Attack releases, and show what they reveal about clients. Two releases also reveal what was sent between them."""
    if own is not None and later is None:
        raise InvalidData("--own is what you sent between two releases: give the later one too")
    releases = sorted(
        (release_at(place) for place in (release, later) if place is not None), key=lambda one: one.version
    )
    from motet.client.tables import read_clients
    from motet.privacy.audit import audit as attack  # slow to load, and not needed for an error

    place = later if later is not None and is_address(later) else release
    layout = layout_at(place, releases[-1]).changed(client=client, target=target, name=name, encoding=encoding)
    mine, others = ({} if path is None else read_clients(path, layout) for path in (own, suspects))
    report = attack(
        *releases,
        attacker_examples=[examples.triples for examples in mine.values()],
        suspects={client: examples.triples for client, examples in others.items()},
    )
    if as_json:
        show(report.to_dict())
        return
    console = Console()
    table = Table("attack", "result", "certain", title=report.title, title_justify="left")
    for finding in report.rows:
        table.add_row(finding.attack, Text(finding.text), finding.certain)
    console.print(table)
    for note in report.notes:
        console.print(note, style="dim")
