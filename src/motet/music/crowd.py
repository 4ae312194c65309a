"""The demo's listeners: their study's files, the ratings that they give, and how far estimates are from their tastes.

Active ones send their ratings, passive ones keep them. They are simulated, so their true tastes are known and every
release can be judged.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.resources import files
from math import sqrt
from pathlib import Path

import numpy as np

from motet.arrays import Array
from motet.learning.engine import Engine
from motet.model.model import Model
from motet.music import simulation as music
from motet.release.disclosed import Estimate

EXAMPLES = 5  # ratings of each listener
SAMPLE = 60  # active listeners whose error is looked at, and as many passive ones


@dataclass(frozen=True)
class Errors:
    """Root mean squared, over all artists, of the active and of the passive listeners who are looked at."""

    active: float
    passive: float

    @property
    def both(self) -> float:
        return sqrt((self.active**2 + self.passive**2) / 2)


class Crowd:
    """``clients`` active listeners, by their numbers, then passive ones, and two for whoever tries the commands."""

    def __init__(self, clients: int, seed: int) -> None:
        sample = min(SAMPLE, clients)
        self.clients = clients
        self.catalogue = music.artists()
        self._people = music.simulate(self.catalogue, clients + sample + 2, EXAMPLES, seed)
        self._active, self._passive = range(sample), range(clients, clients + sample)
        self._keeper, self._sender = clients + sample, clients + sample + 1
        self._order = np.random.default_rng([seed, 1]).permutation(clients * EXAMPLES)

    def ratings(self, listener: int) -> tuple[list[str], list[float]]:
        """Names of artists, and what the listener makes of them."""
        own = slice(listener * EXAMPLES, (listener + 1) * EXAMPLES)
        return [self.catalogue.names[k] for k in self._people.artist[own]], self._people.rating[own].tolist()

    def as_they_come(self) -> list[int]:
        """Active listeners in random order, each as often as it has ratings."""
        order: list[int] = self._people.user[self._order].tolist()
        return order

    # --- how good estimates are ---

    def errors(self, active: Callable[[int], Estimate], passive: Callable[[int], Estimate]) -> Errors:
        """Of the estimates that these functions give for a listener."""
        return Errors(self._error(self._active, active), self._error(self._passive, passive))

    def _error(self, who: range, estimate: Callable[[int], Estimate]) -> float:
        missed = [_taste(estimate(j)) - self._people.tastes[j] for j in who]
        return float(np.sqrt(np.mean(np.square(missed))))

    def separate(self, model: Model) -> Errors:
        """Everybody alone: α = 0."""
        nothing = Engine(replace(model, alpha=0.0)).disclose()

        def alone(j: int) -> Estimate:
            return nothing.estimate(*self.ratings(j))

        return self.errors(alone, alone)

    def exact(self, model: Model) -> Errors:
        """All ratings of active listeners shared, without noise."""
        engine, people = Engine(model), self._people
        sent = people.user < self.clients
        engine.learn_many(people.user[sent], self.catalogue.rows[people.artist[sent]], people.rating[sent])
        release = engine.disclose()
        return self.errors(
            lambda j: release.active_estimate(engine.coefficients(j)), lambda j: release.estimate(*self.ratings(j))
        )

    # --- files ---

    def write(self, folder: Path, port: int, *, exact: bool, every: int, releases: int) -> Path:
        """The study file and its catalogue, and two listeners' ratings: me.csv to keep, ratings.csv to send."""
        artists = files("motet.music").joinpath("artists.csv").read_text(encoding="utf-8")
        (folder / "artists.csv").write_text(artists, encoding="utf-8")
        study = folder / "study.toml"
        policy = EXACT if exact else PRIVATE.format(releases=releases)
        study.write_text(STUDY.format(common=COMMON, policy=policy, every=every, port=port), encoding="utf-8")
        self._write_ratings(folder / "me.csv", self._keeper)
        self._write_ratings(folder / "ratings.csv", self._sender)
        return study

    def _write_ratings(self, path: Path, listener: int) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file)
            table.writerow(["name", "y"])
            table.writerows((name, f"{y:.3f}") for name, y in zip(*self.ratings(listener)))


def _taste(estimate: Estimate) -> Array:
    """Of all artists, in the catalogue's order, which is that of the basis."""
    taste: Array = estimate.predict(estimate.release.landmarks)
    return taste


EXACT = 'policy = "exact"   # no privacy: for parties who trust each other'
PRIVATE = """\
policy = "private"
epsilon = 3.0       # all releases together
delta = 1e-5
releases = {releases}"""
COMMON = (
    '{ kernel = "product", of = [{ kernel = "constant", value = 2.718281828459045 }, '
    '{ kernel = "rbf", length_scale = 1.0 }] }'
)
STUDY = """\
# The music study of `motet demo`: the article's listeners and kernels, on artists with tags.

[study]
name = "Music taste"

[model]
alpha = 0.0714      # share of the average taste
lam = 3.1623e-4
sigma2 = 0.6
bias = "none"
common = {common}
individual = {{ kernel = "dot_product", sigma_0 = 0.0 }}

[inputs]
catalogue = "artists.csv"
normalise = true

[basis]
kind = "eigen"
rank = 80

[limits]
y = [-10.0, 10.0]

[release]
every = "{every}s"
{policy}

[server]
port = {port}
"""
