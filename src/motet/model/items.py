"""A catalogue from a CSV file: a header, then one row for each item, its name first and numeric features behind it."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np

from motet.arrays import BOUND
from motet.errors import InvalidData
from motet.model.catalogue import Catalogue


def read_catalogue(path: Path, *, normalise: bool = False) -> Catalogue:
    """The items of a file, on demand with features of unit length; a refusal names row and column."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        rows = list(csv.reader(io.StringIO(text, newline="")))
    except (OSError, ValueError, csv.Error) as error:
        raise InvalidData(f"expected a CSV file of items, got {error}") from None
    header = [cell.strip() for cell in rows[0]] if rows else []
    if not any(header) or (len(header) > 1 and all(_is_number(cell) for cell in header[1:])):
        raise InvalidData(f"{path.name}, row 1: expected a header such as name, feature; got {','.join(header)!r:.60}")
    vectors: list[list[float]] = []
    named: dict[str, int] = {}
    for number, row in enumerate(rows[1:], start=2):
        if any(cell.strip() for cell in row):
            where = f"{path.name}, row {number}"
            _name(row, header, where, named, number)
            vectors.append([_feature(cell, f"{where}, column {column}") for cell, column in zip(row[1:], header[1:])])
            if normalise and header[1:] and not any(vectors[-1]):
                raise InvalidData(f"{where}: expected a feature other than 0 to normalise, got none; correct the row")
    if not named:
        raise InvalidData(f"{path.name}: expected at least one item below the header, got none")
    Z = np.array(vectors, dtype=float).reshape(len(named), len(header) - 1)
    if normalise and Z.size:
        Z /= np.abs(Z).max(axis=1, keepdims=True)  # so that no square overflows
        Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    return Catalogue(list(named), Z if header[1:] else None)


def _name(row: list[str], header: list[str], where: str, named: dict[str, int], number: int) -> None:
    if len(row) != len(header):
        raise InvalidData(f"{where}: expected {len(header)} cells, as the header has, got {len(row)}")
    name = row[0].strip()
    if not name:
        raise InvalidData(f"{where}, column {header[0]}: expected a name, got none")
    if name in named:
        raise InvalidData(f"{where}, column {header[0]}: {name!r} is in row {named[name]} already; names are unique")
    named[name] = number


def _feature(cell: str, where: str) -> float:
    if not _is_number(cell):
        raise InvalidData(f"{where}: expected a finite number, got {cell!r:.60}")
    return float(cell)


def _is_number(cell: str) -> bool:
    try:
        return -BOUND < float(cell) < BOUND
    except ValueError:
        return False
