"""Removals over HTTP: 200 means that the bytes are gone, 202 that they will be."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from motet import Client
from motet.store import scrubber
from tests.scenarios.harness import END, poll
from tests.server.world import EXACT, World, world

SECRETS = [1.2345678, 2.3456789, 3.4567891]


@pytest.fixture
def exact(tmp_path: Path) -> Iterator[World]:
    yield from world(tmp_path, EXACT)


@contextmanager
def reader(folder: Path) -> Iterator[None]:
    """Another program that reads the database as it is now."""
    connection = sqlite3.connect(folder / "study.db", isolation_level=None)
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM examples").fetchone()
    yield
    connection.close()


def on_disk(folder: Path) -> list[float]:
    data = b"".join((folder / name).read_bytes() for name in ("study.db", "study.db-wal"))
    return [y for y in SECRETS if struct.pack(">d", y) in data]


def test_200_if_the_bytes_are_gone_and_202_if_something_reads_them(
    exact: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrubber, "MAX_WAIT_SECONDS", END)
    examples = [{"id": str(k), "x": [0.5], "y": y} for k, y in enumerate(SECRETS)]
    assert exact.call("POST", "/v1/examples", "own", json={"examples": examples}).status_code == 200
    gone = exact.call("DELETE", "/v1/me/examples/0", "own")
    assert (gone.status_code, gone.json()) == (200, {"id": "0", "erased": True})
    assert on_disk(tmp_path) == SECRETS[1:]
    with reader(tmp_path), monkeypatch.context() as impatient:
        impatient.setattr(scrubber, "MAX_WAIT_SECONDS", 0.5)
        later = exact.call("PUT", "/v1/me/examples/1", "own", json={"x": [0.5], "y": 1.0})
        assert (later.status_code, later.json()["erased"]) == (202, False)
        assert "when no program reads the old ones" in later.json()["note"]
        with Client(str(exact.http.base_url), exact.tokens["own"]) as me:
            assert me.remove("2") is False
        assert on_disk(tmp_path) == SECRETS[1:]
        sent = exact.call("POST", "/v1/examples", "another", json={"examples": examples[:1]})
        assert sent.status_code == 200  # nobody else waits for the reader
    poll(lambda: on_disk(tmp_path) == SECRETS[:1], END, "what is removed leaves the disk")
    with Client(str(exact.http.base_url), exact.tokens["another"]) as other:
        assert other.replace("0", [0.5], 2.0) is True
        assert other.forget_me() is True
    assert on_disk(tmp_path) == []


def test_both_answers_are_documented(exact: World) -> None:
    paths = exact.call("GET", "/openapi.json").json()["paths"]
    for path, method in (("/v1/me/examples/{id}", "put"), ("/v1/me/examples/{id}", "delete"), ("/v1/me", "delete")):
        assert {"200", "202"} <= paths[path][method]["responses"].keys()
