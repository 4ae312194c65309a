"""Attacks tried on many victims and counted against guessing.

Trials take a function ``release(engine, version)``, so that they run against any kind of release. Victims draw their
inputs at random and the sign of their outputs by a coin, so the chance of a right guess is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count as counted
from typing import Any, TypeAlias

import numpy as np
from scipy.stats import binomtest

from motet import Catalogue, Disclosed, Engine, Model
from motet.arrays import Array, Index
from motet.attacks.attacks import differencing, inversion, overlap
from motet.attacks.difference import Difference
from motet.kernels import ConstantKernel
from motet.music import simulation as music

Release: TypeAlias = Callable[[Engine, int], Disclosed]
INDIVIDUAL = music.INDIVIDUAL + ConstantKernel(0.1)  # so that artists without a common tag go together too
ARTISTS, LISTENERS, RATINGS = 120, 200, 5


def without_noise() -> Release:
    """Releases of a study to which it always returns when the victims have left: its own release is made once."""
    made: list[Disclosed] = []

    def release(engine: Engine, version: int) -> Disclosed:  # noqa: ARG001
        if "victim 0" in engine.tasks:
            return engine.disclose()
        if not made:
            made.append(engine.disclose())
        return made[0]

    return release


@dataclass(frozen=True)
class Score:
    """How often an attack was right, and how often guessing is."""

    hits: int
    trials: int
    chance: float

    @property
    def rate(self) -> float:
        return self.hits / self.trials

    @property
    def p_value(self) -> float:
        """The probability that guessing does as well."""
        return float(binomtest(self.hits, self.trials, self.chance, alternative="greater").pvalue)


@dataclass(frozen=True, eq=False)
class Victim:
    h: Index
    X: Array
    y: Array


class Trials:
    """Listeners who stay, and victims who come and go; every release has a version of its own."""

    def __init__(
        self, model: Model, release: Release | None = None, *, seed: int = 0, listeners: int = LISTENERS
    ) -> None:
        assert model.catalogue is not None
        self.catalogue, self.engine, self._release = model.catalogue, Engine(model), release or without_noise()
        self.rng, self._versions = np.random.default_rng(seed), counted()
        base = music.simulate(self.catalogue, listeners, RATINGS, seed)
        self.engine.learn_many(base.user.tolist(), self.catalogue.rows[base.artist], base.rating)
        self.held = np.zeros((len(self.catalogue),) * 2, dtype=bool)  # pairs that a listener has both of
        for h in base.artist.reshape(listeners, RATINGS):
            self.held[np.ix_(h, h)] = True

    def victims(self, number: int) -> list[Victim]:
        drawn = music.simulate(self.catalogue, number, RATINGS, int(self.rng.integers(2**31)))
        signs = self.rng.choice([-1.0, 1.0], number)
        h, y = drawn.artist.reshape(number, RATINGS), drawn.rating.reshape(number, RATINGS) * signs[:, None]
        return [Victim(a, self.catalogue.rows[a], b) for a, b in zip(h, y)]

    def release(self) -> Disclosed:
        return self._release(self.engine, next(self._versions))

    def send(self, *victims: Victim) -> None:
        for k, victim in enumerate(victims):
            self.engine.learn_many([f"victim {k}"] * len(victim.y), victim.X, victim.y)

    def forget(self, *victims: Victim) -> None:
        for k in range(len(victims)):
            self.engine.forget(f"victim {k}")

    def around(self, *victims: Victim, leaving: bool = False, own: Any = ()) -> Difference:
        """The releases before and after these victims came, or left."""
        steps = (self.send, self.forget)
        if leaving:
            self.send(*victims)
        before = self.release()
        steps[leaving](*victims)
        difference = Difference.between(before, self.release(), attacker_examples=own, candidates=self.catalogue.rows)
        if not leaving:
            self.forget(*victims)
        return difference


def inputs_score(trials: Trials, number: int, *, leaving: bool = False, own: int = 0) -> Score:
    """The victim's inputs among as many ranked guesses; ``own`` clients of the attacker fill a quorum."""
    hits = 0
    for victim in trials.victims(number):
        fakes = trials.victims(own)
        difference = trials.around(victim, *fakes, leaving=leaving, own=[(fake.X, fake.y, None) for fake in fakes])
        guess = differencing(difference, guesses=len(victim.h)).inputs[: len(victim.h), 0]
        hits += int(np.isin(guess, victim.h).sum())
    return Score(hits, number * RATINGS, RATINGS / len(trials.catalogue))


def signs_score(trials: Trials, number: int) -> Score:
    """The sign of one output of a victim whose inputs are known."""
    hits = 0
    for victim in trials.victims(number):
        difference = trials.around(victim)
        guess = differencing(replace(difference, candidates=victim.X))
        first = guess.outputs[guess.inputs[:, 0] == victim.h[0]]
        hits += int(first[0] * victim.y[0] > 0)
    return Score(hits, number, 0.5)


def inversion_score(trials: Trials, number: int) -> Score:
    """In one release, is |G| larger at a pair that the victim alone has than at one that nobody has?"""
    hits = 0
    for victim in trials.victims(number):
        pair = next((p for p in _pairs(victim.h) if not trials.held[p]), None)
        assert pair is not None
        together = trials.held.copy()
        together[np.ix_(victim.h, victim.h)] = True
        nobody = trials.rng.choice(np.argwhere(~together))
        trials.send(victim)
        G = np.abs(inversion(trials.release(), candidates=trials.catalogue.rows).G)
        trials.forget(victim)
        hits += int(G[pair] > G[tuple(nobody)])
    return Score(hits, number, 0.5)


def separation_score(trials: Trials, batches: int, *, size: int = 10) -> Score:
    """In a batch whose inputs are known, is |ΔG| larger between two of one victim than between those of two?"""
    hits = total = 0
    for _ in range(batches):
        victims = trials.victims(size)
        sent = np.unique([victim.h for victim in victims])
        G = np.zeros(trials.held.shape)
        G[np.ix_(sent, sent)] = np.abs(trials.around(*victims).sums_over(trials.catalogue.rows[sent]).G)
        for victim in victims:
            a, b = victim.h[:2]
            others = np.setdiff1d(sent, np.concatenate([v.h for v in victims if a in v.h]))
            if len(others):
                hits, total = hits + int(G[a, b] > G[a, trials.rng.choice(others)]), total + 1
    return Score(hits, total, 0.5)


def overlap_score(trials: Trials, number: int) -> Score:
    """Did this client or another come between two releases?"""
    hits = 0
    for victim, other in zip(trials.victims(number), trials.victims(number)):
        came = bool(trials.rng.integers(2))
        difference = trials.around(victim if came else other)
        hits += int((overlap(difference, victim.X, victim.y) > overlap(difference, other.X, other.y)) == came)
    return Score(hits, number, 0.5)


def _pairs(h: Index) -> Iterator[tuple[int, int]]:
    return ((int(a), int(b)) for k, a in enumerate(h) for b in h[:k])


def small_catalogue() -> Catalogue:
    """Every fourth artist."""
    whole = music.artists()
    at = np.arange(0, 4 * ARTISTS, 4)
    return Catalogue([whole.names[k] for k in at], whole.vectors[at])


def small_model(basis: Any) -> Model:
    return Model(music.COMMON, INDIVIDUAL, 0.07, 3e-4, basis=basis, catalogue=small_catalogue())
