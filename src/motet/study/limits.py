"""Examples checked against a study's limits: whatever is outside is refused, with the reason and the place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motet.arrays import MAX_MAGNITUDE, Array, Index, finite_number
from motet.errors import InvalidData, InvalidNoise, MotetError, UnknownName, WrongDimension
from motet.study.study import Study
from motet.tables.columns import Column, Columns
from motet.tables.dates import days_since
from motet.tables.rows import places_in_tasks
from motet.text import brief

ANY_NUMBER = (-math.inf, math.inf)
ANY_OUTPUT = (-1e100, 1e100)  # sums of their squares stay finite
INCOMPUTABLE = "beyond these the model cannot be computed: shift or scale the inputs"


def check_examples(
    study: Study, xs: list[Any], ys: list[Any], noises: list[Any]
) -> tuple[Array, Sequence[float], Sequence[float]]:
    """Rows, outputs and noise of many examples; an error's ``where`` is the first that is refused."""
    if _all_within(ys, study.limits.y or ANY_OUTPUT) and _all_within(noises, study.limits.noise):
        rows = _rows(study, xs)
        if rows is not None:
            return rows, ys, noises
    checked = [check_example(study, *one, where=f"examples.{k}") for k, one in enumerate(zip(xs, ys, noises))]
    each, y, noise = zip(*checked)
    return np.array(each), y, noise


def check_example(
    study: Study, x: Any, y: Any, noise: Any = 1.0, *, where: str | None = None
) -> tuple[Array, float, float]:
    """An input's row, its output and noise.

    An error is about ``where``, or a part of it such as ``where.x.0`` or ``where.x.hours``.
    """
    try:
        row = _row(study, x)
        low, high = study.limits.y or ANY_OUTPUT
        if (output := _within(y, low, high)) is None:
            raise InvalidData(f"y must be a number from {low:g} to {high:g}, got {brief(y)}", where="y")
        low, high = study.limits.noise
        if (variance := _within(noise, low, high)) is None:
            raise InvalidNoise(f"noise must be a variance from {low:g} to {high:g}, got {brief(noise)}", where="noise")
        return row, output, variance
    except MotetError as error:
        error.where = ".".join(filter(None, (where, error.where))) or None
        raise


def _row(study: Study, x: Any) -> Array:
    """The row of a name, of cells by name, or of numbers within the bounds, which may also be the row of a name."""
    catalogue, dimension = study.model.catalogue, study.dimension
    if study.model.columns is not None:
        return _named_row(study, study.model.columns, x)
    if isinstance(x, str) and catalogue is not None:
        if x not in catalogue:  # near names are for the client to find: a search takes seconds
            raise InvalidData(
                f"x must be one of the catalogue's {len(catalogue)} names, got {brief(x)}; GET /v1/study lists them"
            )
        return np.asarray(catalogue.look_up([x])[0])
    x = x.tolist() if isinstance(x, np.ndarray) else x
    numbers = [finite_number(value) for value in x] if isinstance(x, (list, tuple)) else [None]
    if None in numbers:
        expected = f"a list of {dimension} numbers" if catalogue is None else "a name in the catalogue"
        raise InvalidData(f"x must be {expected}, got {brief(x)}")
    if len(numbers) != dimension:
        raise WrongDimension(f"x must have {dimension} numbers, got {len(numbers)}")
    row = np.array(numbers, dtype=float) + 0.0
    if catalogue is not None:
        try:
            catalogue.name_rows(row[None])
        except UnknownName:
            raise InvalidData(f"x must be a name in the catalogue, got numbers: {brief(row.tolist())}") from None
    for column, (value, (low, high)) in enumerate(zip(row.tolist(), study.input_bounds or ())):
        if not low <= value <= high:
            text = f"expected a number from {low:g} to {high:g}, got {value:g}"
            raise InvalidData(text if study.bounds else f"{text}; {INCOMPUTABLE}", where=f"x.{column}")
    return row


def _named_row(study: Study, columns: Columns, x: Any) -> Array:
    try:
        numbers = columns.row_numbers(x)
        for column, number, (low, high) in zip(columns, numbers, _column_bounds(study, columns)):
            if not column.values and not low <= number <= high:
                text = (
                    f"expected {column.kind} from {column.text(low)} to {column.text(high)}, got {column.text(number)}"
                )
                raise InvalidData(text if column.bounds else f"{text}; {INCOMPUTABLE}", where=column.name)
    except InvalidData as error:
        error.where = ".".join(filter(None, ("x", error.where)))
        raise
    return np.asarray(columns.expand(np.array(numbers))[0])


