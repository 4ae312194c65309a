"""Attacks on disclosed databases: what a stranger rebuilds from the public files alone.

One release gives G and g back (``inversion``); two give what was sent or taken back in between (``differencing``) and
by whom (``separation``); what the attacker sent itself only helps (``change(…, own=…)``). ``membership`` and
``presence`` tell whether one client is in. Where nothing is certain there is still a ranked guess, to be held against
chance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from motet.arrays import Array, Index, match, numbers
from motet.errors import WrongDimension
from motet.privacy.difference import GAP, TINY, Change, Sums, change, contribution, covariance
from motet.release.disclosed import Disclosed

Mask: TypeAlias = NDArray[np.bool_]

TOLERANCE = 1e-6  # relative, of a difference that was explained
COUNT = 5  # inputs to guess where nobody says how many


@dataclass(frozen=True, eq=False)
class Found:
    """Inputs, best first, with outputs and noise variances; a guess where not certain.

    ``came`` is False where they were taken back. ``fit`` is the share of the difference that they leave unexplained.
    """

    inputs: Array
    outputs: Array
    noise: Array
    came: bool
    fit: float
    inputs_certain: bool
    outputs_certain: bool

    @property
    def certain(self) -> bool:
        return self.inputs_certain and self.outputs_certain


def inversion(release: Disclosed, *, candidates: Any = None) -> Sums:
    """G and g of all clients together, from one release."""
    return change(None, release, candidates=candidates).over_inputs()


def differencing(found: Change, *, count: int = COUNT) -> Found:
    """The inputs and outputs that were sent, or taken back, in between; else the ``count`` that fit best."""
    return rebuilt(found, count=count)[0]


def separation(found: Change) -> list[Found]:
    """The same, client by client: what one client sent goes together in ΔG, what two sent does not.

    Two clients that sent one and the same single input count as one; inputs that the kernel does not relate go apart.
    """
    return rebuilt(found)[1]


def rebuilt(found: Change, *, count: int = COUNT) -> tuple[Found, list[Found]]:
    """Differencing and separation at once."""
    F = found.basis.columns(found.candidates)
    order, rank, floor = _ranked(found, F)
    sums = _located(found, found.candidates[order[:rank]], floor)
    explained = sums.unique and sums.fit < TOLERANCE
    senders = _separated(found.release, sums) if explained else []
    once = sum(len(sender.inputs) for sender in senders) == len(sums.inputs)
    told = explained and once and all(sender.certain for sender in senders)
    certain = told or (explained and len(sums.inputs) < min(F.shape))
    sums = sums if certain else found.at(found.candidates[order[:count]])
    guess = _sender(found.release, sums.inputs, sums.G, sums.g)
    if certain:
        guess = _with_outputs_of(guess, senders)
    return replace(guess, fit=sums.fit, inputs_certain=certain, outputs_certain=told), senders


def _with_outputs_of(guess: Found, senders: list[Found]) -> Found:
    """What several clients sent is not what one would have; of an input that they share, the last one's."""
    known: dict[bytes, int] = {}
    match(guess.inputs, known)
    outputs, noise = guess.outputs.copy(), guess.noise.copy()
    for sender in senders:
        at = match(sender.inputs, known)[0]
        outputs[at], noise[at] = sender.outputs, sender.noise
    return replace(guess, outputs=outputs, noise=noise)


def _ranked(found: Change, F: Array) -> tuple[Index, int, float]:
    """The candidates in the order in which ΔΛ speaks for them, its rank, and how large it is beyond that.

    ΔΛ = ΣFⱼᵀRʲFⱼ, so its range is spanned by the φ(x) of what was sent. Under noise it has every direction, and there
    remains how much of it lies along each φ(x).
    """
    values, vectors = np.linalg.eigh(found.Lambda)
    by_size = np.argsort(-np.abs(values))
    rank, floor = _gap(np.abs(values[by_size]), found.rounding)
    unit = F / np.maximum(np.linalg.norm(F, axis=1), TINY)[:, None]
    if rank < len(values):
        V = vectors[:, by_size[:rank]]
        score = np.linalg.norm(unit - (unit @ V) @ V.T, axis=1)
    else:
        score = -np.abs(np.einsum("ij,jk,ik->i", unit, found.Lambda, unit, optimize=True))
    return np.argsort(score, kind="stable"), rank, floor


def _gap(sizes: Array, rounding: float) -> tuple[int, float]:
    """How many of these sizes, largest first, stand out from rounding, and the largest that does not."""
    padded = np.append(np.maximum(sizes, rounding), rounding)
    ratios = padded[:-1] / np.maximum(padded[1:], TINY)
    if ratios.max(initial=0.0) < GAP:
        return len(sizes), rounding
    rank = int(np.argmax(ratios)) + 1
    return rank, float(padded[rank])


def _located(found: Change, X: Array, floor: float) -> Sums:
    """ΔG over the inputs whose features make up all of ΔΛ: those in its range, ``X``, or those in ΔG.

    A client that had sent something before moves ΔΛ in fewer directions than it has inputs: none lies in the range.
    """
    near = found.at(X, floor)
    if near.unique and near.fit < TOLERANCE:
        return near
    every = found.at(found.candidates, floor)
    if not every.unique:
        return near
    return found.at(found.candidates[np.abs(every.G).max(axis=1) > every.error], floor)


