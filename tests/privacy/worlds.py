"""Small private studies that tests share: models with every basis and bias, their mechanisms, and clients at random."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from motet import Catalogue, Eigen, Engine, Features, Landmarks, Model
from motet.arrays import Array
from motet.kernels import RBF, DotProduct, Matern
from motet.music import simulation as music
from motet.privacy.coordinates import Coordinates
from motet.privacy.ledger import Integers
from motet.privacy.mechanism import Mechanism

GRID = np.linspace(-2.0, 2.0, 12)[:, None]
NAMES = [f"item {k}" for k in range(30)]
CATALOGUE = Catalogue(NAMES, np.random.default_rng(0).normal(size=(30, 3)))
MODELS = {
    "eigen": Model(RBF(2.0), DotProduct(0.0), 0.3, 0.05, "none", Eigen(CATALOGUE, 6), 0.7, CATALOGUE),
    "landmarks": Model(Matern(1.0), RBF(1.0), 0.5, 0.1, "constant", Landmarks(GRID), 1.3),
    "linear bias": Model(RBF(1.0), DotProduct(1.0), 0.4, 0.1, "linear", Landmarks(GRID[::3]), 1.0),
    "features": Model(DotProduct(1.0), DotProduct(0.5), 0.5, 0.2, "none", Features(), 0.5),
    "bias alone": Model(None, RBF(1.0), 0.0, 0.2, "constant", None, 0.5),
}
POINTS: dict[str, Any] = {"features": GRID, "bias alone": GRID}


@cache
def mechanism(name: str) -> Mechanism:
    return Mechanism(MODELS[name], examples=4, points=POINTS.get(name))


SQUARE = np.stack(np.meshgrid(*[np.linspace(-1.0, 1.0, 5)] * 2), axis=-1).reshape(-1, 2)  # many equal eigenvalues


def fingerprints() -> list[list[float]]:
    square = [
        Model(RBF(0.7), RBF(1.0), 0.5, 0.1, "constant", basis, 1.0) for basis in (Eigen(SQUARE, 9), Landmarks(SQUARE))
    ]
    coordinates = [mechanism(name).clip.coordinates for name in MODELS] + [Coordinates.of(model) for model in square]
    return [one.fingerprint.tolist() for one in coordinates]


def rows_of(name: str, rng: np.random.Generator, n: int) -> Array:
    if name == "eigen":
        return CATALOGUE.rows[rng.integers(len(CATALOGUE), size=n)]
    public = rng.random(n) < 0.7
    return np.where(public[:, None], GRID[rng.integers(len(GRID), size=n)], rng.normal(size=(n, 1)))


def study(name: str, clients: int, seed: int = 0, kernel: Kernel | None = None) -> Engine:
    """Clients of one to twenty examples, on the public points and beside them."""
    rng = np.random.default_rng(seed)
    engine = Engine(MODELS[name], None if kernel is None else {3: kernel})
    for client in range(clients):
        n = int(rng.integers(1, 21))
        engine.learn_many([client] * n, rows_of(name, rng, n), rng.normal(size=n), rng.uniform(0.5, 2.0, size=n))
    return engine


def rounded_gaussian(seed: int, factor: float = 1.0) -> Callable[[Integers, float], Integers]:
    rng = np.random.default_rng(seed)
    return lambda total, deviation: total + np.rint(factor * deviation * rng.normal(size=len(total))).astype(np.int64)


def silent(total: Integers, deviation: float) -> Integers:  # noqa: ARG001
    return total


def music_model(rank: int) -> Model:
    catalogue = music.artists()
    basis = Eigen(catalogue, rank)
    return Model(music.COMMON, music.INDIVIDUAL, 0.0714, 3.1623e-4, "none", basis, 0.6, catalogue)
