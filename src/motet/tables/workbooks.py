"""Excel's workbooks (.xlsx) as tables: rows of the first sheet, each cell as its value.

A workbook is a zip of XML, and a few bytes may unpack to billions: what the zip says of itself is bounded before
anything is unpacked (and no part unpacks to more than that), cells while they are read; and XML that defines entities
is refused.
"""

from __future__ import annotations

import io
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from typing import Any

from motet.errors import InvalidData

ZIP, OLD_EXCEL = b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
FREE_BYTES = 2**24  # that a workbook of any size may unpack to,
UNPACKED_PER_BYTE = 64  # and so many more for each of its bytes: a bomb has a thousand
MAX_UNPACKED = 2**29
BLOCK_BYTES = 2**20
DEFINITIONS = [
    f"<!{word}".encode(form) for word in ("DOCTYPE", "ENTITY") for form in ("utf-8", "utf-16-le", "utf-16-be")
]
NOT_EXCEL = "save it as CSV UTF-8"


def is_workbook(start: bytes) -> bool:
    """Whether a file that begins so is Excel's, of this form or of an older one."""
    return start.startswith((ZIP, OLD_EXCEL))


def rows(name: str, data: bytes, max_cells: int) -> Iterator[tuple[int, list[Any]]]:
    """The rows that are not empty, with their numbers in the sheet, without empty cells at their ends."""
    if data.startswith(OLD_EXCEL):
        raise InvalidData(f"{name} is in Excel's old format (.xls): save it as .xlsx, or as CSV UTF-8")
    try:
        import openpyxl
    except ImportError:
        raise InvalidData(f"{name} is an Excel workbook: pip install 'motet[excel]', or {NOT_EXCEL}") from None
    _check_sizes(name, data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles and forms, which no table needs
            book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
            sheet = book.worksheets[0]
            sheet.reset_dimensions()  # they may be wrong: of as many columns as there can be
            yield from _filled(name, sheet.iter_rows(values_only=True), max_cells)
    except InvalidData:
        raise
    except Exception as error:  # openpyxl has no errors of its own: damaged files raise whatever their parts do
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise InvalidData(f"cannot read {name}: expected an Excel workbook, got {reason}; {NOT_EXCEL}") from None


def _filled(name: str, sheet: Iterator[tuple[Any, ...]], max_cells: int) -> Iterator[tuple[int, list[Any]]]:
    cells = 0
    for number, row in enumerate(sheet, start=1):
        cells += 1 + len(row)
        if cells > max_cells:
            raise InvalidData(f"{name}: expected at most {max_cells:,} cells, got more; split it into several")
        values = [_cell(value) for value in row]
        while values and (values[-1] is None or values[-1] == ""):
            values.pop()
        if values:
            yield number, values


def _cell(value: Any) -> Any:
    """Numbers, texts and dates; a time at midnight is a date, as Excel has no others."""
    if isinstance(value, datetime):
        return value.date() if value.time() == time() else value
    if value is None or isinstance(value, (int, float, str, date)):
        return None if value == "#N/A" else value
    return str(value) if isinstance(value, (time, timedelta)) else None


def _check_sizes(name: str, data: bytes) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            unpacked = sum(part.file_size for part in archive.infolist())
            most = min(FREE_BYTES + UNPACKED_PER_BYTE * len(data), MAX_UNPACKED)
            if unpacked > most:
                raise InvalidData(f"{name}: expected at most {most:,} bytes unpacked, got {unpacked:,}; {NOT_EXCEL}")
            if any(_defines_entities(archive, part) for part in archive.infolist()):
                raise InvalidData(f"cannot read {name}: expected an Excel workbook, got definitions; {NOT_EXCEL}")
    except (zipfile.BadZipFile, ValueError, OSError, EOFError, RuntimeError, zlib.error) as error:
        raise InvalidData(f"cannot read {name}: expected an Excel workbook, got {error}; {NOT_EXCEL}") from None


def _defines_entities(archive: zipfile.ZipFile, part: zipfile.ZipInfo) -> bool:
    """Whether a part has definitions of XML, a few of which may stand for billions of letters; Excel writes none."""
    before = b""
    with archive.open(part) as file:
        while block := file.read(BLOCK_BYTES):
            if any(mark in before + block for mark in DEFINITIONS):
                return True
            before = block[-2 * len("<!DOCTYPE") :]
    return False
