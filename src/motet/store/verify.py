"""Whether a study's database agrees with its file, with itself, and with what was released.

The books first: settings, log, counts, versions, ledger. Then all examples are folded from zero and held against the
last release. Nothing is changed, and a server may run meanwhile. A private release hides every single client, so there
a fold tells only that what was added to it is the ledger's noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TypeAlias

from sqlalchemy import func, select

from motet.errors import MotetError
from motet.privacy.ledger import Ledger
from motet.store.dialects import dialect_of
from motet.store.log import newest_number
from motet.store.refold import Check, compare, how_many, refold, took_part
from motet.store.releases import Gap, contradiction, current_ledger, gaps
from motet.store.schema import PRESENT, clients, examples, log, participations, releases
from motet.store.schema import ledger as ledger_rows
from motet.store.store import Connection, read_only
from motet.study.study import Study
from motet.text import count, utc

ALIKE = 1e-6  # as a part: how far two computations of a scale may be apart
Progress: TypeAlias = Callable[[int], AbstractContextManager[Callable[[int], None]]]  # of so many examples


def verify(study: Study, progress: Progress) -> list[Check]:
    """All checks, in the order in which they build on each other."""
    with read_only(study) as connection:
        per_client = study.private and study.release.per == "client"
        checks = [_looked(look, connection, study) for look in (*BOOKS, *[_taken] * per_client)]
        with progress(how_many(connection)) as advance:
            folded = refold(connection, study, advance)
    if isinstance(folded, Check):
        return [*checks, folded]
    try:
        return [*checks, *compare(study, folded)]
    except (MotetError, ValueError, IndexError, ArithmeticError) as error:
        return [*checks, Check("last release", "not", f"cannot be compared: {error}")]


def _looked(look: Callable[[Connection, Study], Check], connection: Connection, study: Study) -> Check:
    try:
        return look(connection, study)
    except (ValueError, TypeError, KeyError) as error:
        return Check(look.__name__.lstrip("_"), "not", f"cannot be read: {error}")


def _judged(name: str, wrong: Sequence[str], right: str) -> Check:
    """The first that is wrong, else what is right."""
    if not wrong:
        return Check(name, "ok", right)
    return Check(name, "not", wrong[0] + (f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""))


def _file(connection: Connection, _: Study) -> Check:
    dialect = dialect_of(connection)
    try:
        damage = dialect.damage(connection)
    except NotImplementedError as hint:
        return Check("database", "not comparable", str(hint))
    return _judged("database", damage, f"{dialect.name} finds its pages and indexes sound")


def _pins(connection: Connection, study: Study) -> Check:
    reason = contradiction(connection, study)
    right = f"{study.path.name} keeps to what the first start fixed"
    return _judged("study file", [] if reason is None else [reason], right)


def _log(connection: Connection, _: Study) -> Check:
    """Numbers from 1 to the head's without a gap; every example's number is one of its own client's."""
    newest = newest_number(connection)
    spans = select(func.count(), func.coalesce(func.min(log.c.sequence), 1), func.coalesce(func.max(log.c.sequence), 0))
    many, lowest, highest = connection.execute(spans.select_from(log)).one()
    wrong = []
    if (many, lowest, highest) != (newest, 1, newest):
        wrong = [f"expected {newest} rows, numbered from 1, got {many} from {lowest} to {highest}"]
    own = (log.c.sequence == examples.c.sequence) & (log.c.client == examples.c.client)
    strays = select(func.count()).select_from(examples.outerjoin(log, own)).where(log.c.sequence.is_(None))
    if stray := connection.execute(strays).scalar_one():
        wrong.append(f"{stray} examples have a number that the log does not give to their client")
    return _judged("log", wrong, f"{count(newest, 'row')} without a gap")


def _counts(connection: Connection, _: Study) -> Check:
    held = select(examples.c.client, func.count().label("n")).where(PRESENT).group_by(examples.c.client).subquery()
    there = func.coalesce(held.c.n, 0)
    both = select(clients.c.name, clients.c.count, there).select_from(clients.outerjoin(held))
    wrong = connection.execute(both.where(clients.c.count != there).order_by(clients.c.name)).all()
    said = [f"{name!r} has {count(found, 'example')}, its count says {kept}" for name, kept, found in wrong]
    many, total = connection.execute(
        select(func.count(), func.coalesce(func.sum(clients.c.count), 0)).select_from(clients)
    ).one()
    return _judged("counts", said, f"{count(total, 'example')} of {count(many, 'client')}")


# --- releases ---


