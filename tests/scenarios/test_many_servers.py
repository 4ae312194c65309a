"""Many servers on one PostgreSQL: one truth, one publisher at a time, and every reader sees time go forward.

A history is recorded while clients send and readers download through any server; meanwhile servers and publishers are
killed and PostgreSQL is restarted.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import httpx
import numpy as np
import psycopg
import pytest

from motet.errors import InvalidStudy
from motet.server.processes.serve import serve
from motet.store.postgresql import PUBLISHER_LOCK
from motet.study.study import Study
from tests.postgres import Cluster
from tests.scenarios.harness import (
    CURVES,
    END,
    OPERATOR,
    START,
    Parts,
    Place,
    children,
    parts,
    poll,
    program,
    write_study,
)
from tests.scenarios.load import PAUSE_SECONDS, Worker
from tests.store.local_study import states

BASIS = '[basis]\nkind = "landmarks"\ngrid = { from = 0.0, to = 1.0, count = 4 }\n'
LIMITS = "bounds = [0.0, 1.0]\n[limits]\ny = [-10.0, 10.0]\nexamples_per_client = 2000\n"
EXACT = CURVES + LIMITS + BASIS + '[release]\npolicy = "exact"\nevery = "1s"\n'
PRIVATE = EXACT.replace('policy = "exact"', 'policy = "private"\nepsilon = 3.0\nreleases = 500')
HANDOVER_SECONDS = 30.0  # of a busy machine, for what takes one
NAMES = ("ann", "bob", "cem", "dora")


@dataclass
class History:
    """What clients were told, and when: seconds of one clock that never goes back."""

    acknowledged: dict[tuple[str, str], float] = field(default_factory=dict)  # when, by client and id
    reads: list[tuple[float, float, int]] = field(default_factory=list)  # begin, end, version


class Sender(Worker):
    """One client, whose every example goes through another server; one that is away is tried until it is back."""

    def __init__(self, places: list[Place], client: str, token: str, history: History) -> None:
        super().__init__()
        self._clients = [place.client(token) for place in places]
        self._client, self._history, self._sent = client, history, 0

    def __exit__(self, *what: object) -> None:
        super().__exit__(*what)  # type: ignore[arg-type]
        for client in self._clients:
            client.close()

    def step(self) -> None:
        id = str(self._sent)
        self._clients[self._sent % len(self._clients)].send([self._sent % 7 / 7], self._sent % 3, id=id)
        self._history.acknowledged[self._client, id] = time.time()
        self._sent += 1
        self._ending.wait(PAUSE_SECONDS)


class Reader(Worker):
    """Downloads now from this server and now from that one."""

    def __init__(self, places: list[Place], history: History, seed: int) -> None:
        super().__init__()
        self._places, self._history, self._rng = places, history, np.random.default_rng(seed)
        self._http = httpx.Client(timeout=END)

    def __exit__(self, *what: object) -> None:
        super().__exit__(*what)  # type: ignore[arg-type]
        self._http.close()

    def step(self) -> None:
        url = self._places[self._rng.integers(len(self._places))].url
        begin = time.monotonic()
        try:
            answer = self._http.get(f"{url}/v1/disclosed")
        except httpx.TransportError:
            self._ending.wait(0.05)
            return
        assert answer.status_code in (200, 404, 503), answer.text
        if answer.status_code == 200:
            self._history.reads.append((begin, time.monotonic(), int(answer.headers["ETag"].strip('"'))))
        self._ending.wait(0.01)


@contextmanager
def served(folder: Path, body: str, url: str, count: int) -> Iterator[list[Parts]]:
    """So many servers of one database, each with a publisher and an address of its own."""
    with ExitStack() as running:
        places = []
        for number in range(count):
            (folder / str(number)).mkdir()
            places.append(running.enter_context(parts(write_study(folder / str(number), body, database=url))))
        yield places


@pytest.mark.parametrize(("body", "count"), [(EXACT, 2), (PRIVATE, 4)], ids=["two, exact", "four, private"])
def test_a_history_of_many_servers(tmp_path: Path, postgres: Cluster, postgres_url: str, body: str, count: int) -> None:
    history = History()
    with served(tmp_path, body, postgres_url, count) as places, ExitStack() as working:
        first = places[0]
        with first.operator() as operator:
            people = operator.enroll(NAMES)
        for person in people:
            working.enter_context(Sender([*places], person.id, person.token, history))
        for seed in range(2):
            working.enter_context(Reader([*places], history, seed))
        elections = working.enter_context(Elections(postgres))
        wait_for_releases(first, 2)
        places[1].kill("server")
        wait_for_answers(history, 40)
        for place in places[:-1]:  # whichever of them was elected, the last one is now
            place.kill_for_good("publisher")
        handover = wait_for_releases(first, 1)
        postgres.restart()
        wait_for_answers(history, 40)
        wait_for_releases(first, 2)
        working.close()
        assert elections.most == 1
        assert handover < HANDOVER_SECONDS
        check_history(history, first)
        charged, made = (
            first.rows(f"select version from {table} order by version") for table in ("ledger", "releases")
        )
        assert charged == (made if body is PRIVATE else [])
        for place in places:
            with place.client() as anyone:
                assert anyone.disclosed().version >= len(made)
    assert "failed" not in states(Study.load(first.study)).values()


class Elections(Worker):
    """Watches how many publishers are elected."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self._cluster, self.most = cluster, 0

    def step(self) -> None:
        with suppress(psycopg.OperationalError):  # PostgreSQL is restarted meanwhile
            self.most = max(self.most, holders(self._cluster))
        self._ending.wait(0.02)


