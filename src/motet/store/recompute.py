"""The sums of all examples, recomputed from zero and compared with the last release.

A release without noise must have the same sums, up to rounding. For a private one, the stored noisy sum minus the
recomputed sum must be noise of the ledger's scale, and its bytes must be what the stored noisy sums make.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from scipy.stats import chi2
from sqlalchemy import func, select

from motet.arrays import Array, as_bytes
from motet.engine.engine import Engine
from motet.errors import InvalidRelease, MotetError, UnknownTask
from motet.privacy.ledger import UNIT, Integers, Ledger
from motet.privacy.mechanism import Mechanism
from motet.release.disclosed import TENSORS, Disclosed
from motet.release.posterior import Posterior
from motet.store.examples import batches, triples
from motet.store.releases import StoredRelease, current, gaps, noisy_sums
from motet.store.schema import log, participations, releases
from motet.store.store import Connection
from motet.study.study import Study
from motet.text import count

# Largest relative differences that rounding may make: of sums in a fixed basis, in a growing one, of what follows.
MAX_FIXED, MAX_GROWING, MAX_SOLVED = 1e-8, 1e-6, 1e-5
BASIS = ("landmarks", "A")  # tensors of a release
MIN_P = 1e-6  # a smaller probability is not chance
BYTES, SUMS = "released bytes", "recomputed sums"  # names of checks
State: TypeAlias = Literal["ok", "failed", "skipped"]


@dataclass(frozen=True)
class Check:
    """What was checked, and the outcome."""

    name: str
    state: State
    text: str


@dataclass(frozen=True, eq=False)
class Recomputation:
    """The last release, and an engine that learned its examples; or the ``reason`` why these are not known any more.

    ``noisy`` are the noisy sums of all private releases, ``retired`` the clients whom the last one left out.
    """

    last: StoredRelease
    release: Disclosed
    engine: Engine
    reason: str | None
    noisy: list[Integers]
    retired: set[Hashable]


def recompute(connection: Connection, study: Study, advance: Callable[[int], None]) -> Recomputation | Check:
    """All that ``compare`` needs of the database; a check instead if there is nothing to compare."""
    last = current(connection)
    if last is None:
        return Check("last release", "skipped", "nothing is released yet")
    if last.withdrawn:
        return Check("last release", "skipped", f"release {last.version} is withdrawn: {last.withdrawn}")
    try:
        release = _loaded(last, study)
        reason, retired = _alterations(connection, last), _retired(connection, study.ledger())
        if retired is None:
            reason = reason or "the database does not show which clients had retired before it"
        # A model without noise may have been improved since.
        engine = Engine(study.model if study.private else release.model)
        if reason is None:
            for rows in batches(connection, until=last.sequence):
                engine.learn_many([row.client for row in rows], *triples(rows, engine.model, study.dimension))
                advance(len(rows))
            engine.open(study.dimension)  # there may be no examples
            for client in last.left_out:
                with suppress(UnknownTask):
                    engine.forget(client)
        return Recomputation(last, release, engine, reason, noisy_sums(connection), retired or set())
    except (MotetError, ValueError, TypeError, IndexError) as error:  # the bytes and rows may be anything
        return Check("last release", "failed", f"release {last.version} or its examples cannot be read: {error}")


def _loaded(last: StoredRelease, study: Study) -> Disclosed:
    release = Disclosed.from_bytes(last.data)
    if release.version != last.version or release.policy != study.release.policy:
        raise InvalidRelease(f"its bytes are of another release, {release.policy} and of version {release.version}")
    return release


def _alterations(connection: Connection, last: StoredRelease) -> str | None:
    """Why the examples are no longer those of the release."""
    since = select(log.c.sequence).where(log.c.sequence > last.sequence, log.c.kind != "add")
    if connection.execute(since.limit(1)).scalar() is None:
        return None
    return (
        f"examples were replaced or removed since release {last.version}, and their old values "
        "are deleted: verify again after the next release"
    )


def compare(study: Study, recomputed: Recomputation) -> Iterator[Check]:
    """The release's bytes, and its sums."""
    mechanism, planned, unknown = study.mechanism(), study.ledger(), recomputed.reason
    if mechanism is None or planned is None:
        yield _average(recomputed.release)
        yield _sums(recomputed.engine, recomputed.release) if unknown is None else Check(SUMS, "skipped", unknown)
    else:
        yield _remade(mechanism, planned, recomputed)
        yield _noise(mechanism, planned, recomputed) if unknown is None else Check(SUMS, "skipped", unknown)


# --- without noise ---


def _average(release: Disclosed) -> Check:
    """The weights of the average follow from the sums."""
    prior, share = release.basis.prior, release.model.common_share
    worst = _difference(release.theta, Posterior.of(release.Lambda, release.eta, prior, share).theta)
    right = worst <= MAX_SOLVED
    text = f"release {release.version}: the published average {'matches' if right else 'does not match'} its sums"
    return Check(BYTES, "ok" if right else "failed", f"{text} (difference {worst:.1g}, at most {MAX_SOLVED:g})")


