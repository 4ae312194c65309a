"""Logs as lines of JSON, on standard error; they never have payloads or tokens."""

from __future__ import annotations

import json
import logging


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


def log_to_stderr() -> None:
    """All of the program's logs, as lines of JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
