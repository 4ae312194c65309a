"""Logs on standard error: JSON for programs, plain text for people; never payloads or tokens.

Nobody who makes the server log something fills a disk with it: lines of one kind are limited, and the others counted.
"""

from __future__ import annotations

import json
import logging
import time
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Literal, TypeAlias

from motet.server.protection.rates import Buckets
from motet.text import printable

LogFormat: TypeAlias = Literal["plain", "json"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
MAX_LINES, LINES_PER_SECOND = 200, 5.0  # of one kind: at once, and then
MAX_KIND_LETTERS = 200


class Throttle(logging.Filter):
    """Leaves out most of very many lines that differ only in their values; the next one has their number."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._lines = Buckets(clock)
        self._left_out: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        kind = f"{record.name} {record.msg}"[:MAX_KIND_LETTERS]
        if self._lines.seconds_to_wait(kind, LINES_PER_SECOND, capacity=MAX_LINES) is not None:
            self._left_out[kind] += 1
            return False
        if left_out := self._left_out.pop(kind, 0):
            record.left_out = left_out
        return True


class JsonLines(logging.Formatter):
    """A log record as one line of JSON."""

    FIELDS = ("method", "route", "status", "seconds", "left_out")

    def format(self, record: logging.LogRecord) -> str:
        line = {"time": round(record.created, 3), "level": record.levelname.lower(), "from": record.name}
        line["message"] = record.getMessage()
        line |= {name: getattr(record, name) for name in self.FIELDS if hasattr(record, name)}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


class PlainLines(logging.Formatter):
    """A log record as one line of text, such as "12:30:05 release 1 is out (private)"."""

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        if hasattr(record, "route"):
            fields = vars(record)
            text = f"{fields['method']} {fields['route']}: status {fields['status']} in {fields['seconds']:.3f} s"
        if record.exc_info and record.exc_info[1]:
            reason = traceback.format_exception_only(record.exc_info[1])[-1].strip()
            text += f": {reason} (a log in JSON has the traceback)"
        if hasattr(record, "left_out"):
            text += f" (and {record.left_out} more like this)"
        level = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
        return f"{time.strftime('%H:%M:%S', time.localtime(record.created))} {level}{printable(text)}"


def log_to_stderr(format: LogFormat = "json", level: LogLevel = "info") -> None:
    """All of Motet's logs from this level on, and the warnings of libraries.

    Refused requests are in the JSON log, but in the plain one only at level debug.
    """
    handler = logging.StreamHandler()
    handler.addFilter(Throttle())
    handler.setFormatter(JsonLines() if format == "json" else PlainLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("motet").setLevel(level.upper())
    if format == "plain" and level == "info":
        logging.getLogger("motet.requests").setLevel(logging.WARNING)
