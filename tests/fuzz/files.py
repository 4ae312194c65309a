"""Files and texts that the system reads: study files, tables, releases, models, coefficients, backups, databases."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import sqlite3
import tomllib
import warnings
import zipfile
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from openpyxl import Workbook
from pyarrow import parquet

from motet import Disclosed, Model
from motet.cli.evaluate import read_client_table
from motet.client import tables
from motet.client.client import Client
from motet.planning.inputs import PilotRoles
from motet.planning.pilot import Pilot
from motet.release.coefficients import Coefficients
from motet.release.file import pack, unpack
from motet.server.bodies import Bodies, example_bodies
from motet.server.processes.serve import _open as open_served
from motet.store.backup import restore
from motet.store.verify import verify
from motet.study.study import Study
from motet.tables.catalogue import Catalogue
from motet.tables.files import read
from motet.tables.roles import Layout
from tests.compatibility.test_before import BEFORE
from tests.fuzz.mutations import (
    TEXTS,
    all_changed,
    byte_edits,
    edited,
    mutated,
    mutated_json,
    mutated_values,
    to_json,
    to_toml,
    value_edits,
    values,
)
from tests.fuzz.reader import Reader, use
from tests.store.local_study import PER_CLIENT, PRIVATE, silent
from tests.study.studies import EXACT, ITEMS, NAMED, SHORT, VISITS, load

RELEASES = sorted(BEFORE.glob("*/release.safetensors"))
NOW = 2e9  # after every backup was made

# --- study files ---


def study_files(folder: Path) -> Reader:
    """Loaded, and prepared to be served if they are accepted; the catalogue is beside them."""
    (folder / "items.csv").write_text(ITEMS, encoding="utf-8")
    texts = [SHORT, EXACT, NAMED, VISITS, PRIVATE, PER_CLIENT]
    sections = [tomllib.loads(text) for text in texts]
    path = folder / "study.toml"

    def read_study(data: bytes) -> None:
        path.write_bytes(data)
        study = Study.load(path)
        study.pinned()
        Bodies(study)
        example_bodies(study)

    valid = [text.encode() for text in texts]
    cases = mutated_values(sections).map(to_toml) | mutated(st.sampled_from(valid))
    return Reader(cases, read_study, [*valid, *map(to_toml, sections)])


# --- tables ---

CURVES = "client,id,x,y,noise\nann,1,0.5,1,1\nann,2,0.25,-1,\nbob,1,1e-3,2.5,0.5\n"
ROSES = "client;name;y\nann;rose;3,5\nbob;leaf;1,5\ncleo;sky;0\n"
PATIENTS = "patient\thours\tsex\tvisit\tglucose\na\t3.5\tm\t2024-03-01\t1\nb\t4\tf\t2024-03-02\t-1\n"
TOKENS_FILE = "client,id,token\nann,1,abc\nbob,2,def\n"
PILOT = "client,y,x,day,kind\n" + "".join(
    f"{'abcd'[k % 4]},{k % 5},{k / 7},2024-01-{k % 9 + 1:02},{'uvw'[k % 3]}\n" for k in range(24)
)
TABLES = (CURVES, ROSES, PATIENTS, TOKENS_FILE, PILOT)


def table_readers(folder: Path) -> dict[str, Callable[[Path], object]]:
    """Each command's way to read a table."""
    study = load(folder, EXACT)
    numbers = Layout(dimension=1)
    named = Layout(catalogue=Catalogue(["rose", "leaf", "sky"]))
    visits = load(folder, VISITS)
    by_column = visits.model.layout(visits.dimension).changed(**visits.table.model_dump())
    return {
        "examples": lambda path: tables.read_examples(path, numbers, only="ann"),
        "clients": lambda path: tables.read_clients(path, numbers.changed(skip_missing=True)),
        "names of items": lambda path: tables.read_clients(path, named),
        "cells by column": lambda path: tables.read_clients(path, by_column),
        "inputs": lambda path: tables.read_inputs(path, numbers),
        "tokens": tables.read_tokens,
        "names": tables.read_names,
        "lines": lambda path: tables.read_names(path.rename(path.with_suffix(".txt"))),
        "pilot": lambda path: Pilot.read(read(path), PilotRoles(task="client", target="y")),
        "evaluation": lambda path: read_client_table(path, study, None, None, None),
        "catalogue": lambda path: Catalogue.from_csv(path).rows,
        "unit vectors": lambda path: Catalogue.from_csv(path, normalise=True).rows,
    }


