"""Attacks on releases: what a stranger reconstructs from public files alone.

One release gives the sums G and g (``inversion``). Two releases give the examples that were sent or removed in between
(``differencing``), client by client (``separation``). ``overlap`` and ``membership_test`` ask whether a certain client
is in. If an attack is not certain it returns a ranked guess, to be compared with chance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from motet.arrays import Array, Index, match, numbers
from motet.attacks.difference import ROUNDING_GAP, TINY, Difference, InputSums, contribution, covariance
from motet.errors import WrongDimension
from motet.release.disclosed import Disclosed

Mask: TypeAlias = NDArray[np.bool_]

UNEXPLAINED_TOLERANCE = 1e-6  # unexplained share of a difference that counts as explained
GUESSES = 5  # inputs in a guess unless the caller gives a number


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """Reconstructed examples: in order of input if certain, else guesses, most likely first.

    ``added`` is False if they were removed; ``unexplained`` is the share of the difference that they leave.
    """

    inputs: Array
    outputs: Array
    noise: Array
    added: bool
    unexplained: float
    inputs_certain: bool
    outputs_certain: bool

    @property
    def certain(self) -> bool:
        return self.inputs_certain and self.outputs_certain


# --- sums and examples ---


def inversion(release: Disclosed, *, candidates: Any = None) -> InputSums:
    """G and g of all clients together, from one release."""
    difference = Difference.between(None, release, candidates=candidates)
    return difference.sums_over(difference.candidates)


def differencing(difference: Difference, *, guesses: int = GUESSES) -> Reconstruction:
    """The examples that were sent, or removed, in between; if that is not certain, this many inputs that fit best."""
    return reconstruct(difference, guesses=guesses)[0]


def separation(difference: Difference) -> list[Reconstruction]:
    """The same client by client: inputs of one client are linked in ΔG, inputs of two clients are not.

    Two clients that sent only one input each, and the same, count as one; inputs that the kernel does not relate fall
    apart.
    """
    return reconstruct(difference)[1]


def reconstruct(difference: Difference, *, guesses: int = GUESSES) -> tuple[Reconstruction, list[Reconstruction]]:
    """Differencing and separation in one pass."""
    release, candidates = difference.release, difference.candidates
    F = difference.basis.columns(candidates)
    order, rank, error = _rank_candidates(difference, F)
    sent = candidates[order[:rank]]
    sent = sent[np.lexsort(sent.T[::-1])]  # those that were sent rank alike: rounding must not order them
    sums = _sums_over_sent_inputs(difference, sent, error)
    explained = sums.unique and sums.unexplained < UNEXPLAINED_TOLERANCE
    clients = _separate(release, sums) if explained else []
    disjoint = sum(len(client.inputs) for client in clients) == len(sums.inputs)
    outputs_certain = explained and disjoint and all(client.certain for client in clients)
    inputs_certain = outputs_certain or (explained and len(sums.inputs) < min(F.shape))
    if not inputs_certain:
        sums = difference.sums_over(candidates[order[:guesses]])
    together = _as_one_client(release, sums.inputs, sums.G, sums.g)
    if inputs_certain:
        together = _with_outputs_of(together, clients)
    together = replace(together, inputs_certain=inputs_certain, outputs_certain=outputs_certain)
    return replace(together, unexplained=sums.unexplained), clients


def _rank_candidates(difference: Difference, F: Array) -> tuple[Index, int, float]:
    """The candidates, most likely first, the rank of ΔΛ, and its size beyond that rank.

    ΔΛ = ΣFⱼᵀRʲFⱼ, so its range is spanned by φ(x) of the inputs that were sent. Under noise its range is everything,
    and candidates are ranked by the size of ΔΛ along φ(x).
    """
    values, vectors = np.linalg.eigh(difference.Lambda)
    by_size = np.argsort(-np.abs(values))
    rank, error = _numerical_rank(np.abs(values[by_size]), difference.rounding)
    directions = F / np.maximum(np.linalg.norm(F, axis=1), TINY)[:, None]
    if rank < len(values):
        V = vectors[:, by_size[:rank]]
        score = np.linalg.norm(directions - (directions @ V) @ V.T, axis=1)
    else:
        score = -np.abs(np.einsum("ij,jk,ik->i", directions, difference.Lambda, directions, optimize=True))
    return np.argsort(score, kind="stable"), rank, error


def _numerical_rank(sizes: Array, rounding: float) -> tuple[int, float]:
    """How many sizes, in descending order, stand out from rounding, and the largest that does not."""
    padded = np.append(np.maximum(sizes, rounding), rounding)
    ratios = padded[:-1] / np.maximum(padded[1:], TINY)
    if ratios.max(initial=0.0) < ROUNDING_GAP:
        return len(sizes), rounding
    rank = int(np.argmax(ratios)) + 1
    return rank, float(padded[rank])


def _sums_over_sent_inputs(difference: Difference, X: Array, error: float) -> InputSums:
    """ΔG over the inputs that explain ΔΛ: ``X``, whose features are in its range, or else those where ΔG is not 0.

    A client that had sent something before moves ΔΛ in fewer directions than it has inputs: none lies in the range.
    """
    in_range = difference.sums_over(X, error)
    if in_range.unique and in_range.unexplained < UNEXPLAINED_TOLERANCE:
        return in_range
    everywhere = difference.sums_over(difference.candidates, error)
    if not everywhere.unique:
        return in_range
    return difference.sums_over(difference.candidates[np.abs(everywhere.G).max(axis=1) > everywhere.error], error)


def _with_outputs_of(together: Reconstruction, clients: list[Reconstruction]) -> Reconstruction:
    """Outputs and noise as the separate clients have them; of an input that several sent, the last client's."""
    numbers_of_inputs: dict[bytes, int] = {}
    match(together.inputs, numbers_of_inputs)
    outputs, noise = together.outputs.copy(), together.noise.copy()
    for client in clients:
        rows = match(client.inputs, numbers_of_inputs)[0]
        outputs[rows], noise[rows] = client.outputs, client.noise
    return replace(together, outputs=outputs, noise=noise)


