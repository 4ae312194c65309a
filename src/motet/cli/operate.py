"""Commands for whoever runs a study on this machine, with its file and its database."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from motet.cli.connect import client_token, server_at
from motet.cli.terminal import AsJson, one_line_errors, private_file, progress_bar, show
from motet.errors import InvalidData, InvalidStore, MotetError
from motet.text import count, utc

if TYPE_CHECKING:
    from motet.store.refold import Check
    from motet.store.restore import Restoration

File = Annotated[Path, typer.Argument(help="The study's TOML file.", metavar="STUDY.toml")]
STYLES = {"ok": "green", "not": "bold red", "not comparable": "yellow"}


@contextmanager
def _as_a_server() -> Iterator[None]:
    """One-line errors, also where what a server needs is not installed."""
    with one_line_errors():
        try:
            yield
        except ModuleNotFoundError as error:
            raise MotetError(f"this needs {error.name}: pip install 'motet[server]'") from None


def serve(
    study: File,
    certfile: Annotated[Path | None, typer.Option(help="A certificate, for TLS.")] = None,
    keyfile: Annotated[Path | None, typer.Option(help="Its private key.")] = None,
) -> None:
    """Serve a study until a signal ends it; the operator's token is made on the first start and shown once."""
    with _as_a_server():
        from motet.server.serve import serve as run

        run(study, _show_token, certfile=certfile, keyfile=keyfile)


def _show_token(token: str) -> None:
    sys.stdout.write(f"operator token, shown once: {token}\n")
    sys.stdout.flush()


# --- what is known of one client ---


def export(
    study: Annotated[str, typer.Argument(help="The study's TOML file; or its server's address.", metavar="STUDY")],
    client: Annotated[str | None, typer.Argument(help="A client's name or id; with a file.", metavar="NAME|ID")] = None,
    out: Annotated[Path | None, typer.Option(help="Write to this new file, which only you can read.")] = None,
) -> None:
    """Show all that a study holds of one client, as JSON: for a data request, or of oneself with MOTET_TOKEN."""
    with _as_a_server():
        if study.startswith(("http://", "https://")):
            if client is not None:
                raise InvalidData("a server shows each client its own: leave the name out, or give the study's file")
            found = _of_oneself(study)
        elif client is None:
            raise InvalidData(f"expected whom to export: motet export {study} NAME")
        else:
            found = _of_client(Path(study), client)
        text = json.dumps(found, ensure_ascii=False, indent=2)
        if out is None:
            sys.stdout.write(text + "\n")
        else:
            with private_file(out) as file:
                file.write(text + "\n")
            show(f"{count(len(found['examples']), 'example')} of {found.get('name', found['id'])} in {out}.")


def _of_client(path: Path, client: str) -> dict[str, Any]:
    from motet.store.export import holdings
    from motet.store.store import read_only
    from motet.study.study import Study

    study = Study.load(path)
    with read_only(study) as connection:
        return holdings(connection, study, client)


def _of_oneself(url: str) -> dict[str, Any]:
    with server_at(url, client_token()) as server:
        me, about, examples = server.me(), server.study(), list(server.examples())
    note = "This is what the server shows you. Its operator can export the log of your ids too, and what releases hold."
    return {"study": about.get("name"), **me, "examples": examples, "notes": [note]}


# --- whether all agrees ---


def verify(study: File, as_json: AsJson = False) -> None:
    """Check the database against its file and itself, fold all examples from zero, and compare with the releases."""
    with _as_a_server():
        from motet.store.verify import verify as run
        from motet.study.study import Study

        loaded, console = Study.load(study), Console(stderr=True)
        checks = run(loaded, lambda total: progress_bar(console, "examples", total, "Folding"))
        failed = [check.name for check in checks if check.state == "not"]
        if as_json:
            show({"ok": not failed, "checks": [check.to_dict() for check in checks]})
        else:
            _show_checks(loaded.name, checks)
        if failed:
            raise InvalidStore(
                f"{count(len(failed), 'check')} of {len(checks)} not passed ({', '.join(failed)}): "
                "keep these files as they are, and restore a backup that passes"
            )


def _show_checks(name: str, checks: list[Check]) -> None:
    table = Table("check", "", "what was found", title=Text(name), title_justify="left")
    for check in checks:
        table.add_row(check.name, Text(check.state, STYLES[check.state]), Text(check.text))
    Console().print(table)


# --- backups ---


def backup(
    study: File,
    file: Annotated[Path, typer.Argument(help="The file to write, such as monday.zip.", metavar="FILE")],
    as_json: AsJson = False,
) -> None:
    """Write one file with all of a study, as it is at this moment; its server may run meanwhile."""
    with _as_a_server():
        from motet.store.backup import back_up
        from motet.study.study import Study

        made = back_up(Study.load(study), file)
        if as_json:
            show({"file": str(file), "bytes": file.stat().st_size, **made.model_dump()})
            return
        show(f"{file}: the study as of {utc(made.made)}, {_released(made.version)}; only you can read it.")
        show("It keeps what clients remove or forget from now on: delete it when a newer one is there.")


def restore(
    file: Annotated[Path, typer.Argument(help="A backup.", metavar="FILE")],
    folder: Annotated[Path, typer.Argument(help="A new folder for the study.", metavar="FOLDER")],
    last: Annotated[
        int | None,
        typer.Option(min=0, max=2**31 - 1, help="The newest version that anyone has seen.", metavar="VERSION"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Put a study back from its backup. What may have been released since counts as made, so nothing is spent twice.

    Private releases come by the clock: all that it can have brought since the backup are charged. Give --last where the
    time between releases was shortened since, or where releases of an exact study were asked for.
    """
    with _as_a_server():
        from motet.store.restore import restore as run

        done = run(file, folder, last=last)
        study = folder / done.study.path.name
        if as_json:
            show({"study": str(study), **vars(done.gap), "next_release": done.due})
        else:
            _show_restored(done, study, asked=last is not None)


def _show_restored(done: Restoration, study: Path, *, asked: bool) -> None:
    lost, private = done.gap, done.study.private
    show(f"{study}: the study as of {utc(lost.made)}, {_released(lost.version)}.")
    if lost.versions:
        charged = " and charged to the budget" if private else ""
        show(f"{lost.versions.capitalize()} may have been released since: counted as made{charged}.")
    planned = done.study.ledger()
    ended = planned is not None and planned.per == "study" and lost.last >= planned.releases
    show("Its budget is spent: the last release stays." if ended else f"The next release is due at {utc(done.due)}.")
    show("Lost: what was sent, and who was enrolled, since then.")
    show("Back again: what was removed, forgotten or revoked since then. Do that once more.")
    if not private and not asked:
        show("If releases were asked for since, restore again with --last VERSION, the newest that anyone has seen.")
    show(f"End the old server for good, then: motet serve {shlex.quote(str(study))}")


def _released(version: int) -> str:
    return f"with releases up to {version}" if version else "before its first release"
