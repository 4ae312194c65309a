"""Rows of a large table on which a search is made: bounded, at random, and a function of the rows alone."""

from __future__ import annotations

import re

import numpy as np

from motet.tables.rows import Sample


def ratings(rows: int = 9000, clients: int = 300, items: int = 2000) -> tuple[list[str], np.ndarray]:
    rng = np.random.default_rng(0)
    popularity = 1.0 / (np.arange(items) + 5.0)
    item = rng.choice(items, size=rows, p=popularity / popularity.sum())
    return [f"c{k}" for k in rng.integers(0, clients, rows)], item[:, None].astype(float)


def test_all_rows_of_a_small_table() -> None:
    clients, X = ratings(500)
    sample = Sample.of(clients, X, max_rows=1000, max_items=2000)
    assert sample.rows.tolist() == list(range(500))
    assert sample.about == ""


def test_rows_of_whole_clients_up_to_a_number() -> None:
    clients, X = ratings()
    sample = Sample.of(clients, X, max_rows=2000)
    chosen = {clients[k] for k in sample.rows}
    assert 1800 < len(sample.rows) <= 2000
    assert sample.rows.tolist() == [k for k, client in enumerate(clients) if client in chosen]


def test_rows_on_some_items_as_often_as_they_are_there() -> None:
    clients, X = ratings()
    sample = Sample.of(clients, X, max_rows=2000, max_items=100)
    items = np.unique(X[sample.rows])
    assert len(items) <= 100
    assert 1500 < len(sample.rows) <= 2000
    assert np.median(items) < np.median(np.unique(X)) / 2  # items of many rows come first
    assert re.fullmatch(rf"{len(sample.rows)} rows of \d+ clients and {len(items)} of \d+ items", sample.about)


def test_the_order_of_other_runs_does_not_matter() -> None:
    clients, X = ratings()
    first, again = (Sample.of(clients, X, max_rows=2000, max_items=100).rows.tolist() for _ in range(2))
    assert first == again
