"""``motet status``, ``motet release`` and ``motet download``: a study's releases over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from motet.cli.connect import current_release, operator_at, server_at
from motet.cli.terminal import LOCAL, AsJson, Force, Url, show
from motet.errors import ServerError
from motet.files import check_new
from motet.text import iso_time


def status(url: Url = LOCAL, as_json: AsJson = False) -> None:
    """Show a study's policy and budget, its current release, and when the next one is due. Anyone may ask."""
    from motet.server.pages import facts

    with server_at(url, "") as anyone:
        study = anyone.study()
    try:
        rows = {"study": study["name"], **facts(study)}
        if as_json:
            due = study["next_release"]
            show(study | {"next_release": None if due is None else iso_time(due)})
            return
    except (LookupError, TypeError, ValueError, OverflowError):
        expected = "a study's description as this version of motet knows it"
        raise ServerError(f"expected {expected} from {url}, got another: upgrade motet, here or there") from None
    for key, value in rows.items():
        show(f"{key:<14}{value}")


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
