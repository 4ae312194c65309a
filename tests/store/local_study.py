"""A study with its database and a publisher whose clock we turn, in this process."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import NullPool, create_engine, text

from motet.privacy.ledger import Perturbation, opendp_noise
from motet.server.publisher import Publisher
from motet.store.clients import enroll
from motet.store.examples import Example, add
from motet.store.pins import pin
from motet.store.store import Store
from motet.store.verify import verify
from motet.study.study import Study
from tests.store.empty_store import addition

BEGIN, EVERY = 1_000_000.0, 10.0  # seconds
EXACT = """
[study]
name = "Growth"
[model]
alpha = 0.5
lam = 0.1
common = { kernel = "rbf", length_scale = 1.0 }
individual = { kernel = "dot_product", sigma_0 = 1.0 }
[inputs]
dimension = 1
[limits]
y = [-10.0, 10.0]
[release]
policy = "exact"
every = "10s"
"""
GRID = '[basis]\nkind = "landmarks"\ngrid = { from = -2.0, to = 2.0, count = 5 }\n'
FIXED = EXACT + GRID
PRIVATE = FIXED.replace("lam = 0.1", "lam = 0.1\nsigma2 = 1.0").replace(
    'policy = "exact"', 'policy = "private"\nepsilon = 3.0\nreleases = 6'
)
ZEROBLOB = """CREATE OR REPLACE FUNCTION zeroblob(size bigint) RETURNS bytea
LANGUAGE sql AS $$ SELECT decode(repeat('00', size::integer), 'hex') $$"""  # SQLite's
PER_CLIENT = PRIVATE.replace("releases = 6", 'releases = 3\nper = "client"')


class LocalStudy:
    """``now`` is what the clock says."""

    def __init__(self, path: Path, *, begun: bool = True, noise: Perturbation = opendp_noise) -> None:
        self.study = Study.load(path)
        self.store = Store(self.study.store_url)
        self.now = BEGIN
        if begun:
            pin(self.store, self.study, now=self.now)
        self.publisher = Publisher(self.store, self.study, clock=lambda: self.now, noise=noise)

    def enroll(self, *names: str) -> list[str]:
        with self.store.transaction() as connection:
            return [client.id for client in enroll(connection, names)]

    def add(self, client: str, *examples: tuple[float, float], first: int = 0) -> None:
        """Examples x, y, with their number as id."""
        new = [Example(str(first + k), struct.pack("<d", x), y, 1.0) for k, (x, y) in enumerate(examples)]
        with self.store.transaction() as connection:
            add(connection, addition(client, new, 500))

    def do(self, command: Any, *arguments: Any) -> None:
        with self.store.transaction() as connection:
            command(connection, *arguments)
        assert self.store.scrub().result(60)

    def release(self, times: int = 1) -> list[int | None]:
        """What the next scheduled times bring."""
        made = []
        for _ in range(times):
            self.now += self.study.release.seconds
            made.append(self.publisher.tick())
        return made

    def execute(self, statement: str, **values: Any) -> None:
        """Behind everybody's back, and whatever refers to what."""
        engine = create_engine(self.study.store_url, poolclass=NullPool)
        with engine.connect() as database:
            if database.dialect.name == "postgresql":
                database.exec_driver_sql("SET session_replication_role = replica")
                database.exec_driver_sql(ZEROBLOB)
            if values:
                database.execute(text(statement), values)
            else:
                database.exec_driver_sql(statement)
            database.commit()


@contextmanager
def local_study(folder: Path, body: str, **how: Any) -> Iterator[LocalStudy]:
    """A study file in a folder, with ann, bob and cleo, who have sent two examples each."""
    path = folder / "study.toml"
    path.write_text(body, encoding="utf-8")
    study = LocalStudy(path, **how)
    for k, client in enumerate(study.enroll("ann", "bob", "cleo")):
        study.add(client, (0.5 * k, 1.0), (-1.0, 0.5 * k))
    try:
        yield study
    finally:
        study.store.close()


def reopened(path: Path, now: float) -> LocalStudy:
    """A study that is there already, at a time."""
    study = LocalStudy(path, begun=False)
    study.now = now
    return study


@contextmanager
def silent(_: int) -> Iterator[Callable[[int], None]]:
    yield lambda _: None


def states(study: LocalStudy | Study) -> dict[str, str]:
    """Checks that are not ok."""
    checks = verify(study if isinstance(study, Study) else study.study, silent)
    return {check.name: check.state for check in checks if check.state != "ok"}
