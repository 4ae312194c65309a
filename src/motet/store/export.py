"""All that a study stores of one client, for a data request."""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, select

from motet.errors import UnknownTask
from motet.store.clients import find_client
from motet.store.examples import inputs, of_clients
from motet.store.releases import gaps, participation
from motet.store.schema import PRESENT, examples, log, releases
from motet.store.store import Connection
from motet.study.study import Study

WITHOUT_NOISE = (
    "{Made} while this client's examples were stored. They have no noise: from two copies of them anyone may "
    "reconstruct what the client had sent, also after it was removed here."
)
WITH_NOISE = (
    "{Made} while this client's examples were stored. Copies of them exist elsewhere; they, and the noisy sums that "
    "are stored to improve later releases, reveal no more of the client than (ε, δ) = ({epsilon:g}, {delta:g}) allows."
)
NONE = "No release was made while this client's examples were stored."
FORGOTTEN = "This client was forgotten: only its random id is left in the log, so that no other client gets it."
LOST = "{Versions} may have been released before a backup was restored, and may include this client too."
BACKUPS = "Backups keep what was removed after they were made."


def export_client(connection: Connection, study: Study, name_or_id: str) -> dict[str, Any]:
    """What the tables have of a client, with explanations; never its token."""
    client = find_client(connection, name_or_id)
    id = name_or_id if client is None else client["id"]
    chosen = select(log.c.sequence, log.c.kind, log.c.example).where(log.c.client == id).order_by(log.c.sequence)
    history = [dict(row) for row in connection.execute(chosen).mappings()]
    if client is None and not history:
        raise UnknownTask(f"no client has the name or id {name_or_id!r}: motet clients lists them")
    data: dict[str, Any] = {"study": study.name, "id": id}
    if client is not None:
        data |= {"name": client["name"], "revoked": client["revoked"]}
    gone = select(examples.c.id).where(examples.c.client == id, ~PRESENT).order_by(examples.c.id)
    removed = list(connection.execute(gone).scalars())
    rows = of_clients(connection, [id])
    xs = inputs(study.model, [row.x for row in rows])  # as they were sent
    stored = [{"id": r.id, "x": x, "y": r.y, "noise": r.noise, "sequence": r.sequence} for r, x in zip(rows, xs)]
    data |= {"examples": stored, "removed": removed, "log": history}
    if study.private and study.release.per == "client":
        data["releases_taken_part_in"] = participation(connection, id)
    return data | {"notes": _notes(connection, study, history, forgotten=client is None)}


def _notes(connection: Connection, study: Study, history: list[dict[str, Any]], *, forgotten: bool) -> list[str]:
    """What releases may still include, and where else data of the client may be."""
    notes = [FORGOTTEN] if forgotten else []
    versions = select(func.min(releases.c.version), func.max(releases.c.version))
    begin, end = (history[0]["sequence"], history[-1]["sequence"]) if history else (0, 0)
    meanwhile = releases.c.sequence.between(begin, end - 1) if forgotten else releases.c.sequence >= begin
    first, last = connection.execute(versions.where(meanwhile)).one() if history else (None, None)
    made = f"Release {first} was made" if first == last else f"Releases {first} to {last} were made"
    note = WITH_NOISE if study.private else WITHOUT_NOISE
    notes.append(NONE if first is None else note.format(Made=made, **study.release.model_dump()))
    notes += [LOST.format(Versions=gap.versions.capitalize()) for gap in gaps(connection) if gap.versions]
    return [*notes, BACKUPS]
