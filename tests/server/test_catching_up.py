"""The publisher reads in short snapshots, and its engine is still the database at one moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from motet.server import learner
from motet.store import clients, examples
from motet.store.store import Connection
from tests.store.local_study import EXACT, local_study, states


def test_a_catch_up_holds_no_snapshot_for_long_and_misses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner, "CLIENTS_PER_QUERY", 2)
    with local_study(tmp_path, EXACT) as study:
        more = study.enroll(*map(str, range(7)))
        for client in more:
            study.add(client, (0.1, 0.2), (0.3, 0.4))
        snapshot, of_clients = study.store.snapshot, examples.of_clients
        reads: list[int] = []  # clients in each snapshot
        changes: list[Callable[[Connection], object]] = [
            partial(clients.forget, client=more[1]),
            partial(examples.replace, client=more[0], example=examples.Example("0", bytes(8), 3.0, 1.0)),
        ]

        @contextmanager
        def counted() -> Iterator[Connection]:
            reads.append(0)
            with snapshot() as connection:
                yield connection

        def read(connection: Connection, some: list[str]) -> object:
            reads[-1] += len(some)
            rows = of_clients(connection, some)
            if len(reads) > 4 and changes:  # others write meanwhile
                with study.store.transaction() as other:
                    changes.pop()(other)
            return rows

        monkeypatch.setattr(study.store, "snapshot", counted)
        monkeypatch.setattr(examples, "of_clients", read)
        assert study.release() == [1]
        assert max(reads) == 2
        assert sum(reads) == 12  # and two of them twice
        monkeypatch.undo()
        assert states(study) == {}
