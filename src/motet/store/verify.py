"""Whether a study's database agrees with its file, with itself, and with its releases.

First the bookkeeping: settings, log, counts, versions, ledger, chain. Then the sums of all examples are recomputed from
zero and compared with the last release. Nothing is changed, and a server may run meanwhile. A private release hides
every single client, so there the comparison shows only that what was added is the ledger's noise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from sqlalchemy import func, select

from motet.errors import MotetError
from motet.privacy.ledger import Ledger
from motet.store import chain
from motet.store.chain import SHOWN_LETTERS
from motet.store.examples import count_examples
from motet.store.pins import contradiction
from motet.store.recompute import Check, compare, possible_participations, recompute
from motet.store.records import newest_number, superseded
from motet.store.releases import Gap, current_ledger, gaps, newest_release
from motet.store.schema import PRESENT, clients, examples, log, participations, releases
from motet.store.schema import ledger as ledger_rows
from motet.store.store import DIALECTS, Connection, Progress, read_only, schema_version
from motet.study.study import Study
from motet.text import brief, count, utc

MAX_DIFFERENCE = 1e-6  # relative difference between two computations of a scale

Finding: TypeAlias = tuple[list[str], str]  # problems, and what to report if there are none


def verify(study: Study, progress: Progress, *, witness: str = "") -> list[Check]:
    """All checks, in the order in which they build on each other; ``witness`` is an earlier digest of the chain."""
    bookkeeping = BOOKKEEPING | {"chain": partial(_chain, witness=witness)}
    if study.private and study.release.per == "client":
        bookkeeping |= {"clients' budgets": _participations}
    with read_only(study) as connection:
        checks = [_check(name, connection, study, find) for name, find in bookkeeping.items()]
        with progress(count_examples(connection, until=newest_release(connection).sequence)) as advance:
            recomputed = recompute(connection, study, advance)
    if isinstance(recomputed, Check):
        return [*checks, recomputed]
    try:
        return [*checks, *compare(study, recomputed)]
    except (MotetError, ValueError, IndexError, ArithmeticError) as error:
        return [*checks, Check("last release", "failed", f"cannot be compared: {error}")]


def _check(name: str, connection: Connection, study: Study, find: Callable[[Connection, Study], Finding]) -> Check:
    try:
        problems, summary = find(connection, study)
    except NotImplementedError as hint:
        return Check(name, "skipped", str(hint))
    except (ValueError, TypeError, KeyError) as error:
        return Check(name, "failed", f"cannot be read: {error}")
    if not problems:
        return Check(name, "ok", summary)
    return Check(name, "failed", problems[0] + (f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""))


def _database(connection: Connection, _: Study) -> Finding:
    """Its pages, as far as the program can check them, and that every example has its client."""
    dialect = DIALECTS[connection.dialect.name]
    own = examples.outerjoin(clients, clients.c.id == examples.c.client)
    orphans = connection.execute(select(func.count()).select_from(own).where(clients.c.id.is_(None))).scalar_one()
    problems = dialect.damage(connection)
    if orphans:
        problems.append(f"{count(orphans, 'example')} whose client does not exist")
    return problems, dialect.undamaged


def _study_file(connection: Connection, study: Study) -> Finding:
    reason = contradiction(connection, study)
    return [] if reason is None else [reason], f"{study.path.name} agrees with all that is fixed"


def _log(connection: Connection, _: Study) -> Finding:
    """Numbers from 1 to the head's but those that were superseded; every example has a number of its own client."""
    newest, gone, problems = newest_number(connection), superseded(connection), list[str]()
    spans = select(func.count(), func.coalesce(func.min(log.c.sequence), 1), func.coalesce(func.max(log.c.sequence), 0))
    rows, lowest, highest = connection.execute(spans.select_from(log)).one()
    if (rows, lowest, highest) != (newest - gone, 1, newest):
        problems = [f"expected {newest - gone} rows, numbered from 1, got {rows} from {lowest} to {highest}"]
    own = (log.c.sequence == examples.c.sequence) & (log.c.client == examples.c.client)
    without = select(func.count()).select_from(examples.outerjoin(log, own)).where(log.c.sequence.is_(None))
    if strays := connection.execute(without).scalar_one():
        problems.append(f"{count(strays, 'example')} with a number that the log does not have for the client")
    without_a_gap = f", without {count(gone, 'replacement')} that others followed" if gone else " without a gap"
    return problems, f"{count(rows, 'row')}{without_a_gap}"


def _counts(connection: Connection, _: Study) -> Finding:
    per_client = select(examples.c.client, func.count().label("n")).where(PRESENT).group_by(examples.c.client)
    present = per_client.subquery()
    stored = func.coalesce(present.c.n, 0)
    both = select(clients.c.name, clients.c.count, stored).select_from(clients.outerjoin(present))
    wrong = connection.execute(both.where(clients.c.count != stored).order_by(clients.c.name)).all()
    problems = [f"{name!r} has {count(n, 'example')}, but its count is {counted}" for name, counted, n in wrong]
    totals = select(func.count(), func.coalesce(func.sum(clients.c.count), 0)).select_from(clients)
    everybody, total = connection.execute(totals).one()
    return problems, f"{count(total, 'example')} of {count(everybody, 'client')}"


# --- releases ---


