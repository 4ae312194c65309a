"""Small files that would take much memory or time: refused by what they say of themselves, before they are read."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from motet import Disclosed
from motet.arrays import MAX_COLUMNS
from motet.cli.app import app
from motet.errors import InvalidData, InvalidRelease
from motet.release.file import pack, unpack
from motet.tables.files import FREE_CELLS, check_columns, lines, read
from motet.tables.large import Dataset
from tests.compatibility.test_before import BEFORE

RELEASE = (BEFORE / "exact" / "release.safetensors").read_bytes()
MAX_PEAK = 2**24


def test_a_parquet_file_of_few_bytes_and_many_cells_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.parquet"
    ones = pa.DictionaryArray.from_arrays(pa.array(np.zeros(FREE_CELLS + 10**6, np.int8)), pa.array([1.0]))
    parquet.write_table(pa.table({"y": ones}), path)
    assert path.stat().st_size < 10**4
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        with pytest.raises(InvalidData, match=r"bomb\.parquet: expected at most 64 cells for each byte, got 2,048,576"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < MAX_PEAK
    finally:
        tracemalloc.stop()
    assert pa.total_allocated_bytes() - before < MAX_PEAK


def test_a_text_that_a_parquet_file_has_once_is_in_memory_once(tmp_path: Path) -> None:
    path, text = tmp_path / "text.parquet", "a" * 10**6
    parquet.write_table(pa.table({"note": [text] * 1000}), path)  # 1 GB, in some kilobytes
    assert path.stat().st_size < 10**5
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        cells = read(path).cells("note")
        assert tracemalloc.get_traced_memory()[1] < MAX_PEAK
    finally:
        tracemalloc.stop()
    assert pa.total_allocated_bytes() - before < MAX_PEAK
    assert (len(cells), cells[-1]) == (1000, text)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_of_very_many_columns_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"wide{suffix}"
    names = [f"x{k}" for k in range(MAX_COLUMNS + 1)]
    if suffix == ".csv":
        path.write_text(f"{','.join(names)}\n{',1' * MAX_COLUMNS}\n", encoding="utf-8")
    else:
        parquet.write_table(pa.table({name: [1.0] for name in names}), path)
    for reader in (read, Dataset.open):
        with pytest.raises(InvalidData, match="expected at most 10,000 columns, got 10,001; leave some out"):
            reader(path)


def test_names_of_columns_are_compared_in_one_pass(tmp_path: Path) -> None:
    """Each is hashed once; none is compared with all others."""

    class Name(str):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Name.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    check_columns(tmp_path, [Name(f"x{k}") for k in range(MAX_COLUMNS)])
    assert Name.compared < MAX_COLUMNS
    with pytest.raises(InvalidData, match="column 'a' is there twice"):
        check_columns(tmp_path, ["a", "b", "a"])


def repacked(header: dict[str, object], shapes: dict[str, tuple[int, ...]]) -> bytes:
    before, tensors = unpack(RELEASE)
    return pack(before | header, tensors | {name: np.zeros(shape) for name, shape in shapes.items()})


def test_a_release_of_empty_arrays_with_very_many_columns_is_refused() -> None:
    shapes = {
        "landmarks": (0, 10**9),
        "redundant": (0, 10**9),
        "A": (0, 0),
        "Lambda": (1, 1),
        "eta": (1,),
        "theta": (1,),
    }
    data = repacked({}, shapes)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRelease, match="inputs of 1 to 10,000 columns, got 1,000,000,000"):
            Disclosed.from_bytes(data)
        assert tracemalloc.get_traced_memory()[1] < MAX_PEAK
    finally:
        tracemalloc.stop()
    with pytest.raises(InvalidRelease, match="inputs of 1 to 10,000 columns, got 0"):
        Disclosed.from_bytes(repacked({}, {"landmarks": (0, 0), "redundant": (0, 0)}))


@pytest.mark.parametrize(
    "header",
    [{"version": True}, {"version": 10**4000}, {"version": 1.0}, {"sigma2": 1e200}, {"noise_scale": True}],
    ids=["true", "digits", "float", "sigma2", "noise"],
)
def test_numbers_of_a_releases_header_are_in_range(header: dict[str, object]) -> None:
    (name,) = header
    with pytest.raises(InvalidRelease, match=f"expected (a )?{name}") as refused:
        Disclosed.from_bytes(repacked(header, {}))
    assert len(str(refused.value)) < 200


def test_devices_pipes_and_folders_are_no_files(tmp_path: Path) -> None:
    pipe, device, folder = tmp_path / "pipe", tmp_path / "device", tmp_path / "folder"
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    folder.mkdir()
    for path in (pipe, device, folder):
        for reader in (read, lines):
            with pytest.raises(InvalidData, match="cannot read"):
                reader(path)
        with pytest.raises(InvalidData):
            Dataset.open(path)
        with pytest.raises(OSError, match=r"expected a file|Is a directory"):
            Disclosed.load(path)
        for arguments in (["predict", str(path), "--release", str(path)], ["fit", str(path), "--settings", str(path)]):
            ended = CliRunner().invoke(app, arguments)
            assert isinstance(ended.exception, SystemExit), (arguments, ended.exception)


def test_an_honest_table_that_packs_well_is_read(tmp_path: Path) -> None:
    path = tmp_path / "calm.parquet"
    parquet.write_table(pa.table({"client": ["ann"] * 10**5, "y": [1.0] * 10**5}), path)
    assert path.stat().st_size < 10**4
    assert len(read(path).rows) == 10**5
