"""``motet status``, ``motet release`` and ``motet download``: a study's releases over HTTP."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from motet.cli.connect import OPERATOR, current_release, operator_at, server_at
from motet.cli.terminal import LOCAL, AsJson, Force, Url, show
from motet.errors import ServerError, Unauthorized
from motet.files import check_new
from motet.text import iso_time

if TYPE_CHECKING:
    from motet.study.progress import Progress


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
    from motet.study.progress import Progress

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
