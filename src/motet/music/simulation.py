"""The music study: a catalogue of artists with genre tags, and simulated listeners.

The listeners are those of the article's section 5: an average taste drawn from a Gaussian process over the artists,
and for each listener a quarter of it plus three quarters of a taste of their own.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np

from motet.arrays import Array, Index
from motet.errors import InvalidData
from motet.kernels import RBF, ConstantKernel, DotProduct
from motet.model.catalogue import Catalogue
from motet.model.model import Model

TAGS = (
    "rock", "pop", "alternative", "indie", "electronic", "metal", "punk", "jazz", "classical", "hip-hop", "folk",
    "blues", "country", "reggae", "soul", "r&b", "ambient", "dance", "singer-songwriter",
)  # fmt: skip
COMMON = ConstantKernel(float(np.e)) * RBF(1.0)  # e^{zᵀz′} on unit vectors
INDIVIDUAL = DotProduct(0.0)
NOISE = 0.01  # standard deviation of a rating


def artists(path: str | Path | None = None) -> Catalogue:
    """The artists of a CSV file (by default our own 489), their tags normalised to unit length."""
    if path is None:
        text = files("motet.music").joinpath("artists.csv").read_text(encoding="utf-8")
        return read_artists(text, "artists.csv")
    try:
        return read_artists(Path(path).read_text(encoding="utf-8-sig"), Path(path).name)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidData(f"cannot read {path}: {error}") from None


def read_artists(text: str, name: str) -> Catalogue:
    """A table with a column ``artist`` and one for each tag; a refusal names row and column."""
    rows = list(csv.reader(text.splitlines()))
    expected = ["artist", *TAGS]
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    for column in expected:
        if column not in header:
            raise InvalidData(f"{name}, row 1: no column {column!r}; expected artist and the {len(TAGS)} tags")
    where = {column: header.index(column) for column in expected}
    names: dict[str, int] = {}
    vectors = []
    for number, row in enumerate(rows[1:], start=2):
        if not any(cell.strip() for cell in row):
            continue
        if len(row) != len(header):
            raise InvalidData(f"{name}, row {number}: expected {len(header)} cells, got {len(row)}")
        artist = row[where["artist"]].strip()
        if not artist:
            raise InvalidData(f"{name}, row {number}, column artist: a name is missing")
        if artist in names:
            raise InvalidData(f"{name}, row {number}, column artist: {artist!r} is in row {names[artist]} already")
        names[artist] = number
        vectors.append([_weight(row[where[tag]], f"{name}, row {number}, column {tag}") for tag in TAGS])
        if not any(vectors[-1]):
            raise InvalidData(f"{name}, row {number}: all tags of {artist!r} are 0; give it at least one")
    Z = np.array(vectors, dtype=float).reshape(len(names), len(TAGS))
    return Catalogue(list(names), Z / np.linalg.norm(Z, axis=1, keepdims=True))


def _weight(cell: str, where: str) -> float:
    try:
        weight = float(cell)
    except ValueError:
        raise InvalidData(f"{where}: expected a number in [0, 1], got {cell!r}") from None
    if not 0.0 <= weight <= 1.0:
        raise InvalidData(f"{where}: expected a number in [0, 1], got {cell}")
    return weight


def model(catalogue: Catalogue, alpha: float, lam: float) -> Model:
    """The article's kernels on a catalogue's tags, without a bias."""
    return Model(COMMON, INDIVIDUAL, alpha, lam, "none", catalogue=catalogue)


@dataclass(frozen=True, eq=False)
class Listeners:
    """True tastes over all artists, and the ratings that each listener gave: whose, of whom, what."""

    average: Array
    tastes: Array  # a row for each listener
    user: Index
    artist: Index
    rating: Array


def simulate(catalogue: Catalogue, users: int, examples: int, seed: int) -> Listeners:
    """Listeners of the article's section 5: f = 0.25 f̄ + 0.75 f̃, ``examples`` artists each, noise 0.01."""
    if examples > len(catalogue):
        raise InvalidData(f"each user rates {examples} different artists, but there are only {len(catalogue)}")
    rng = np.random.default_rng(seed)
    Z = catalogue.vectors
    values, vectors = np.linalg.eigh(COMMON(Z))
    average = vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.normal(size=len(Z)))
    tastes = 0.25 * average + 0.75 * rng.normal(size=(users, Z.shape[1])) @ Z.T
    artist = np.argsort(rng.uniform(size=(users, len(Z))), axis=1)[:, :examples].ravel()
    user = np.repeat(np.arange(users), examples)
    rating = tastes[user, artist] + NOISE * rng.normal(size=len(user))
    return Listeners(average, tastes, user, artist, rating)
