"""Text for people: times, counts, lists of names, and values or foreign text made safe to print in one line."""

from __future__ import annotations

import difflib
import json
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

MAX_NAMES = 5  # in a list of names
MAX_LETTERS = 60  # of a value in a message
MAX_LETTERS_SEARCHED = 500  # for a password
MAX_TIME = 253402300799.0  # the last second of the year 9999, in seconds since 1970
PASSWORD = re.compile(r"//[^@]*@")


def utc(seconds: float) -> str:
    """A time, given in seconds since 1970."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def iso_time(seconds: float) -> str:
    """A time for programs, given in seconds since 1970: ISO 8601, such as 2031-01-02T03:04:05Z."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def count(n: int, noun: str) -> str:
    """ "1 client", "2 clients"."""
    return f"{n} {noun}{'' if n == 1 else 's'}"


def first_few(names: Iterable[str]) -> str:
    """The first few names, with "…" if there are more."""
    names = list(names)
    return ", ".join(names[:MAX_NAMES]) + (", …" if len(names) > MAX_NAMES else "")


def tally(names: Collection[str], noun: str) -> str:
    """ "2 clients (ann, bob)"."""
    return f"{count(len(names), noun)} ({first_few(names)})"


def alternatives(*texts: str) -> str:
    """'"this", "that" or "another"'."""
    *first, last = (f'"{text}"' for text in texts)
    return f"{', '.join(first)} or {last}" if first else last


def suggestion(word: str, names: Iterable[str], n: int = 1, otherwise: Sequence[str] = ()) -> str:
    """ "; did you mean 'name'?", with up to n names that resemble a word, whatever their case, or with the first of
    ``otherwise``; empty if there are none."""
    by_fold = {name.casefold(): name for name in names}
    near = [by_fold[name] for name in difflib.get_close_matches(word[:MAX_LETTERS].casefold(), by_fold, n)]
    near = near or list(otherwise[:1])
    return f"; did you mean {', '.join(map(repr, near))}?" if near else ""


def printable(text: str, replacement: str = " ") -> str:
    """The text in one line, without characters that control a terminal."""
    return "".join(c if c.isprintable() else replacement for c in text)


def brief(value: Any) -> str:
    """A value as JSON, shortened, without passwords."""
    value = value[:MAX_LETTERS_SEARCHED] if isinstance(value, str) else value
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)[:MAX_LETTERS_SEARCHED]
        text = PASSWORD.sub("//…@", text)
    except (ValueError, RecursionError):
        text = "something very large"
    return shortened(text, MAX_LETTERS)


def shortened(text: str, length: int) -> str:
    """At most so many letters, the last of them "…" if some are left out."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def input_text(x: str | Iterable[float] | Mapping[str, Any]) -> str:
    """An input as one word: its name, or its numbers or cells in brackets."""
    if isinstance(x, str):
        return printable(x, "?")
    if isinstance(x, Mapping):
        cells = (f"{name} {cell:.4g}" if isinstance(cell, float) else f"{name} {cell}" for name, cell in x.items())
        return f"({printable(', '.join(cells), '?')})"
    return f"({', '.join(f'{value:.4g}' for value in x)})"