def test_a_publisher_that_is_stopped_is_replaced_and_stands_by_afterwards(tmp_path: Path, postgres_url: str) -> None:
    """A stopped process keeps its connection, so PostgreSQL ends it; and whoever continues is not elected any more."""
    with served(tmp_path, PRIVATE, postgres_url, 2) as places:
        stopped, other = places
        with stopped.operator() as operator:
            (ann,) = operator.enroll(["ann"])
        with stopped.client(ann.token) as me:
            me.send([0.5], 1.0)
        other.kill_for_good("publisher")  # so that the first one is elected
        wait_for_releases(stopped, 1)
        other.start("publisher")
        os.kill(stopped.processes["publisher"], signal.SIGSTOP)
        wait_for_releases(other, 3)
        os.kill(stopped.processes["publisher"], signal.SIGCONT)
        wait_for_releases(other, 3)
        charged, made = (
            other.rows(f"select version from {table} order by version") for table in ("ledger", "releases")
        )
        assert charged == made
    assert "failed" not in states(Study.load(other.study)).values()


def test_workers_share_an_address_their_metrics_and_their_end(tmp_path: Path, postgres_url: str) -> None:
    """``--workers``: one of them may die, and nobody notices for long."""
    study = write_study(tmp_path, EXACT, database=postgres_url)
    with program(study, "--workers", "2") as running:
        with running.operator() as operator:
            people = operator.enroll(NAMES)
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda k: send_one(running, people[k % 4].token, k), range(60)))
        headers = {"Authorization": f"Bearer {OPERATOR}"}
        for _ in range(6):  # whichever of them answers
            with httpx.Client(headers=headers, timeout=END) as http:
                assert 'motet_examples_total{outcome="accepted"} 60.0' in http.get(f"{running.url}/metrics").text
        workers = [child for child in children(running.process.pid) if b"\0worker\0" in command_line(child)]
        assert len(workers) == 2
        os.kill(workers[0], signal.SIGKILL)
        for k in range(60, 80):
            send_one(running, people[k % 4].token, k)
        poll(
            lambda: sum(b"\0worker\0" in command_line(child) for child in children(running.process.pid)) == 2,
            START,
            "another worker",
        )
        assert running.rows("select count(*) from examples") == [(80,)]


def send_one(place: Place, token: str, number: int) -> None:
    """On a connection of its own."""
    with place.client(token) as me:
        me.send([number % 10 / 10], 1.0, id=str(number))


def command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def test_a_database_file_takes_one_process(tmp_path: Path) -> None:
    study = write_study(tmp_path, EXACT)
    with pytest.raises(InvalidStudy, match=r"workers= must be 1, got 2: a database file takes one server process"):
        serve(study, workers=2, show_token=lambda _: None, show_ready=lambda _: None)
    assert not study.with_suffix(".db").exists()


def wait_for_answers(history: History, more: int) -> None:
    enough = len(history.acknowledged) + more
    poll(lambda: len(history.acknowledged) >= enough, END, f"{more} more answers")


def check_history(history: History, place: Place) -> None:
    """Acknowledged examples are stored once and are in every later release; no reader went back in time."""
    rows = place.rows("select client, id, sequence from examples where x is not null")
    numbers = {(client, id): number for client, id, number in rows}
    assert len(rows) == len(numbers)
    assert history.acknowledged.keys() <= numbers.keys()
    releases = place.rows("select version, sequence, made from releases order by version")
    assert [version for version, *_ in releases] == list(range(1, len(releases) + 1))
    for (_, _, made), (_, sequence, _) in pairwise(releases):  # the next began after this one was made
        late = [key for key, told in history.acknowledged.items() if told < made and numbers[key] > sequence]
        assert late == []
    newest = 0
    ends = iter(sorted((end, version) for _, end, version in history.reads))
    end, version = next(ends)
    for begin, _, seen in sorted(history.reads):
        while end < begin:
            newest = max(newest, version)
            end, version = next(ends, (float("inf"), 0))
        assert seen >= newest, "a reader got an older release than somebody before"


def holders(cluster: Cluster) -> int:
    query = (
        f"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objid = {PUBLISHER_LOCK % 2**32}"
    )
    return int(str(cluster.execute(query)[0][0]))


def versions(place: Place) -> int:
    return int(place.rows("select coalesce(max(version), 0) from releases")[0][0])


def wait_for_releases(place: Place, more: int) -> float:
    """Seconds until there are so many more."""
    begin, before = time.monotonic(), versions(place)
    poll(lambda: versions(place) >= before + more, END, f"{more} more releases")
    return time.monotonic() - begin
