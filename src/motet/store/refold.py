"""All examples folded from zero, and held against the last release.

An exact release must have the same sums, up to rounding. Of a private one the kept noisy sum less the fold must be
noise of the ledger's scale, and its bytes must be what the noisy sums make.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

import numpy as np
from scipy.stats import chi2
from sqlalchemy import func, select

from motet.arrays import Array, as_bytes
from motet.errors import InvalidRelease, MotetError
from motet.learning.engine import Engine
from motet.privacy.ledger import UNIT, Ledger, Whole
from motet.privacy.mechanism import Mechanism
from motet.release.disclosed import TENSORS, Disclosed
from motet.release.posterior import Posterior
from motet.store.examples import triples
from motet.store.releases import StoredRelease, current, gaps, noisy_sums
from motet.store.schema import PRESENT, examples, log, participations, releases
from motet.store.store import Connection
from motet.study.study import Study
from motet.text import count, times

SOME = 5000  # examples asked for at once
FIXED, GROWN, SOLVED = 1e-8, 1e-6, 1e-5  # what rounding may do: to sums, to those in a grown basis, to what follows
UNLIKELY = 1e-6  # a tail below it is no chance
State: TypeAlias = Literal["ok", "not", "not comparable"]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at, and what was found."""

    name: str
    state: State
    text: str

    def to_dict(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Folded:
    """The last release, and an engine that learned what it was made of, unless ``reason`` says why that is not known.

    ``noisy`` are the kept noisy sums of all private releases, ``retired`` the clients whom the last one left out.
    """

    last: StoredRelease
    release: Disclosed
    engine: Engine
    reason: str | None
    noisy: list[Whole]
    retired: set[Hashable]


def how_many(connection: Connection) -> int:
    """Examples to fold."""
    newest = select(func.max(releases.c.sequence)).scalar_subquery()
    chosen = select(func.count()).select_from(examples).where(PRESENT, examples.c.sequence <= newest)
    return connection.execute(chosen).scalar_one()


def refold(connection: Connection, study: Study, advance: Callable[[int], None]) -> Folded | Check:
    """All that a comparison needs of the database; a check instead where there is nothing to compare."""
    last = current(connection)
    if last is None:
        return Check("last release", "not comparable", "nothing is released yet")
    try:
        release = _loaded(last, study)
        reason, retired = _altered(connection, last), _retired(connection, study.ledger())
        if retired is None:
            reason = reason or "it cannot be told which clients had retired before it"
        # An exact study's model may have been improved since.
        engine = Engine(study.model if study.private else release.model)
        if reason is None:
            _learn(engine, connection, study.dimension, last.sequence, advance)
        return Folded(last, release, engine, reason, noisy_sums(connection), retired or set())
    except (MotetError, ValueError, TypeError, IndexError) as error:  # whatever bytes and rows are
        return Check("last release", "not", f"release {last.version} or its examples cannot be read: {error}")


def _loaded(last: StoredRelease, study: Study) -> Disclosed:
    release = Disclosed.from_bytes(last.data)
    if release.version != last.version or release.policy != study.release.policy:
        raise InvalidRelease(f"its bytes are of another release, {release.policy} and of version {release.version}")
    return release


def _altered(connection: Connection, last: StoredRelease) -> str | None:
    """Why the examples are no more those of the release."""
    since = select(func.count()).select_from(log).where(log.c.sequence > last.sequence, log.c.kind != "add")
    if not (many := connection.execute(since).scalar_one()):
        return None
    return (
        f"examples were replaced or removed {times(many)} since release {last.version}, and what they were is gone: "
        "verify again after the next release"
    )


def _learn(
    engine: Engine, connection: Connection, dimension: int, sequence: int, advance: Callable[[int], None]
) -> None:
    """All examples that came up to a number of the log."""
    chosen = select(examples).where(PRESENT, examples.c.sequence <= sequence)
    ordered = chosen.order_by(examples.c.client, examples.c.id)
    for rows in connection.execute(ordered, execution_options={"yield_per": SOME}).partitions():
        engine.learn_many([row.client for row in rows], *triples(rows, engine.model, dimension))
        advance(len(rows))
    engine.open(dimension)  # perhaps nobody is left


def compare(study: Study, folded: Folded) -> Iterator[Check]:
    """The release's bytes, and its sums."""
    mechanism, planned, last = study.mechanism(), study.ledger(), folded.last
    if mechanism is None or planned is None:
        yield _solved(folded.release)
    else:
        yield _made(mechanism, planned, folded)
    if folded.reason is not None:
        yield Check("fold from zero", "not comparable", folded.reason)
    elif mechanism is None or planned is None:
        yield _same(folded.engine, folded.release)
    else:
        total = mechanism.clip.total(folded.engine, folded.retired)
        yield _noise(folded.noisy[-1] - total, planned.scale, last.version)


# --- exact ---


def _solved(release: Disclosed) -> Check:
    """The average's weights follow from the sums."""
    prior, share = release.basis.prior, release.model.common_share
    worst = _difference(release.theta, Posterior.of(release.Lambda, release.eta, prior, share).theta)
    text = f"release {release.version}: its average follows from its sums to {worst:.1e}, {SOLVED:g} allowed"
    return Check("release's bytes", "ok" if worst <= SOLVED else "not", text)


def _same(engine: Engine, release: Disclosed) -> Check:
    """The sums of the examples are those of the release."""
    fresh, sums, allowed = engine.disclose(), engine.information(), FIXED
    if sorted(as_bytes(fresh.inputs)) != sorted(as_bytes(release.inputs)):
        return Check("fold from zero", "not", f"release {release.version} is of other inputs than the examples have")
    if sums.inputs is not None:  # a grown basis depends on the order of inputs: take the release's
        sums, allowed = sums.into(release.basis.columns(sums.inputs)), GROWN
    elif not _same_basis(fresh, release):
        text = "the basis comes out otherwise on this machine: verify again after the next release"
        return Check("fold from zero", "not comparable", text)
    worst = max(_difference(release.Lambda, sums.G), _difference(release.eta, sums.g))
    agrees = worst <= allowed and _near(release.sigma2, fresh.sigma2)
    text = (
        f"release {release.version} against {count(len(engine), 'example')} of {count(len(engine.tasks), 'client')}: "
        f"largest difference {worst:.1e} of the largest number, {allowed:g} allowed"
    )
    return Check("fold from zero", "ok" if agrees else "not", text)


def _same_basis(a: Disclosed, b: Disclosed) -> bool:
    return all(_difference(getattr(a, name), getattr(b, name)) <= FIXED for name in ("landmarks", "A"))


def _near(a: float | None, b: float | None) -> bool:
    """Two σ², unknown ones as equal."""
    known = [value for value in (a, b) if value is not None and np.isfinite(value)]
    return not known or (len(known) == 2 and abs(known[0] - known[1]) <= SOLVED * abs(known[1]))


def _difference(a: Array, b: Array) -> float:
    """The largest, as a part of the largest number."""
    if a.shape != b.shape:
        return np.inf
    return float(np.abs(a - b).max(initial=0.0) / max(np.abs(b).max(initial=0.0), np.finfo(float).tiny))


# --- private ---


def _made(mechanism: Mechanism, planned: Ledger, folded: Folded) -> Check:
    """What the noisy sums make is what was published; another machine may round otherwise."""
    release, last, name = folded.release, folded.last, "release's bytes"
    again = mechanism.disclosed(
        folded.noisy, scale=planned.scale, version=last.version, retiring=planned.per == "client"
    )
    text = f"release {last.version} is what the kept noisy sums make"
    if again.to_bytes() == last.data:
        return Check(name, "ok", f"{text}, byte for byte")
    worst = max(_difference(getattr(release, tensor), getattr(again, tensor)) for tensor in TENSORS)
    if worst <= SOLVED and _near(release.noise_scale, again.noise_scale) and release.model == again.model:
        return Check(name, "ok", f"{text}, to {worst:.1e} ({SOLVED:g} allowed)")
    text = f"release {last.version} is not what the kept noisy sums make: it or one of them was changed"
    return Check(name, "not", f"{text}, or this machine's linear algebra differs from that one's")


def _noise(noise: Whole, scale: float, version: int) -> Check:
    """Whether it is Gaussian of this scale, by the sum of its squares."""
    squares = float(((noise / (scale * UNIT)) ** 2).sum())
    tail = 2 * min(chi2.cdf(squares, noise.size), chi2.sf(squares, noise.size))
    state: State = "ok" if tail >= UNLIKELY else "not"
    size = np.sqrt(squares / noise.size)
    text = f"release {version} less the fold: noise {size:.3f} times the ledger's, over {noise.size} numbers"
    return Check("fold from zero", state, f"{text} (a tail of {tail:.1g}, {UNLIKELY:g} allowed)")


def _retired(connection: Connection, planned: Ledger | None) -> set[Hashable] | None:
    """Clients whom the last release left out; None where the tables do not tell.

    A client takes part in all releases from its first example on. That is not so where it had removed everything in
    between, or was charged by a restore.
    """
    if planned is None or planned.per == "study":
        return set()
    done = participations.c.releases >= planned.releases
    whole = set(connection.execute(select(participations.c.client).where(done)).scalars())
    removed = connection.execute(select(log.c.client).where(log.c.kind == "remove")).scalars()
    charged = any(one.last > one.version for one in gaps(connection))
    if whole and (charged or whole & set(removed)):
        return None
    parts = took_part(connection)
    return {client for client in whole if parts.get(client, 0) > planned.releases}


def took_part(connection: Connection) -> dict[str, int]:
    """In how many releases each client may have been: those from its first example on."""
    folded = list(connection.execute(select(releases.c.sequence).order_by(releases.c.sequence)).scalars())
    first = select(log.c.client, func.min(log.c.sequence)).where(log.c.kind == "add").group_by(log.c.client)
    return {client: len(folded) - bisect_left(folded, number) for client, number in connection.execute(first)}
