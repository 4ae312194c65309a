"""The music study: a catalogue of artists with genre tags, and simulated listeners.

The listeners are those of the article's section 5: an average taste drawn from a Gaussian process over the artists,
and for each listener a quarter of it plus three quarters of a taste of their own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from motet.arrays import Array, Index
from motet.errors import InvalidData
from motet.kernels.classes import RBF, ConstantKernel, DotProduct
from motet.model.model import Model
from motet.tables.catalogue import Catalogue
from motet.tables.files import Table, read

TAGS = (
    "rock", "pop", "alternative", "indie", "electronic", "metal", "punk", "jazz", "classical", "hip-hop", "folk",
    "blues", "country", "reggae", "soul", "r&b", "ambient", "dance", "singer-songwriter",
)  # fmt: skip
COMMON = ConstantKernel(math.e) * RBF(1.0)  # e^{zᵀz′} on unit vectors
INDIVIDUAL = DotProduct(0.0)
NOISE_STD = 0.01  # standard deviation of a rating


def artists(path: str | Path | None = None) -> Catalogue:
    """The artists of a table (by default our own 489) with a column ``artist`` and one for each tag.

    Tags are weights in [0, 1], normalised to unit length; other columns are ignored.
    """
    if path is None:
        with as_file(files("motet.music") / "artists.csv") as csv:
            return artists(csv)
    table = read(Path(path), by_place=True)
    table, columns = replace(table, columns=[column.lower() for column in table.columns]), ["artist", *TAGS]
    table.require(*columns)
    places = [table.columns.index(column) for column in columns]
    table = Table(table.file, columns, [[row[at] for at in places] for row in table.rows], table.numbers)
    for tag in TAGS:
        for k, weight in enumerate(table.floats(tag)):
            if not 0.0 <= weight <= 1.0:
                raise table.refusal(k, tag, f"expected a number in [0, 1], got {weight:g}")
    return Catalogue.from_table(table, normalise=True)


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
    rating = tastes[user, artist] + NOISE_STD * rng.normal(size=len(user))
    return Listeners(average, tastes, user, artist, rating)