def _versions(connection: Connection, study: Study) -> Check:
    """From 1 on, each given once, but for those that a restore skipped."""
    columns = (releases.c.version, releases.c.sequence, releases.c.made, func.length(releases.c.data).label("size"))
    chosen = select(*columns, releases.c.noisy.is_not(None).label("noisy")).order_by(releases.c.version)
    rows, lost = connection.execute(chosen).all(), gaps(connection)
    newest = newest_number(connection)
    wrong = _gaps([(row.version, row.version) for row in rows] + [(one.version + 1, one.last) for one in lost])
    sequences = [0, *(row.sequence for row in rows), newest]
    if sequences != sorted(sequences):
        wrong.append("a release has more of the log than one after it, or than there is")
    for row in rows:
        if row.noisy != study.private or (study.private and not row.size):
            wrong.append(f"release {row.version} is not kept as one of a {study.release.policy} study")
    last = f", the last one of {utc(rows[-1].made)}" if rows else ""
    return _judged("versions", wrong, f"{count(len(rows), 'release')}{last}" + "".join(map(_told, lost)))


def _gaps(spans: list[tuple[int, int]]) -> list[str]:
    """What is missing or there twice, of versions from 1 on."""
    following, wrong = 1, []
    for first, last in sorted(span for span in spans if span[0] <= span[1]):
        if first != following:
            wrong.append(f"version {following} is missing" if first > following else f"version {first} is there twice")
        following = last + 1
    return wrong


def _ledger(connection: Connection, study: Study) -> Check:
    """A row for each private release and for each that a restore counts as made, and no more than was planned."""
    rows = {row.version: row.scale for row in connection.execute(select(ledger_rows))}
    planned = study.ledger()
    if planned is None:
        return _judged("ledger", ["an exact study has none"] if rows else [], "none: releases are exact")
    made, charged = set(connection.execute(select(releases.c.version)).scalars()), _charged(connection, planned)
    wrong = [f"release {version} is not in it" for version in sorted((made | charged) - rows.keys())]
    wrong += [f"version {version} is charged, but was not released" for version in sorted(rows.keys() - made - charged)]
    for version, scale in rows.items():
        if abs(scale - planned.scale) > ALIKE * planned.scale:
            wrong.append(f"release {version}: expected noise of scale {planned.scale:.6g}, got {scale:.6g}")
    spent = current_ledger(connection, planned)
    if (spent.left or 0) < 0 or spent.epsilon_spent > planned.epsilon * (1 + ALIKE):
        wrong.append(f"expected at most {planned.releases} releases, ε = {planned.epsilon:g}, got {spent.spent}")
    whose = f"of {planned.epsilon:g}" + (", by a client that was in all" if planned.per == "client" else "")
    by_restore = f", {len(charged)} of them by a restore" if charged else ""
    return _judged(
        "ledger", wrong, f"{count(len(rows), 'release')}{by_restore}; ε spent {spent.epsilon_spent:.3g} {whose}"
    )


def _charged(connection: Connection, planned: Ledger) -> set[int]:
    """Versions whose bytes were lost, and that a restore has charged."""
    lost = gaps(connection)
    return {one.version + k for one in lost for k in range(1, min(one.last - one.version, planned.releases) + 1)}


def _taken(connection: Connection, study: Study) -> Check:
    """Where the budget is per client, nobody was in more releases than it pays for, nor paid for fewer."""
    planned = study.ledger()
    assert planned is not None
    paid = {row.client: row.releases for row in connection.execute(select(participations))}
    rows = connection.execute(select(func.count()).select_from(ledger_rows)).scalar_one()
    most = min(planned.releases, rows)
    wrong = [f"client {who} took part in {n} releases of {most}" for who, n in paid.items() if not 0 < n <= most]
    emptied = set(connection.execute(select(log.c.client).where(log.c.kind == "remove")).scalars())
    enrolled = set(connection.execute(select(clients.c.id)).scalars()) - emptied
    for who, number in took_part(connection).items():
        if who in enrolled and paid.get(who, 0) < min(number, planned.releases):
            wrong.append(f"client {who} took part in {number} releases, but paid for {paid.get(who, 0)}")
    return _judged("clients' budgets", wrong, f"{len(paid)} clients paid for at most {planned.releases} releases each")


BOOKS = (_file, _pins, _log, _counts, _versions, _ledger)


def _told(one: Gap) -> str:
    skipped = f"{one.versions} counted as made" if one.versions else "no version skipped"
    return f"; restored on {utc(one.at)} as of {utc(one.made)}, {skipped}"