FITTING = [
    ("examples", CURVES), ("clients", CURVES), ("names of items", ROSES), ("cells by column", PATIENTS),
    ("inputs", CURVES),
    ("tokens", TOKENS_FILE), ("names", CURVES), ("lines", CURVES), ("pilot", PILOT), ("evaluation", CURVES),
    ("catalogue", ITEMS), ("unit vectors", ITEMS),
]  # fmt: skip


def table_files(folder: Path, *, suffix: str, encode: Callable[[str], bytes], tokens: list[bytes]) -> Reader:
    readers, path = table_readers(folder), folder / f"table{suffix}"

    def read_table(case: tuple[str, bytes]) -> None:
        name, data = case
        path.write_bytes(data)
        readers[name](path)

    fitting = [(name, encode(text)) for name, text in FITTING]
    cases = st.builds(lambda one, edits: (one[0], edited(one[1], edits)), st.sampled_from(fitting), byte_edits(tokens))
    return Reader(cases, read_table, [one for one in fitting if one[0] != "lines" or suffix == ".csv"])


CSV_TOKENS = [b"nan", b"1e400", b'"' * 3, b",,", b"\n,", b"1,5", b"client", b"token", b"name", b"\xe2\x80\xa8", b"\x1e"]
csv_files = partial(table_files, suffix=".csv", encode=str.encode, tokens=CSV_TOKENS)


def to_parquet(text: str, **options: Any) -> bytes:
    """A table of text as Parquet, its numbers as numbers."""
    separator = max(",;\t", key=text.partition("\n")[0].count)
    header, *rows = [line.split(separator) for line in text.splitlines()]
    columns = {name: [_cell(row[k]) for row in rows] for k, name in enumerate(header)}
    out = io.BytesIO()
    parquet.write_table(pa.table(columns), out, **options)
    return out.getvalue()


def _cell(text: str) -> float | str | None:
    try:
        return float(text.replace(",", ".")) if text else None
    except ValueError:
        return text


parquet_files = partial(
    table_files,
    suffix=".parquet",
    encode=to_parquet,
    tokens=[b"PAR1", b"ARROW:schema", b"\x15\x00", b"\x7f\xff\xff\xff"],
)


def to_workbook(text: str) -> bytes:
    """A table of text as an Excel workbook, its numbers as numbers."""
    separator, book, out = max(",;\t", key=text.partition("\n")[0].count), Workbook(), io.BytesIO()
    for line in text.splitlines():
        book.active.append([_cell(cell) for cell in line.split(separator)])
    book.save(out)
    return out.getvalue()


workbook_files = partial(
    table_files,
    suffix=".xlsx",
    encode=to_workbook,
    tokens=[b"PK\x01\x02", b"xl/worksheets/sheet1.xml", b"\xff\xff\xff\x7f", b"<!DOCTYPE"],
)
CELLS: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.floats(), st.sampled_from(TEXTS[:20]), st.integers(-(2**63), 2**63 - 1), st.dates(),
    st.datetimes(), st.timedeltas(), st.decimals(allow_nan=False, allow_infinity=False, places=3),
    st.binary(max_size=5),
    st.lists(st.floats(), max_size=2), st.fixed_dictionaries({"a": st.floats()}),
)  # fmt: skip


