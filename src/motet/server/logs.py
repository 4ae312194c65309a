"""Logs on standard error: JSON for programs, plain text for people; never payloads or tokens."""

from __future__ import annotations

import json
import logging
import time
import traceback
from typing import Literal, TypeAlias

from motet.text import printable

LogFormat: TypeAlias = Literal["plain", "json"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]


class JsonLines(logging.Formatter):
    """A log record as one line of JSON."""

    FIELDS = ("method", "route", "status", "seconds")

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
            text += f": {traceback.format_exception_only(record.exc_info[1])[-1].strip()} (details: --log-format json)"
        level = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
        return f"{time.strftime('%H:%M:%S', time.localtime(record.created))} {level}{printable(text)}"


def log_to_stderr(format: LogFormat = "json", level: LogLevel = "info") -> None:
    """All of Motet's logs from this level on, and the warnings of libraries.

    Refused requests are in the JSON log, but in the plain one only at level debug.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if format == "json" else PlainLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("motet").setLevel(level.upper())
    if format == "plain" and level == "info":
        logging.getLogger("motet.requests").setLevel(logging.WARNING)
