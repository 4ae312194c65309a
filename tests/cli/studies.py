"""Two studies that tests of commands share: curves without noise, whose server takes small requests only, and a
private catalogue, whose releases are for its clients; and a server that gives everybody the same.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from motet.client.client import Enrolled
from tests.cli.program import Run, motet, table
from tests.scenarios.harness import CURVES, END, Place, parts, poll, write_study

EXACT = f"""{CURVES}
[limits]
y = [-10.0, 10.0]
examples_per_client = 100
[release]
policy = "exact"
every = "1d"
"""
PRIVATE = """
[model]
alpha = 0.3
lam = 0.2
sigma2 = 1.0
common = { kernel = "rbf", length_scale = 0.8 }
individual = { kernel = "dot_product", sigma_0 = 0.5 }
[inputs]
catalogue = "items.csv"
[basis]
kind = "eigen"
rank = 3
[limits]
y = [-10.0, 10.0]
[release]
policy = "private"
every = "1s"
epsilon = 3.0
releases = 1
"""
ITEMS = ["apple", "fig", "pear, green", "plum", "quince"]
CLIENTS = ("ann", "bea", "cem", "dora", "eve", "fay", "gus")


@dataclass
class Studies:
    curves: Place
    items: Place
    clients: dict[str, Enrolled]  # of the curves
    guest: str  # a token of the items'
    early: dict[str, Run]  # what was answered before the first release


@contextmanager
def served_studies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studies]:
    places = {name: tmp_path_factory.mktemp(name) for name in ("curves", "items")}
    rows = [f'"{name}",{k / 4},{(k * k) % 3}' for k, name in enumerate(ITEMS)]
    table(places["items"] / "items.csv", "\n".join(["name,a,b", *rows]))
    files = {name: write_study(places[name], body) for name, body in (("curves", EXACT), ("items", PRIVATE))}
    for name, more in (("curves", "max_body = 2000"), ("items", 'download = "clients"')):
        files[name].write_text(files[name].read_text(encoding="utf-8") + more + "\n", encoding="utf-8")
    with ExitStack() as stack:
        curves, items = (stack.enter_context(parts(files[name])) for name in ("curves", "items"))
        early = {name: motet(curves, *arguments) for name, arguments in _early(tmp_path_factory, curves).items()}
        wait(early.values())
        with curves.operator() as operator, items.operator() as other:
            (guest,) = other.enroll(["guest"])
            clients = {client.name: client for client in operator.enroll(CLIENTS)}
            _teach(curves, clients["dora"], 1.0)
            _teach(curves, clients["eve"], -1.0)
            operator.release_now()
            poll(lambda: other.study()["version"], END, "a private release")
        yield Studies(curves, items, clients, guest.token, early)


def _early(factory: pytest.TempPathFactory, curves: Place) -> dict[str, tuple[object, ...]]:
    own = table(factory.mktemp("early") / "own.csv", "x,y\n1,2\n")
    return {"predict": ("predict", own, "--own", own), "download": ("download",), "audit": ("audit", curves.url)}


def _teach(curves: Place, who: Enrolled, sign: float) -> None:
    x = np.linspace(0.0, 2.0, 7)
    with curves.client(who.token) as client:
        client.send_many(x[:, None], np.sin(3 * x) + sign * 0.3 * x)


@contextmanager
def answering(data: bytes, study: bytes | None = None) -> Iterator[tuple[str, list[tuple[str | None, ...]]]]:
    """The address of a server that gives the same to everybody, and what it was asked; ``study`` is another answer,
    if it is asked for the study."""
    requests: list[tuple[str | None, ...]] = []

    class Recorder(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append((self.command, self.path, self.headers["Authorization"], self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(study if study is not None and self.path == "/v1/study" else data)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Recorder) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", requests
        finally:
            server.shutdown()
