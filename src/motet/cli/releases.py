"""``motet status``, ``release`` and ``download``: a study's releases over HTTP; and ``audit``, what they reveal."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from motet.cli.connect import OPERATOR, current_release, is_address, layout_at, operator_at, release_at, server_at
from motet.cli.terminal import LOCAL, AsJson, ClientColumn, Encoding, Force, NameColumn, TargetColumn, Url, show
from motet.errors import InvalidData, ServerError, Unauthorized
from motet.tables.files import check_new
from motet.text import iso_time

if TYPE_CHECKING:
    from motet.planning.outlook import Progress


def status(url: Url = LOCAL, as_json: AsJson = False) -> None:
    """Show a study's policy and budget, its current release, and when the next one is due. Anyone may ask.

    With the operator's token, MOTET_OPERATOR_TOKEN, it shows also how many clients have sent examples, how many of them
    the clip shortens, and the error and coverage to expect of the next release.
    """
    from motet.server.pages import facts

    with server_at(url, "") as anyone:
        study = anyone.study()
    try:
        rows = {"study": study["name"], **facts(study)}
        due = study["next_release"]
        figures = _figures(url, study) if os.environ.get(OPERATOR) else None
        if as_json:
            about = {} if figures is None else {"operator": figures.to_dict()}
            show(study | {"next_release": None if due is None else iso_time(due)} | about)
            return
        rows |= {} if figures is None else figures.facts()
    except (LookupError, TypeError, ValueError, OverflowError):
        expected = "a study's description as this version of motet knows it"
        raise ServerError(f"expected {expected} from {url}, got another: upgrade motet, here or there") from None
    for key, value in rows.items():
        show(f"{key:<14}{value}")


def _figures(url: str, study: dict[str, Any]) -> Progress | None:
    """What the operator may know; None if the token is not the operator's."""
    from motet.planning.outlook import Progress

    try:
        with operator_at(url) as server:
            exact = study["policy"] == "exact" and study["version"]  # of a private study a forecast needs no release
            return Progress.of(study, server.figures(), server.disclosed() if exact else None)
    except Unauthorized as error:
        warnings.warn(f"{error}; what follows is public", stacklevel=1)
        return None


def release(url: Url = LOCAL, as_json: AsJson = False) -> None:
    """Ask for a release now. A private study refuses: its releases come by the clock."""
    with operator_at(url) as server:
        version = server.release_now()
    show({"version": version} if as_json else f"Release {version} is published.")


def download(
    out: Annotated[
        Path | None, typer.Option(help="The file to write; by default release-VERSION.safetensors in this folder.")
    ] = None,
    force: Force = False,
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Download the current release to a file, to audit it or to work offline."""
    if out is not None:
        check_new(out, force=force)
    current = current_release(url)
    path = Path(f"release-{current.version}.safetensors") if out is None else out
    check_new(path, force=force)
    current.save(path)
    about = {"version": current.version, "policy": current.policy, "out": str(path)}
    show(about if as_json else f"Release {current.version}, {current.policy}, is in {path}.")


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
    from motet.attacks.audit import audit as attack  # slow to load, and not needed for an error
    from motet.client.tables import read_clients

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
