"""The demo's listeners: the files of their study, their ratings, and the errors of estimates.

Active listeners send their ratings, passive ones keep them. They are simulated, so their true tastes are known and the
error of every release can be measured.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.resources import files
from math import sqrt
from pathlib import Path

import numpy as np

from motet.engine.engine import Engine
from motet.kernels.spec import to_spec
from motet.model.model import Model
from motet.music import simulation as music
from motet.release.disclosed import Disclosed, Estimate
from motet.study.template import toml

RATINGS_PER_LISTENER = 5
SAMPLE_SIZE = 60  # active listeners whose errors are measured, and as many passive ones
EPSILON = 3.0  # the budget of all private releases


@dataclass(frozen=True)
class Errors:
    """Root mean squared, over all artists, of the active and of the passive listeners of the sample."""

    active: float
    passive: float

    @property
    def both(self) -> float:
        return sqrt((self.active**2 + self.passive**2) / 2)


class Crowd:
    """``clients`` active listeners, by their numbers, then passive ones, and two for a user who tries the commands."""

    def __init__(self, clients: int, seed: int) -> None:
        sample = min(SAMPLE_SIZE, clients)
        self.clients = clients
        self.catalogue = music.artists()
        self._listeners = music.simulate(self.catalogue, clients + sample + 2, RATINGS_PER_LISTENER, seed)
        self._active, self._passive = range(sample), range(clients, clients + sample)
        self._me, self._sender = clients + sample, clients + sample + 1
        self._order = np.random.default_rng([seed, 1]).permutation(clients * RATINGS_PER_LISTENER)

    def ratings(self, listener: int) -> tuple[list[str], list[float]]:
        """Names of artists, and the listener's ratings of them."""
        rows = slice(listener * RATINGS_PER_LISTENER, (listener + 1) * RATINGS_PER_LISTENER)
        return [self.catalogue.names[k] for k in self._listeners.artist[rows]], self._listeners.rating[rows].tolist()

    def sending_order(self) -> list[int]:
        """Active listeners in random order, each once for every rating."""
        order: list[int] = self._listeners.user[self._order].tolist()
        return order

    # --- errors ---

    def errors(self, active: Callable[[int], Estimate], release: Disclosed) -> Errors:
        """Of the estimates that ``active`` returns for a listener, and of those that passive ones make themselves, from
        the release and their own ratings."""
        return Errors(
            self._error(self._active, active),
            self._error(self._passive, lambda j: release.estimate(*self.ratings(j))),
        )

    def _error(self, who: range, estimate: Callable[[int], Estimate]) -> float:
        """Over all artists, in the order of the catalogue, which is that of the basis."""
        tastes = [(one := estimate(j)).predict(one.release.landmarks) for j in who]
        return float(np.sqrt(np.mean(np.square(np.array(tastes) - self._listeners.tastes[who]))))

    def separate(self, model: Model) -> Errors:
        """Every listener alone: α = 0."""
        empty = Engine(replace(model, alpha=0.0)).disclose()
        return self.errors(lambda j: empty.estimate(*self.ratings(j)), empty)

    def shared(self, model: Model) -> Errors:
        """All ratings of active listeners, shared without noise."""
        engine, listeners = Engine(model), self._listeners
        sent = listeners.user < self.clients
        engine.learn_many(listeners.user[sent], self.catalogue.rows[listeners.artist[sent]], listeners.rating[sent])
        release = engine.disclose()
        return self.errors(lambda j: release.active_estimate(engine.coefficients(j)), release)

    # --- files ---

    def write(self, folder: Path, port: int, *, exact: bool, every: int, releases: int) -> Path:
        """The study file and its catalogue, and ratings of two listeners: me.csv to keep, ratings.csv to send."""
        artists = files("motet.music").joinpath("artists.csv").read_text(encoding="utf-8")
        (folder / "artists.csv").write_text(artists, encoding="utf-8")
        study = folder / "study.toml"
        policy = EXACT if exact else PRIVATE.format(epsilon=EPSILON, releases=releases)
        study.write_text(STUDY.format(common=COMMON_TOML, policy=policy, every=every, port=port), encoding="utf-8")
        self._write_ratings(folder / "me.csv", self._me)
        self._write_ratings(folder / "ratings.csv", self._sender)
        return study

    def _write_ratings(self, path: Path, listener: int) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file)
            table.writerow(["name", "y"])
            table.writerows((name, f"{y:.3f}") for name, y in zip(*self.ratings(listener)))


EXACT = 'policy = "exact"   # no noise, no privacy: for parties who trust each other'
PRIVATE = """\
policy = "private"
epsilon = {epsilon}       # of each listener, for all releases that have the listener's ratings
delta = 1e-5
releases = {releases}     # as many; later ones leave the listener out, so the study need not end
per = "client\""""
COMMON_TOML = toml(to_spec(music.COMMON))
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

[output]
name = "rating"
scale = [-3.0, 3.0, 0.1]

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
