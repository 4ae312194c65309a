"""Commands of the operator on the server's machine: serve, export, verify, backup, restore, migrate."""

from __future__ import annotations

import gc
import json
import shlex
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from motet.cli.connect import client_token, is_address, server_at
from motet.cli.terminal import LOCAL, AsJson, Encoding, progress_bar, show
from motet.errors import InvalidData, InvalidStore
from motet.tables.files import new_file
from motet.text import count, iso_time, printable, utc

if TYPE_CHECKING:
    from motet.server.processes.serve import Ready
    from motet.store.backup import Restoration

File = Annotated[Path, typer.Argument(help="The study's TOML file.", metavar="STUDY.toml")]
STATE_STYLES = {"ok": "green", "failed": "bold red", "skipped": "yellow"}


def serve(
    study: File,
    host: Annotated[
        str | None, typer.Option(help="The address to listen on, instead of the study file's.", metavar="HOST")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="The port to listen on, instead of the study file's.")
    ] = None,
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Processes that answer requests; more than one needs PostgreSQL.")
    ] = 1,
    certfile: Annotated[Path | None, typer.Option(help="A certificate in PEM, for TLS.")] = None,
    keyfile: Annotated[Path | None, typer.Option(help="Its private key, without a password.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="A table of your own: its clients are enrolled and its rows stored first. Stored rows change nothing."
        ),
    ] = None,
    encoding: Encoding = None,
    tokens: Annotated[
        Path | None,
        typer.Option(help="Where to write their tokens, a new file; by default STUDY-tokens.csv.", metavar="FILE"),
    ] = None,
    log_format: Annotated[
        Literal["plain", "json"] | None,
        typer.Option(envvar="MOTET_LOG_FORMAT", help="By default plain lines at a terminal, otherwise JSON."),
    ] = None,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], typer.Option(help="Log messages from this level on.")
    ] = "info",
) -> None:
    """Serve a study until Ctrl-C or a signal stops it.

    With --data the study begins with a table, and its first release comes at once: the way from a table to served
    predictions if one party has all rows. Clients who send their own rows need no --data.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(0))
    plain = log_format == "plain" or (log_format is None and sys.stderr.isatty())
    gc.disable()  # until it serves: imports make a million objects, of which nearly all stay
    sys.modules.setdefault("pandas", None)  # type: ignore[arg-type]  # scikit-learn would import it; no server needs it
    from motet.server.processes.serve import serve as run

    run(
        study,
        host=host,
        port=port,
        workers=workers,
        certfile=certfile,
        keyfile=keyfile,
        log_format="plain" if plain else "json",
        log_level=log_level,
        data=data,
        encoding=encoding,
        tokens=tokens,
        show_token=_show_token,
        show_ready=_show_ready,
    )


def _show_token(token: str) -> None:
    sys.stdout.write(f"operator token, shown once: {token}\n")
    sys.stdout.flush()


def _show_ready(ready: Ready) -> None:
    """Where to look and what to do next."""
    lines = [f"{ready.name} is served at {ready.address} (Ctrl-C stops it).", *filter(None, [ready.not_fixed])]
    commands = [f"export MOTET_OPERATOR_TOKEN={ready.new_token}"] if ready.new_token is not None else []
    if ready.loaded is not None:
        commands.append(f"motet predict INPUTS.csv --tokens {shlex.quote(str(ready.loaded.tokens))}")
    elif ready.new_token is not None:
        commands.append("motet enroll ann bob --out tokens.csv")
    if commands and ready.address != LOCAL:
        commands.insert(0, f"export MOTET_URL={ready.address}")
    if commands:
        lines += ["Next, in another terminal:", *(f"  {command}" for command in commands)]
    sys.stderr.write("".join(f"{printable(line)}\n" for line in lines))
    sys.stderr.flush()


# --- one client's data ---


def export(
    study: Annotated[str, typer.Argument(help="The study's TOML file; or its server's address.", metavar="STUDY")],
    client: Annotated[str | None, typer.Argument(help="A client's name or id; with a file.", metavar="NAME")] = None,
    out: Annotated[Path | None, typer.Option(help="Write to this new file, which only you can read.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show all that a study stores about one client, as JSON. An operator gives the study's file and the client's name;
    a client gives the server's address, and sees its own data.
    """
    if is_address(study):
        if client is not None:
            raise InvalidData("a server shows a client its own data only: leave the name out, or give the study's file")
        with server_at(study, client_token()) as server:
            me, about, examples = server.me(), server.study(), list(server.examples())
        note = "This is what the server shows you. Its operator can also export the log of your changes."
        data = {"study": about.get("name"), **me, "examples": examples, "notes": [note]}
    elif client is None:
        raise InvalidData(f"expected a client to export: motet export {study} NAME")
    else:
        from motet.store.export import export_client
        from motet.store.store import read_only
        from motet.study.study import Study

        loaded = Study.load(study)
        with read_only(loaded) as connection:
            data = export_client(connection, loaded, client)
    if out is None:
        unicode = sys.stdout.encoding.lower().startswith("utf")
        sys.stdout.write(json.dumps(data, ensure_ascii=not unicode, indent=2) + "\n")
    else:
        with new_file(out, InvalidData, text=True) as file:
            file.write(json.dumps(data, ensure_ascii=False, indent=2) + "\n")
        text = f"{count(len(data['examples']), 'example')} of {data.get('name', data['id'])} in {out}."
        show({"id": data["id"], "examples": len(data["examples"]), "out": str(out)} if as_json else text)