def parquet_columns(folder: Path) -> Reader:
    """Whole Parquet files whose columns have other names and types than a reader wants."""
    readers, path = table_readers(folder), folder / "table.parquet"
    names = st.sampled_from(
        ["client", "y", "x", "noise", "id", "name", "token", "patient", "hours", "", "__index_level_0__"]
    )
    column = st.tuples(names, st.builds(lambda cell, rest: [cell, cell if rest else None, cell], CELLS, st.booleans()))

    def read_columns(case: tuple[str, list[tuple[str, list[Any]]]]) -> object:
        name, columns = case
        try:
            arrays = [pa.array(cells) for _, cells in columns]
            parquet.write_table(pa.table(arrays, [name for name, _ in columns]), path)
        except (pa.ArrowException, OverflowError, UnicodeEncodeError):
            return False  # no such file
        return readers[name](path)

    pairs = [("client", ["ann"] * 3), ("y", [1.0] * 3), ("x", [0.5, 1.0, 1.5])]
    cases = st.tuples(st.sampled_from([name for name, _ in FITTING]), st.lists(column, min_size=1, max_size=4))
    kept = st.tuples(st.sampled_from([name for name, _ in FITTING]), column.map(lambda one: [*pairs, one]))
    return Reader(cases | kept, read_columns, [("examples", pairs)])


# --- releases ---

FLOATS = [0.0, -1.0, 1e-300, 1e10, 1e149, 1e155, 1e300, -1e300]


def repacked(release: tuple[dict[str, Any], dict[str, Any]], tensor: str, how: int, value: float) -> bytes:
    """A release with a right checksum, and one array that is another."""
    header, tensors = release
    array = tensors[tensor].copy()
    changes: list[Callable[[], Any]] = [
        lambda: np.full_like(array, value), lambda: array.T, lambda: array[:-1], lambda: array[..., :-1],
        lambda: array.reshape(-1), lambda: array[None], lambda: np.empty((0, *array.shape[1:])), lambda: -array,
        lambda: np.where(np.arange(array.size).reshape(array.shape) == how, value, array), lambda: array * value,
    ]  # fmt: skip
    return pack(header, tensors | {tensor: changes[how % len(changes)]()})


def releases(_: Path) -> Reader:
    """Bytes that are changed; headers and arrays that are changed and have the right checksum. Then used."""
    whole = [path.read_bytes() for path in RELEASES]
    parts = [unpack(data) for data in whole]

    def with_header(part: tuple[dict[str, Any], dict[str, Any]], edits: Any) -> bytes:
        try:
            return pack(all_changed(part[0], edits), part[1])
        except (TypeError, ValueError):  # which JSON cannot have
            return whole[0]

    headers = st.builds(with_header, st.sampled_from(parts), value_edits())
    names = st.sampled_from(["landmarks", "redundant", "A", "Lambda", "eta", "theta"])
    arrays = st.builds(repacked, st.sampled_from(parts), names, st.integers(0, 40), st.sampled_from(FLOATS))
    return Reader(
        mutated(st.sampled_from(whole)) | headers | arrays, lambda data: use(Disclosed.from_bytes(data)), whole
    )


def models(_: Path) -> Reader:
    valid = [json.loads(Disclosed.load(path).model.to_json()) for path in RELEASES]
    valid += [json.loads(Model.from_json(json.dumps(one)).to_json()) for one in valid[:1]]

    def read_model(data: bytes) -> None:
        model = Model.from_json(data.decode(errors="surrogateescape"))
        assert Model.from_json(model.to_json()).to_json() == model.to_json()

    return Reader(mutated_json(valid), read_model, [to_json(one) for one in valid])


def coefficients(_: Path) -> Reader:
    release = Disclosed.load(BEFORE / "exact" / "release.safetensors")
    estimate = release.estimate(release.inputs[:3], [1.0, 2.0, 3.0])
    one = release.coefficients(estimate.task, None, release.model.individual).to_dict()
    two = release.coefficients(estimate.task, estimate.task, release.model.individual).to_dict()

    def read_coefficients(value: Any) -> None:
        found = Coefficients.from_dict(value, release.dimension)
        with np.errstate(all="ignore"):
            release.active_estimate(found).predict(release.inputs, return_std=True)

    return Reader(mutated_values([one, two]), read_coefficients, [one, two])


