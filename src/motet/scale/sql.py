"""Sufficient statistics by SQL: the database sums products of columns by task, and no row leaves it.

``statement`` writes one SELECT that DuckDB and PostgreSQL both read; ``moments`` runs it on a connection of either, or
of any other database that reads it and has Python's database interface (PEP 249), and makes ``Moments`` of the answer.
Columns are counted from their means, so that large numbers cost no digits. No driver is imported here.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import numpy as np

from motet.errors import EmptyData, InvalidData, InvalidNoise
from motet.scale.moments import Moments

MAX_INPUTS = 50  # columns: PostgreSQL's answers have at most 1,664
BEFORE_SUMS = 4  # columns of the answer: the task, its rows, its lowest noise and the sum of logarithms of its noise


def statement(
    table: str | Sequence[str], *, task: str, target: str, inputs: Sequence[str], noise: str | None = None
) -> str:
    """A SELECT with a row for each task: its rows, its noise, and sums of products of 1, the inputs and the target.

    ``table`` is a table or a view, with its schema as ``("schema", "table")``; in DuckDB also the name of a file. Rows
    with a NULL in one of these columns are left out. ``noise`` is the column of noise variances.
    """
    columns = [*inputs, target]
    if not inputs or isinstance(inputs, str) or len(inputs) > MAX_INPUTS:
        raise InvalidData(f"expected inputs as a list of 1 to {MAX_INPUTS} column names, got {inputs!r:.60}")
    if len({*columns, task}) <= len(columns):
        raise InvalidData(f"task, target and inputs must be different columns, got {[task, *columns]!r:.200}")
    names = [f"x{k}" for k in range(len(columns))]
    read = [f"CAST({_quoted(column)} AS FLOAT8) AS {name}" for column, name in zip(columns, names)]
    weight = "1.0" if noise is None else f"CAST({_quoted(noise)} AS FLOAT8)"
    needed = [task, *columns, *([] if noise is None else [noise])]
    means = [f"AVG({name}) AS m{k}" for k, name in enumerate(names)]
    centered = [f"x{k} - m{k}" for k in range(len(columns))]
    factors = ["1.0", *(f"({one})" for one in centered)]
    products = [f"SUM({a} * {b} / w)" for i, a in enumerate(factors) for b in factors[i:]]
    lines = [
        "WITH motet_rows AS (",
        f"  SELECT {_quoted(task)} AS task, {', '.join(read)}, {weight} AS w",
        f"  FROM {_table(table)}",
        f"  WHERE {' AND '.join(f'{_quoted(column)} IS NOT NULL' for column in needed)}",
        "), motet_means AS (",
        f"  SELECT {', '.join(means)} FROM motet_rows",  # nosec B608  # names of ours
        ")",
        "SELECT task, COUNT(*), MIN(w), SUM(CASE WHEN w > 0 THEN LN(w) END),",
        f"  {', '.join(f'MIN(m{k})' for k in range(len(names)))},",
        "  " + ",\n  ".join(products),
        "FROM motet_rows CROSS JOIN motet_means",
        "GROUP BY task",
        "ORDER BY task",
    ]
    return "\n".join(lines)


def moments(
    connection: Any,
    table: str | Sequence[str],
    *,
    task: str,
    target: str,
    inputs: Sequence[str],
    noise: str | None = None,
) -> Moments:
    """The moments of a table's tasks, summed by the database that the connection is to."""
    with closing(connection.cursor()) as cursor:
        cursor.execute(statement(table, task=task, target=target, inputs=inputs, noise=noise))
        rows = cursor.fetchall()
    if not rows:
        raise EmptyData(f"no row of {table!r:.60} has a value in all of these columns")
    labels, numbers = [row[0] for row in rows], np.array([row[1:] for row in rows], dtype=float)
    if not (numbers[:, 1] > 0).all():
        raise InvalidNoise(
            f"noise variances must be positive, those of task {labels[int(np.argmin(numbers[:, 1] > 0))]!r} are not"
        )
    if not np.isfinite(numbers).all():
        wrong = labels[int(np.argmin(np.isfinite(numbers).all(axis=1)))]
        raise InvalidData(f"the columns of task {wrong!r} have numbers that are not finite, or too large to be squared")
    size = len(inputs) + 2
    center = np.append(0.0, numbers[0, BEFORE_SUMS - 1 : BEFORE_SUMS - 2 + size])
    products = np.empty((len(rows), size, size))
    a, b = np.triu_indices(size)
    products[:, a, b] = products[:, b, a] = numbers[:, BEFORE_SUMS - 2 + size :]
    return Moments.of_products(labels, numbers[:, 0].astype(np.intp), products, numbers[:, 2], center)


def _quoted(name: str) -> str:
    """A name as SQL reads it, whatever letters it has."""
    if not isinstance(name, str) or not name or "\0" in name:
        raise InvalidData(f"expected the name of a table or column, got {name!r:.60}")
    return '"' + name.replace('"', '""') + '"'


def _table(table: str | Sequence[str]) -> str:
    return _quoted(table) if isinstance(table, str) else ".".join(_quoted(part) for part in table)
