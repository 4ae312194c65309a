"""The study and its release, and the interface, as plain pages; nothing on them comes from elsewhere."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from motet.text import utc

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{name}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 40rem; margin: 3rem auto; padding: 0 1rem }}
th {{ text-align: left; padding-right: 2rem; font-weight: 600; vertical-align: top }}</style></head>
<body><h1>{name}</h1><p>{promise}</p><table>{rows}</table>
<p><a href="/v1/disclosed">The release</a> · <a href="/v1/study">The study</a> · <a href="/docs">The interface</a></p>
</body></html>
"""
PROMISES = {
    "private": "Releases are differentially private: they tell next to nothing of any one client.",
    "exact": "Releases are <strong>exact</strong>: whoever downloads two of them can rebuild what a client sent in "
    "between. This study is for parties who trust each other.",
}


CALLS = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>The interface</title>
<style>body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem; margin: 3rem auto; padding: 0 1rem }}
pre {{ background: #f4f4f4; padding: .7rem; overflow-x: auto }}</style></head>
<body><h1>The interface</h1><p>As a document: <a href="/openapi.json">openapi.json</a>. TOKEN is a client's or the
operator's.</p>{calls}</body></html>
"""


def interface_page(document: dict[str, Any], url: str) -> str:
    """Every call with a command to try."""
    calls = []
    for path, methods in document["paths"].items():
        for method, call in methods.items():
            command = f"curl -X {method.upper()} {url}{path} -H 'Authorization: Bearer TOKEN'"
            body = call.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
            if body is not None:
                command += f" -H 'Content-Type: application/json' \\\n  -d '{json.dumps(body)}'"
            about = escape(call.get("description", call["summary"]))
            title = f"<h2>{method.upper()} {escape(path)}</h2>"
            calls.append(f"{title}<p>{about}</p><pre>{escape(command)}</pre>")
    return CALLS.format(calls="".join(calls))


def facts(status: dict[str, Any]) -> dict[str, str]:
    """What anyone may know of a study, in words."""
    rows = {"policy": status["policy"], "release": str(status["version"] or "none yet")}
    rows["next release"] = utc(status["next_release"])
    if (budget := status["budget"]) is not None:
        rows["budget"] = f"ε = {budget['epsilon']:g}, δ = {budget['delta']:g} per {budget['per']}"
        rows["releases"] = f"{budget['made']} made of {budget['releases']} planned; ε spent {budget['spent']:.2f}"
    if status["refused"]:
        rows["refused"] = status["refused"]
    return rows


def page(status: dict[str, Any]) -> str:
    """The same for a browser."""
    cells = "".join(f"<tr><th>{escape(key)}</th><td>{escape(value)}</td></tr>" for key, value in facts(status).items())
    return PAGE.format(name=escape(status["name"]), promise=PROMISES[status["policy"]], rows=cells)
