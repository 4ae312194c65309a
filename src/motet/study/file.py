"""A study file as it is read: every key has a value that it may have, and keys fit each other.

A refusal is an ``InvalidStudy`` whose ``where`` is the key; ``one_line`` puts the file and the key before its text.
``study`` makes the model of what is read here.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import numpy as np
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from motet.errors import InvalidStudy, MotetError
from motet.model.basis import BASES
from motet.study.schema import (
    MAX_BASIS_POINTS,
    OTHER_COLUMNS,
    BasisSection,
    File,
    Inputs,
    Limits,
    ModelSection,
    Output,
    Release,
    Section,
    TableSection,
    basis_kinds,
)
from motet.text import alternatives, brief, shortened, suggestion

MAX_REFUSAL_LETTERS = 400  # of a refusal
MAX_STUDY_BYTES = 5_000_000


@contextmanager
def one_line(file: str) -> Iterator[None]:
    """Refusals of what is done inside, as one line that begins with the file and the key."""
    try:
        yield
    except InvalidStudy as error:
        key = f", {error.where}" if error.where else ""
        line = " ".join(f"{file}{key}: {error}".split())
        raise error.reworded(shortened(line, MAX_REFUSAL_LETTERS)) from None


@contextmanager
def blaming(key: str, keys: Mapping[str, str] | None = None) -> Iterator[None]:
    """Errors of what is done inside are about this key; or, if an error has a ``where``, about the key that ``keys``
    has for it."""
    try:
        with np.errstate(all="ignore"):
            yield
    except InvalidStudy:
        raise
    except (MotetError, ValueError, ArithmeticError) as error:
        where = (keys or {}).get(getattr(error, "where", None) or "", key)
        raise InvalidStudy(str(error), where=where) from None


def read_text(path: Path) -> str:
    try:
        if path.exists() and not path.is_file():  # a pipe would keep us waiting
            raise ValueError("something that is not a file")
        if path.stat().st_size > MAX_STUDY_BYTES:
            raise ValueError(f"more than {MAX_STUDY_BYTES} bytes")
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidStudy(
            f"cannot read {str(path)!r}: expected a study file in TOML, got {reason}; motet init writes one"
        ) from None


def parse(text: str) -> File:
    """The sections of a study file, checked."""
    try:
        file = File.model_validate(tomllib.loads(text))
    except ValidationError as error:
        raise _first_mistake(error) from None
    except (ValueError, RecursionError) as error:
        raise InvalidStudy(f"expected TOML, got a line that is not: {error}; correct that line") from None
    _check_inputs(file.inputs)
    _check_table(file.table, file.inputs)
    _check_output(file.output, file.limits)
    _check_basis(file.basis, file.inputs)
    if file.model.common is not None and file.model.alpha is None:
        raise _missing(ModelSection, "model.alpha")
    if file.pilot is not None and (digests := len(set(file.pilot.digests))) != file.pilot.clients:
        got = f"{file.pilot.clients} and {digests} different digests"
        raise InvalidStudy(f"expected as many as pilot.digests has, got {got}", where="pilot.clients")
    if file.release.policy == "private":
        _check_private(file.release, file.limits)
    return file


# --- what keys ask of each other ---


def _check_inputs(inputs: Inputs) -> None:
    either = 'columns = [{ name = "hours", … }], catalogue = "file.csv" or dimension = 2'
    forms = [key for key in ("columns", "catalogue", "dimension") if getattr(inputs, key) is not None]
    if not forms:
        raise InvalidStudy(f"expected {either}, got none of them", where="inputs")
    if len(forms) > 1:
        raise InvalidStudy(f"expected one of {either}, got {' and '.join(forms)}", where=f"inputs.{forms[-1]}")
    if inputs.normalise and inputs.catalogue is None:
        raise InvalidStudy("expected only with a catalogue; remove it", where="inputs.normalise")
    if inputs.bounds is None:
        return
    if inputs.columns is not None:
        raise InvalidStudy("expected bounds at each of the columns; move them there", where="inputs.bounds")
    if inputs.dimension is None:
        raise InvalidStudy("expected only with a dimension, got a catalogue; remove them", where="inputs.bounds")
    if (pairs := len(inputs.bounds)) not in (1, inputs.dimension):
        refusal = f"expected one pair, or {inputs.dimension} (inputs.dimension), got {pairs}"
        raise InvalidStudy(refusal, where="inputs.bounds")


def _check_table(table: TableSection, inputs: Inputs) -> None:
    """Columns of a table that are not inputs have names of their own, and none that predictions get.

    Clients and items may be in a column ``id``: then rows have no ids of their own.
    """
    roles = {"client": table.client, "target": table.target} | ({"name": table.name} if inputs.catalogue else {})
    for key, column in roles.items():
        is_other = column in OTHER_COLUMNS and not (column == "id" and key != "target")
        if list(roles.values()).count(column) > 1 or is_other:
            raise InvalidStudy(f"expected a column of its own, got {brief(column)}", where=f"table.{key}")
    for name in (column.get("name") for column in inputs.columns or ()):
        if not isinstance(name, str):
            continue  # refused with the column
        if name in OTHER_COLUMNS or name in roles.values():
            key = next((f"table.{key}" for key, column in roles.items() if column == name), "")
            advice = f"rename it, or set {key}" if key else "rename it"
            refusal = f"an input may not be called {brief(name)}, the name of another column of tables: {advice}"
            raise InvalidStudy(refusal, where="inputs.columns")


def _check_output(output: Output, limits: Limits) -> None:
    if output.scale is None or limits.y is None:
        return
    low, high, _ = output.scale
    if low < limits.y[0] or high > limits.y[1]:
        raise InvalidStudy(
            f"expected a scale within limits.y, from {limits.y[0]:g} to {limits.y[1]:g}, got {low:g} to {high:g}: "
            "outputs that people are offered must be accepted",
            where="output.scale",
        )


def _check_basis(basis: BasisSection, inputs: Inputs) -> None:
    if basis.kind not in ("growing", *basis_kinds()):
        raise _unknown_kind(basis.kind)
    takes = {key: basis.kind in basis_kinds(key) for key in basis.settings()}
    takes_points = takes.pop("points")
    for key, taken in takes.items():
        if taken and getattr(basis, key) is None:
            raise _missing(BasisSection, f"basis.{key}")
        if not taken and getattr(basis, key) is not None:
            raise _wrong_kind(basis, key, key)
    ways = [key for key in ("points", "grid", "spread") if getattr(basis, key)]
    for key in ways:
        if not takes_points:
            raise _wrong_kind(basis, "points", key)
        if inputs.catalogue is not None:
            refusal = "expected none with a catalogue, whose items are the points; remove it"
            raise InvalidStudy(refusal, where=f"basis.{key}")
    if len(ways) > 1:
        raise InvalidStudy(f"expected points, a grid or spread, got {' and '.join(ways)}", where=f"basis.{ways[-1]}")
    if takes_points and inputs.catalogue is None and not ways:
        raise _missing(BasisSection, "basis.points", "; or a grid; or spread")
    if takes_points and inputs.dimension is not None:
        check_points(basis, inputs.dimension)


def _unknown_kind(kind: str) -> InvalidStudy:
    missing = [key for key in BASES[kind].settings() if key not in BasisSection.settings()] if kind in BASES else []
    reason = f", whose settings {', '.join(missing)} no study file can give" if missing else ""
    kinds = alternatives("growing", *basis_kinds())
    return InvalidStudy(f"expected {kinds}, got {brief(kind)}{reason}", where="basis.kind")


def _wrong_kind(basis: BasisSection, setting: str, key: str) -> InvalidStudy:
    kinds = alternatives(*basis_kinds(setting))
    return InvalidStudy(f"expected {kinds}, got {brief(basis.kind)}; change it, or remove {key}", where="basis.kind")


def check_points(basis: BasisSection, dimension: int) -> None:
    """Raises unless points and grid are of inputs of so many numbers."""
    for row in basis.points or ():
        if len(row) != dimension:
            refusal = f"expected points of {dimension} numbers, as inputs have, got {brief(list(row))}"
            raise InvalidStudy(refusal, where="basis.points")
    if not basis.grid:
        return
    if len(basis.grid) not in (1, dimension):
        refusal = f"expected one table, or {dimension}, one for each number of an input, got {len(basis.grid)}"
        raise InvalidStudy(refusal, where="basis.grid")
    if math.prod(grid.count for grid in basis.grids(dimension)) > MAX_BASIS_POINTS:
        refusal = f"expected at most {MAX_BASIS_POINTS} points in all; take smaller counts"
        raise InvalidStudy(refusal, where="basis.grid")
    for grid in basis.grid:
        if grid.start >= grid.to:
            raise InvalidStudy(f"expected from below to, got from {grid.start} to {grid.to}", where="basis.grid")


def _check_private(release: Release, limits: Limits) -> None:
    for key in ("epsilon", "releases"):
        if getattr(release, key) is None:
            raise _missing(Release, f"release.{key}", '; or choose policy = "exact", which promises nothing')
    if limits.y is None:
        raise _missing(Limits, "limits.y", ": a private study needs public limits")


def _missing(section: type[Section], where: str, advice: str = "") -> InvalidStudy:
    description = section.model_fields[where.partition(".")[2]].description
    return InvalidStudy(f"missing; expected {description}{advice}", where=where)


# --- what is wrong with a single key ---


def _first_mistake(error: ValidationError) -> InvalidStudy:
    """Unknown keys before others."""
    mistakes = error.errors(include_url=False, include_context=False)
    mistake = min(mistakes, key=lambda one: one["type"] != "extra_forbidden")
    *sections, key = [part for part in mistake["loc"] if isinstance(part, str)]
    section: type[Section] = File
    for name in sections:
        section = _section(section, name)
    fields = _fields(section)
    if mistake["type"] == "extra_forbidden":
        text = _unknown(key, fields, sections)
    elif mistake["type"] == "missing":
        text = f"missing; expected {fields[key].description}"
    else:
        text = f"expected {fields[key].description}, got {brief(mistake['input'])}"
    return InvalidStudy(text, where=".".join([*sections, key]))


def _unknown(key: str, fields: Mapping[str, FieldInfo], sections: list[str]) -> str:
    elsewhere = [f"{name}.{key}" for name in File.model_fields if key in _fields(_section(File, name))]
    hint = suggestion(key, fields, otherwise=elsewhere) or ";"
    place = f"[{'.'.join(sections)}]" if sections else "a study"
    return f"unknown key{hint} {place} takes {', '.join(fields)}"


def _section(section: type[Section], name: str) -> type[Section]:
    """The section under a key: the key's own type, or that of its parts."""
    annotation: Any = section.model_fields[name].annotation
    inner: type[Section] = (get_args(annotation) or (annotation,))[0]
    return inner


def _fields(section: type[Section]) -> dict[str, FieldInfo]:
    """The keys as the file writes them."""
    return {field.alias or name: field for name, field in section.model_fields.items()}