def _sender(release: Disclosed, X: Array, R: Array, g: Array) -> Found:
    """A client from its Rʲ and gʲ. They are its own if Rʲ has the inverse that the public kernel says.

    If not, its outputs are guessed with a noise variance of 1.
    """
    came = bool(np.trace(R) >= 0)
    R, g = (R, g) if came else (-R, -g)
    V = np.linalg.pinv(R, hermitian=True)
    more = V - covariance(release, X, np.zeros(len(X)))
    noise = np.diag(more) / release.model.lam
    off = np.abs(more - np.diag(np.diag(more))).max(initial=0.0)
    own = bool((noise > 0).all() and off <= 1e-4 * np.abs(V).max(initial=0.0))
    if not own:
        noise = np.ones(len(X))
        V = covariance(release, X, noise)
    return Found(X, V @ g, noise, came, 0.0, own, own)


def _separated(release: Disclosed, sums: Sums) -> list[Found]:
    """The clients that sent these inputs, as far as ΔG falls apart."""
    linked = np.abs(sums.G) > 10 * sums.error
    parts = []
    for h in cliques(linked):
        part = release, sums.inputs[h], sums.G[np.ix_(h, h)], sums.g[h]
        shared = linked[h].sum(axis=1) > len(h)
        parts.append(replace(_sharing(*part, shared) if shared.any() else _sender(*part), fit=sums.fit))
    return parts


def _sharing(release: Disclosed, X: Array, G: Array, g: Array, shared: Mask) -> Found:
    """A client some of whose inputs others sent too.

    Of those G has only the sum. A row of RʲVʲ = I that is the client's alone has V's diagonal, and so the rest of Rʲ;
    their outputs are guessed to be the average task's.
    """
    S = covariance(release, X, np.zeros(len(X)))
    S -= np.diag(np.diag(S))
    b = int(np.argmax(np.where(shared, 0.0, np.abs(G).min(axis=1))))
    R = np.linalg.pinv(S + np.diag((np.eye(len(X))[b] - G[b] @ S) / G[b]), hermitian=True)
    mine, y = np.ix_(~shared, ~shared), np.array(release.average(X))
    y[~shared] = np.linalg.lstsq(R[mine], (g - R[:, shared] @ y[shared])[~shared])[0]
    known = not shared.all() and np.allclose(R[mine], G[mine], rtol=1e-4)
    return replace(_sender(release, X, R, R @ y), inputs_certain=bool(known), outputs_certain=False)


def cliques(linked: Mask) -> list[Index]:
    """Inputs all linked with each other: of each link its ends and all their common neighbours, where that is so."""
    linked = linked | linked.T | np.eye(len(linked), dtype=bool)
    groups = [np.array([k]) for k in np.flatnonzero(linked.sum(axis=1) == 1)]
    left = np.triu(linked, 1)
    for a, b in zip(*np.nonzero(left)):
        if left[a, b] and linked[np.ix_(h := np.flatnonzero(linked[a] & linked[b]), h)].all():
            groups.append(h)
            left[np.ix_(h, h)] = False
    return groups


# --- who is in ---


@dataclass(frozen=True)
class Membership:
    """By how many standard deviations one client moves a release, as measured; infinite where there is no noise."""

    shift: float
    error: float  # its standard error
    lower: float  # exceeded with 99 % confidence
    advantage: float  # of the best test over guessing: its true positives less its false ones


def membership(inside: Any, outside: Any, v: Any) -> Membership:
    """The likelihood-ratio test of runs with and without a client that adds ``v``, if noise is alike on all columns."""
    v = np.asarray(v, dtype=float)
    direction = v / max(float(np.linalg.norm(v)), TINY)
    a, b = (_runs(runs, len(v)) @ direction for runs in (inside, outside))
    apart, free = float(a.mean() - b.mean()), len(a) + len(b) - 2
    spread = math.sqrt((len(a) * a.var() + len(b) * b.var()) / free)
    if spread <= 1e-12 * max(np.abs(a).max(), np.abs(b).max()):
        sign = 0.0 if abs(apart) <= GAP * spread else math.copysign(1.0, apart)
        return Membership(sign * math.inf if sign else 0.0, 0.0, sign * math.inf if sign else 0.0, sign)
    shift = apart / spread
    error = math.sqrt(1 / len(a) + 1 / len(b) + shift**2 / (2 * free))
    return Membership(shift, error, shift - float(ndtri(0.99)) * error, float(2 * ndtr(shift / 2) - 1))


def _runs(runs: Any, width: int) -> Array:
    table = numbers(runs, "runs")
    if table.ndim != 2 or table.shape[1] != width or len(table) < 2:
        raise WrongDimension(f"expected a table of two or more runs with {width} columns, got shape {table.shape}")
    return table


def presence(found: Change, X: Any, y: Any, noise: Any = None) -> float:
    """How much of a client's own Λʲ and ηʲ lies in a release, or between two: 1 more where that client is in."""
    mine = contribution(found.release, found.basis, X, y, noise)
    parts = [np.vdot(a, b) / np.vdot(a, a) for a, b in zip(mine, (found.Lambda, found.eta)) if a.any()]
    return float(np.mean(parts)) if parts else 0.0
