"""A study file read: every key has a value that it may have, keys fit each other, and a refusal is one line.

Here is what can be said of the file alone; ``study`` makes the model of it.
"""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from motet.errors import InvalidStudy, MotetError
from motet.privacy.clipping import LARGEST
from motet.study.schema import (
    MOST_POINTS,
    BasisSection,
    File,
    Inputs,
    Kernels,
    Limits,
    Release,
    Section,
    basis_kinds,
    expected,
)
from motet.text import alternatives, brief


class Where(NamedTuple):
    """The file that refusals name."""

    file: str

    def refusal(self, key: str, text: str) -> InvalidStudy:
        line = " ".join(f"{self.file}{key and ', '}{key}: {text}".split())
        return InvalidStudy(line if len(line) <= 400 else f"{line[:399]}…")

    @contextmanager
    def at(self, key: str) -> Iterator[None]:
        """Refusals of what is done inside are about this key."""
        try:
            with np.errstate(all="ignore"):
                yield
        except InvalidStudy:
            raise
        except (MotetError, ValueError, ArithmeticError) as error:
            raise self.refusal(key, str(error)) from None


def read(path: Path) -> File:
    """A study file whose keys each have a value that they may have, and fit each other."""
    where = Where(path.name)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise InvalidStudy(
            f"cannot read {str(path)!r}: expected a study file in TOML, got {error}; motet init writes one"
        ) from None
    try:
        file = File.model_validate(tomllib.loads(text))
    except ValidationError as error:
        raise where.refusal(*_explained(error)) from None
    except (ValueError, RecursionError) as error:
        raise where.refusal("", f"expected TOML, got what is none: {error}; mend that line") from None
    for broken, key, why in rules(file):
        if broken:
            raise where.refusal(key, why)
    return file


def rules(file: File) -> Iterator[tuple[bool, str, str]]:
    """What keys ask of each other: whether it is broken, the key to blame, and why."""
    yield from _rules_of_inputs(file.inputs)
    yield from _rules_of_basis(file.basis, file.inputs)
    alpha = expected(Kernels, "alpha")
    yield file.model.common is not None and file.model.alpha is None, "model.alpha", f"missing; expected {alpha}"
    if file.release.policy == "private":
        for key in ("epsilon", "releases"):
            missing = f'missing; expected {expected(Release, key)}; or choose policy = "exact", which promises nothing'
            yield getattr(file.release, key) is None, f"release.{key}", missing
        y = f"missing; expected {expected(Limits, 'y')}: a private study needs public limits"
        yield file.limits.y is None, "limits.y", y
        many = file.limits.examples_per_client
        most = f"expected at most {LARGEST} in a private study, where a client with more adds nothing, got {many}"
        yield many > LARGEST, "limits.examples_per_client", most


def _rules_of_inputs(inputs: Inputs) -> Iterator[tuple[bool, str, str]]:
    either = 'catalogue = "file.csv" or dimension = 2'
    yield inputs.catalogue is None and inputs.dimension is None, "inputs", f"expected {either}, got neither"
    yield None not in (inputs.catalogue, inputs.dimension), "inputs.dimension", f"expected {either}, got both"
    yield inputs.normalise and inputs.catalogue is None, "inputs.normalise", "expected only with a catalogue; remove it"
    if (bounds := inputs.bounds) is not None:
        yield inputs.dimension is None, "inputs.bounds", "expected only with a dimension, got a catalogue; remove them"
        columns = f"expected one pair, or {inputs.dimension} (inputs.dimension), got {len(bounds)}"
        yield len(bounds) not in (1, inputs.dimension), "inputs.bounds", columns


def _rules_of_basis(basis: BasisSection, inputs: Inputs) -> Iterator[tuple[bool, str, str]]:
    of_points, of_rank = (basis.kind in basis_kinds(key) for key in ("points", "rank"))
    p = inputs.dimension or 0
    yield of_rank and basis.rank is None, "basis.rank", f"missing; expected {expected(basis, 'rank')}"
    only = "expected {}, got " + brief(basis.kind) + "; change it, or remove {}"
    ranked = alternatives(*basis_kinds("rank"))
    yield not of_rank and basis.rank is not None, "basis.kind", only.format(ranked, "rank")
    for key in ("points", "grid"):
        given = bool(getattr(basis, key))
        yield given and not of_points, "basis.kind", only.format(alternatives(*basis_kinds("points")), key)
        spare = "expected none with a catalogue, whose items are the points; remove it"
        yield given and inputs.catalogue is not None, f"basis.{key}", spare
    yield basis.points is not None and bool(basis.grid), "basis.grid", "expected points or a grid, got both; remove one"
    if of_points and inputs.catalogue is None:
        missing = f"missing; expected {expected(basis, 'points')}; or a grid"
        yield basis.points is None and not basis.grid, "basis.points", missing
        for row in basis.points or ():
            wrong = f"expected points of as many numbers as inputs.dimension, {p}, got {brief(list(row))}"
            yield len(row) != p, "basis.points", wrong
    if basis.grid:
        columns = f"expected one table, or {p} (inputs.dimension), got {len(basis.grid)}"
        yield len(basis.grid) not in (1, p), "basis.grid", columns
        size = math.prod(g.count for g in basis.grids(p))
        yield size > MOST_POINTS, "basis.grid", f"expected at most {MOST_POINTS} points in all; take smaller counts"
        for g in basis.grid:
            yield g.start >= g.to, "basis.grid", f"expected from below to, got from {g.start} to {g.to}"


def _explained(error: ValidationError) -> tuple[str, str]:
    """The key of the first mistake, unknown keys before others, and what is wrong with it."""
    mistakes = error.errors(include_url=False, include_context=False)
    mistake = min(mistakes, key=lambda one: one["type"] != "extra_forbidden")
    *inside, key = [part for part in mistake["loc"] if isinstance(part, str)]
    section: type[Section] = File
    for name in inside:
        section = _inside(section, name)
    fields = _fields(section)
    dotted = ".".join([*inside, key])
    if mistake["type"] == "extra_forbidden":
        return dotted, _unknown(key, fields, inside)
    wanted = f"expected {fields[key].description}"
    return dotted, f"missing; {wanted}" if mistake["type"] == "missing" else f"{wanted}, got {brief(mistake['input'])}"


def _unknown(key: str, fields: Mapping[str, FieldInfo], inside: list[str]) -> str:
    near: list[str] = difflib.get_close_matches(key, fields, n=1)
    if not near:  # perhaps it stands in another section
        near = [f"{name}.{key}" for name in File.model_fields if key in _fields(_inside(File, name))]
    hint = f"did you mean {near[0]}? " if near else ""
    place = f"[{'.'.join(inside)}]" if inside else "a study"
    return f"unknown key; {hint}{place} takes {', '.join(fields)}"


def _inside(section: type[Section], name: str) -> type[Section]:
    """The section under a key: the key's own type, or that of its parts."""
    annotation: Any = section.model_fields[name].annotation
    found: type[Section] = (get_args(annotation) or (annotation,))[0]
    return found


def _fields(section: type[Section]) -> dict[str, FieldInfo]:
    """The keys as the file writes them."""
    return {field.alias or name: field for name, field in section.model_fields.items()}