# --- backups and databases ---


def zipped(files: dict[str, bytes], manifest: Any, *, digests: bool) -> bytes:
    """An archive of these files; its manifest has their digests, if it can."""
    if digests and isinstance(manifest, dict):
        manifest = manifest | {"files": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        archive.writestr("manifest.json", to_json(manifest))
    return out.getvalue()


def backups(folder: Path) -> Reader:
    """Archives whose bytes, manifest, study file or database are changed, with the right digests or without."""
    whole = [(BEFORE / name / "backup.zip").read_bytes() for name in ("exact", "private", "per-client")]
    contents = []
    for data in whole:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
        contents.append((files, json.loads(files.pop("manifest.json"))))

    def changed(content: tuple[dict[str, bytes], Any], number: int, edits: Any) -> bytes:
        files, manifest = content
        name = sorted(files)[number % len(files)]
        return zipped(files | {name: edited(files[name], edits)}, manifest, digests=True)

    content = st.sampled_from(contents)
    inner = st.builds(changed, content, st.integers(0, 3), byte_edits())
    manifests = st.builds(
        lambda content, edits, digests: zipped(content[0], all_changed(content[1], edits), digests=digests),
        content,
        value_edits(),
        st.booleans(),
    )
    file, new = folder / "backup.zip", folder / "new"

    def read_backup(data: bytes) -> None:
        file.write_bytes(data)
        try:
            restore(file, new, now=NOW)
        except BaseException:
            assert [path.name for path in folder.iterdir()] == ["backup.zip"]
            raise
        shutil.rmtree(new)

    return Reader(mutated(st.sampled_from(whole)) | inner | manifests, read_backup, whole)


def databases(folder: Path) -> Reader:
    """A database whose bytes, rows or settings are changed: verified, and opened as a server does."""
    source = BEFORE / "private"
    for name in ("study.toml", "items.csv"):
        shutil.copy(source / name, folder / name)
    study, path = Study.load(folder / "study.toml"), folder / "study.db"
    whole = (source / "study.db").read_bytes()
    with closing(sqlite3.connect(source / "study.db")) as database:
        columns = [
            (table, column)
            for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            for _, column, *_ in database.execute(f"PRAGMA table_info({table})").fetchall()
        ]

    def read_database(case: bytes | tuple[tuple[str, str], Any]) -> None:
        for old in folder.glob("study.db*"):
            old.unlink()
        path.write_bytes(case if isinstance(case, bytes) else whole)
        path.chmod(0o600)  # else each opening warns
        if not isinstance(case, bytes):
            _overwrite(path, *case)
        verify(study, silent)
        store, _ = open_served(study)
        store.close()

    cells = st.none() | st.binary(max_size=20) | st.sampled_from([0, -1, 2**63 - 1, 1e300, "junk", "[]", "{}", "0", ""])
    cases = mutated(st.just(whole)) | st.tuples(st.sampled_from(columns), cells)
    return Reader(cases, read_database, [whole])


def _overwrite(path: Path, column: tuple[str, str], value: Any) -> None:
    with closing(sqlite3.connect(path)) as database:
        try:
            database.execute(f"UPDATE {column[0]} SET {column[1]} = ?", (value,))
        except sqlite3.Error:  # the table does not take it
            return
        database.commit()


# --- what people type ---


def addresses(_: Path) -> Reader:
    """An address and a token for a client; nothing is sent."""

    def make(case: tuple[Any, Any]) -> None:
        url, token = case
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that an address is not encrypted
            Client(str(url), str(token)).close()

    valid = [("http://127.0.0.1:8000", "abc"), ("https://example.org/motet/", ""), ("http://[::1]:80", "x")]
    text = mutated(st.sampled_from([url.encode() for url, _ in valid])).map(lambda data: data.decode(errors="replace"))
    return Reader(st.tuples(text | values(), st.sampled_from(["", "abc", "a b", "é", "\0", "a\r\nb"])), make, valid)
