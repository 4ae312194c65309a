"""``python -m benchmarks.sizes``: what a study takes on disk, over the wire and in memory, and how long a fold lasts.

The bytes are the same on every machine; memory is nearly so, and seconds are this machine's.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import psutil

from motet import Catalogue, Client, Eigen, Engine, Landmarks, Model
from motet.kernels import RBF
from motet.music import simulation as music
from motet.music.hosting import running_server
from motet.server.publisher import Publisher
from motet.store import examples
from motet.store.clients import enroll
from motet.store.pins import pin
from motet.store.store import Store
from motet.study.study import Study

EACH = 5  # examples of a client
AT_ONCE = 500  # clients in a transaction
RELEASES = 8  # until memory is looked at
STUDY = """
[study]
name = "Sizes"
[model]
alpha = 0.5
lam = 0.1
sigma2 = 1.0
common = {{ kernel = "rbf", length_scale = 0.3 }}
individual = {{ kernel = "rbf", length_scale = 0.5 }}
[inputs]
dimension = 1
bounds = [0.0, 1.0]
[basis]
kind = "landmarks"
grid = {{ from = 0.0, to = 1.0, count = 25 }}
[limits]
y = [-10.0, 10.0]
[release]
policy = "exact"
every = "1s"
[server]
port = {port}
"""


# --- releases ---


def bases() -> Iterator[tuple[str, Model]]:
    """Models of the how-tos, and what their releases are called."""
    artists = music.artists()
    taste = music.model(artists, alpha=0.1, lam=1e-3)
    times = Landmarks(np.linspace(0, 24, 25)[:, None])
    yield "grid of 25 times", Model(RBF(4.0), RBF(6.0), 0.9, 0.01, basis=times)
    for rank in (20, 40, 80):
        yield f"489 items of 19 features, rank {rank}", replace(taste, basis=Eigen(artists, rank))
    yield "489 items of 19 features, growing", taste
    names = Catalogue([f"item {k}" for k in range(2000)], np.random.default_rng(0).normal(size=(2000, 20)))
    yield "2,000 items of 20 features, rank 80", replace(taste, catalogue=names, basis=Eigen(names, 80))


def released(model: Model) -> int:
    """Bytes of a release that has seen every input."""
    engine = Engine(model)
    rows = model.catalogue.rows if model.catalogue is not None else np.linspace(0, 24, 25)[:, None]
    engine.learn_many([0] * len(rows), rows, np.zeros(len(rows)))
    return len(engine.disclose().to_bytes())


# --- the database, and the processes on it ---


def fill(store: Store, study: Study, clients: int) -> None:
    """Clients with examples whose ids are as the SDK makes them."""
    rng = np.random.default_rng(0)
    for begin in range(0, clients, AT_ONCE):
        names = [f"client {k}" for k in range(begin, min(begin + AT_ONCE, clients))]
        with store.transaction() as connection:
            for client in enroll(connection, names):
                rows = examples.to_bytes(study.model, rng.uniform(size=(EACH, 1)))
                new = [
                    examples.Example(uuid.uuid4().hex, x, float(y), 1.0) for x, y in zip(rows, rng.normal(size=EACH))
                ]
                examples.add(connection, examples.Addition(client.id, list(zip(*new)), EACH))
    assert store.scrub().result(60)


def folded(store: Store, study: Study) -> tuple[float, float]:
    """Seconds of a fold from zero, and of the release behind it."""
    publisher = Publisher(store, study, clock=lambda: time.time() + 2)
    begin = time.perf_counter()
    publisher.learner.catch_up()
    middle = time.perf_counter()
    assert publisher.tick() is not None
    return middle - begin, time.perf_counter() - middle


def memory(study: Path) -> tuple[int, int]:
    """Bytes that the server and its publisher hold once they have released."""

    def write(port: int) -> Path:
        study.write_text(STUDY.format(port=port), encoding="utf-8")
        return study

    with running_server(write, range(8000, 9000), "the-operators-token") as begun, Client(begun.url) as anyone:
        server = next(p for p in psutil.Process().children(recursive=True) if "serve" in p.cmdline())
        (publisher,) = server.children()
        for _ in islice(anyone.releases(), RELEASES):
            pass
        return server.memory_info().rss, publisher.memory_info().rss


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.sizes", description="What a study takes.")
    parser.add_argument("--clients", type=int, nargs="+", default=[2_000, 20_000], help=f"with {EACH} examples each")
    chosen = parser.parse_args()
    for name, model in bases():
        print(f"release, {name}: {released(model) / 1e3:,.0f} kB")
    for clients in chosen.clients:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "study.toml"
            path.write_text(STUDY.format(port=8000), encoding="utf-8")
            study = Study.load(path)
            with closing(Store(study.store_url)) as store:
                pin(store, study, now=time.time())
                fill(store, study, clients)
                size = path.with_suffix(".db").stat().st_size
                fold, release = folded(store, study)
            server, publisher = memory(path)
        print(
            f"{clients:,} clients × {EACH} examples: {size / clients / EACH:,.0f} bytes of database an example, "
            f"fold {fold:.2f} s, release {release:.2f} s, "
            f"server {server / 2**20:,.0f} MiB, publisher {publisher / 2**20:,.0f} MiB"
        )


if __name__ == "__main__":
    main()
