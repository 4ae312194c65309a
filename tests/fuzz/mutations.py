"""Strategies that begin with something valid and change it: bytes anywhere, values, keys and shapes of JSON and TOML.

Edits are drawn by hypothesis, so a failing case shrinks to few and small ones.
"""

from __future__ import annotations

import copy
import datetime
import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

Place = tuple[Any, ...]  # keys and indices from the root of a value

TEXTS = [
    "", " ", "\0", "a\0b", "\x7f", "\n", "\r\n", "\t", "é", "e\u0301", "\u202e", "\ufeff", "\ud800", "💡", "..", ".",
    "/",
    "\\", "%00", "%2e%2e", "a" * 101, "a" * 201, "a" * 10_000, "null", "NaN", "1e999", "-0", "0x10", "١٢", "'", '"',
    "1; DROP TABLE clients", "__class__", "{}", "<script>", "=1+1", "2024-02-30", "9999-12-31", "growing", "private",
    "exact", "rbf", "sum", "product", "constant", "eigen", "landmarks",
]  # fmt: skip
NUMBERS = [
    0, -1, 1, 2, 3, 10, 1000, 10**6, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**400, 0.0, -0.0, 0.5,
    -0.5,
    1e-5, 1e-300, 5e-324, 1e10, 1e149, 1e160, 1e308, -1e308, math.inf, -math.inf, math.nan,
]  # fmt: skip
CONSTANTS: list[Any] = [None, True, False, [], {}, [[]], [{}], [None], {"": 0}]
KEYS = [
    "",
    "x",
    "y",
    "id",
    "noise",
    "name",
    "kernel",
    "of",
    "columns",
    "value",
    "values",
    "bounds",
    "extra",
    "\0",
    "\ud800",
]
TOKENS = [
    b"\0", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"\xed\xa0\x80", b"\r\n", b"\r\n\r\n", b"\n", b'"', b"'", b",", b";",
    b"{",
    b"}", b"[", b"]", b"[" * 2000, b'{"":' * 2000, b"9" * 5000, b"1e999999999", b"NaN", b"-", b":", b"\\u0000",
    b"\\ud800",
    b"\\", b"%", b" " * 100, b"\t", b"null", b"true", b"-1", b"99999999999999999999", b"\x00\x00\x00\x80", b"\xff" * 8,
]  # fmt: skip


def nested(depth: int) -> Any:
    value: Any = 0.0
    for k in range(depth):
        value = [value] if k % 2 else {"of": value}
    return value


def values() -> st.SearchStrategy[Any]:
    """What stands in no file that we wrote; also small values of any shape."""
    plain = st.sampled_from([*TEXTS, *NUMBERS, *CONSTANTS]) | st.floats() | st.integers() | st.text(max_size=8)
    return plain | st.lists(plain, max_size=3) | st.sampled_from([nested(depth) for depth in (3, 90)])


# --- bytes ---

ByteEdit = Callable[[bytes, int, bytes], bytes]


def overwritten(data: bytes, at: int, piece: bytes) -> bytes:
    return data[:at] + piece + data[at + len(piece) :]


def inserted(data: bytes, at: int, piece: bytes) -> bytes:
    return data[:at] + piece + data[at:]


def shortened(data: bytes, at: int, piece: bytes) -> bytes:
    return data[:at] + data[at + max(1, len(piece)) :]


def cut(data: bytes, at: int, _: bytes) -> bytes:
    return data[:at]


def repeated(data: bytes, at: int, piece: bytes) -> bytes:
    return data[: at + 16 * len(piece)] + data[at:]


def flipped(data: bytes, at: int, piece: bytes) -> bytes:
    return data[:at] + bytes(a ^ b for a, b in zip(data[at : at + len(piece)], piece)) + data[at + len(piece) :]


BYTE_EDITS: list[ByteEdit] = [flipped, overwritten, inserted, shortened, cut, repeated]


