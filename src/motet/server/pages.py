"""The web pages: the study, from the files in ``web``, and the list of calls; nothing on them comes from another site.

A browser may load what this server has, and nothing else: no script or style stands in a page itself, and none is made
from text. Without scripts, the page of the study shows its public facts.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from dataclasses import dataclass
from functools import cache, cached_property
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from motet.study.study import settings_words
from motet.text import utc

PAGE_POLICY = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
WEB = files("motet.server") / "web"
MEDIA_TYPES = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="/web/icon.svg"><link rel="stylesheet" href="/web/style.css"></head>
"""
PROMISES = {
    "private": "Releases are differentially private: they reveal next to nothing about any one client.",
    "exact": "Releases are <strong>without noise</strong>: anyone who downloads two of them can rebuild what a client "
    "sent in between. This study is for parties who trust each other.",
}
DOCS = """<body><main><h1>The HTTP calls</h1><p>Bodies and responses are JSON unless a call has another format; errors
are <code>{{"error": {{"code", "message", "where"}}}}</code>. The same for programs:
<a href="/openapi.json">openapi.json</a>. The commands read the address of this server in the variable
<code>MOTET_URL</code>; in place of <code>TOKEN</code> goes yours.</p>{calls}</main></body></html>
"""
CALLERS = {
    "anyone": "Anyone may call.",
    "downloader": "Anyone may call, unless the study gives releases to its clients only: then with a token.",
    "client": "For a client, with its token.",
    "operator": "For the operator, with the operator's token.",
}


def docs_page(document: dict[str, Any]) -> str:
    """Every call of an OpenAPI document: who may call, what comes back, and a command to try."""
    calls = []
    for path, methods in document["paths"].items():
        for method, call in methods.items():
            caller = call["x-caller"]
            command = f'curl -X {method.upper()} "$MOTET_URL{path}"'
            if caller in ("client", "operator"):
                command += " -H 'Authorization: Bearer TOKEN'"
            body = call.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
            if body is not None:
                command += f" -H 'Content-Type: application/json' \\\n  -d '{json.dumps(body)}'"
            title = f"<h2>{method.upper()} {escape(path)}</h2>"
            calls.append(f"{title}<p>{CALLERS[caller]} {escape(call['description'])}</p><pre>{escape(command)}</pre>")
    return HEAD.format(title="The HTTP calls") + DOCS.format(calls="".join(calls))


def facts(status: dict[str, Any]) -> dict[str, str]:
    """The public facts of a study's status, in words."""
    budget, version = status["budget"], status["version"]
    rows = {"policy": status["policy"], "release": str(version or "none yet")}
    due, refused = status["next_release"], status["refused"]
    rows["next release"] = f"none: {refused}" if due is None else utc(due)
    if budget is not None:
        rows["budget"] = f"ε = {budget['epsilon']:g}, δ = {budget['delta']:g} per {budget['per']}"
        each = budget["per"] == "client"
        planned = f"; each client is in at most {budget['releases']}" if each else f" of {budget['releases']} planned"
        by = " by a client in all that it may be in" if each else ""
        rows["releases"] = f"{budget['made']} made{planned}; ε spent {budget['spent']:.2f}{by}"
    if "settings" in status:  # an older server does not tell, nor that a release is withdrawn
        rows["settings"] = settings_words(status["settings"])
    if status.get("withdrawn"):
        rows["release"] = f"withdrawn, since it had data that were removed: {status['withdrawn']}"
    if refused and due is not None:
        rows["last attempt"] = f"no release: {refused}"
    return rows


def study_page(status: dict[str, Any]) -> str:
    """The page of a study; the public facts of its status are for a browser without scripts."""
    cells = "".join(f"<tr><th>{escape(key)}</th><td>{escape(value)}</td></tr>" for key, value in facts(status).items())
    return _template().substitute(name=escape(status["name"]), promise=PROMISES[status["policy"]], rows=cells)


@cache
def _template() -> Template:
    return Template((WEB / "index.html").read_text(encoding="utf-8"))


# --- scripts, styles and pictures ---


@dataclass(frozen=True)
class Asset:
    body: bytes
    media_type: str

    @cached_property
    def etag(self) -> str:
        return f'"{hashlib.sha256(self.body).hexdigest()[:32]}"'

    @cached_property
    def gzipped(self) -> bytes:
        return gzip.compress(self.body, mtime=0)


@cache
def assets() -> dict[str, Asset]:
    """The files of the page by their path, such as /web/page.js: these, and no others, are sent."""
    folders = {"/web": WEB, "/web/core": WEB / "core"}
    return {
        f"{path}/{file.name}": Asset(file.read_bytes(), MEDIA_TYPES[suffix])
        for path, folder in folders.items()
        for file in folder.iterdir()
        if (suffix := file.name.rpartition(".")[2]) in MEDIA_TYPES
    }
