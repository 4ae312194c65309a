"""A backup of a study, written, read and restored: one zip file with its study file, its database and its catalogue.

The files lie side by side under plain names, so that a restored study needs nothing of its old place. A manifest has
the SHA-256 of each. A backup keeps what clients remove later.

Releases made after the backup are not in it. The clock limits how many there can be: from a backup on the budget of a
private study stays, and its time between releases never becomes shorter. All of them count as made: their versions are
skipped, and a private study's ledger is charged for them.

Both work in a folder near what they write until it is whole. A command that is killed leaves its folder behind, with a
copy of a database in it. The next one removes that: a lock inside, which the system ends with the process, tells
whether somebody still works there.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import sqlite3
import tempfile
import time
import tomllib
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from motet import __version__
from motet.errors import InvalidData, InvalidStore, InvalidStudy, MotetError
from motet.store import pins, releases
from motet.store.migrate import copy_tables
from motet.store.releases import Gap
from motet.store.sqlite import lock
from motet.store.store import Connection, Store, parse, read_only, refuse_moved
from motet.study.study import Study
from motet.tables.files import new_file, writing
from motet.text import MAX_TIME

MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 100_000
MAX_FILES = 4  # study, database, catalogue, manifest
MAX_PIECE_BYTES = 2**20  # read at once
MAX_RATIO, SMALL_FILE_BYTES = 100, 2**26  # of a file to what it takes in the archive, unless it is small
MAX_STORED_VERSION = 2**31 - 1  # that the tables can hold
UNREADABLE_ARCHIVE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValidationError)
ROUNDING_SECONDS = 1e-3  # in favour of more releases
LOCK = "in-use"
MAX_START_SECONDS = 60.0  # from the making of a folder to its lock
STRING = r"""(?:"[^"\n]*"|'[^'\n]*')"""  # in TOML


def _file_name(name: str) -> str:
    """A name without a path."""
    if name in ("", ".", "..", MANIFEST) or not name.isprintable() or set(name) & set("/\\:"):
        raise ValueError
    return name


Name = Annotated[str, AfterValidator(_file_name)]


class Manifest(BaseModel):
    """``made`` is a time before the database was copied, ``version`` the newest release that the copy knows of."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    format: Literal[1] = 1
    motet: str = __version__
    study: Name
    database: Name
    made: Annotated[float, Field(ge=0.0, le=MAX_TIME, allow_inf_nan=False)]  # seconds since 1970
    version: Annotated[int, Field(ge=0, le=MAX_STORED_VERSION)]
    files: dict[Name, str]  # SHA-256 of each


# --- writing a backup ---


def back_up(study: Study, file: Path, *, now: float | None = None) -> Manifest:
    """Write a study's backup to a new file that only its owner can read, whole or not at all; a server may run.

    Whoever restores it must count what may have been released since, so the first one fixes policy and budget.
    """
    dialect, url = parse(study.store_url)
    name = (dialect.file(url) or study.path.with_suffix(".db")).name
    with read_only(study) as connection:  # there is a database, and it is a study's
        refuse_moved(connection)
        fixed = pins.since(connection).promise
    if file.exists() or file.is_symlink():
        raise InvalidStore(f"{file} already exists: choose another name, or move it away")
    with writing(file, InvalidStore), workspace(file.absolute().parent, ".backup-") as near:
        if not fixed:
            with closing(Store(study.store_url)) as store, store.refusing():
                pins.fix_promise(store, study)
        made, copy = time.time() if now is None else now, near / name
        if dialect.file(url) is None:
            _copy_rows(study, copy)
        else:
            dialect.copy(url, copy)
        version = _version(replace(study, store_url=f"sqlite:///{copy}"))
        names = _copy_files(study, near, name) | {"database": name}
        files = {name: _digest(near / name) for name in names.values()}
        if len(files) < len(names):
            raise InvalidStudy(f"{study.path}: expected files with different names, got {', '.join(names.values())}")
        manifest = Manifest(study=study.path.name, database=name, made=made, version=version, files=files)
        _pack(manifest, near, whole := near.parent / "whole.zip")
        os.rename(whole, file)
    return manifest


def _pack(manifest: Manifest, folder: Path, file: Path) -> None:
    with (
        new_file(file, InvalidStore) as handle,
        zipfile.ZipFile(handle, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive,
    ):
        for name in manifest.files:
            archive.write(folder / name, name)
        archive.writestr(MANIFEST, manifest.model_dump_json(indent=2))


def _version(study: Study) -> int:
    """The newest version that the database knows of; refuses one that could not be served."""
    with read_only(study) as connection:
        if (reason := pins.contradiction(connection, study)) is not None:
            raise InvalidStore(f"{study.path}: {reason}; correct the study file, or the backup could not be served")
        return releases.last_version(connection)


def _copy_rows(study: Study, copy: Path) -> None:
    """A backup has a file, wherever the study is kept: it can be restored anywhere."""
    try:
        with read_only(study) as source, closing(Store(f"sqlite:///{copy}")) as store, store.transaction() as target:
            copy_tables(source, target)
    except (DBAPIError, sqlite3.Error) as error:
        if not isinstance(cause := getattr(error, "orig", error), sqlite3.Error):
            raise
        raise InvalidStore(f"{study.path}: cannot be copied: {cause}; make room where the copy is to be") from None


def _copy_files(study: Study, folder: Path, database: str) -> dict[str, str]:
    """Copy study file and catalogue to a folder; the copied study file expects catalogue and database beside it."""
    text = study.path.read_text(encoding="utf-8-sig")
    file, names = tomllib.loads(text), {"study": study.path.name}
    if (catalogue := file["inputs"].get("catalogue")) is not None:
        names["catalogue"] = Path(catalogue).name
        shutil.copyfile(study.path.parent / catalogue, folder / names["catalogue"])
        text = _with_value(text, "inputs", "catalogue", names["catalogue"])
    if "url" in file.get("store", {}):
        text = _with_value(text, "store", "url", f"sqlite:///{database}")
    (folder / study.path.name).write_text(text, encoding="utf-8")
    return names


def _with_value(text: str, section: str, key: str, value: str) -> str:
    """A study file's text with another value of a key, and nothing else changed."""
    file = tomllib.loads(text)
    if file[section][key] == value:
        return text
    file[section][key] = value
    line = re.compile(rf"(^\s*\[{section}\].*?^\s*{key}\s*=\s*){STRING}", re.MULTILINE | re.DOTALL)
    changed = line.sub(lambda match: match[1] + json.dumps(value, ensure_ascii=False), text, count=1)
    with suppress(tomllib.TOMLDecodeError):
        if tomllib.loads(changed) == file:
            return changed
    raise InvalidStudy(f'{section}.{key}: expected a line {key} = "…" below [{section}], got none: write it that way')


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- reading a backup ---


