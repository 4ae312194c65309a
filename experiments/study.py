"""The music study and its private releases: every listener's estimate, and how much of the gain of sharing is kept.

The share kept is (RMSE separate − RMSE private) / (RMSE separate − RMSE without noise), over preferences for all
artists.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from motet import Disclosed, Eigen, Engine, Model
from motet.arrays import Array, Index
from motet.model.tasks import Task
from motet.music import simulation as music
from motet.music.reproduce import ARTICLE, preference
from motet.music.simulation import COMMON, INDIVIDUAL, NOISE_STD, Listeners
from motet.privacy.ledger import Integers, Ledger
from motet.privacy.mechanism import Mechanism, release
from motet.release.clients import predict
from motet.tables.catalogue import Catalogue

EXAMPLES, RANK, RELEASES = 5, 80, 10
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Setting:
    """The settings of the study file that describe listeners."""

    alpha: float
    lam: float
    sigma2: float

    def model(self, rank: int | None = RANK) -> Model:
        """With a public basis of this rank, or with the growing one if it is None."""
        basis = None if rank is None else Eigen(artists(), rank)
        kernels = COMMON, INDIVIDUAL
        return Model(*kernels, self.alpha, self.lam, bias="none", basis=basis, sigma2=self.sigma2, catalogue=artists())


CHOSEN = Setting(ARTICLE["alpha"], ARTICLE["lam"], 0.6)
SIMULATION = Setting(0.1, NOISE_STD**2 / 0.625, 0.625)  # 0.25² = σ²α, 0.75² = σ²(1−α), 0.01² = σ²λ


@cache
def artists() -> Catalogue:
    return music.artists()


@cache
def mechanism(setting: Setting = CHOSEN, rank: int = RANK, factor: float = 1.0) -> Mechanism:
    """The public part of the private releases; a ``factor`` other than 1 makes C_η wrong."""
    plain = Mechanism(setting.model(rank), examples=EXAMPLES)
    if factor == 1.0:
        return plain
    return Mechanism(plain.model, examples=EXAMPLES, C_eta=factor * plain.clip.C_eta)


def skewed(listeners: Listeners, seed: int) -> Listeners:
    """The same tastes, with artists chosen by popularity 1/k over a random ranking of them."""
    rng = np.random.default_rng([seed, 1])
    users, n = listeners.tastes.shape
    weight = 1 / (1 + rng.permutation(n))
    artist = np.argsort(rng.exponential(size=(users, n)) / weight, axis=1)[:, :EXAMPLES].ravel()
    rating = listeners.tastes[listeners.user, artist] + NOISE_STD * rng.normal(size=len(artist))
    return replace(listeners, artist=artist, rating=rating)


def learned(model: Model, listeners: Listeners, which: Bools | None = None) -> Engine:
    """An engine with the ratings of all listeners, or with some of the ratings."""
    engine = Engine(model)
    learn(engine, listeners, np.ones(len(listeners.user), dtype=bool) if which is None else which)
    return engine


def learn(engine: Engine, listeners: Listeners, which: Bools) -> None:
    rows = artists().rows[listeners.artist[which]]
    engine.learn_many(listeners.user[which], rows, listeners.rating[which])


def last_of_ten(mechanism: Mechanism, listeners: Listeners, epsilon: float) -> Disclosed:
    """The last of ten combined releases under a total ε, while listeners join linearly."""
    engine, ledger, noisy = Engine(mechanism.model), Ledger(epsilon=epsilon, releases=RELEASES), list[Integers]()
    when = listeners.user * RELEASES // len(listeners.tastes)
    for k in range(RELEASES):
        learn(engine, listeners, when == k)
        latest = release(engine, mechanism, ledger, earlier=noisy, version=k + 1)
        ledger, noisy = latest.ledger, [*noisy, latest.noisy]
    return latest.disclosed


# --- estimates of clients, and their errors ---


def estimates(disclosed: Disclosed, artist: Index, rating: Array) -> tuple[Array, Array]:
    """All passive clients' means and standard deviations over all artists, a row for each."""
    rows = artists().rows
    tasks = (Task(rows[chosen], y, np.ones(len(y))) for chosen, y in zip(artist, rating))
    means, deviations = zip(*predict(disclosed, ((task, rows) for task in tasks)))
    return np.array(means), np.array(deviations)


def ratings(listeners: Listeners) -> tuple[Index, Array]:
    """Artists and ratings, a row for each listener."""
    return listeners.artist.reshape(-1, EXAMPLES), listeners.rating.reshape(-1, EXAMPLES)


@dataclass(frozen=True, eq=False)
class Study:
    """Listeners, and the errors of learning them separately and of sharing without noise."""

    listeners: Listeners
    separate: float
    without_noise: float

    @classmethod
    def of(cls, listeners: Listeners, setting: Setting = CHOSEN) -> Study:
        models = (one.model(rank=None) for one in (replace(setting, alpha=0.0), setting))
        errors = (rmse(learned(model, listeners).predict_all(artists().rows), listeners) for model in models)
        return cls(listeners, *errors)

    def share(self, disclosed: Disclosed) -> float:
        error = rmse(estimates(disclosed, *ratings(self.listeners))[0], self.listeners)
        return (self.separate - error) / (self.separate - self.without_noise)


def rmse(means: Array, listeners: Listeners) -> float:
    return float(np.sqrt(np.mean((preference(means) - preference(listeners.tastes)) ** 2)))