def _versions(connection: Connection, study: Study) -> Finding:
    """From 1 on, each used once, except those that a restore skipped."""
    columns = (releases.c.version, releases.c.sequence, releases.c.made, func.length(releases.c.data).label("size"))
    chosen = select(*columns, releases.c.noisy.is_not(None).label("noisy")).order_by(releases.c.version)
    rows, skipped = connection.execute(chosen).all(), gaps(connection)
    problems = _holes([(row.version, row.version) for row in rows] + [(gap.version + 1, gap.last) for gap in skipped])
    sequences = [0, *(row.sequence for row in rows), newest_number(connection)]
    if sequences != sorted(sequences):
        problems.append("a release includes more of the log than the next one, or than there is")
    for row in rows:
        if row.noisy != study.private or (study.private and not row.size):
            problems.append(f"release {row.version} is not stored as one of a study with policy {study.release.policy}")
    last = f", the last one of {utc(rows[-1].made)}" if rows else ""
    return problems, f"{count(len(rows), 'release')}{last}" + "".join(map(_restored, skipped))


def _holes(spans: list[tuple[int, int]]) -> list[str]:
    """Versions from 1 on that are missing or there twice."""
    following, problems = 1, []
    for first, last in sorted(span for span in spans if span[0] <= span[1]):
        if first != following:
            missing = first > following
            problems.append(f"version {following} is missing" if missing else f"version {first} is there twice")
        following = last + 1
    return problems


def _restored(gap: Gap) -> str:
    skipped = f"{gap.versions} counted as made" if gap.versions else "no version skipped"
    return f"; restored on {utc(gap.at)} as of {utc(gap.made)}, {skipped}"


def _ledger(connection: Connection, study: Study) -> Finding:
    """A row for each private release and for each that a restore counts as made, and no more than planned."""
    scales = {row.version: row.scale for row in connection.execute(select(ledger_rows))}
    planned = study.ledger()
    if planned is None:
        return ["expected none in a study without noise"] if scales else [], "none: releases have no noise"
    made, charged = set(connection.execute(select(releases.c.version)).scalars()), _charged(connection, planned)
    problems = [f"release {version} is not in it" for version in sorted((made | charged) - scales.keys())]
    unknown = sorted(scales.keys() - made - charged)
    problems += [f"version {version} is charged, but was not released" for version in unknown]
    for version, scale in scales.items():
        if abs(scale - planned.scale) > MAX_DIFFERENCE * planned.scale:
            problems.append(f"release {version}: expected noise of scale {planned.scale:.6g}, got {scale:.6g}")
    ledger = current_ledger(connection, planned)
    if (ledger.releases_left or 0) < 0 or ledger.epsilon_spent > planned.epsilon * (1 + MAX_DIFFERENCE):
        problems.append(
            f"expected at most {planned.releases} releases, ε = {planned.epsilon:g}, got {ledger.releases_made}"
        )
    whose = f"of {planned.epsilon:g}" + (", by a client that was in all" if planned.per == "client" else "")
    by_restore = f", {len(charged)} of them by a restore" if charged else ""
    summary = f"{count(len(scales), 'release')}{by_restore}; ε spent {ledger.epsilon_spent:.3g} {whose}"
    return problems, summary


def _charged(connection: Connection, planned: Ledger) -> set[int]:
    """Versions that a restore has charged, and whose bytes are lost."""
    limit = planned.releases
    return {gap.version + k for gap in gaps(connection) for k in range(1, min(gap.last - gap.version, limit) + 1)}


def _chain(connection: Connection, _: Study, *, witness: str) -> Finding:
    """Settings, ledger, releases and participations are what the chain states; an earlier digest is still in it."""
    if schema_version(connection) == 1:
        raise NotImplementedError("this database predates the record of releases; it starts at the next server start")
    problems = chain.differences(connection, data=True)
    digests = [] if problems else [link.digest for link in chain.links(connection)]
    if witness and not problems and not any(digest.startswith(witness) for digest in digests):
        problems = [
            f"expected {brief(witness)} in it, got {count(len(digests), 'link')} without it: it was written anew"
        ]
    last = f", the last one {digests[-1][:SHOWN_LETTERS]}" if digests else ""
    return problems, f"{count(len(digests), 'link')}{last}"


def _participations(connection: Connection, study: Study) -> Finding:
    """If the budget is per client: nobody was in more releases than it allows, nor paid for fewer."""
    planned = study.ledger()
    assert planned is not None
    paid = {row.client: row.releases for row in connection.execute(select(participations))}
    limit = min(planned.releases, connection.execute(select(func.count()).select_from(ledger_rows)).scalar_one())
    problems = [f"client {id} took part in {n} releases of {limit}" for id, n in paid.items() if not 0 < n <= limit]
    emptied = set(connection.execute(select(log.c.client).where(log.c.kind == "remove")).scalars())
    enrolled = set(connection.execute(select(clients.c.id)).scalars()) - emptied
    for id, n in possible_participations(connection).items():
        if id in enrolled and paid.get(id, 0) < min(n, planned.releases):
            problems.append(f"client {id} took part in {n} releases, but paid for {paid.get(id, 0)}")
    return problems, f"{count(len(paid), 'client')} paid for at most {planned.releases} releases each"


BOOKKEEPING: dict[str, Callable[[Connection, Study], Finding]] = {
    "database": _database,
    "study file": _study_file,
    "log": _log,
    "counts": _counts,
    "versions": _versions,
    "ledger": _ledger,
}
