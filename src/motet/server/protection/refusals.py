"""The one format of every error, also for a connection that never reaches the application, and what every response has.

The headers let a browser run nothing and keep nothing; the pages have a policy of their own (``pages.PAGE_POLICY``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi.responses import JSONResponse

CONTENT_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
HEADERS: list[tuple[bytes, bytes]] = [  # of every response that does not set them itself
    (b"content-security-policy", CONTENT_POLICY.encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
]
NOT_STORED = (b"cache-control", b"no-store")  # the same


def error_fields(code: str, message: str, where: str | None = None) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "where": where}}


def error_response(
    status: int, code: str, message: str, where: str | None = None, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    return JSONResponse(error_fields(code, message, where), status, headers)


def raw_error(status: int, code: str, message: str, *headers: tuple[bytes, bytes]) -> bytes:
    """A whole response, after which the connection is closed."""
    body = json.dumps(error_fields(code, message)).encode()
    length = (b"content-length", b"%d" % len(body))
    kind = (b"content-type", b"application/json")
    lines = [b"%s: %s\r\n" % pair for pair in (*headers, *HEADERS, NOT_STORED, kind, length, (b"connection", b"close"))]
    return b"HTTP/1.1 %d %s\r\n" % (status, HTTPStatus(status).phrase.encode()) + b"".join(lines) + b"\r\n" + body
