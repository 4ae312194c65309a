"""How times, numbers and texts of others are told to people."""

from __future__ import annotations

import time


def utc(seconds: float) -> str:
    """A moment, in seconds since 1970."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def times(n: int) -> str:
    return "once" if n == 1 else f"{n} times"


def printable(text: str) -> str:
    """One line that cannot do anything to a terminal."""
    return "".join(c if c.isprintable() else " " for c in text)