def _sums(engine: Engine, release: Disclosed) -> Check:
    """The sums of the examples are those of the release."""
    fresh, sums, allowed = engine.disclose(), engine.information(), MAX_FIXED
    if sorted(as_bytes(fresh.inputs)) != sorted(as_bytes(release.inputs)):
        return Check(SUMS, "failed", f"release {release.version} has other inputs than the examples")
    if sums.inputs is not None:  # a growing basis depends on the order of inputs: take the release's
        sums, allowed = sums.into(release.basis.columns(sums.inputs)), MAX_GROWING
    elif not all(_difference(getattr(fresh, name), getattr(release, name)) <= MAX_FIXED for name in BASIS):
        text = "the basis is another on this machine: verify again after the next release"
        return Check(SUMS, "skipped", text)
    worst = max(_difference(release.Lambda, sums.G), _difference(release.eta, sums.g))
    right = worst <= allowed and _near(release.sigma2, fresh.sigma2)
    whose = f"{count(len(engine), 'example')} of {count(len(engine.tasks), 'client')}"
    text = f"release {release.version} {'matches' if right else 'does not match'} the sums of {whose}"
    return Check(SUMS, "ok" if right else "failed", f"{text} (difference {worst:.1g}, at most {allowed:g})")


def _near(a: float | None, b: float | None) -> bool:
    """Whether two σ² agree; two that are not known do."""
    numbers = [value for value in (a, b) if value is not None and np.isfinite(value)]
    return not numbers or (len(numbers) == 2 and abs(numbers[0] - numbers[1]) <= MAX_SOLVED * abs(numbers[1]))


def _difference(a: Array, b: Array) -> float:
    """The largest difference, relative to the largest number."""
    if a.shape != b.shape:
        return np.inf
    return float(np.abs(a - b).max(initial=0.0) / max(np.abs(b).max(initial=0.0), np.finfo(float).tiny))


# --- private ---


def _remade(mechanism: Mechanism, planned: Ledger, recomputed: Recomputation) -> Check:
    """The stored noisy sums make the release; another machine may round differently."""
    release, last = recomputed.release, recomputed.last
    again = mechanism.disclose(
        recomputed.noisy, scale=planned.scale, version=last.version, retiring=planned.per == "client"
    )
    text = f"release {last.version} follows from the stored noisy sums"
    if replace(again, names=release.names).to_bytes() == last.data:
        return Check(BYTES, "ok", f"{text}, byte for byte")
    worst = max(_difference(getattr(release, tensor), getattr(again, tensor)) for tensor in TENSORS)
    if worst <= MAX_SOLVED and _near(release.noise_scale, again.noise_scale) and release.model == again.model:
        return Check(BYTES, "ok", f"{text} (difference {worst:.1g}, at most {MAX_SOLVED:g})")
    text = f"release {last.version} does not follow from the stored noisy sums: it or one of them was changed"
    return Check(BYTES, "failed", f"{text}, or the linear algebra of this machine differs")


def _noise(mechanism: Mechanism, planned: Ledger, recomputed: Recomputation) -> Check:
    """The noisy sum minus the recomputed one is Gaussian noise of the ledger's scale, by the sum of its squares."""
    noise = recomputed.noisy[-1] - mechanism.clip.total(recomputed.engine, recomputed.retired)
    squares = float(((noise / (planned.scale * UNIT)) ** 2).sum())
    p = 2 * min(chi2.cdf(squares, noise.size), chi2.sf(squares, noise.size))
    size = np.sqrt(squares / noise.size)
    difference = f"release {recomputed.last.version} minus the recomputed sum"
    text = f"{difference}: noise is {size:.3f} × the ledger's scale (p = {p:.1g})"
    if p >= MIN_P:
        return Check(SUMS, "ok", text)
    return Check(SUMS, "failed", f"{text}; expected p of at least {MIN_P:g}")


def _retired(connection: Connection, planned: Ledger | None) -> set[Hashable] | None:
    """Clients whom the last release left out; None if the tables do not show it.

    A client takes part in all releases from its first example on. That is not so if it had removed everything in
    between, or was charged by a restore.
    """
    if planned is None or planned.per == "study":
        return set()
    done = participations.c.releases >= planned.releases
    finished = set(connection.execute(select(participations.c.client).where(done)).scalars())
    removed = connection.execute(select(log.c.client).where(log.c.kind == "remove")).scalars()
    charged = any(gap.last > gap.version for gap in gaps(connection))
    if finished and (charged or finished & set(removed)):
        return None
    possible = possible_participations(connection)
    return {client for client in finished if possible.get(client, 0) > planned.releases}


def possible_participations(connection: Connection) -> dict[str, int]:
    """In how many releases each client may have been: those from its first example on."""
    numbers = list(connection.execute(select(releases.c.sequence).order_by(releases.c.sequence)).scalars())
    first = select(log.c.client, func.min(log.c.sequence)).where(log.c.kind == "add").group_by(log.c.client)
    return {client: len(numbers) - bisect_left(numbers, number) for client, number in connection.execute(first)}
