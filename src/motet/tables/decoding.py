"""The text of a file: UTF-8, UTF-16 if its first bytes say so, or the encoding that is told, of a closed list.

Bytes do not say which of the older encodings they are in: é in one is щ in another, and neither is an error. So none
is guessed, and a refusal has the first byte that is not UTF-8, and its line.
"""

from __future__ import annotations

import codecs
from pathlib import Path

from motet.errors import InvalidData

ENCODINGS = (
    *("utf-8", "utf-16", "latin-1", "cp1252", "iso-8859-15", "mac-roman", "cp437", "cp850"),
    *("cp1250", "iso-8859-2", "cp1251", "koi8-r", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257"),
    *("shift_jis", "euc-jp", "gb18030", "big5", "euc-kr"),
)
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
BLOCK_BYTES = 2**20


def encoding_of(start: bytes, told: str | None = None) -> str:
    """Python's name of the encoding of a file that begins so."""
    if told is not None and told.lower() not in ENCODINGS:
        raise InvalidData(f"expected an encoding, one of {', '.join(ENCODINGS)}, got {told!r:.60}")
    if start.startswith(UTF16_MARKS) and told in (None, "utf-16"):
        return "utf-16"
    return "utf-8-sig" if told in (None, "utf-8") else str(told).lower()


def decoded(path: Path, data: bytes, told: str | None = None) -> str:
    """All of a file's text."""
    encoding = encoding_of(data, told)
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise undecodable(path, data[error.start : error.start + 1], line, encoding) from None


def first_undecodable(path: Path, told: str | None = None) -> InvalidData | None:
    """The refusal of a large file; None if all of it is text."""
    with path.open("rb") as file:
        encoding, line = encoding_of(file.read(len(UTF16_MARKS[0])), told), 1
        file.seek(0)
        decoder = codecs.getincrementaldecoder(encoding)()
        while block := file.read(BLOCK_BYTES):
            kept = decoder.getstate()[0]
            try:
                decoder.decode(block)
            except UnicodeDecodeError as error:
                data = kept + block
                line += data.count(b"\n", 0, error.start)
                return undecodable(path, data[error.start : error.start + 1], line, encoding)
            line += block.count(b"\n")
    return None


def undecodable(path: Path, byte: bytes, line: int, encoding: str) -> InvalidData:
    """The refusal of a byte that is in no text of an encoding."""
    name = {"utf-8-sig": "UTF-8", "utf-16": "UTF-16"}.get(encoding, encoding)
    expected = f"cannot read {path}: expected text in {name}, got the byte 0x{byte.hex()} in line {line}"
    advice = 'say which encoding it has, such as encoding="cp1252" or latin-1 (Western Europe)'
    return InvalidData(f"{expected}; {advice}, or save it as CSV UTF-8")