class PieceReader(io.FileIO):
    """A file that is read in pieces: an archive's table of contents may claim to have any length."""

    def read(self, size: int | None = -1) -> bytes:
        piece = super().read(MAX_PIECE_BYTES + 1 if size is None or size < 0 else min(size, MAX_PIECE_BYTES + 1))
        if len(piece) > MAX_PIECE_BYTES:
            raise zipfile.BadZipFile("a table of contents that is too long")
        return piece


def extract(file: Path, folder: Path) -> Manifest:
    """Write all files of a backup into an empty folder, checked against the manifest."""
    if file.exists() and not file.is_file():
        raise InvalidStore(f"cannot read {file}: expected a backup that motet made, got something that is not a file")
    try:
        with PieceReader(file) as source, zipfile.ZipFile(source) as archive:
            _check_sizes(archive, file.stat().st_size)
            manifest = Manifest.model_validate_json(archive.read(MANIFEST))
            _check_names(manifest, archive.namelist())
            needed, free = sum(member.file_size for member in archive.infolist()), shutil.disk_usage(folder).free
            if needed > free:
                raise InvalidStore(f"expected room for {needed} bytes in the folder, got {free}: choose another one")
            for name, digest in manifest.files.items():
                _write(archive, name, folder / name)
                if _digest(folder / name) != digest:
                    raise zipfile.BadZipFile(f"a {name} that was changed")
    except OSError as error:
        raise InvalidStore(f"cannot read {file}: {error.strerror}; expected a backup that motet made") from None
    except (*UNREADABLE_ARCHIVE, KeyError) as error:
        raise InvalidStore(
            f"{file}: expected a backup that motet made, got {_reason(error)}; take another one"
        ) from None
    return manifest


def _check_sizes(archive: zipfile.ZipFile, file_bytes: int) -> None:
    """Before anything is read: what an archive unpacks to, by its table of contents; no file unpacks to more."""
    members = archive.infolist()
    if len(members) > MAX_FILES or sum(member.compress_size for member in members) > file_bytes:
        raise zipfile.BadZipFile("more files than a backup has")
    for member in members:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise zipfile.BadZipFile("files that are packed in another way")
        limit = max(SMALL_FILE_BYTES, MAX_RATIO * member.compress_size)
        if member.file_size > (MAX_MANIFEST_BYTES if member.filename == MANIFEST else limit):
            raise zipfile.BadZipFile(f"a file of {member.file_size} bytes in {member.compress_size}")


def _write(archive: zipfile.ZipFile, name: str, path: Path) -> None:
    with archive.open(name) as source, writing(path, InvalidStore), new_file(path, InvalidStore) as target:
        shutil.copyfileobj(source, target)


def _check_names(manifest: Manifest, names: list[str]) -> None:
    """The archive has the files of the manifest, each once."""
    complete = {manifest.study, manifest.database} <= manifest.files.keys()
    if not complete or sorted(names) != sorted([MANIFEST, *manifest.files]):
        raise zipfile.BadZipFile("other files than its manifest lists")


def _reason(error: Any) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_context=False)[0]
        return f"a manifest that cannot be read, at {'.'.join(map(str, first['loc'])) or 'its beginning'}"
    if isinstance(error, KeyError):
        return "an archive without a manifest"
    return str(error) or type(error).__name__