def _column_bounds(study: Study, columns: Columns) -> list[tuple[float, float]]:
    """Of each column; those of a category are of no use."""
    bounds = study.input_bounds or ()
    return [bounds[place] for place in columns.first_places]


def _within(value: Any, low: float, high: float) -> float | None:
    number = finite_number(value)
    return number if number is not None and low <= number <= high else None


# --- many at once: the same check, quick if all are plainly right ---


def _rows(study: Study, xs: list[Any]) -> Array | None:
    """The rows of inputs that are all plainly right."""
    catalogue, columns = study.model.catalogue, study.model.columns
    if columns is not None:
        return _named_rows(study, columns, xs)
    if catalogue is not None:
        right = all(isinstance(x, str) and x in catalogue for x in xs)
        return catalogue.look_up(xs) if right else None
    if not {list, tuple}.issuperset(map(type, xs)) or set(map(len, xs)) != {study.dimension}:
        return None
    return np.array(xs) + 0.0 if all(map(_all_within, zip(*xs), study.input_bounds or ())) else None


def _named_rows(study: Study, columns: Columns, xs: list[Any]) -> Array | None:
    if not {dict}.issuperset(map(type, xs)) or set(map(len, xs)) != {len(columns)}:
        return None
    try:
        cells = [[x[name] for x in xs] for name in columns.names]
    except KeyError:
        return None
    numbers = list(map(_numbers, columns, cells, _column_bounds(study, columns)))
    return None if None in numbers else columns.expand(np.array(numbers).T)


def _numbers(column: Column, cells: list[Any], bounds: tuple[float, float]) -> list[float] | None:
    """What the cells of a column say, if all are plainly right."""
    if column.is_numeric and column.log_above is None:
        return cells if _all_within(cells, bounds) else None
    if column.is_numeric:
        numbers = list(map(column.encoded, cells)) if _all_within(cells, ANY_NUMBER) else []
        return numbers if _all_within(numbers, bounds) else None
    if set(map(type, cells)) != {str}:
        return None
    if column.values:
        places = list(map(column.place_of.get, cells))
        return None if None in places else places  # type: ignore[return-value]
    assert column.since is not None
    days = [days_since(cell, column.since, column.order) for cell in cells]
    return days if _all_within(days, bounds) else None  # type: ignore[return-value]


def _all_within(values: Sequence[Any], limits: tuple[float, float]) -> bool:
    """Whether all are floats within the limits; numpy would take longer for as few as a request has."""
    if set(map(type, values)) != {float}:
        return False
    lowest, highest = min(values), max(values)
    inside = limits[0] <= lowest and highest <= limits[1] and max(-lowest, highest) < MAX_MAGNITUDE
    return inside and not math.isnan(sum(values))


# --- a table of many clients, of which rows may be left out ---


def rows_outside(study: Study, client: Index, X: Array, y: Array, noise: Array) -> dict[str, NDArray[np.bool_]]:
    """The rows that the study would refuse, by reason; each is under the first reason that it has.

    ``client`` numbers the clients; X are rows such as the model has.
    """
    low, high = np.array(study.input_bounds or [(-np.inf, np.inf)] * X.shape[1]).T
    tests = {
        "input outside inputs.bounds": (np.clip(X, low, high) != X).any(axis=1),
        "y outside limits.y": _outside(y, study.limits.y or ANY_OUTPUT),
        "noise outside limits.noise": _outside(noise, study.limits.noise),
    }
    reasons, refused = {}, np.zeros(len(y), dtype=bool)
    for reason, outside in tests.items():
        reasons[reason], refused = outside & ~refused, refused | outside
    surplus = np.zeros(len(y), dtype=bool)
    surplus[~refused] = places_in_tasks(client[~refused]) >= study.limits.examples_per_client
    return {**reasons, "more than limits.examples_per_client": surplus}


def _outside(values: Array, limits: tuple[float, float]) -> NDArray[np.bool_]:
    return np.asarray(np.clip(values, *limits) != values)