# --- verification ---


def verify(
    study: File,
    witness: Annotated[
        str,
        typer.Option(help="A digest of the chain that was shown before, and must still be in it.", metavar="DIGEST"),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Check a study's database against the file and in itself, and its releases against all examples learned anew."""
    from motet.store.verify import verify as run
    from motet.study.study import Study

    loaded, console = Study.load(study), Console(stderr=True)
    checks = run(loaded, lambda total: progress_bar(console, "examples", total), witness=witness)
    failed = [check.name for check in checks if check.state == "failed"]
    if as_json:
        show({"ok": not failed, "checks": [vars(check) for check in checks]})
    else:
        table = Table("check", "", "result", title=Text(loaded.name), title_justify="left")
        for check in checks:
            table.add_row(check.name, Text(check.state, STATE_STYLES[check.state]), Text(check.text))
        Console().print(table)
    if failed:
        raise InvalidStore(
            f"{len(failed)} of {len(checks)} checks failed ({', '.join(failed)}): "
            "keep these files as they are, and restore a backup that passes"
        )


# --- backups ---


def backup(
    study: File,
    file: Annotated[Path, typer.Argument(help="The file to write, such as monday.zip.", metavar="FILE")],
    as_json: AsJson = False,
) -> None:
    """Write a whole study to one file, as it is now. Its server may run meanwhile."""
    from motet.store.backup import back_up
    from motet.study.study import Study

    made = back_up(Study.load(study), file)
    if as_json:
        show({"file": str(file), "bytes": file.stat().st_size, **made.model_dump(), "made": iso_time(made.made)})
        return
    show(f"{file}: the study as of {utc(made.made)}, {_released(made.version)}; only you can read it.")
    if not made.version:
        show("From the first backup on policy and budget are fixed: what may be released since is counted by them.")
    show("It keeps what clients remove from now on: delete it when you have a newer one.")


def restore(
    file: Annotated[Path, typer.Argument(help="A backup.", metavar="FILE")],
    folder: Annotated[Path, typer.Argument(help="A new folder for the study.", metavar="FOLDER")],
    last: Annotated[
        int | None,
        typer.Option(min=0, max=2**31 - 1, help="The newest version that anyone has seen.", metavar="VERSION"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Restore a study from a backup. Releases that may have come since count as made, so no budget is spent twice.

    Private releases come by the clock: all that may have come since the backup are charged. Give --last if releases of
    a study without noise were requested since, or made more frequent.
    """
    from motet.store.backup import restore as run

    done = run(file, folder, last=last)
    study = folder / done.study.path.name
    if as_json:
        times = {"made": iso_time(done.gap.made), "next_release": None if _end(done) else iso_time(done.due)}
        show({"study": str(study), **vars(done.gap), **times})
    else:
        _show_restored(done, study, last_given=last is not None)


def _show_restored(done: Restoration, study: Path, *, last_given: bool) -> None:
    gap, private = done.gap, done.study.private
    show(f"{study}: the study as of {utc(gap.made)}, {_released(gap.version)}.")
    if gap.versions:
        charged = " and charged to the budget" if private else ""
        show(f"{gap.versions.capitalize()} may have been released since: counted as made{charged}.")
    end = _end(done)
    show(f"The next release is due at {utc(done.due)}." if end is None else f"{end[0].upper()}{end[1:]}.")
    show("Not in this backup: examples sent and clients enrolled later.")
    show("Restored although deleted later: examples, clients and tokens. Delete or revoke them again.")
    if not private and not last_given:
        show("If releases were requested since, restore again with --last VERSION, the newest that anyone has seen.")
    show(f"Stop the old server for good, then: motet serve {shlex.quote(str(study))}")


def _end(done: Restoration) -> str | None:
    """Why a restored study makes no further release; None if it does."""
    planned = done.study.ledger()
    return None if planned is None else replace(planned, releases_made=done.gap.last).refusal


def _released(version: int) -> str:
    return f"with releases up to {version}" if version else "before its first release"


# --- another database ---


def migrate(
    study: File,
    url: Annotated[
        str,
        typer.Argument(
            help="The new database: postgresql+psycopg://user@host/database, or sqlite:///file.db beside the study's "
            "file. Give a password in PGPASSWORD or ~/.pgpass.",
            metavar="URL",
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Move a study to another database, with everything in it: SQLite to PostgreSQL, or back. Stop its servers first.

    Afterwards nothing can be served from the old database, so no budget is spent twice. If it is interrupted, run it
    again: the same command ends the move.
    """
    from motet.store.migrate import migrate as run
    from motet.study.study import Study

    loaded, console = Study.load(study), Console(stderr=True)
    done = run(loaded, url, lambda total: progress_bar(console, "examples", total))
    if as_json:
        show({"url": done.target, "clients": done.clients, "examples": done.examples, "again": done.again})
        return
    what = f"{count(done.examples, 'example')} of {count(done.clients, 'client')}"
    show(f"{loaded.name} was moved before." if done.again else f"{loaded.name} is moved: {what}, and all else.")
    show(f"Write this into {study}, then check it with motet verify and serve it:")
    show("[store]")
    show(f'url = "{done.target}"')
    show("The old database is not served any more. It keeps what clients remove from now on: delete it.")
