"""The web pages: the study and its current release, and the list of calls; nothing on them comes from another site."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from motet.text import utc

HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E\
%3Cpath d='M1 12C5 12 5 4 8 4s3 8 7 8' fill='none' stroke='%23357' stroke-width='2'/%3E%3C/svg%3E">
<style>{style}</style></head>
"""
STYLE = """body { font: 1rem/1.5 system-ui, sans-serif; max-width: 45rem; margin: 3rem auto; padding: 0 1rem }
th { text-align: left; padding-right: 2rem; font-weight: 600; vertical-align: top }
pre { background: #f4f4f4; padding: .7rem; white-space: pre-wrap; overflow-wrap: anywhere }"""
STUDY = """<body><h1>{name}</h1><p>{promise}</p><table>{rows}</table>
<p><a href="/v1/disclosed">Download the release</a> · <a href="/v1/study">The study as JSON</a> ·
<a href="/docs">The HTTP calls</a></p>
</body></html>
"""
PROMISES = {
    "private": "Releases are differentially private: they reveal next to nothing about any one client.",
    "exact": "Releases are <strong>without noise</strong>: anyone who downloads two of them can rebuild what a client "
    "sent in between. This study is for parties who trust each other.",
}
DOCS = """<body><h1>The HTTP calls</h1><p>Bodies and responses are JSON unless a call has another format; errors are
<code>{{"error": {{"code", "message", "where"}}}}</code>. The same for programs:
<a href="/openapi.json">openapi.json</a>.</p>{calls}</body></html>
"""
CALLERS = {
    "anyone": "Anyone may call.",
    "downloader": "Anyone may call, unless the study gives releases to its clients only: then with a token.",
    "client": "For a client, with its token.",
    "operator": "For the operator, with the operator's token.",
}


def docs_page(document: dict[str, Any], url: str) -> str:
    """Every call of an OpenAPI document: who may call, what comes back, and a command to try."""
    calls = []
    for path, methods in document["paths"].items():
        for method, call in methods.items():
            caller = call["x-caller"]
            command = f"curl -X {method.upper()} {url}{path}"
            if caller in ("client", "operator"):
                command += " -H 'Authorization: Bearer TOKEN'"
            body = call.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
            if body is not None:
                command += f" -H 'Content-Type: application/json' \\\n  -d '{json.dumps(body)}'"
            title = f"<h2>{method.upper()} {escape(path)}</h2>"
            calls.append(f"{title}<p>{CALLERS[caller]} {escape(call['description'])}</p><pre>{escape(command)}</pre>")
    return HEAD.format(title="The HTTP calls", style=STYLE) + DOCS.format(calls="".join(calls))


def facts(status: dict[str, Any]) -> dict[str, str]:
    """The public facts of a study's status, in words."""
    budget, version = status["budget"], status["version"]
    rows = {"policy": status["policy"], "release": str(version or "none yet")}
    due, refused = status["next_release"], status["refused"]
    rows["next release"] = f"none: {refused}" if due is None else utc(due)
    if budget is not None:
        rows["budget"] = f"ε = {budget['epsilon']:g}, δ = {budget['delta']:g} per {budget['per']}"
        rows["releases"] = f"{budget['made']} made of {budget['releases']} planned; ε spent {budget['spent']:.2f}"
    if refused and due is not None:
        rows["last attempt"] = f"no release: {refused}"
    return rows


def study_page(status: dict[str, Any]) -> str:
    """The public facts of a study's status, for a browser."""
    name = escape(status["name"])
    cells = "".join(f"<tr><th>{escape(key)}</th><td>{escape(value)}</td></tr>" for key, value in facts(status).items())
    return HEAD.format(title=name, style=STYLE) + STUDY.format(
        name=name, promise=PROMISES[status["policy"]], rows=cells
    )
