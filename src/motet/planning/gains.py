"""What each input tells of a pilot's outputs by itself, and which of them give an output away.

Outputs count by their ranks, which a logarithm of them has too, and of which no few large ones make up most. ``alone``
is the share of the ranks' variance that a column tells of clients of whom nothing else is known; ``beside`` is the
share of what a client's mean leaves that it tells of other rows of that client. Predictions are means of the nearest
rows among others, so a column need not be linear, nor rise.

A column that is another form of the output orders rows as it does, whoever's they are. One that is known beforehand
hardly does: clients differ. So a giveaway leaves next to nothing of the ranks, little of what a client's mean leaves
(a client's size at the beginning tells clients apart, but not the rows of one), and in what it leaves clients are alike
(on a smooth curve with little noise they are not).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
from scipy.stats import rankdata

from motet.arrays import Array, Index
from motet.errors import InvalidData
from motet.planning.baselines import beside_clients, boosted_trees, group_means
from motet.planning.evaluation import FOLDS, Split
from motet.tables.columns import Columns
from motet.tables.rows import Sample

NEARLY_ALL = 0.95  # of the ranks' variance: whether an input that tells it is known beforehand is asked
GIVEAWAY = 0.99  # the same, above which an input is left out unless it is named
MAX_LEVEL_SHARE = 0.5  # of what a giveaway leaves, that levels of clients tell
MAX_MEASURED_ROWS = 3000  # that gains are measured on
NEIGHBOURS = (2, 8, 32)  # rows that a prediction is the mean of; the number that is best is taken
MANY_COLUMNS, FEW_FOLDS = 100, 2  # so many columns are measured in fewer folds
ROWS_PER_LEAF = 20  # of trees that learn many rows; in few rows fewer
PART = 0.05  # of the variance, that an input has to have of what all tell together
QUESTION = "known when you predict?"

Predict: TypeAlias = Callable[[Split], Array]  # all ranks, from those that a split has learned


@dataclass(frozen=True)
class Gain:
    """Of one input: shares from 0 to 1; ``beside`` is None if no client has two rows.

    ``of_levels`` is the share of what the column leaves that a level of each client tells.
    """

    input: str
    alone: float
    beside: float | None = None
    of_levels: float = 0.0
    left_out: bool = False

    @property
    def is_giveaway(self) -> bool:
        beside = 1.0 if self.beside is None else self.beside
        return self.alone >= GIVEAWAY and beside >= NEARLY_ALL and self.of_levels < MAX_LEVEL_SHARE

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"input": self.input, "alone": self.alone, "beside_client_mean": self.beside, "left_out": self.left_out}

    def question(self, target: str) -> str:
        """What to ask of an input that tells nearly all; "" of any other."""
        tells = f"{self.input} alone tells {100 * self.alone:.3g} % of {target}"
        if self.left_out:
            return f"{tells}, so it is left out: is it {QUESTION} Then name it in inputs="
        return f"{tells}: is it {QUESTION} If not, leave it out of inputs=" if self.alone >= NEARLY_ALL else ""


@dataclass(frozen=True)
class Together:
    """The share that all inputs tell of clients of whom nothing else is known, and which of them have a part in that;
    none is named if it is not nearly all."""

    share: float
    inputs: tuple[str, ...]

    def question(self, target: str) -> str:
        """The same of several; "" if one alone tells as much."""
        if len(self.inputs) < 2:
            return ""
        return (
            f"{' and '.join(self.inputs)} together tell {100 * self.share:.3g} % of {target}: are they {QUESTION} If "
            "not, leave them out of inputs="
        )


def gains_of(clients: Sequence[str], columns: Columns, X: Array, y: Array) -> tuple[Gain, ...]:
    """Of every column of a pilot."""
    rows = _MeasuredRows.of(clients, columns, X, y)
    return tuple(
        rows.gain(column.name, rows.numbers[:, k], (0,) if column.values else NEIGHBOURS)
        for k, column in enumerate(columns)
    )


def without_inputs(columns: Sequence[str], file: str, target: str) -> InvalidData:
    """The refusal of a table all of whose inputs give the output away."""
    return InvalidData(
        f"{file}: no input is left beside {' and '.join(columns)}, which alone tells {target}: is it {QUESTION} Then "
        f'name it in inputs="{",".join(columns)}"; if not, add columns that are'
    )


def gain_together(clients: Sequence[str], columns: Columns, X: Array, y: Array) -> Together:
    """Of boosted trees on all inputs. An input has a part if trees that get its numbers in another order tell less."""
    rows = _MeasuredRows.of(clients, columns, X, y)
    trees = {}
    for split in rows.splits:
        learned = split.learned
        rows_each = min(ROWS_PER_LEAF, 1 + len(learned) // ROWS_PER_LEAF)
        trees[id(split)] = boosted_trees(rows.numbers[learned], rows.ranks[learned], rows_per_leaf=rows_each)

    def share(X: Array) -> float:
        left = rows.left(lambda split: trees[id(split)](X), attrgetter("new"))
        return _share(left, rows.left(rows.nothing, attrgetter("new")))

    total, parts = share(rows.numbers), [0.0] * len(columns)
    for k in range(len(parts)) if total >= NEARLY_ALL else ():
        X = rows.numbers.copy()
        X[:, k] = np.random.default_rng(k).permutation(X[:, k])
        parts[k] = total - share(X)
    return Together(total, tuple(one.name for one, part in zip(columns, parts) if part >= PART))


@dataclass(frozen=True, eq=False)
class _MeasuredRows:
    """Those that gains are measured on: numbers of clients, of inputs one for each column, and ranks of outputs."""

    client: Index
    numbers: Array
    ranks: Array
    splits: list[Split]

    @classmethod
    def of(cls, clients: Sequence[str], columns: Columns, X: Array, y: Array) -> _MeasuredRows:
        some = Sample.of(clients, X, max_rows=MAX_MEASURED_ROWS).rows
        client = np.unique(np.array(clients, dtype=object).astype(str)[some], return_inverse=True)[1]
        folds = FOLDS if len(columns) <= MANY_COLUMNS else FEW_FOLDS
        splits = [Split.of(client.tolist(), fold) for fold in range(folds)]
        numbers = columns.collapse(X[some])
        return cls(client, numbers, rankdata(y[some]), [split for split in splits if len(split.learned)])

    def gain(self, name: str, x: Array, sizes: Sequence[int]) -> Gain:
        """Of a column of numbers, predicted from so many nearest rows, the number that is best."""
        of_new, of_known = attrgetter("new"), attrgetter("held_out")
        alone = min(self.left(partial(self._by_column, x, size), of_new) for size in sizes)
        both, column = min(
            (
                self.left(partial(self._beside, x, size), of_known),
                self.left(partial(self._by_column, x, size), of_known),
            )
            for size in sizes
        )
        level = self.left(self._level, of_known)
        gain = Gain(name, _share(alone, self.left(self.nothing, of_new)))
        is_single = not any(len(split.held_out) for split in self.splits)
        return gain if is_single else replace(gain, beside=_share(both, level), of_levels=_share(both, column))

    def left(self, predict: Predict, where: Callable[[Split], Index]) -> float:
        """The squares that predictions leave, at the rows of every split."""
        return sum(float(((self.ranks - predict(split))[where(split)] ** 2).sum()) for split in self.splits)

    def nothing(self, split: Split) -> Array:
        return np.full(len(self.ranks), self.ranks[split.learned].mean())

    def _by_column(self, x: Array, size: int, split: Split) -> Array:
        return _nearest(x, split.learned, self.ranks[split.learned], size)

    def _level(self, split: Split) -> Array:
        learned = self.ranks[split.learned]
        return learned.mean() + group_means(self.client, split.learned, learned - learned.mean())

    def _beside(self, x: Array, size: int, split: Split) -> Array:
        """By a column and a level of each client."""
        column = partial(_nearest, x, split.learned, size=size)
        return beside_clients(column, partial(group_means, self.client, split.learned), self.ranks, split.learned)


def _share(after: float, before: float) -> float:
    return max(0.0, 1.0 - after / before) if before > 0 else 0.0


def _nearest(x: Array, learned: Index, values: Array, size: int) -> Array:
    """At all x the mean of the values at the ``size`` nearest of those learned, and at all that are equal to it."""
    order = np.argsort(x[learned], kind="stable")
    ordered, sums = x[learned][order], np.concatenate([[0.0], np.cumsum(values[order])])
    left, right = np.searchsorted(ordered, x, "left"), np.searchsorted(ordered, x, "right")
    low = np.clip(np.minimum(left, (left + right - size) // 2), 0, len(learned))
    high = np.clip(np.maximum(right, low + size), 0, len(learned))
    return np.where(high > low, (sums[high] - sums[low]) / np.maximum(high - low, 1), values.mean())