# --- clients ---


def _as_one_client(release: Disclosed, X: Array, R: Array, g: Array) -> Reconstruction:
    """The examples of a client with this Rʲ and gʲ; certain if (Rʲ)⁻¹ less the public kernel is a noise variance.

    If it is not, outputs are guessed with a noise variance of 1.
    """
    added = bool(np.trace(R) >= 0)
    R, g = (R, g) if added else (-R, -g)
    V = np.linalg.pinv(R, hermitian=True)
    remainder = V - covariance(release, X, np.zeros(len(X)))
    noise = release.model.noise.relative(np.diag(remainder))
    off_diagonal = np.abs(remainder - np.diag(np.diag(remainder))).max(initial=0.0)
    certain = bool((noise > 0).all() and off_diagonal <= 1e-4 * np.abs(V).max(initial=0.0))
    if not certain:
        noise = np.ones(len(X))
        V = covariance(release, X, noise)
    return Reconstruction(X, V @ g, noise, added, 0.0, certain, certain)


def _separate(release: Disclosed, sums: InputSums) -> list[Reconstruction]:
    """The clients that sent these inputs: cliques of linked inputs."""
    clients = []
    for h in cliques(sums.links):
        client = release, sums.inputs[h], sums.G[np.ix_(h, h)], sums.g[h]
        shared = sums.links[h].sum(axis=1) > len(h)
        reconstruction = _client_with_shared_inputs(*client, shared) if shared.any() else _as_one_client(*client)
        clients.append(replace(reconstruction, unexplained=sums.unexplained))
    return clients


