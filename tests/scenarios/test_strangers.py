"""``motet serve`` beside strangers who hold a thousand connections and send half a request on each."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.scenarios.harness import CURVES, END, OPERATOR, program, write_study

EXACT = CURVES + '[release]\npolicy = "exact"\nevery = "1h"\n'
STRANGERS = 1100
USUAL_DESCRIPTORS = 1024


@contextmanager
def descriptors(soft: int) -> Iterator[None]:
    """So many open files for this process, and for those that it starts."""
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))


def test_a_thousand_half_requests_keep_nobody_waiting(tmp_path: Path) -> None:
    study = write_study(tmp_path, EXACT)
    with ExitStack() as held:
        with descriptors(USUAL_DESCRIPTORS):
            served = held.enter_context(program(study))
        port = int(served.url.rpartition(":")[2])
        held.enter_context(descriptors(2 * USUAL_DESCRIPTORS))
        for _ in range(STRANGERS):
            connection = held.enter_context(socket.create_connection(("127.0.0.1", port), END))
            connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX: ")
        with served.client(OPERATOR) as operator:  # a new connection
            (ann,) = operator.enroll(["ann"])
        with served.client(ann.token) as me:
            assert me.send([0.5], 1.0).count == 1
        assert len(served.log()) < 20_000
