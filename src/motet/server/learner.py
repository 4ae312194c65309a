"""What the publisher has learned: an engine, how far in the log it is, and the clients whom it had to leave out.

It holds nothing that the database does not: ``forget`` and it learns from zero. As long as a snapshot is held, removed
data stay in the database's files, so it reads in short ones.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress

from motet.arrays import slices
from motet.engine.admission import admit
from motet.engine.engine import Engine
from motet.errors import UnknownTask
from motet.store import examples
from motet.store.records import changed_since
from motet.store.store import Connection, Store
from motet.study.schema import MAX_BASIS_POINTS
from motet.study.study import Study
from motet.text import count

LOG = logging.getLogger("motet.publisher")
CLIENTS_PER_QUERY = 500


class Learner:
    """The engine of one study, brought up to date with its log; ``reached`` is told of the steps."""

    def __init__(self, store: Store, study: Study, *, reached: Callable[[str], None] = lambda _: None) -> None:
        self._store, self._study, self.reached = store, study, reached
        self.forget()

    def forget(self) -> None:
        """Hold nothing, as at the start."""
        self.engine, self.sequence = Engine(self._study.model), 0
        self.left_out: dict[str, str] = {}  # clients that the engine had to forget, and why
        self.has_read = False

    def read_ahead(self) -> None:
        """Learn nearly all that changed, in many snapshots, so that the one of ``catch_up`` has little to read."""
        with self._store.snapshot() as connection:
            newest, changed = changed_since(connection, self.sequence)
        for part in slices(len(changed), CLIENTS_PER_QUERY):
            with self._store.snapshot() as connection:
                self._relearn(connection, changed[part])
        self.sequence, self.has_read = newest, True
        self.reached("read ahead")

    def catch_up(self) -> None:
        """Bring the engine up to date with the log of this moment. Clients that were left out get another chance."""
        with self._store.snapshot() as connection:
            newest, changed = changed_since(connection, self.sequence)
            clients = list(dict.fromkeys([*changed, *self.left_out]))
            for part in slices(len(clients), CLIENTS_PER_QUERY):
                self._relearn(connection, clients[part])
        self.sequence = newest
        self.reached("caught up")

    def _relearn(self, connection: Connection, clients: list[str]) -> None:
        for client in clients:
            with suppress(UnknownTask):
                self.engine.forget(client)
        if rows := examples.of_clients(connection, clients):
            triples = examples.triples(rows, self._study.model, self._study.dimension)
            self.engine.learn_many([row.client for row in rows], *triples)

    def leave_out(self) -> None:
        """Take out of the engine whoever prevents a release. Logs have no ids: the operator is shown who it is."""
        before = self.left_out
        self.left_out = {str(client): why for client, why in admit(self.engine, max_inputs=MAX_BASIS_POINTS).items()}
        if self.left_out.keys() - before.keys():
            LOG.warning("%s left out: motet clients shows who and why", count(len(self.left_out), "client"))