def _client_with_shared_inputs(release: Disclosed, X: Array, G: Array, g: Array, shared: Mask) -> Reconstruction:
    """A client some of whose inputs other clients sent too, so that G has only a sum there.

    A row of RʲVʲ = I at an input that is not shared has V's diagonal, and so the rest of Rʲ. Outputs at shared inputs
    are guessed to be the average's.
    """
    S = covariance(release, X, np.zeros(len(X)))
    S -= np.diag(np.diag(S))
    b = int(np.argmax(np.where(shared, 0.0, np.abs(G).min(axis=1))))
    R = np.linalg.pinv(S + np.diag((np.eye(len(X))[b] - G[b] @ S) / G[b]), hermitian=True)
    unshared, y = np.ix_(~shared, ~shared), np.array(release.average(X))
    y[~shared] = np.linalg.lstsq(R[unshared], (g - R[:, shared] @ y[shared])[~shared])[0]
    certain = not shared.all() and np.allclose(R[unshared], G[unshared], rtol=1e-4)
    return replace(_as_one_client(release, X, R, R @ y), inputs_certain=bool(certain), outputs_certain=False)


def cliques(links: Mask) -> list[Index]:
    """Sets of inputs that are all linked: for each link its ends and their common neighbours, if that is a clique."""
    links = links | links.T | np.eye(len(links), dtype=bool)
    groups = [np.array([k]) for k in np.flatnonzero(links.sum(axis=1) == 1)]
    remaining = np.triu(links, 1)
    for a, b in zip(*np.nonzero(remaining)):
        if remaining[a, b] and links[np.ix_(h := np.flatnonzero(links[a] & links[b]), h)].all():
            groups.append(h)
            remaining[np.ix_(h, h)] = False
    return groups


# --- membership ---


def overlap(difference: Difference, X: Any, y: Any, noise: Any = None) -> float:
    """How often a client's Λʲ and ηʲ are contained in a difference: larger by exactly 1 if the client was added.

    ⟨Λʲ, ΔΛ⟩ / ‖Λʲ‖² and ⟨ηʲ, Δη⟩ / ‖ηʲ‖², averaged. It is 1 if nobody else was added, and 0 if nothing was.
    """
    client = contribution(difference.release, difference.basis, X, y, noise)
    pairs = zip(client, (difference.Lambda, difference.eta))
    parts = [np.vdot(part, whole) / np.vdot(part, part) for part, whole in pairs if part.any()]
    return float(np.mean(parts)) if parts else 0.0


@dataclass(frozen=True)
class MembershipTest:
    """By how many standard deviations one client shifts a release, as measured; infinite without noise."""

    shift: float
    error: float  # standard error of the shift
    lower: float  # bound that the shift exceeds with 99 % confidence
    advantage: float  # true positives less false positives of the best test


def membership_test(inside: Any, outside: Any, v: Any) -> MembershipTest:
    """The likelihood-ratio test between runs with and without a client whose vector is ``v``.

    Each run is a row; the noise is taken to be equally large in all columns.
    """
    v = np.asarray(v, dtype=float)
    direction = v / max(float(np.linalg.norm(v)), TINY)
    a, b = (_table_of_runs(runs, len(v)) @ direction for runs in (inside, outside))
    distance, freedom = float(a.mean() - b.mean()), len(a) + len(b) - 2
    deviation = math.sqrt((len(a) * a.var() + len(b) * b.var()) / freedom)
    if deviation <= 1e-12 * max(np.abs(a).max(), np.abs(b).max()):
        sign = 0.0 if abs(distance) <= ROUNDING_GAP * deviation else math.copysign(1.0, distance)
        shift = sign * math.inf if sign else 0.0
        return MembershipTest(shift, 0.0, shift, sign)
    shift = distance / deviation
    error = math.sqrt(1 / len(a) + 1 / len(b) + shift**2 / (2 * freedom))
    return MembershipTest(shift, error, shift - float(ndtri(0.99)) * error, float(2 * ndtr(shift / 2) - 1))


def _table_of_runs(runs: Any, width: int) -> Array:
    table = numbers(runs, "runs")
    if table.ndim != 2 or table.shape[1] != width or len(table) < 2:
        raise WrongDimension(f"expected a table of two or more runs with {width} columns, got shape {table.shape}")
    return table
