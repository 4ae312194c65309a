"""The cells of a table: rows of known tasks, and new tasks with 0, 1, 2 and 5 rows of their own, all of one split.

A share of the tasks is new. Of the others a share of the rows is held out, and what is left is learned, once for all
cells. A new task's rows come in random order: the first are those that it may bring, the others, always the same, are
predicted. Needs numpy alone, as the inner cross-validation of the peers has the same splits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from motet.arrays import Index

KNOWN = -1  # in place of the number of own rows
OWN_ROWS = (0, 1, 2, 5)
NEW_TASKS, HELD_OUT = 0.25, 0.2
LONG_ENOUGH = 0.6  # of the tasks have more rows than a new one may bring


def situation(own: int) -> str:
    return "known" if own == KNOWN else f"new, {own}"


@dataclass(frozen=True, eq=False)
class Split:
    """Rows to learn, held out of known tasks, to predict in new tasks, and that these bring, if so many of each."""

    train: Index
    known: Index
    new: Index
    own: dict[int, Index]

    @property
    def cells(self) -> tuple[int, ...]:
        return (KNOWN, *self.own)

    def test(self, cell: int) -> Index:
        return self.known if cell == KNOWN else self.new


def own_rows(task: Index) -> tuple[int, ...]:
    """The numbers of own rows that enough tasks have, and one more to predict."""
    _, counts = np.unique(task, return_counts=True)
    return tuple(count for count in OWN_ROWS if np.mean(counts > count) >= LONG_ENOUGH)


def split(task: Index, seed: int) -> Split:
    rng = np.random.default_rng(seed)
    tasks = rng.permutation(np.unique(task))
    return split_at(task, tasks[: max(2, round(NEW_TASKS * len(tasks)))], rng, own_rows(task))


def split_at(task: Index, new_tasks: Index, rng: np.random.Generator, counts: Sequence[int]) -> Split:
    """The split in which these tasks are new."""
    order = rng.permutation(len(task))
    is_new = np.isin(task[order], new_tasks)
    held_out, train = np.split(order[~is_new], [round(HELD_OUT * np.sum(~is_new))])
    by_task = [order[is_new & (task[order] == j)] for j in new_tasks]
    most = max(counts)
    own = {count: np.concatenate([rows[:count] for rows in by_task if len(rows) > most]) for count in counts}
    new = np.concatenate([rows[most:] for rows in by_task if len(rows) > most])
    return Split(np.sort(train), np.sort(held_out[np.isin(task[held_out], task[train])]), new, own)
