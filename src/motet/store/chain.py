"""A hash chain: each start with other settings, each release, withdrawal and restoration adds a link with a digest of
all before.

A link states what was written with it: pinned settings, rows of the ledger and of the releases with digests of their
bytes, and clients' participations. All links together state what these tables must have, so a row that another program
changed, deleted or inserted is noticed. Whoever can write the database can write a whole new chain: only a digest that
somebody keeps elsewhere shows that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from sqlalchemy import Connection, Row, select

from motet.errors import InvalidStore
from motet.store.records import setting
from motet.store.schema import chain, ledger, participations, releases

Content: TypeAlias = dict[str, Any]  # what a link states, by part; JSON
RELEASES_PER_QUERY = 20
SHOWN_LETTERS = 16  # of a digest, to people
EMPTY = hashlib.sha256(b"").hexdigest()  # of a release without noise that a later one replaced, or that was withdrawn
BROKEN = "the record of releases in the database was changed by another program: check it with motet verify"


def digest(data: bytes | str) -> str:
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def head(connection: Connection) -> str:
    """The digest of the last link; empty before the first."""
    last = _last(connection)
    return "" if last is None else str(last.digest)


def append(connection: Connection, kind: str, content: Content) -> None:
    """A link; the caller writes the rows that its content states."""
    last, text = _last(connection), json.dumps(content, sort_keys=True, separators=(",", ":"))
    number, before = (1, "") if last is None else (last.number + 1, last.digest)
    row = {"number": number, "kind": kind, "content": text, "digest": _link_digest(before, number, kind, text)}
    connection.execute(chain.insert().values(**row))


def begin(connection: Connection) -> None:
    """One link for all that a database has whose version had no chain."""
    if setting(connection, "pinned") is not None:
        append(connection, "upgrade", tables(connection, data=True))


def _last(connection: Connection) -> Row[Any] | None:
    return connection.execute(select(chain).order_by(chain.c.number.desc()).limit(1)).first()


def _link_digest(before: str, number: int, kind: str, content: str) -> str:
    return digest(f"{before}\n{number}\n{kind}\n{content}")


# --- the parts of a content ---


def pins(connection: Connection) -> Content:
    return {"pinned": digest(setting(connection, "pinned") or "")}


def release(row: Mapping[str, Any]) -> Content:
    """Of a row of the releases."""
    noisy = None if row["noisy"] is None else digest(row["noisy"])
    fields = {"sequence": row["sequence"], "made": row["made"], "noisy": noisy, "data": digest(row["data"])}
    return {"releases": {str(row["version"]): fields}}


def charges(connection: Connection, scales: Mapping[int, float]) -> Content:
    """Of new rows of the ledger, scales by version, and of the participations after them."""
    new = {str(version): scale for version, scale in scales.items()}
    return {"ledger": new, "participations": _participations(connection)}


def _participations(connection: Connection) -> str:
    sha, rows = hashlib.sha256(), select(participations).order_by(participations.c.client)
    for client, count in connection.execute(rows):
        sha.update(f"{client} {count}\n".encode())
    return sha.hexdigest()


# --- what the links state, and what the tables have ---


def links(connection: Connection) -> Iterator[Row[Any]]:
    """In their order; refuses the first that does not follow from the one before."""
    before = ""
    for number, link in enumerate(connection.execute(select(chain).order_by(chain.c.number)), start=1):
        if link.number != number or link.digest != _link_digest(before, number, link.kind, link.content):
            raise InvalidStore(f"link {number} of the chain was changed or deleted")
        before = link.digest
        yield link


def statement(connection: Connection) -> dict[str, Any]:
    """What all links together state."""
    total: dict[str, Any] = {"pinned": EMPTY, "releases": {}, "ledger": {}, "gaps": [], "participations": EMPTY}
    for link in links(connection):
        content = json.loads(link.content)
        for part in ("releases", "ledger"):
            total[part] |= content.get(part, {})
        total["gaps"] += content.get("gaps", [])
        total |= {part: content[part] for part in ("pinned", "participations") if part in content}
    return total


def tables(connection: Connection, *, data: bool) -> dict[str, Any]:
    """What there is, in the same form; without ``data`` no release has bytes, since reading them takes long."""
    columns = [column for column in releases.c if data or column is not releases.c.data]
    by_version: dict[str, Any] = {}
    with connection.execute(select(*columns), execution_options={"yield_per": RELEASES_PER_QUERY}) as rows:
        for row in rows.mappings():
            by_version |= release({"data": b"", **row})["releases"]
    scales = {row.version: row.scale for row in connection.execute(select(ledger))}
    gaps = json.loads(setting(connection, "restored") or "[]")
    return {**pins(connection), "releases": by_version, **charges(connection, scales), "gaps": gaps}


def differences(connection: Connection, *, data: bool) -> list[str]:
    """Where the tables differ from what the links state."""
    try:
        expected, actual = statement(connection), tables(connection, data=data)
    except InvalidStore as broken:
        return [str(broken)]
    newest = max(map(int, expected["releases"]), default=0)
    for version, fields in expected["releases"].items():
        if not data or (fields["noisy"] is None and int(version) < newest):  # the next release deleted its bytes
            fields["data"] = EMPTY
    nouns = {"pinned": "the pinned settings", "participations": "the participations of clients", "gaps": "restorations"}
    problems = [f"{noun} were changed" for part, noun in nouns.items() if expected[part] != actual[part]]
    for part, noun in (("ledger", "row {} of the ledger"), ("releases", "release {}")):
        for version in sorted(expected[part].keys() | actual[part].keys(), key=int):
            before, now = expected[part].get(version), actual[part].get(version)
            if before != now:
                verb = "inserted" if before is None else "deleted" if now is None else "changed"
                problems.append(f"{noun.format(version)} was {verb}")
    return problems


def check(connection: Connection) -> None:
    """Refuse a database whose tables differ from its chain; the bytes of releases are ``verify``'s to read."""
    try:
        broken = bool(differences(connection, data=False))
    except (ValueError, TypeError, KeyError, AttributeError):  # the rows may be anything
        broken = True
    if broken:
        raise InvalidStore(BROKEN)