def edited(data: bytes, edits: Sequence[tuple[ByteEdit, int, bytes]]) -> bytes:
    for edit, at, piece in edits:
        data = edit(data, at % (len(data) + 1), piece)
    return data


def byte_edits(tokens: Sequence[bytes] = ()) -> st.SearchStrategy[Any]:
    """One to four edits; ``tokens`` are words of the format."""
    pieces = st.sampled_from([*tokens, *TOKENS]) | st.binary(min_size=1, max_size=8)
    return st.lists(st.tuples(st.sampled_from(BYTE_EDITS), st.integers(0, 2**24), pieces), min_size=1, max_size=4)


def mutated(valid: st.SearchStrategy[bytes], tokens: Sequence[bytes] = ()) -> st.SearchStrategy[bytes]:
    """Valid bytes after some edits."""
    return st.builds(edited, valid, byte_edits(tokens))


# --- values of JSON and TOML ---


class Twice(str):
    """A key that a dictionary may have beside an equal one."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    yield at
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from places(part, (*at, key))


def changed(root: Any, number: int, kind: str, new: Any, key: str) -> Any:
    """A copy of a value in which one part, counted from the root, is replaced, removed, renamed, wrapped or doubled."""
    root = copy.deepcopy(root)
    every = list(places(root))
    at = every[number % len(every)]
    if not at:
        return new if kind == "replace" else [root] if kind == "wrap" else root
    parent = root
    for step in at[:-1]:
        parent = parent[step]
    last, old = at[-1], parent[at[-1]]
    if kind == "remove":
        del parent[last]
    elif kind == "rename" and isinstance(parent, dict):
        parent[key] = parent.pop(last)
    elif kind == "add" and isinstance(old, dict):
        old[key] = new
    elif kind in ("double", "add"):
        if isinstance(parent, dict):
            parent[Twice(last)] = old if kind == "double" else new
        else:
            parent.insert(last, copy.deepcopy(old) if kind == "double" else new)
    elif kind == "wrap":
        parent[last] = [old]
    else:
        parent[last] = new
    return root


KINDS = ["replace", "replace", "replace", "remove", "rename", "add", "double", "wrap"]


def value_edits() -> st.SearchStrategy[Any]:
    """One to three edits."""
    edit = st.tuples(st.integers(0, 10_000), st.sampled_from(KINDS), values(), st.sampled_from(KEYS))
    return st.lists(edit, min_size=1, max_size=3)


def all_changed(value: Any, edits: Sequence[tuple[int, str, Any, str]]) -> Any:
    for number, kind, new, key in edits:
        value = changed(value, number, kind, new, key)
    return value


def mutated_values(valid: Sequence[Any]) -> st.SearchStrategy[Any]:
    """One of the valid values after some edits."""
    return st.builds(all_changed, st.sampled_from(valid), value_edits())


def to_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")


def mutated_json(valid: Sequence[Any]) -> st.SearchStrategy[bytes]:
    """JSON with other values, with other bytes, or with both."""
    return (
        mutated_values(valid).map(to_json)
        | mutated(st.sampled_from([to_json(value) for value in valid]))
        | mutated(mutated_values(valid).map(to_json))
    )


# --- TOML ---


def to_toml(value: Any) -> bytes:
    """A study file with its sections; what is not a dictionary is written as it would stand behind a key."""
    if not isinstance(value, dict):
        return _toml(value).encode(errors="surrogatepass")
    plain = [f"{_key(key)} = {_toml(part)}" for key, part in value.items() if not isinstance(part, dict)]
    for section, part in value.items():
        if isinstance(part, dict):
            plain += [f"[{_key(section)}]", *(f"{_key(key)} = {_toml(inner)}" for key, inner in part.items())]
    return "\n".join(plain).encode(errors="surrogatepass")


def _key(key: str) -> str:
    return str(key) if key.isidentifier() and key.isascii() else json.dumps(key, ensure_ascii=False)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_key(key)} = {_toml(part)}' for key, part in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, datetime.date):
        return value.isoformat()
    return "" if value is None else repr(value).lower()
