"""Some rows of a large table, for what takes long on all of them: a function of the rows and of nothing else.

A search for settings costs the cube of the number of different inputs, and an evaluation the rows of its clients. Each
is made on rows of random clients; a search also on random items, as often chosen as they are in rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from motet.arrays import Array, Index, distinct
from motet.text import count


@dataclass(frozen=True, eq=False)
class Sample:
    """The places of the ``rows``, and the words for how many they are."""

    rows: Index
    about: str = ""

    @classmethod
    def of(cls, clients: Sequence[str], X: Array, *, max_rows: int, max_items: int | None = None) -> Sample:
        """At most about ``max_rows``, on at most ``max_items`` different inputs if these are items; all, if few."""
        item = None if max_items is None else distinct(X)[1]
        items = 0 if item is None else int(item.max(initial=-1)) + 1
        if len(X) <= max_rows and (max_items is None or items <= max_items):
            return cls(np.arange(len(X)))
        rng = np.random.default_rng(0)
        labels, client = np.unique(np.array(clients, dtype=object).astype(str), return_inverse=True)
        order, is_chosen = rng.permutation(len(labels)), np.full(len(X), True)
        if item is not None and max_items is not None:
            at_random = item[rng.permutation(len(item))]
            firsts = np.sort(np.unique(at_random, return_index=True)[1])
            is_chosen = np.isin(item, at_random[firsts[:max_items]])
        total = np.cumsum(np.bincount(client[is_chosen], minlength=len(labels))[order])
        some = order[: max(1, int(np.searchsorted(total, max_rows)))]
        rows = np.flatnonzero(is_chosen & np.isin(client, some))
        parts = [f"{count(len(rows), 'row')} of {count(len(np.unique(client[rows])), 'client')}"]
        if item is not None:
            parts.append(f"{len(np.unique(item[rows])):,} of {count(items, 'item')}")
        return cls(rows, " and ".join(parts))