# --- restoring a backup ---


@dataclass(frozen=True)
class Restoration:
    """A restored study; ``due`` is its next release."""

    study: Study
    gap: Gap
    due: float  # seconds since 1970


def restore(file: Path, folder: Path, *, last: int | None = None, now: float | None = None) -> Restoration:
    """Restore a backup to a new folder, whole or not at all.

    ``last`` is the newest version that anyone has seen. It replaces the clock's limit under ``exact``, where releases
    are also made on request; a private study is charged for what the clock allows, or for more if ``last`` is more.
    """
    now = time.time() if now is None else now
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidStore(f"{folder} already exists: choose another folder, or move it away")
    with writing(folder, InvalidStore):
        folder.absolute().parent.mkdir(parents=True, exist_ok=True)
        with workspace(folder.absolute().parent, ".restore-") as inside:
            manifest = extract(file, inside)
            gap, due = _skip_gap(_loaded(inside, manifest), manifest, last, now)
            os.rename(inside, folder)
    return Restoration(Study.load(folder / manifest.study), gap, due)


def _loaded(folder: Path, manifest: Manifest) -> Study:
    study = Study.load(folder / manifest.study)
    dialect, url = parse(study.store_url)
    if dialect.file(url) != (folder / manifest.database).resolve():
        raise InvalidStore(f"{manifest.study}: expected a database beside it, got one elsewhere; take another backup")
    return study


def _skip_gap(study: Study, manifest: Manifest, last: int | None, now: float) -> tuple[Gap, float]:
    """Count as made what may have been released since the backup, and schedule the next release after it."""
    try:
        store = Store(study.store_url)
        with closing(store), store.transaction() as connection:
            if (reason := pins.contradiction(connection, study)) is not None:
                raise InvalidStore(f"{study.path.name}: {reason}; this backup cannot be served")
            due = releases.next_release(connection)
            gap = _gap(connection, study, manifest, due, last, now)
            releases.skip(connection, gap, study.ledger())
            due = releases.following(due, releases.shortest_interval(connection, study), now=now)
            due = min(due, now + study.release.seconds)  # it is later if the clock was wrong, and set back
            releases.set_next_release(connection, due)
            releases.clear_request(connection)
    except MotetError:
        raise
    except (SQLAlchemyError, ValueError, TypeError, KeyError, ArithmeticError) as error:  # its rows may be anything
        cause = str(getattr(error, "orig", None) or error).partition("\n")[0]
        raise InvalidStore(f"expected a study's database in the backup, got {cause}; take another backup") from None
    return gap, due


def _gap(connection: Connection, study: Study, manifest: Manifest, due: float, last: int | None, now: float) -> Gap:
    """Which versions may have been released since the backup was made."""
    if now < manifest.made:
        raise InvalidData("expected a time after the backup was made, got an earlier one: set this machine's clock")
    version, planned = releases.last_version(connection), study.ledger()
    ends = planned is not None and planned.per == "study"
    limit = planned.releases if planned is not None and ends else MAX_STORED_VERSION
    every = releases.shortest_interval(connection, study)
    first = min(due, manifest.made + every)  # another restoration of this backup may have set it
    by_clock = min(version + scheduled(first, every, since=manifest.made, now=now), limit)
    if last is None:
        last = by_clock
    elif not version <= last <= limit:
        until = f" to {limit}, the last of its budget" if ends else f" to {limit}"
        raise InvalidData(f"expected a version from {version}, the newest in the backup,{until}, got {last}")
    return Gap(version, last if planned is None else max(last, by_clock), manifest.made, now)


def scheduled(due: float, every: float, *, since: float, now: float) -> int:
    """How many releases the clock allows after ``since``, if the first of them was due then or overdue."""
    now, since = now + ROUNDING_SECONDS, since - ROUNDING_SECONDS
    if now < due:
        return 0
    return int((now - due) // every) - int(max(since - due, 0.0) // every) + 1


# --- a folder of a command's own ---


@contextmanager
def workspace(parent: Path, prefix: str) -> Iterator[Path]:
    """An empty folder for its owner alone, on the same disk as ``parent``'s files; at the end nothing is left of it."""
    for path in parent.glob(f"{prefix}*"):
        _remove_abandoned(path)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent) as folder:
        descriptor = os.open(Path(folder, LOCK), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            lock(descriptor)
            inside = Path(folder, "work")
            inside.mkdir(mode=0o700)
            yield inside
        finally:
            os.close(descriptor)


def _remove_abandoned(folder: Path) -> None:
    """Remove what a killed command left, and leave what another one works in."""
    with suppress(OSError):  # another one has the lock, or it is not ours
        if not (folder / LOCK).exists():
            if time.time() - folder.stat().st_mtime > MAX_START_SECONDS:
                folder.rmdir()  # only if it is empty
            return
        descriptor = os.open(folder / LOCK, os.O_RDWR)
        try:
            lock(descriptor)
            shutil.rmtree(folder)
        finally:
            os.close(descriptor)
