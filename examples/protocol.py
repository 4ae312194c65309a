"""The same trial for every learner: held-out rows of known tasks, and new tasks with a few rows of their own.

Known tasks: a quarter of all rows is held out, several times. New tasks: each task is new once, in folds; of its rows
in random order the first 0, 1, 2 and 5 are learned, and the others, always the same, are predicted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from threadpoolctl import threadpool_limits

from examples.peers import Learner
from examples.rows import Rows
from motet.arrays import Array, Index

KNOWN = "known tasks"
OWN_ROWS = (0, 1, 2, 5)
BAND = 1.6448536269514722  # standard deviations to either side of the mean that hold 90 %


def situation(own: int) -> str:
    """The name of the trial of new tasks with so many rows of their own."""
    return f"new, {own} row{'s' if own != 1 else ''}"


@dataclass
class Scores:
    """Of one learner in one situation: of every predicted row its task, error and standard deviation."""

    task: list[Index] = field(default_factory=list)
    error: list[Array] = field(default_factory=list)
    std: list[Array] = field(default_factory=list)

    def add(self, rows: Rows, mean: Array, std: Array) -> None:
        self.task.append(rows.task)
        self.error.append(rows.y - mean)
        self.std.append(std)

    @property
    def squared_error(self) -> Array:
        return np.concatenate(self.error) ** 2

    @property
    def log_loss(self) -> Array:
        """−log of the normal density at each output."""
        std = np.concatenate(self.std)
        return np.asarray(0.5 * np.log(2 * np.pi * std**2) + 0.5 * self.squared_error / std**2)

    @property
    def rmse(self) -> float:
        return float(np.sqrt(self.squared_error.mean()))

    @property
    def nlpd(self) -> float:
        return float(self.log_loss.mean())

    @property
    def coverage(self) -> float:
        """The share of outputs in their 90 % bands."""
        return float(np.mean(np.abs(np.concatenate(self.error)) <= BAND * np.concatenate(self.std)))


@dataclass
class Trial:
    """All scores by learner and situation, and seconds of the processor that a fit with its settings takes."""

    scores: dict[tuple[str, str], Scores] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for name, _ in self.scores))

    @property
    def situations(self) -> list[str]:
        return list(dict.fromkeys(where for _, where in self.scores))

    def tune(self, learner: Learner, rows: Rows) -> None:
        begin = time.process_time()
        learner.tune(rows)
        self.seconds.setdefault(learner.name, []).append(time.process_time() - begin)

    def predict(self, learner: Learner, where: str, rows: Rows) -> None:
        self.scores.setdefault((learner.name, where), Scores()).add(rows, *learner.predict(rows.X, rows.task))

    def gap(self, ours: str, peer: str, where: str, measure: str) -> tuple[float, float]:
        """How much larger our loss is than a peer's, and the standard error of that over tasks."""
        mine, other = self.scores[ours, where], self.scores[peer, where]
        difference = getattr(mine, measure) - getattr(other, measure)
        _, task = np.unique(np.concatenate(mine.task), return_inverse=True)
        sums, counts = np.bincount(task, difference), np.bincount(task)
        mean = float(difference.mean())
        return mean, float(np.sqrt(np.sum((sums - mean * counts) ** 2)) / len(difference))


@threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]
def run(rows: Rows, learners: Sequence[Learner], *, seeds: int = 5, folds: int = 6) -> Trial:
    """Every learner in every situation, on one thread: small matrices only lose by more."""
    trial = Trial()
    for train, test in known_splits(rows, seeds):
        for learner in learners:
            trial.tune(learner, rows.take(train))
            trial.predict(learner, KNOWN, rows.take(test))
    for train, own, test in new_splits(rows, folds):
        for learner in learners:
            trial.tune(learner, rows.take(train))
            for count in OWN_ROWS:
                if count:
                    learner.learn(rows.take(np.concatenate([of_task[:count] for of_task in own])))
                trial.predict(learner, situation(count), rows.take(test))
    return trial


def known_splits(rows: Rows, seeds: int) -> Iterator[tuple[Index, Index]]:
    """Rows to learn and rows to predict, a quarter, of tasks that have rows in the first."""
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(rows))
        test, train = np.split(order, [len(rows) // 4])
        yield np.sort(train), np.sort(test[np.isin(rows.task[test], rows.task[train])])


def new_splits(rows: Rows, folds: int) -> Iterator[tuple[Index, list[Index], Index]]:
    """Rows of other tasks; for each new task the rows that it may bring, in their order; the rows to predict."""
    rng = np.random.default_rng(0)
    tasks = rng.permutation(np.unique(rows.task))
    for new in np.array_split(tasks, min(folds, len(tasks))):
        orders = [rng.permutation(np.flatnonzero(rows.task == j)) for j in new]
        most = max(OWN_ROWS)
        test = np.concatenate([order[most:] for order in orders])
        yield np.flatnonzero(~np.isin(rows.task, new)), [order[:most] for order in orders], test
