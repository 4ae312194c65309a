"""A large table to fit, with all settings: what one pass and a cluster share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from motet.model.model import Model
from motet.release.disclosed import Disclosed
from motet.scale.partitions import coefficients, predictions
from motet.tables.arrow import ROWS_READ, Batch
from motet.tables.large import Dataset
from motet.tables.roles import Roles
from motet.tables.rows import numbered

Report: TypeAlias = Callable[[str, int], object]  # a stage of the work, and how many rows more are done
READING, ADDING, PREDICTING = "Reading", "Adding", "Predicting"  # stages


@dataclass(frozen=True, eq=False)
class Job:
    """A table to fit, with all settings."""

    dataset: Dataset
    roles: Roles
    model: Model
    partition_rows: int
    skip_missing: bool = False
    report: Report | None = None


@dataclass
class Counts:
    rows: int = 0
    tasks: int = 0
    left_out: int = 0
    shuffled: bool = False


def stages(report: Report | None, stage: str) -> Callable[[int], object]:
    """The function that tells of rows done in a stage of the work."""
    return int if report is None else partial(report, stage)


def counted(tables: Iterator[Batch], task: str, counts: Counts, advance: Callable[[int], object]) -> Iterator[Batch]:
    """The same tables of whole tasks, counted and reported."""
    for table in tables:
        rows, read = len(table[task]), table.pop(ROWS_READ, len(table[task]))
        counts.rows += rows
        counts.left_out += read - rows
        if rows:
            counts.tasks += len(numbered(table[task])[1])
            yield table
        advance(read)


FUNCTIONS: dict[str, Callable[[Any, Disclosed, Roles], Batch]] = {
    "predictions": predictions,
    "coefficients": coefficients,
}
